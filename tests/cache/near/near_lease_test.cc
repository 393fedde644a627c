// Sessions and leases: what a near cache serves while the server, a connection
// or a message is missing, and when it recovers; what this rests on, Heartbeat
// and FetchStamp; and CheckRemoteStore, which finds stores on which it cannot.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/fetch_stamp.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/cache/near/store/heartbeat.h"
#include "wheelcache/cache/near/testing/check_store.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/tests/cache/near/near_environment.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using internal::FetchStamp;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NearLeaseTest : public NearEnvironment {
 protected:
  NearLeaseTest() { server_.Set("key", "old"); }
};

// Promise: A near cache is never staler than its bound
TEST_F(NearLeaseTest, HalfOpenConnectionEndsLocalHitsAtTheBound) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  RunFor(absl::Seconds(10));
  const absl::Duration left = near->stats().lease_left;
  EXPECT_GE(left, absl::Seconds(2));  // With L = 3 s.
  store_.LoseMessages();
  server_.Set("key", "new");
  RunFor(left - absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "old");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(near->stats().unleased_reads, 1);
}

// The server answers the PING within the turn, and tells of the write at its
// end; then nothing more arrives.
TEST_F(NearLeaseTest, PongBeforeTheMessageOfItsTurnDoesNotCertifyTheWrite) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  RunFor(absl::Seconds(10));
  store_.HoldMessages();
  server_.BeginTurn();
  const absl::Duration written = clock_.Now();
  server_.Set("key", "new");
  const absl::Duration ping = absl::Nanoseconds(server_.RunDue());
  ASSERT_LE(ping, written + options_.max_staleness / 6);
  clock_.AdvanceTo(ping);
  server_.EndTurn();
  store_.ReleaseMessages(1);
  EXPECT_EQ(*near->Get("key"), "old");
  clock_.AdvanceTo(written + options_.max_staleness);
  EXPECT_EQ(*near->Get("key"), "new");
}

TEST_F(NearLeaseTest, HalfOpenConnectionIsGivenUpAndReplaced) {
  auto near = New<std::string>();
  store_.LoseMessages();
  RunFor(options_.max_staleness + absl::Seconds(1));
  EXPECT_EQ(near->stats().sessions, 2);
  EXPECT_EQ(near->stats().losses, 1);
  EXPECT_TRUE(near->WaitUntilReady(absl::ZeroDuration()).ok());
}

TEST_F(NearLeaseTest, CoarseClockServesNothingBeyondTheLease) {
  SimulatedClock clock(absl::ZeroDuration(), absl::Milliseconds(700));
  FakeServer server(&clock);
  FakeStore store(&server);
  options_.local.clock = &clock;
  options_.max_staleness = absl::Seconds(1);
  auto near = *NearCache<std::string>::Create(options_, &store);
  server.Set("key", "old");
  EXPECT_EQ(*near->Get("key"), "old");
  store.LoseMessages();
  server.Set("key", "new");
  clock.Advance(absl::Milliseconds(999));
  EXPECT_EQ(*near->Get("key"), "old");
  clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(*near->Get("key"), "new");
}

// Promise: A near cache is never staler than its bound
TEST_F(NearLeaseTest, LostConnectionEndsLocalHitsAtOnce) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.Disconnect();
  EXPECT_EQ(near->stats().lease_left, absl::ZeroDuration());
  EXPECT_EQ(*near->Get("key"), "old");  // Of the server.
  EXPECT_EQ(*near->Get("key"), "old");  // Not kept.
  EXPECT_EQ(fetches(), 3);
  server_.Set("key", "new");
  EXPECT_EQ(*near->Get("key"), "new");
}

