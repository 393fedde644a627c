// Loads and refreshes that meet others: callers that wait for one load, writes
// between any two of its steps, loaders that wait for each other, and fork().

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::HoldsInChild;
using testing::Notification;
using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Handle = StringCache::Handle;
using Ticket = StringCache::Ticket;
using Strings = std::vector<std::string>;
using Task = std::function<void()>;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result Cancelled() { return absl::CancelledError("no more"); }
Result NeverCalled() { return absl::InternalError("called"); }

// A loader of that value.
std::function<Result()> Gives(const std::string& value) {
  return [value] { return Value(value); };
}

// The value, or the name of the error.
std::string TextOf(const absl::StatusOr<Handle>& result) {
  return result.ok() ? std::string(**result)
                     : absl::StatusCodeToString(result.status().code());
}

LoadOptions Limit(absl::Duration wait) {
  LoadOptions options;
  options.wait = wait;
  return options;
}

// What tests of loads that meet have in common: a cache that reloads.
class LoadRaceEnvironment
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  LoadRaceEnvironment() {
    options_.default_ttl = absl::Minutes(10);
    hooks_.reload = [this](int, std::string_view) -> Result {
      return reload_ ? reload_() : Value("reloaded");
    };
    Renew();
  }

  // A caller that asks for key 1 on a thread of its own, and blocks.
  class Waiter {
   public:
    // Calls `at_sleep`, if there is one, when it next wakes.
    Waiter(StringCache* cache, const LoadOptions& options,
           std::function<Result()> loader,
           std::function<void()> at_sleep = nullptr)
        : at_sleep_(std::move(at_sleep)),
          thread_([this, cache, options, loader = std::move(loader)] {
            At("load: before it blocks", [this] {
              if (at_sleep_) At("load: between sleep and lock", at_sleep_);
              blocks_.Notify();
            });
            try {
              text_ = TextOf(cache->FindOrLoad(1, options, loader));
            } catch (const std::runtime_error&) {
              text_ = "thrown";
            }
            testing::interruption = {};
          }) {
      blocks_.Wait();
    }
    ~Waiter() {
      if (thread_.joinable()) thread_.join();
    }

    std::string Text() {
      thread_.join();
      return text_;
    }

   private:
    std::function<void()> at_sleep_;
    Notification blocks_;
    std::string text_;
    std::thread thread_;  // The last.
  };

  // A cache with options_ and hooks_ as they are now.
  void Renew() { cache_ = New<int, std::string>(hooks_); }

  // Begins a load of key 1, whose result goes to told_.
  Ticket Begin() {
    return cache_->BeginLoad(
        1, {}, [this](const auto& result) { told_.push_back(TextOf(result)); });
  }
  Strings Told() { return std::exchange(told_, {}); }

  StringCache::Hooks hooks_;
  std::function<Result()> reload_;
  std::unique_ptr<StringCache> cache_;
  Strings told_;
};

// Callers that wait for a load.
class CacheLoadWaitersTest : public LoadRaceEnvironment {
 protected:
  // Runs `load` for key 1 while ninety-nine other callers wait. Returns what
  // they get.
  Strings WaitersFor(const std::function<Result()>& load) {
    std::deque<Waiter> waiters;
    try {
      (void)cache_->FindOrLoad(1, {}, [&] {
        for (int i = 0; i < 99; ++i) {
          waiters.emplace_back(cache_.get(), LoadOptions(), NeverCalled);
        }
        return load();
      });
    } catch (const std::runtime_error&) {
    }
    Strings texts;
    for (Waiter& waiter : waiters) texts.push_back(waiter.Text());
    return texts;
  }
};

// Promise: One load per key
TEST_P(CacheLoadWaitersTest, HundredCallsForOneKeyRunTheLoaderOnce) {
  EXPECT_EQ(WaitersFor(Gives("once")), Strings(99, "once"));
  EXPECT_EQ(cache_->Get(1), "once");
  EXPECT_EQ(cache_->stats().sets, 1);
}

// Promise: One load per key
TEST_P(CacheLoadWaitersTest, FailingLoaderRunsOnceForAllWhoWait) {
  EXPECT_EQ(WaitersFor([] { return absl::UnavailableError("down"); }),
            Strings(99, "UNAVAILABLE"));
  EXPECT_EQ(cache_->size(), 0);
}

TEST_P(CacheLoadWaitersTest, LoaderThatThrowsGivesAnErrorToThoseWhoWait) {
  const auto throws = []() -> Result { throw std::runtime_error("lost"); };
  EXPECT_THROW((void)cache_->FindOrLoad(1, {}, throws), std::runtime_error);
  EXPECT_EQ(WaitersFor(throws), Strings(99, "UNKNOWN"));
  EXPECT_EQ(cache_->FindOrLoad(1, {}, Gives("found"))->value(), "found");
}

// A value that can be copied so many times. Not moved: absl::StatusOr ends a
// program in which that throws.
struct FragileValue {
  static inline std::atomic<int> copies_left{0};
  FragileValue() = default;
  FragileValue(const FragileValue&) {
    if (copies_left-- == 0) throw std::runtime_error("dropped");
  }
  FragileValue(FragileValue&&) = default;
};