TEST_F(NearLeaseTest, OwnerIsToldOfSessions) {
  std::vector<absl::Status> told;
  NearCache<std::string>* self = nullptr;
  options_.on_session = [&](const absl::Status& status) {
    told.push_back(status);
    if (self != nullptr) self->Get("key").IgnoreError();  // It may be used.
  };
  auto near = New<std::string>();
  self = near.get();
  EXPECT_EQ(told, std::vector<absl::Status>{absl::OkStatus()});
  RunFor(absl::Seconds(10));
  EXPECT_EQ(told.size(), 1);
  store_.set_reachable(false);
  RunFor(absl::Milliseconds(60));
  ASSERT_EQ(told.size(), 3) << "the loss, and an attempt that failed";
  EXPECT_TRUE(absl::IsUnavailable(told[1]));
  EXPECT_TRUE(absl::IsUnavailable(told[2]));
  store_.set_reachable(true);
  RunFor(absl::Seconds(1));
  EXPECT_TRUE(told.back().ok());
}

TEST_F(NearLeaseTest, NewSessionStartsWithAnEmptyLocalTier) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(near->stats().local.entries, 1);
  store_.Disconnect();
  server_.Set("key", "new");  // Nobody is told.
  RunFor(absl::Seconds(1));
  EXPECT_EQ(near->stats().sessions, 2);
  EXPECT_EQ(near->stats().local.entries, 0);
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(fetches(), 2);
}

// Promise: A near cache is never staler than its bound
TEST_F(NearLeaseTest, StoppedServerIsServedUntilTheBoundAndThenFails) {
  auto near = New<std::string>();
  RunFor(absl::Seconds(10));
  EXPECT_EQ(*near->Get("key"), "old");
  server_.Stop();
  const absl::Duration left = near->stats().lease_left;
  RunFor(left - absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "old");
  RunFor(absl::Nanoseconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(near->Get("key").status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(near->GetMany({"key"})[0].status()));
  EXPECT_EQ(near->stats().timeouts, 2);
  RunFor(absl::Seconds(10));
  server_.Continue();
  RunFor(absl::Seconds(6));
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_TRUE(near->WaitUntilReady(absl::ZeroDuration()).ok());
}

TEST_F(NearLeaseTest, WriteThatTimesOutMayStillHappen) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  server_.Stop();
  EXPECT_TRUE(absl::IsDeadlineExceeded(near->Set("key", "new")));
  EXPECT_TRUE(absl::IsDeadlineExceeded(near->Del("absent").status()));
  server_.Continue();
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(near->stats().failed_writes, 2);
  EXPECT_EQ(near->stats().timeouts, 2);
}

TEST_F(NearLeaseTest, FailedWriteStillDeletesLocally) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.HoldMessages();
  Fail(Step::kExecuted, absl::UnavailableError("lost"));
  EXPECT_TRUE(absl::IsUnavailable(near->Set("key", "new")));
  Succeed();
  EXPECT_EQ(*near->Get("key"), "new");
}

// Promise: A near cache is never staler than its bound
TEST_F(NearLeaseTest, StaleValueIsServedOnErrorIfAsked) {
  options_.stale_if_error = true;
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  server_.Stop();
  RunFor(absl::Seconds(60));
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(*near->GetMany({"key"})[0], "old");
  EXPECT_FALSE(near->Get("other").ok());
  EXPECT_EQ(near->stats().stale_served, 2);
  EXPECT_FALSE(near->GetFresh("key").ok());
}

TEST_F(NearLeaseTest, StaleValueEndsWithItsLocalTtl) {
  options_.stale_if_error = true;
  options_.max_local_ttl = absl::Seconds(30);
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.set_reachable(false);
  clock_.Advance(absl::Seconds(30) - absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "old");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(absl::IsUnavailable(near->Get("key").status()));
}

TEST_F(NearLeaseTest, OtherErrorsAreNotAnsweredWithStaleValues) {
  options_.stale_if_error = true;
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.Disconnect();
  Fail(Step::kSent, absl::PermissionDeniedError("NOPERM"));
  EXPECT_TRUE(absl::IsPermissionDenied(near->Get("key").status()));
}

TEST_F(NearLeaseTest, WhatIsReadWithoutASessionIsKeptForErrorsAlone) {
  options_.stale_if_error = true;
  auto near = New<std::string>();
  store_.Disconnect();
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(fetches(), 2);
  server_.Set("key", "new");  // Nobody is told.
  RunFor(absl::Seconds(1));
  EXPECT_EQ(*near->Get("key"), "new");
  store_.set_reachable(false);
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(near->stats().stale_served, 1);
}