TEST_P(CacheLoadWaitersTest, CopyThatThrowsFailsItsCallerAlone) {
  using FragileResult = absl::StatusOr<FragileValue>;
  auto cache = New<int, FragileValue>();
  std::atomic<int> failed{0};
  const auto ask = [&](const std::function<FragileResult()>& loader) {
    try {
      EXPECT_TRUE(cache->GetOrLoad(1, loader).ok());
    } catch (const std::runtime_error&) {
      ++failed;
    }
  };
  std::thread waiter;
  ask([&]() -> FragileResult {
    Notification blocks;
    waiter = std::thread([&] {
      At("load: before it blocks", [&] { blocks.Notify(); });
      ask([] { return FragileResult(); });
    });
    blocks.Wait();
    FragileValue::copies_left = 1;
    return FragileValue();
  });
  waiter.join();
  EXPECT_EQ(failed.load(), 1);
  EXPECT_EQ(cache->size(), 1);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Promise: One load per key
TEST_P(CacheLoadWaitersTest, LoadGoesToTheOneThatHasWaitedLongest) {
  for (const bool second_has_a_limit : {false, true}) {
    cache_->Del(1);
    std::vector<int> order;  // Of loaders, which run one after the other.
    Ticket ticket = Begin();
    const auto cancel = [&](int i) {
      return [&order, i] {
        order.push_back(i);
        return i < 3 ? Cancelled() : Value("third");
      };
    };
    const LoadOptions none;
    const LoadOptions limit = Limit(absl::Hours(1));
    Waiter first(cache_.get(), second_has_a_limit ? none : limit, cancel(1));
    Waiter second(cache_.get(), second_has_a_limit ? limit : none, cancel(2));
    Waiter third(cache_.get(), none, cancel(3));
    ticket = Ticket();
    EXPECT_EQ(third.Text(), "third");
    EXPECT_EQ(first.Text(), "CANCELLED");
    EXPECT_EQ(second.Text(), "CANCELLED");
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(cache_->Get(1), "third");
  }
}

TEST_P(CacheLoadWaitersTest, CallbacksAreToldByTheHeir) {
  Ticket ticket = Begin();
  EXPECT_FALSE(Begin());
  Waiter waiter(cache_.get(), {}, Gives("taken over"));
  ticket = Ticket();
  EXPECT_EQ(waiter.Text(), "taken over");
  EXPECT_EQ(Told(), Strings(2, "taken over"));
}

// Callers of BeginLoad that can lead, among others that wait.
class CacheLoadHeirsTest : public LoadRaceEnvironment {
 protected:
  // A caller without a ticket, whose `lead` keeps it in taken_.
  void Wait(const LoadOptions& options = {}) {
    EXPECT_FALSE(cache_->BeginLoad(
        1, options,
        [this](const auto& result) { told_.push_back(TextOf(result)); },
        [this](Ticket ticket) { taken_ = std::move(ticket); }));
  }

  Ticket taken_;
};

// Promise: One load per key
TEST_P(CacheLoadHeirsTest, TicketGoesToTheFirstCallbackThatCanLead) {
  Ticket ticket = Begin();
  EXPECT_FALSE(Begin());
  Wait();
  EXPECT_FALSE(Begin());
  ticket = Ticket();
  EXPECT_EQ(Told(), Strings{});
  ASSERT_TRUE(taken_);
  EXPECT_EQ(taken_.key(), 1);
  EXPECT_FALSE(Begin()) << "the load goes on";
  EXPECT_TRUE(taken_.Finish(Value("taken over")));
  EXPECT_EQ(Told(), Strings(5, "taken over"));
  EXPECT_EQ(cache_->Get(1), "taken over");
}

TEST_P(CacheLoadHeirsTest, CallbackTakesTheOptionsOfItsOwnCall) {
  LoadOptions options;
  options.ttl = absl::Seconds(7);
  Ticket ticket = Begin();
  Wait(options);
  ticket = Ticket();
  EXPECT_TRUE(taken_.Finish(Value("brief")));
  EXPECT_EQ(cache_->TimeToLive(1), absl::Seconds(7));
}

TEST_P(CacheLoadHeirsTest, ThreadsAndCallbacksTakeTurnsAsTheyCame) {
  for (const bool thread_is_first : {false, true}) {
    cache_->Del(1);
    Ticket ticket = Begin();
    if (!thread_is_first) Wait();
    Waiter waiter(cache_.get(), {}, Gives("of the thread"));
    if (thread_is_first) Wait();
    ticket = Ticket();
    EXPECT_EQ(static_cast<bool>(taken_), !thread_is_first);
    if (taken_) taken_.Finish(Value("of the callback"));
    const char* const value =
        thread_is_first ? "of the thread" : "of the callback";
    EXPECT_EQ(waiter.Text(), value);
    EXPECT_EQ(Told(), Strings(2, value));
  }
}

TEST_P(CacheLoadHeirsTest, LeadThatThrowsOrDropsTheTicketPassesItOn) {
  Ticket ticket = Begin();
  int leads = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(cache_->BeginLoad(
        1, {}, [this](const auto& result) { told_.push_back(TextOf(result)); },
        [&, i](const Ticket& taken) {
          EXPECT_EQ(leads++, i);
          EXPECT_TRUE(taken);
          if (i % 2 == 0) throw std::runtime_error("lost");
        }));
  }
  ticket = Ticket();
  EXPECT_EQ(leads, 4);
  EXPECT_EQ(Told(), Strings(5, "CANCELLED"));
  EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, Gives("next"))), "next");
}

TEST_P(CacheLoadHeirsTest, CallbackOfASupersededLoadDoesNotStore) {
  Ticket ticket = Begin();
  Wait();
  cache_->Del(1);
  ticket = Ticket();
  EXPECT_FALSE(taken_.Finish(Value("too old")));
  EXPECT_EQ(Told(), Strings(2, "too old"));
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_P(CacheLoadHeirsTest, TicketIsHandedOverAfterTheEndOfTheCache) {
  Ticket ticket = Begin();
  Wait();
  cache_ = nullptr;
  ticket = Ticket();
  EXPECT_FALSE(taken_.Finish(Value("late")));
  EXPECT_EQ(Told(), Strings(2, "late"));
}

TEST_P(CacheLoadHeirsTest, EachCallbackGetsAResultThatItMayKeep) {
  std::vector<absl::StatusOr<Handle>> kept;
  const auto keep = [&](absl::StatusOr<Handle> result) {
    kept.push_back(std::move(result));
  };
  Ticket ticket = cache_->BeginLoad(1, {}, keep);
  EXPECT_FALSE(cache_->BeginLoad(1, {}, keep));
  ticket.Finish(Value("kept"));
  EXPECT_FALSE(cache_->BeginLoad(1, {}, keep));  // A hit.
  cache_ = nullptr;
  ASSERT_EQ(kept.size(), 3U);
  while (!kept.empty()) {
    EXPECT_EQ(TextOf(kept.back()), "kept");
    kept.pop_back();
  }
}

// Promise: One load per key
// That of a caller that does not block is ended by maintenance.
TEST_P(CacheLoadHeirsTest, WaitOfACallbackEndsByTheClockOfTheCache) {
  Ticket ticket = Begin();
  Wait(Limit(absl::Seconds(2)));
  Wait(Limit(absl::Seconds(1)));
  EXPECT_EQ(cache_->NextDeadline() - clock_.Now(), absl::Seconds(1));
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  cache_->RunMaintenance();
  EXPECT_EQ(Told(), Strings{});
  clock_.Advance(absl::Nanoseconds(1));
  cache_->RunMaintenance();
  EXPECT_EQ(Told(), Strings{"DEADLINE_EXCEEDED"});
  EXPECT_TRUE(ticket.Finish(Value("one"))) << "the load goes on";
  EXPECT_EQ(Told(), Strings(2, "one"));
  clock_.Advance(absl::Seconds(1));
  cache_->RunMaintenance();
  EXPECT_EQ(Told(), Strings{});
}

TEST_P(CacheLoadHeirsTest, CallbackThatWaitedTooLongDoesNotLead) {
  Ticket ticket = Begin();
  Wait(Limit(absl::Seconds(1)));
  clock_.Advance(absl::Seconds(1));
  cache_->RunMaintenance();
  EXPECT_EQ(Told(), Strings{"DEADLINE_EXCEEDED"});
  ticket = Ticket();
  EXPECT_FALSE(taken_);
  EXPECT_EQ(Told(), Strings{"CANCELLED"});
}

// Its wait is over when it leads, as that for others.
TEST_P(CacheLoadHeirsTest, WaitLimitsNotWhatTheCallbackLoadsItself) {
  Ticket ticket = Begin();
  Wait(Limit(absl::Seconds(1)));
  ticket = Ticket();
  ASSERT_TRUE(taken_);
  clock_.Advance(absl::Seconds(1));
  cache_->RunMaintenance();
  EXPECT_EQ(Told(), Strings{});
  EXPECT_TRUE(taken_.Finish(Value("slow")));
  EXPECT_EQ(Told(), Strings(2, "slow"));
}

// In steps, as all maintenance, and in no more than O(log n) each.
TEST_P(CacheLoadHeirsTest, ManyWaitsEndInBoundedSteps) {
  constexpr int kWaits = 10'000;
  Ticket ticket = Begin();
  for (int i = 0; i < kWaits; ++i) Wait(Limit(absl::Seconds(1)));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache_->RunMaintenance(100), 100);
  EXPECT_EQ(Told(), Strings(100, "DEADLINE_EXCEEDED"));
  EXPECT_LE(cache_->NextDeadline(), clock_.Now());
  EXPECT_EQ(cache_->RunMaintenance(), kWaits - 100);
  EXPECT_EQ(Told().size(), kWaits - 100);
}

TEST_P(CacheLoadHeirsTest, LeadsThatDropTheTicketTakeNoStack) {
  constexpr int kHeirs = 30'000;
  Ticket ticket = Begin();
  int taken = 0;
  for (int i = 0; i < kHeirs; ++i) {
    (void)cache_->BeginLoad(
        1, {}, [](const auto&) {}, [&](Ticket /*ticket*/) { ++taken; });
  }
  ticket = Ticket();
  EXPECT_EQ(taken, kHeirs);
  EXPECT_EQ(Told(), Strings{"CANCELLED"});
}

// It would wait for one that is called when it has returned.
TEST_P(CacheLoadHeirsTest, LeadThatWaitsForWhatItHasDroppedIsRefused) {
  Ticket ticket = Begin();
  std::string refused;
  (void)cache_->BeginLoad(
      1, {}, [](const auto&) {},
      [&](Ticket given) {
        given = Ticket();
        EXPECT_FALSE(taken_);
        refused = TextOf(cache_->FindOrLoad(1, {}, NeverCalled));
      });
  Wait({});
  ticket = Ticket();
  EXPECT_EQ(refused, "FAILED_PRECONDITION");
  ASSERT_TRUE(taken_);
  std::thread other([&] {
    EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, NeverCalled)), "taken");
  });
  EXPECT_TRUE(taken_.Finish(Value("taken")));
  other.join();
}

// Callbacks may be left in another order than that in which they came.
TEST_P(CacheLoadHeirsTest, WhoLeavesCallbacksLateMayStillLead) {
  Ticket ticket = Begin();
  At("load: before it leaves callbacks", [&] {
    Wait({});
    ticket = Ticket();
    ASSERT_TRUE(taken_);
  });
  Ticket late;
  (void)cache_->BeginLoad(
      1, {}, [](const auto&) {},
      [&](Ticket given) { late = std::move(given); });
  taken_ = Ticket();
  EXPECT_TRUE(late);
  EXPECT_TRUE(late.Finish(Value("late")));
}

TEST_P(CacheLoadHeirsTest, LimitEndsWithTheCache) {
  Ticket ticket = Begin();
  Wait(Limit(absl::Seconds(1)));
  cache_ = nullptr;
  clock_.Advance(absl::Seconds(1));
  ticket.Finish(Value("late"));
  EXPECT_EQ(Told(), Strings(2, "late"));
}

// Promise: One load per key
TEST_P(CacheLoadWaitersTest, WaitEndsByTheClockOfTheCache) {
  Ticket ticket = Begin();
  Waiter waiter(cache_.get(), Limit(absl::Seconds(1)), NeverCalled);
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_EQ(clock_.wake_ups(), 0);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(waiter.Text(), "DEADLINE_EXCEEDED");
  EXPECT_TRUE(ticket.Finish(Value("one")));
  EXPECT_EQ(cache_->Get(1), "one");
}