TEST_F(NearLeaseTest, WhatIsReadWithoutASessionIsThereForErrors) {
  options_.stale_if_error = true;
  auto near = New<std::string>();
  store_.HoldMessages();  // No session comes.
  store_.Disconnect();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.set_reachable(false);
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(near->stats().stale_served, 1);
}

TEST_F(NearLeaseTest, OldSessionsAreNotServedThoughKeptForErrors) {
  options_.stale_if_error = true;
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.Disconnect();
  server_.Set("key", "new");
  RunFor(absl::Seconds(1));
  EXPECT_EQ(near->stats().sessions, 2);
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearLeaseTest, NothingStaleIsServedUnlessAsked) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.set_reachable(false);
  EXPECT_TRUE(absl::IsUnavailable(near->Get("key").status()));
  EXPECT_EQ(near->stats().failed_reads, 1);
}

TEST_F(NearLeaseTest, WaitUntilReadySaysWhyThereIsNoLease) {
  options_.local.name = "users";
  store_.set_reachable(false);
  auto near = New<std::string>();
  EXPECT_EQ(near->WaitUntilReady(absl::ZeroDuration()),
            absl::UnavailableError("near cache \"users\" has no lease: connect:"
                                   " connection refused"));
  store_.set_reachable(true);
  RunFor(absl::Seconds(6));
  EXPECT_TRUE(near->WaitUntilReady(absl::ZeroDuration()).ok());
  store_.LoseMessages();
  clock_.Advance(options_.max_staleness - absl::Milliseconds(1));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(near->WaitUntilReady(absl::ZeroDuration())));
}

TEST_F(NearLeaseTest, ReaperKeepsTheLeaseWithoutAnyCall) {
  SimulatedClock clock;
  Reaper reaper(clock);
  FakeServer server(&clock, &reaper);
  FakeStore store(&server);
  options_.local.clock = &clock;
  auto near = *NearCache<std::string>::Create(options_, &store);
  server.Set("key", "value");
  EXPECT_EQ(*near->Get("key"), "value");
  clock.RunFor(absl::Seconds(60));
  EXPECT_GE(near->stats().lease_left, absl::Seconds(2));
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(near->stats().local_hits, 1);
}

TEST_F(NearLeaseTest, DestroyedNearCacheIsToldNothing) {
  auto near = New<std::string>();
  near.reset();
  server_.Set("key", "new");
  RunFor(absl::Seconds(10));
  near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "new");
}

// A store that tells of less than FakeStore does: of nothing, of nothing until
// it begins to, or of everything but new keys.
class TacitStore final : public RemoteStore, private RemoteStore::Listener {
 public:
  enum TellsOf { kNothing, kNothingYet, kOldKeys };

  TacitStore(FakeStore* store, TellsOf tells_of)
      : store_(*store), tells_of_(tells_of) {}

  // For kNothingYet.
  void Begin() {
    has_begun_ = true;
    listener_->OnLease(session_, until_nanos_);
  }

  Clock& clock() const override { return store_.clock(); }
  // With one, the local tier is emptied at its beginning.
  size_t max_sessions() const override { return 2; }
  bool tells_of_new_keys() const override { return tells_of_ != kOldKeys; }
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override {
    return store_.Fetch(keys, timeout);
  }
  absl::Status Put(const Write& write, absl::Duration timeout) override {
    return store_.Put(write, timeout);
  }
  absl::StatusOr<bool> Remove(absl::string_view key,
                              absl::Duration timeout) override {
    return store_.Remove(key, timeout);
  }
  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      RemoteStore::Listener* listener) override {
    listener_ = listener;
    if (tells_of_ == kNothing) {
      listener->OnLoss(0, absl::UnimplementedError("no tracking"));
      return absl::OkStatus();
    }
    return store_.Attach(prefix, max_staleness, this);
  }
  void Detach(RemoteStore::Listener*) override { store_.Detach(this); }

 private:
  void OnInvalidate(absl::Span<const absl::string_view> keys) override {
    for (const absl::string_view key : keys) {
      if (tells_of_ == kOldKeys ? key != "absent" : has_begun_) {
        listener_->OnInvalidate({key});
      }
    }
  }
  void OnInvalidateAll() override { listener_->OnInvalidateAll(); }
  void OnLease(uint64_t session, int64_t until_nanos) override {
    session_ = session;
    until_nanos_ = until_nanos;
    if (tells_of_ == kOldKeys || has_begun_) {
      listener_->OnLease(session, until_nanos);
    }
  }
  void OnLoss(uint64_t session, const absl::Status& why) override {
    listener_->OnLoss(session, why);
  }

  FakeStore& store_;
  const TellsOf tells_of_;
  RemoteStore::Listener* listener_ = nullptr;
  bool has_begun_ = false;
  uint64_t session_ = 0;
  int64_t until_nanos_ = 0;
};