TEST_P(CacheLoadWaitersTest, HeirWhoseTimeIsUpLeadsAllTheSame) {
  Ticket ticket = Begin();
  Waiter waiter(cache_.get(), Limit(absl::Seconds(1)), Gives("heir"),
                [&] { ticket = Ticket(); });
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(waiter.Text(), "heir");
  EXPECT_EQ(cache_->Get(1), "heir");
}

TEST_P(CacheLoadWaitersTest, ResultThatComesAsTheTimeIsUpIsReturned) {
  Ticket ticket = Begin();
  Waiter waiter(cache_.get(), Limit(absl::Seconds(1)), NeverCalled,
                [&] { ticket.Finish(Value("in time")); });
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(waiter.Text(), "in time");
}

TEST_P(CacheLoadWaitersTest, WhoHasWaitedTooLongIsNoHeir) {
  Ticket ticket = Begin();
  Waiter first(cache_.get(), Limit(absl::Hours(1)), Gives("first"));
  Waiter brief(cache_.get(), Limit(absl::Seconds(1)), NeverCalled);
  Waiter last(cache_.get(), {}, Gives("last"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(brief.Text(), "DEADLINE_EXCEEDED");
  ticket = Ticket();
  EXPECT_EQ(first.Text(), "first");
  EXPECT_EQ(last.Text(), "first");
}

TEST_P(CacheLoadWaitersTest, LoadWhoseLastWaiterHasGoneEndsAsCancelled) {
  Ticket ticket = Begin();
  Waiter brief(cache_.get(), Limit(absl::Seconds(1)), NeverCalled);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(brief.Text(), "DEADLINE_EXCEEDED");
  ticket = Ticket();
  EXPECT_EQ(Told(), Strings{"CANCELLED"});
  EXPECT_EQ(cache_->FindOrLoad(1, {}, Gives("next"))->value(), "next");
}

// Whose sleepers call a function and throw.
class ThrowingClock final : public Clock {
 public:
  int64_t NowNanos() const override { return 0; }
  std::unique_ptr<Sleeper> NewSleeper() override {
    return std::make_unique<ThrowingSleeper>(*this);
  }

  std::function<void()> at_sleep = [] {};

 private:
  class ThrowingSleeper final : public Sleeper {
   public:
    explicit ThrowingSleeper(const ThrowingClock& clock) : clock_(clock) {}
    void SleepUntil(int64_t /*deadline_nanos*/) override {
      clock_.at_sleep();
      throw std::runtime_error("cannot sleep");
    }
    void Wake() override {}

   private:
    const ThrowingClock& clock_;
  };
};

class CacheLoadLostWaiterTest : public ::testing::Test {
 protected:
  void Make(Clock* clock) {
    CacheOptions options;
    options.clock = clock;
    options.reaper = nullptr;
    cache_ = *StringCache::Create(options);
    ticket_ = cache_->BeginLoad(1, {}, [](const auto&) {});
  }

  std::unique_ptr<StringCache> cache_;
  Ticket ticket_;
};

TEST_F(CacheLoadLostWaiterTest, SleeperMayThrow) {
  ThrowingClock clock;
  Make(&clock);
  const auto wait = [&] {
    (void)cache_->FindOrLoad(1, Limit(absl::Seconds(1)), NeverCalled);
  };
  EXPECT_THROW(wait(), std::runtime_error);
  EXPECT_THROW(wait(), std::runtime_error);
  EXPECT_TRUE(ticket_.Finish(Value("loaded")));
  EXPECT_EQ(cache_->Get(1), "loaded");
}

TEST_F(CacheLoadLostWaiterTest, HeirWhoseSleeperThrowsPassesTheLoadOn) {
  ThrowingClock clock;
  Make(&clock);
  Ticket next;
  clock.at_sleep = [&] {
    cache_->BeginLoad(
        1, {}, [](const auto&) {},
        [&](Ticket ticket) { next = std::move(ticket); });
    ticket_ = Ticket();
  };
  const auto wait = [&] {
    (void)cache_->FindOrLoad(1, Limit(absl::Seconds(1)), NeverCalled);
  };
  EXPECT_THROW(wait(), std::runtime_error);
  EXPECT_TRUE(next.Finish(Value("passed on")));
  EXPECT_EQ(cache_->Get(1), "passed on");

  cache_->Del(1);
  ticket_ = cache_->BeginLoad(1, {}, [](const auto&) {});
  clock.at_sleep = [&] { ticket_ = Ticket(); };
  EXPECT_THROW(wait(), std::runtime_error);
  EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, Gives("anew"))), "anew");
}

#ifdef __GLIBC__  // Elsewhere, cancelled threads unwind nothing.
TEST_F(CacheLoadLostWaiterTest, ThreadMayBeCancelled) {
  for (const absl::Duration limit :
       {absl::InfiniteDuration(), absl::Hours(1)}) {
    Make(&Clock::Monotonic());
    std::thread waiter([&] {
      (void)cache_->FindOrLoad(1, Limit(limit), NeverCalled);
      ADD_FAILURE() << "cancelled";
    });
    while (cache_->stats().load_waits == 0) std::this_thread::yield();
    pthread_cancel(waiter.native_handle());
    waiter.join();
    EXPECT_TRUE(ticket_.Finish(Value("loaded")));
    EXPECT_EQ(cache_->Get(1), "loaded");
    EXPECT_TRUE(cache_->CheckInvariants().ok());
  }
}
#endif

TEST_P(CacheLoadWaitersTest, HeirOfASupersededLoadDoesNotStore) {
  Ticket ticket = Begin();
  Waiter waiter(cache_.get(), {}, Gives("too old"));
  cache_->Del(1);
  ticket = Ticket();
  EXPECT_EQ(waiter.Text(), "too old");
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_P(CacheLoadWaitersTest, HeirThatAsksForItsOwnKeyIsRefused) {
  for (const absl::Duration wait :
       {absl::InfiniteDuration(), absl::Duration(absl::Hours(1))}) {
    cache_->Del(1);
    Ticket ticket = Begin();
    Waiter waiter(cache_.get(), Limit(wait), [&] {
      return Value(TextOf(cache_->FindOrLoad(1, {}, NeverCalled)));
    });
    ticket = Ticket();
    EXPECT_EQ(waiter.Text(), "FAILED_PRECONDITION");
  }
}

// Before the heir has taken it up, the load has no leader: the one that gave it
// up may wait for it.
TEST_P(CacheLoadWaitersTest, WhoeverGaveUpALoadMayWaitForItsHeir) {
  Notification heir_blocks;
  Notification leader_waits;
  std::thread heir;
  const auto cancelled = cache_->FindOrLoad(1, {}, [&] {
    heir = std::thread([&] {
      At("load: before it blocks", [&] {
        At("load: after the wait", [&] { leader_waits.Wait(); });
        heir_blocks.Notify();
      });
      EXPECT_TRUE(cache_->FindOrLoad(1, {}, Gives("heir")).ok());
    });
    heir_blocks.Wait();
    return Cancelled();
  });
  EXPECT_TRUE(absl::IsCancelled(cancelled.status()));
  At("load: among the waits",
     [&] { At("load: before it blocks", [&] { leader_waits.Notify(); }); });
  // If it is refused, the heir goes on all the same.
  const auto result = cache_->FindOrLoad(1, {}, NeverCalled);
  leader_waits.Notify();
  heir.join();
  EXPECT_EQ(TextOf(result), "heir");
}

// A wait with a limit ends, whoever waits for whom.
TEST_P(CacheLoadWaitersTest, WaitWithALimitClosesNoCycle) {
  Notification second_loads;
  Notification first_waits;
  std::thread second([&] {
    const auto got = cache_->FindOrLoad(2, {}, [&] {
      second_loads.Notify();
      first_waits.Wait();
      At("load: before it blocks", [&] {
        // Under the lock of that load alone.
        clock_.Advance(absl::Seconds(1));
      });
      return Value(TextOf(cache_->FindOrLoad(1, {}, NeverCalled)));
    });
    EXPECT_EQ(TextOf(got), "first");
  });
  const auto got = cache_->FindOrLoad(1, {}, [&] {
    second_loads.Wait();
    At("load: before it blocks", [&] { first_waits.Notify(); });
    EXPECT_EQ(
        TextOf(cache_->FindOrLoad(2, Limit(absl::Seconds(1)), NeverCalled)),
        "DEADLINE_EXCEEDED");
    return Value("first");
  });
  EXPECT_EQ(TextOf(got), "first");
  second.join();
}

TEST_P(CacheLoadWaitersTest, WaitOfZeroIsNoCycleEither) {
  const auto got = cache_->FindOrLoad(1, {}, [&] {
    return Value(TextOf(
        cache_->FindOrLoad(1, Limit(absl::ZeroDuration()), NeverCalled)));
  });
  EXPECT_EQ(TextOf(got), "DEADLINE_EXCEEDED");
}

// A second for all its keys, and what its own loaders take does not count. Of
// two waits for the same key, the second in the place of a load that was given
// up, each has what the one before has left.
TEST_P(CacheLoadWaitersTest, BatchWaitsNoLongerThanItsLimitInAll) {
  Ticket first = cache_->BeginLoad(1, {}, [](const auto&) {});
  Ticket second = cache_->BeginLoad(2, {}, [](const auto&) {});
  Ticket next_second;
  Notification blocks;
  Notification blocks_again;
  const std::vector<int> keys = {3, 1, 2};
  Strings texts;
  std::thread batch([&] {
    At("load: before it blocks", [&] {
      At("load: before it blocks", [&] { blocks_again.Notify(); });
      blocks.Notify();
    });
    const auto load = [&](absl::Span<const size_t> missing) {
      clock_.Advance(absl::Hours(1));
      if (missing[0] == 0) {
        second = Ticket();
        next_second = cache_->BeginLoad(2, {}, [](const auto&) {});
      }
      return std::vector<Result>(missing.size(), Value("own"));
    };
    for (const auto& result :
         cache_->FindOrLoadMany(keys, Limit(absl::Seconds(1)), load)) {
      texts.push_back(TextOf(result));
    }
  });
  blocks.Wait();
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Milliseconds(600));
  first = Ticket();  // Which the batch takes over.
  blocks_again.Wait();
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Milliseconds(400));
  batch.join();
  EXPECT_EQ(texts, (Strings{"own", "own", "DEADLINE_EXCEEDED"}));
}

TEST_P(CacheLoadWaitersTest, HeirThatThrowsFailsThoseBehindIt) {
  Ticket ticket = Begin();
  Waiter heir(cache_.get(), {},
              []() -> Result { throw std::runtime_error("lost"); });
  Waiter behind(cache_.get(), {}, NeverCalled);
  ticket = Ticket();
  EXPECT_EQ(behind.Text(), "UNKNOWN");
  EXPECT_EQ(heir.Text(), "thrown");
}

// A load that has ended as cancelled, and is not yet out of the way.
TEST_P(CacheLoadWaitersTest, CancelledLoadKeepsNobodyFromLoading) {
  Ticket ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  At("load: cancelled", [&] {
    EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, Gives("loaded"))), "loaded");
    EXPECT_FALSE(Begin());
  });
  ticket = Ticket();
  EXPECT_EQ(Told(), Strings{"loaded"});
  EXPECT_EQ(cache_->Get(1), "loaded");
}

TEST_P(CacheLoadWaitersTest, TicketMayBeBegunWhereACancelledOneIsInTheWay) {
  Ticket first = Begin();
  Ticket second;
  At("load: cancelled", [&] { second = Begin(); });
  first = Ticket();
  ASSERT_TRUE(second);
  EXPECT_TRUE(second.Finish(Value("second")));
}