// Of a key that is absent at first.
// Promise: A near cache is never staler than its bound
TEST_F(NearLeaseTest, AbsenceOfWhichNobodyTellsIsKnownForTheBoundAtMost) {
  TacitStore store(&store_, TacitStore::kOldKeys);
  auto near = *NearCache<std::string>::Create(options_, &store);
  RunFor(absl::Seconds(10));
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(*near->Get("key"), "old");
  server_.Set("absent", "new");  // Nobody is told.
  RunFor(options_.max_staleness - absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
  RunFor(absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("absent"), "new");
  EXPECT_EQ(*near->Get("key"), "old");  // Under its lease.
  EXPECT_EQ(fetches(), 3);
}

// As where several listeners share a session, and one comes later.
// Promise: A near cache is never staler than its bound
TEST_F(NearLeaseTest, WhatWasFetchedBeforeTheListenerIsToldIsNotOfTheSession) {
  TacitStore store(&store_, TacitStore::kNothingYet);
  auto near = *NearCache<std::string>::Create(options_, &store);
  RunFor(absl::Seconds(10));
  Once(Step::kExecuted, [&] {
    server_.Set("key", "new");  // The listener is not told.
    store.Begin();
  });
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_TRUE(near->WaitUntilReady(absl::ZeroDuration()).ok());
  EXPECT_EQ(*near->Get("key"), "new");
}

// What is fetched while no session tells of writes.
class NearWithoutTrackingTest : public NearLeaseTest {
 protected:
  NearWithoutTrackingTest() {
    options_.without_tracking = WithoutTracking::kServeForMaxStaleness;
  }

  auto Untracked() {
    auto near = *NearCache<std::string>::Create(options_, &tacit_store_);
    EXPECT_TRUE(
        absl::IsUnimplemented(near->WaitUntilReady(absl::InfiniteDuration())));
    return near;
  }

  TacitStore tacit_store_{&store_, TacitStore::kNothing};
};

// Promise: A near cache is never staler than its bound
TEST_F(NearWithoutTrackingTest, WhatIsFetchedIsServedUntilTheBound) {
  auto near = Untracked();
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  const int before = fetches();
  server_.Set("key", "new");  // Nobody is told.
  server_.Set("absent", "new");
  clock_.Advance(options_.max_staleness - absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(*near->GetMany({"absent"})[0], std::nullopt);
  EXPECT_EQ(fetches(), before);
  EXPECT_EQ(near->stats().local_hits, 1);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_EQ(*near->GetMany({"absent"})[0], "new");
}

TEST_F(NearWithoutTrackingTest, TimeCountsFromBeforeTheFetchIsSent) {
  auto near = Untracked();
  store_.set_interposer(
      [this](FakeStore::Step step, const FakeStore::Request&) {
        if (step == FakeStore::Step::kExecuted)
          clock_.Advance(absl::Seconds(1));
        return absl::OkStatus();
      });
  EXPECT_EQ(*near->Get("key"), "old");
  server_.Set("key", "new");
  clock_.Advance(options_.max_staleness - absl::Seconds(1) -
                 absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "old");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(*near->Get("key"), "new");
}

TEST_F(NearWithoutTrackingTest, OwnWritesAreSeenAtOnce) {
  auto near = Untracked();
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_TRUE(near->Set("key", "new").ok());
  EXPECT_EQ(*near->Get("key"), "new");
  EXPECT_TRUE(*near->Del("key"));
  EXPECT_EQ(*near->Get("key"), std::nullopt);
}

TEST_F(NearWithoutTrackingTest, StaleIfErrorServesOnlyErrorsBeyondTheBound) {
  options_.stale_if_error = true;
  auto near = Untracked();
  EXPECT_EQ(*near->Get("key"), "old");
  server_.Set("key", "new");
  clock_.Advance(options_.max_staleness);
  server_.Stop();
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(near->stats().stale_served, 1);
  server_.Continue();
  EXPECT_EQ(*near->Get("key"), "new");
}

constexpr int64_t kSecond = 1'000'000'000;

TEST(HeartbeatTest, AnswerCertifiesWhatThePingBeforeItWouldHave) {
  Heartbeat heartbeat(absl::Seconds(3), 5);
  EXPECT_EQ(heartbeat.next_nanos(), 5);
  EXPECT_EQ(heartbeat.dead_nanos(), Clock::kNever);
  heartbeat.Send(10);
  EXPECT_EQ(heartbeat.next_nanos(), Clock::kNever);
  EXPECT_EQ(heartbeat.dead_nanos(), 10 + 3 * kSecond);
  EXPECT_EQ(heartbeat.Answer(), std::nullopt);
  EXPECT_EQ(heartbeat.next_nanos(), 10);  // The second follows at once.
  heartbeat.Send(20);
  EXPECT_EQ(heartbeat.Answer(), 10);
  EXPECT_EQ(heartbeat.next_nanos(), 20 + kSecond / 2);
  EXPECT_EQ(heartbeat.dead_nanos(), Clock::kNever);
  heartbeat.Send(40);
  EXPECT_EQ(heartbeat.Answer(), 20);
}

TEST(HeartbeatTest, AfterAPauseThatOutlastedTheLeaseTheNextPingFollowsAtOnce) {
  Heartbeat heartbeat(absl::Seconds(3), 0);
  heartbeat.Send(10);
  heartbeat.Answer();
  heartbeat.Send(20);
  heartbeat.Answer();
  heartbeat.Send(20 + 3 * kSecond);
  EXPECT_EQ(heartbeat.Answer(), 20);
  EXPECT_EQ(heartbeat.next_nanos(), 20 + 3 * kSecond);
  heartbeat.Send(21 + 3 * kSecond);
  EXPECT_EQ(heartbeat.Answer(), 20 + 3 * kSecond);
  EXPECT_EQ(heartbeat.next_nanos(), 21 + 3 * kSecond + kSecond / 2);
}

TEST(HeartbeatTest, AShorterBoundHoldsFromTheNextPingOn) {
  Heartbeat heartbeat(absl::Seconds(3), 0);
  heartbeat.Send(10);
  heartbeat.Answer();
  heartbeat.SetMaxStaleness(absl::Seconds(1));
  heartbeat.Send(20);
  EXPECT_EQ(heartbeat.dead_nanos(), 20 + kSecond);
  heartbeat.Answer();
  EXPECT_EQ(heartbeat.next_nanos(), 20 + kSecond / 6);
}

TEST(HeartbeatTest, AShorterBoundAlsoBringsThePingThatIsDueForward) {
  Heartbeat heartbeat(absl::InfiniteDuration(), 0);
  heartbeat.Send(10);
  heartbeat.Answer();
  heartbeat.Send(20);
  heartbeat.Answer();
  heartbeat.SetMaxStaleness(absl::Seconds(1));
  EXPECT_EQ(heartbeat.next_nanos(), 20 + kSecond / 6);
  heartbeat.SetMaxStaleness(absl::Seconds(3));  // Nobody waits for it.
  EXPECT_EQ(heartbeat.next_nanos(), 20 + kSecond / 6);
}

TEST(HeartbeatTest, TinyAndHugeBoundsStayWithinTheClock) {
  Heartbeat tiny(absl::Nanoseconds(1), 0);
  tiny.Send(7);
  tiny.Answer();
  tiny.Send(7);
  EXPECT_EQ(tiny.Answer(), 7);
  EXPECT_EQ(tiny.next_nanos(), 8);  // Time passes between two of them.
  Heartbeat huge(absl::InfiniteDuration(), 0);
  huge.Send(7);
  EXPECT_EQ(huge.dead_nanos(), Clock::kNever);
  huge.Answer();
  huge.Send(8);
  EXPECT_EQ(huge.Answer(), 7);
  EXPECT_EQ(huge.next_nanos(), Clock::kNever / 6 + 8);
}

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(FetchStampTest, SessionIsThatOfTheFetch) {
  EXPECT_EQ(FetchStamp::Of(7, 123).session(), 7);
  EXPECT_EQ(FetchStamp::Of((uint64_t{1} << 62) - 1, 0).session(),
            (uint64_t{1} << 62) - 1);
  EXPECT_EQ(FetchStamp::Of(0, 123).session(), 0);
  EXPECT_FALSE(FetchStamp::Of(7, 123).BeganWithin(1'000, 123));
}

TEST(FetchStampTest, TimeIsComparedToTheNanosecond) {
  for (const int64_t now :
       {int64_t{0}, int64_t{5}, kLeast, kLeast + 50, kMost, kMost - 50}) {
    const auto at = [now](int64_t nanos) {
      return static_cast<int64_t>(static_cast<uint64_t>(now) +
                                  static_cast<uint64_t>(nanos));
    };
    EXPECT_FALSE(FetchStamp::Of(0, at(-101)).BeganWithin(100, now)) << now;
    EXPECT_FALSE(FetchStamp::Of(0, at(-100)).BeganWithin(100, now)) << now;
    EXPECT_TRUE(FetchStamp::Of(0, at(-99)).BeganWithin(100, now)) << now;
    EXPECT_TRUE(FetchStamp::Of(0, at(99)).BeganWithin(100, now)) << now;
  }
}

TEST(FetchStampTest, BitZeroIsOfNoConcern) {
  const FetchStamp stamp = FetchStamp::Of(7, 0);
  EXPECT_EQ(FetchStamp::FromBits(stamp.bits() | 1).bits(), stamp.bits());
  EXPECT_EQ(stamp.bits() & 1, 0);
}

// How a store may be wrong.
enum class Fault {
  kLeaseFromTheAnswer,
  kMessagesAfterTheLease,
  kLosesAMessage,
  kKeepsTheSession,
  kMarksWithTheOldSession,
  kLeaseGoesBack,
  kDeadlineFromTheAnswer,
  kLateAnswerForAnother,
  kResultsInAnotherOrder,
  kOverlappingCalls,
  kCallAfterDetach,
  kTellsOfOtherPrefixes,
  kWaitsForTheAnswer,
  kReturnsCancelled,
  kEndsAFetchTwice,
  kNone,
};

// Passes all on to another store and its listeners, but for one fault.
class FaultyStore final : public RemoteStore {
 public:
  FaultyStore(Fault fault, FakeServer* server, FakeStore** inner)
      : fault_(fault), store_(server) {
    *inner = &store_;
  }

  SimulatedClock& clock() const override {
    return static_cast<SimulatedClock&>(store_.clock());
  }
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override {
    std::vector<absl::StatusOr<Fetched>> results = store_.Fetch(keys, timeout);
    for (absl::StatusOr<Fetched>& result : results) {
      if (result.ok()) Change(*result);
    }
    if (fault_ == Fault::kResultsInAnotherOrder && results.size() > 1) {
      std::swap(results.front(), results[1]);
    }
    if (keys.empty() || results[0].ok()) {
      if (fault_ == Fault::kLateAnswerForAnother && !late_key_.empty()) {
        results[0] = store_.Fetch({std::exchange(late_key_, "")}, timeout)[0];
      }
      return results;
    }
    late_key_ = std::string(keys[0]);
    if (fault_ == Fault::kWaitsForTheAnswer) clock().Advance(absl::Minutes(1));
    if (fault_ == Fault::kReturnsCancelled) results[0] = absl::CancelledError();
    return results;
  }
  void BeginFetch(absl::string_view key, absl::Duration timeout,
                  FetchDone done) override {
    absl::StatusOr<Fetched> result = std::move(Fetch({key}, timeout)[0]);
    if (fault_ == Fault::kEndsAFetchTwice) done(result);
    done(std::move(result));
  }
  absl::Status Put(const Write& write, absl::Duration timeout) override {
    return store_.Put(write, timeout);
  }
  absl::StatusOr<bool> Remove(absl::string_view key,
                              absl::Duration timeout) override {
    return store_.Remove(key, timeout);
  }
  absl::StatusOr<LockResult> TakeLock(const Lock& lock, absl::Duration life,
                                      absl::Duration timeout) override {
    return store_.TakeLock(lock, life, timeout);
  }
  absl::Status EndLock(const Lock& lock, absl::Duration timeout) override {
    return store_.EndLock(lock, timeout);
  }
  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      Listener* listener) override {
    if (fault_ == Fault::kCallAfterDetach && detached_ != nullptr) {
      std::exchange(detached_, nullptr)->OnInvalidateAll();
    }
    auto ear = std::make_unique<Ear>(this, listener, prefix, max_staleness);
    absl::Status status = store_.Attach(
        fault_ == Fault::kTellsOfOtherPrefixes && prefix == "second:" ? "s"
                                                                      : prefix,
        max_staleness, ear.get());
    if (status.ok()) ears_[listener] = std::move(ear);
    return status;
  }
  void Detach(Listener* listener) override {
    const auto found = ears_.find(listener);
    if (found == ears_.end()) return;
    store_.Detach(found->second.get());
    detached_ = listener;
    ears_.erase(found);
  }

 private:
  struct Ear final : Listener {
    Ear(FaultyStore* s, Listener* l, absl::string_view p, absl::Duration m)
        : store(*s), to(*l), prefix(p), max_staleness(m) {}

    bool Is(Fault fault) const { return store.fault_ == fault; }

    void OnInvalidate(absl::Span<const absl::string_view> keys) override {
      const std::vector<std::string> names(keys.begin(), keys.end());
      if (Is(Fault::kLosesAMessage) && ++messages % 5 == 0) return;
      if (Is(Fault::kMessagesAfterTheLease)) {
        late.push_back({3, names});
      } else if (Is(Fault::kOverlappingCalls)) {
        std::thread other([&] { Tell(names); });
        Tell(names);
        other.join();
      } else {
        to.OnInvalidate(keys);
      }
    }
    void Tell(const std::vector<std::string>& names) const {
      to.OnInvalidate(
          std::vector<absl::string_view>(names.begin(), names.end()));
    }
    void OnInvalidateAll() override { to.OnInvalidateAll(); }
    void OnLease(uint64_t session, int64_t until_nanos) override {
      if (Is(Fault::kKeepsTheSession)) {
        if (kept == 0) kept = session;
        session = kept;
      }
      if (Is(Fault::kLeaseFromTheAnswer)) {
        until_nanos = store.clock().NanosAfter(max_staleness);
      }
      if (Is(Fault::kLeaseGoesBack)) until_nanos -= 60'000'000 * (++leases % 2);
      to.OnLease(session, until_nanos);
      for (Late& each : late) --each.leases;
      while (!late.empty() && late.front().leases == 0) {
        Tell(late.front().names);
        late.erase(late.begin());
      }
    }
    void OnLoss(uint64_t session, const absl::Status& why) override {
      if (!Is(Fault::kKeepsTheSession)) to.OnLoss(session, why);
    }

    // A message that waits for so many leases.
    struct Late {
      int leases;
      std::vector<std::string> names;
    };

    FaultyStore& store;
    Listener& to;
    const std::string prefix;
    const absl::Duration max_staleness;
    int messages = 0;
    int leases = 0;
    uint64_t kept = 0;
    std::vector<Late> late;
  };

  void Change(Fetched& fetched) {
    if (fetched.session == 0) return;
    if (first_session_ == 0) first_session_ = fetched.session;
    if (fault_ == Fault::kMarksWithTheOldSession) {
      fetched.session = first_session_;
    }
    if (fault_ == Fault::kDeadlineFromTheAnswer &&
        fetched.deadline_nanos != Clock::kNever) {
      fetched.deadline_nanos += 20'000'000;  // That the answer took.
    }
  }

  const Fault fault_;
  FakeStore store_;
  std::map<Listener*, std::unique_ptr<Ear>> ears_;
  Listener* detached_ = nullptr;
  uint64_t first_session_ = 0;
  std::string late_key_;
};

// Simulated ones, of which one is there at a time.
class FaultyStoreUnderTest final : public StoreUnderTest {
 public:
  explicit FaultyStoreUnderTest(Fault fault) : fault_(fault) {}

  std::unique_ptr<RemoteStore> NewStore() override {
    is_held_ = false;
    auto store = std::make_unique<FaultyStore>(fault_, &server_, &inner_);
    inner_->set_interposer([this](FakeStore::Step step, const auto&) {
      return is_held_ && step == FakeStore::Step::kExecuted
                 ? absl::DeadlineExceededError("no answer")
                 : absl::OkStatus();
    });
    return store;
  }
  void Set(absl::string_view key, absl::string_view bytes,
           absl::Duration ttl) override {
    server_.Set(key, bytes, ttl);
  }
  void Del(absl::string_view key) override { server_.Del(key); }
  void Hold() override {
    is_held_ = true;
    inner_->HoldMessages();
  }
  void Release() override {
    is_held_ = false;
    inner_->ReleaseMessages();
  }
  void Cut() override { inner_->Disconnect(); }
  void Restart() override { server_.Restart(); }
  void Pause() override {
    clock_.Advance(absl::Milliseconds(3));
    server_.RunDue();
  }

 private:
  const Fault fault_;
  SimulatedClock clock_;
  FakeServer server_{&clock_};
  FakeStore* inner_ = nullptr;
  std::atomic<bool> is_held_{false};
};

TEST(CheckRemoteStoreTest, FindsNothingInAStoreThatIsRight) {
  FaultyStoreUnderTest subject(Fault::kNone);
  EXPECT_THAT(CheckRemoteStore(subject), IsEmpty());
}

TEST(CheckRemoteStoreTest, NamesWhatIsWrongWithAStore) {
  const std::pair<Fault, const char*> cases[] = {
      {Fault::kLeaseFromTheAnswer, "late answers: a lease certified the write"},
      {Fault::kMessagesAfterTheLease, "before it was told"},
      {Fault::kLosesAMessage, "before it was told"},
      {Fault::kKeepsTheSession,
       "a lost connection: a lease certified the write"},
      {Fault::kMarksWithTheOldSession,
       "a lost connection: a Fetch had the number of session"},
      {Fault::kLeaseGoesBack, "leases: the end of a lease went back"},
      {Fault::kDeadlineFromTheAnswer, "TTLs: a deadline is later"},
      {Fault::kLateAnswerForAnother, "a silent server: Fetch of"},
      {Fault::kResultsInAnotherOrder, "values: result 0 of a Fetch"},
      {Fault::kOverlappingCalls, "calls of one listener overlapped"},
      {Fault::kCallAfterDetach, "Detach: a listener was called after"},
      {Fault::kTellsOfOtherPrefixes, "was told to a listener of \"second:\""},
      {Fault::kWaitsForTheAnswer, "a silent server: Fetch took"},
      {Fault::kEndsAFetchTwice, "BeginFetch called `done` twice"},
      {Fault::kReturnsCancelled, "a silent server: a call returned Cancelled"},
  };
  for (const auto& [fault, sentence] : cases) {
    FaultyStoreUnderTest subject(fault);
    EXPECT_THAT(CheckRemoteStore(subject), Contains(HasSubstr(sentence)))
        << sentence;
  }
}

}  // namespace
}  // namespace wheelcache