TEST_P(CacheLoadWaitersTest, LoadMayEndBeforeCallbacksAreLeft) {
  Ticket first = Begin();
  At("load: before it leaves callbacks", [&] { first = Ticket(); });
  Ticket second = Begin();
  ASSERT_TRUE(second);
  At("load: before it leaves callbacks",
     [&] { second.Finish(Value("second")); });
  EXPECT_FALSE(Begin());
  EXPECT_EQ(Told(), (Strings{"CANCELLED", "second", "second"}));
  EXPECT_EQ(cache_->stats().misses, 3) << "each call is one";
}

TEST_P(CacheLoadWaitersTest, EndOfTheCacheWaitsForAFinishThatStores) {
  Ticket ticket = Begin();
  std::atomic<bool> ends{false};
  std::atomic<bool> ended{false};
  std::thread destroyer;
  At("store: between clock and lock", [&] {
    destroyer = std::thread([&] {
      ends = true;
      cache_.reset();
      ended = true;
    });
    while (!ends) std::this_thread::yield();
    for (int i = 0; i < 300; ++i) std::this_thread::yield();
    EXPECT_FALSE(ended.load());
  });
  ticket.Finish(Value("last"));
  destroyer.join();
}

// A write that supersedes loads of key 1, and what it leaves there.
struct Overtaking {
  const char* name;
  void (*write)(StringCache&);
  std::optional<std::string> leaves;
};

std::vector<Overtaking> AllThatSupersede() {
  return {
      {"Set", [](StringCache& cache) { cache.Set(1, "set"); }, "set"},
      {"Del", [](StringCache& cache) { cache.Del(1); }, {}},
      {"Clear", [](StringCache& cache) { cache.Clear(); }, {}},
      {"refused Set",
       [](StringCache& cache) { cache.Set(1, "", absl::ZeroDuration()); },
       {}},
      {"Touch that deletes",
       [](StringCache& cache) { cache.Touch(1, absl::ZeroDuration()); },
       {}},
  };
}

class CacheLoadInterleavingTest : public LoadRaceEnvironment {
 protected:
  // Has each write come at each of these points of `load`.
  template <typename Load>
  void ExpectThatWritesSupersede(const std::vector<std::string>& points,
                                 std::optional<std::string> old, Load&& load) {
    for (const Overtaking& overtaking : AllThatSupersede()) {
      for (const std::string& point : points) {
        SCOPED_TRACE(std::string(overtaking.name) + ", " + point);
        Renew();
        if (old.has_value()) cache_->Set(1, *old);
        At(point, [&] { overtaking.write(*cache_); });
        load();
        EXPECT_EQ(cache_->Get(1), overtaking.leaves);
        EXPECT_TRUE(cache_->CheckInvariants().ok());
        // Nothing is left behind that keeps the key from being refreshed.
        cache_->Set(1, "next");
        EXPECT_TRUE(cache_->Refresh(1));
        EXPECT_EQ(cache_->Get(1), "reloaded");
      }
    }
  }

  // A cache in whose index each entry takes the first free cell, and whose size
  // suits the index. It has keys 1 to 4.
  void MakeWithOneBucket() {
    options_.max_entries = 8;
    Renew();
    for (int key = 1; key <= 4; ++key) cache_->Set(key, "old");
  }
};

// Promise: One load per key
TEST_P(CacheLoadInterleavingTest, WritesSupersedeALoadBetweenAnyTwoSteps) {
  const auto load = [&] {
    testing::Interrupt("in the loader");
    return Value("loaded");
  };
  ExpectThatWritesSupersede(
      {"in the loader", "store: between clock and lock",
       "store: after the lock"},
      std::nullopt,
      [&] { EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, load)), "loaded"); });
}

TEST_P(CacheLoadInterleavingTest, WritesSupersedeATicketBetweenAnyTwoSteps) {
  ExpectThatWritesSupersede({"before Finish", "store: between clock and lock",
                             "store: after the lock"},
                            std::nullopt, [&] {
                              Ticket ticket = Begin();
                              testing::Interrupt("before Finish");
                              ticket.Finish(Value("loaded"));
                              EXPECT_EQ(Told(), Strings{"loaded"});
                            });
}

TEST_P(CacheLoadInterleavingTest, WritesSupersedeARefreshBetweenAnyTwoSteps) {
  ExpectThatWritesSupersede(
      {"refresh: between claim and queue", "refresh: before it starts",
       "refresh: before reload", "refresh: after reload",
       "store: between clock and lock", "store: after the lock"},
      "old", [&] { cache_->Refresh(1); });
}

TEST_P(CacheLoadInterleavingTest, WriteBeforeALoadJoinsIsSeenByIt) {
  At("load: before it joins", [&] { cache_->Set(1, "set"); });
  EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, NeverCalled)), "set");
  cache_->Del(1);
  At("load: before it joins", [&] { cache_->Del(1); });
  EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, Gives("loaded"))), "loaded");
  EXPECT_EQ(cache_->Get(1), "loaded");
}

// The load began because there was nothing, so that there is nothing to delete.
// The cell of an entry whose tag a read has seen goes to a load of its key.
TEST_P(CacheLoadInterleavingTest, ReadThatIsOvertakenFindsNoLoadInFlight) {
  MakeWithOneBucket();
  Ticket ticket;
  At("index: between tag and cell", [&] {
    cache_->Del(1);
    ticket = Begin();
  });
  EXPECT_EQ(cache_->Get(1), std::nullopt);
  EXPECT_TRUE(ticket);
}

// The cell of a refresh that waits for its retry goes to a value of its key.
TEST_P(CacheLoadInterleavingTest, LookForARefreshFindsNoValue) {
  options_.refresh_after = absl::Seconds(1);
  options_.retry_after = absl::Minutes(1);
  MakeWithOneBucket();
  reload_ = [] { return absl::UnavailableError("down"); };
  EXPECT_TRUE(cache_->Refresh(1));
  clock_.Advance(absl::Seconds(2));
  At("refresh: before the look for another", [&] {
    At("index: between tag and cell", [&] {
      cache_->Del(1);
      cache_->Set(5, "in the cell of the old one");
      cache_->Set(1, "in the cell of the refresh");
    });
  });
  EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, NeverCalled)), "old");
}

TEST_P(CacheLoadInterleavingTest, DelOfWhatExpiredBeforeALoadFindsNothing) {
  cache_->Set(1, "old", absl::Seconds(1));
  Ticket ticket;
  At("remove: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    ticket = Begin();
    EXPECT_TRUE(ticket);
  });
  EXPECT_FALSE(cache_->Del(1));
  EXPECT_FALSE(ticket.Finish(Value("loaded")));
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_P(CacheLoadInterleavingTest, ExpiryAndEvictionLetARefreshGoOn) {
  options_.max_entries = 1;
  const std::function<void()> removals[] = {
      [&] { clock_.Advance(absl::Seconds(1)); },
      [&] { cache_->Set(2, "other"); },
  };
  for (const char* const point :
       {"refresh: before it starts", "refresh: before reload",
        "refresh: after reload", "store: between clock and lock"}) {
    for (const auto& remove : removals) {
      SCOPED_TRACE(point);
      Renew();
      cache_->Set(1, "old", absl::Seconds(1));
      At(point, remove);
      EXPECT_TRUE(cache_->Refresh(1));
      EXPECT_EQ(cache_->Get(1), "reloaded");
    }
  }
}

TEST_P(CacheLoadInterleavingTest, RefreshThatIsOvertakenDoesNotBegin) {
  struct Overtaken {
    const char* point;
    std::function<void()> action;
    const char* leaves;
  };
  const auto stop = [&] { cache_->Stop(); };
  const Overtaken all[] = {
      {"refresh: between claim and queue", stop, "old"},
      {"refresh: before it starts", stop, "old"},
      // The value is another one, though it has the same key and lives.
      {"refresh: between claim and queue", [&] { cache_->Set(1, "set"); },
       "set"},
      {"refresh: before it starts",
       [&] {
         clock_.Advance(absl::Seconds(1));
         EXPECT_EQ(TextOf(cache_->FindOrLoad(1, {}, Gives("loaded"))),
                   "loaded");
       },
       "loaded"},
  };
  reload_ = [] {
    ADD_FAILURE() << "it reloads";
    return NeverCalled();
  };
  for (const Overtaken& overtaken : all) {
    Renew();
    cache_->Set(1, "old", absl::Seconds(1));
    At(overtaken.point, overtaken.action);
    EXPECT_FALSE(cache_->Refresh(1));
    EXPECT_EQ(cache_->Get(1), overtaken.leaves);
  }
}

// Threads that load one key each, all at the same time.
class Ring {
 public:
  using IntCache = Cache<int, int>;
  using IntResult = absl::StatusOr<int>;

  static IntResult NeverCalled() {
    return absl::InternalError("a load of its own");
  }
  static bool IsRefused(const IntResult& result) {
    return absl::IsFailedPrecondition(result.status());
  }

  // Thread i loads key i of cache i. Its loader, once all run, returns what
  // `load(i)` does.
  Ring(std::vector<IntCache*> caches, const std::function<IntResult(int)>& load)
      : results_(caches.size()) {
    std::atomic<size_t> running{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < caches.size(); ++i) {
      threads.emplace_back([&, i] {
        const int key = static_cast<int>(i);
        results_[i] = caches[i]->GetOrLoad(key, [&, key]() -> IntResult {
          ++running;
          while (running.load() < caches.size()) std::this_thread::yield();
          return load(key);
        });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // What the threads got, in their order.
  const std::vector<IntResult>& results() const { return results_; }

 private:
  std::vector<IntResult> results_;
};

// Loaders that ask for keys of each other: a wait that would never end is
// refused, any other is not.
class CacheLoadCycleTest : public CacheEnvironment {
 protected:
  // Each loader of a ring asks for the next key, and does without if it is
  // refused. Expects that one of them is, whichever comes last.
  static void ExpectThatOneIsRefused(
      const std::vector<Ring::IntCache*>& caches) {
    const int count = static_cast<int>(caches.size());
    std::atomic<int> refused{0};
    const Ring ring(caches, [&](int key) -> Ring::IntResult {
      const int next = (key + 1) % count;
      const auto result = caches[next]->GetOrLoad(next, Ring::NeverCalled);
      if (result.ok()) return *result + 1;
      EXPECT_TRUE(Ring::IsRefused(result)) << result.status();
      ++refused;
      return 0;
    });
    EXPECT_EQ(refused.load(), 1);
    // What the refused loader returned went all the way round.
    int sum = 0;
    for (const auto& result : ring.results()) sum += result.value();
    EXPECT_EQ(sum, count * (count - 1) / 2);
  }
};

TEST_F(CacheLoadCycleTest, OneOfTheLoadersInACycleIsRefused) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    for (const int loaders : {2, 3}) {
      auto cache = New<int, int>();
      ExpectThatOneIsRefused(
          std::vector<Ring::IntCache*>(loaders, cache.get()));
    }
  }
}

// Promise: One load per key
TEST_F(CacheLoadCycleTest, CycleOverSeveralCachesIsFound) {
  auto first = New<int, int>();
  auto second = New<int, int>();
  ExpectThatOneIsRefused({first.get(), second.get()});
  ExpectThatOneIsRefused({second.get(), first.get(), first.get()});
}

// What waits is the thread, with all that it loads.
TEST_F(CacheLoadCycleTest, CycleByWayOfALoadWithinALoadIsFound) {
  auto cache = New<int, int>();
  std::atomic<int> refused{0};
  const auto ask = [&](int key) -> Ring::IntResult {
    const auto result = cache->GetOrLoad(key, Ring::NeverCalled);
    if (Ring::IsRefused(result)) ++refused;
    return 7;
  };
  const Ring ring({cache.get(), cache.get()}, [&](int key) -> Ring::IntResult {
    if (key == 1) return ask(0);
    return cache->GetOrLoad(2, [&] { return ask(1); });
  });
  EXPECT_EQ(refused.load(), 1);
  EXPECT_EQ(ring.results()[0].value(), 7);
}

TEST_F(CacheLoadCycleTest, RefusalReachesAllWhoWaitIfTheLoaderReturnsIt) {
  auto cache = New<int, int>();
  const Ring ring({cache.get(), cache.get()}, [&](int key) {
    return cache->GetOrLoad(1 - key, Ring::NeverCalled);
  });
  for (const auto& result : ring.results()) {
    EXPECT_TRUE(Ring::IsRefused(result));
  }
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(cache->GetOrLoad(0, [] { return 5; }).value(), 5);
}

// Promise: One load per key
TEST_F(CacheLoadCycleTest, ChainOfLoadersIsNoCycle) {
  constexpr int kLoaders = 5;
  auto cache = New<int, int>();
  const Ring ring(
      std::vector<Ring::IntCache*>(kLoaders, cache.get()),
      [&](int key) -> Ring::IntResult {
        if (key == 0) return 0;
        return cache->GetOrLoad(key - 1, Ring::NeverCalled).value() + 1;
      });
  for (int key = 0; key < kLoaders; ++key) {
    EXPECT_EQ(ring.results()[key].value(), key);
  }
}

using CacheLoadWaitTest = LoadRaceEnvironment;

// The first thread waits for a load of the second. Once that has ended, the
// second waits for the first, in another load: when the first has just woken
// up, and when it has gone on.
TEST_P(CacheLoadWaitTest, WaitThatHasEndedIsForgotten) {
  for (const bool has_gone_on : {false, true}) {
    Renew();
    Notification second_loads;
    Notification first_waits;
    Notification first_has_waited;
    Notification second_waits;
    const auto tell_second = [&] {
      first_has_waited.Notify();
      second_waits.Wait();
    };
    std::thread first([&] {
      const auto result = cache_->FindOrLoad(0, {}, [&] {
        second_loads.Wait();
        At("load: among the waits", [&] {
          first_waits.Notify();
          if (!has_gone_on) At("load: after the wait", tell_second);
        });
        const auto waited_for = cache_->FindOrLoad(1, {}, NeverCalled);
        if (has_gone_on) tell_second();
        return Value(TextOf(waited_for));
      });
      EXPECT_EQ(TextOf(result), "one");
    });
    const auto one = cache_->FindOrLoad(1, {}, [&] {
      second_loads.Notify();
      first_waits.Wait();
      return Value("one");
    });
    EXPECT_TRUE(one.ok());
    first_has_waited.Wait();
    const auto result = cache_->FindOrLoad(2, {}, [&] {
      At("load: among the waits", [&] { second_waits.Notify(); });
      return Value(TextOf(cache_->FindOrLoad(0, {}, NeverCalled)));
    });
    EXPECT_EQ(TextOf(result), "one");
    first.join();
  }
}

// Loads, tickets and refreshes in flight at a fork(): what the child finds of
// them.
class CacheLoadForkTest : public LoadRaceEnvironment {
 protected:
  CacheLoadForkTest() {
    options_.max_refreshes = 1;
    Renew();
  }

  // Whether key 1 may be loaded, and a value is stored.
  bool CanLoad() {
    cache_->Del(1);
    return TextOf(cache_->FindOrLoad(1, {}, Gives("next"))) == "next" &&
           cache_->Get(1) == "next" && cache_->CheckInvariants().ok();
  }
  // Whether key 1, which has an old value, may be refreshed.
  bool CanRefresh() {
    return cache_->Refresh(1) && cache_->Get(1) == "reloaded";
  }
};

// Promise: Orderly in tests, fork and shutdown
TEST_P(CacheLoadForkTest, LoaderThatForksEndsInBoth) {
  std::atomic<pid_t> child{-1};
  const auto loaded = cache_->FindOrLoad(1, {}, [&] {
    child = fork();
    if (child == 0) testing::EndInAMinute();
    return Value("loaded");
  });
  if (child == 0) {
    const bool well = TextOf(loaded) == "loaded" && cache_->Get(1) == "loaded";
    _exit(well && CanLoad() ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
  EXPECT_EQ(cache_->Get(1), "loaded");
}

TEST_P(CacheLoadForkTest, TicketMayBeFinishedInTheChild) {
  Ticket ticket = Begin();
  EXPECT_TRUE(HoldsInChild([&] {
    const bool stored = ticket.Finish(Value("the child's"));
    return stored && Told() == Strings{"the child's"} && CanLoad();
  }));
  EXPECT_TRUE(ticket.Finish(Value("the parent's")));
  EXPECT_EQ(Told(), Strings{"the parent's"});
}

TEST_P(CacheLoadForkTest, ReloadThatForksEndsInBoth) {
  cache_->Set(1, "old");
  pid_t child = -1;
  reload_ = [&] {
    child = fork();
    if (child == 0) testing::EndInAMinute();
    return Value("new");
  };
  (void)cache_->Refresh(1);
  reload_ = nullptr;
  if (child == 0) {
    const bool refreshed = cache_->Get(1) == "new" && CanRefresh();
    cache_->Stop();
    _exit(refreshed && CanLoad() ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
  EXPECT_EQ(cache_->Get(1), "new");
  EXPECT_TRUE(CanRefresh());
}

TEST_P(CacheLoadForkTest, QueuedRefreshIsTheChildsAsWell) {
  std::vector<Task> tasks;
  hooks_.executor = [&](Task task) { tasks.push_back(std::move(task)); };
  Renew();
  cache_->Set(1, "old");
  EXPECT_TRUE(cache_->Refresh(1));
  EXPECT_TRUE(HoldsInChild([&] {
    std::exchange(tasks, {})[0]();
    return cache_->Get(1) == "reloaded" && cache_->Refresh(1);
  }));
  tasks[0]();
  EXPECT_EQ(cache_->Get(1), "reloaded");
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadWaitersTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadHeirsTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadInterleavingTest,
                         testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadWaitTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadForkTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
