// Legal uses of near caches that are not the usual ones: codecs that throw or
// call back, values of any type and size, forks, threads, strange clocks.

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/fake_server.h"
#include "wheelcache/cache/near/fake_store.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/tests/cache/near/near_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

class NearUsesTest : public NearEnvironment {};

struct ThrowingCodec {
  std::string Encode(const std::string& value) const {
    if (value == "throw") throw std::runtime_error("cannot be encoded");
    return value;
  }
  absl::StatusOr<std::string> Decode(absl::string_view bytes) const {
    if (bytes == "bad") throw std::runtime_error("cannot be decoded");
    return std::string(bytes);
  }
};

TEST_F(NearUsesTest, CodecThatThrowsLeavesNoKeyStuck) {
  auto near = New<std::string, ThrowingCodec>();
  server_.Set("key", "bad");
  EXPECT_THROW((void)near->Get("key"), std::runtime_error);
  EXPECT_THROW((void)near->GetMany({"other", "key"}), std::runtime_error);
  EXPECT_THROW((void)near->Set("key", "throw"), std::runtime_error);
  server_.Set("key", "good");
  EXPECT_EQ(*near->Get("key"), "good");
  EXPECT_EQ(*near->Get("other"), std::nullopt);
}

// Reads another key of the same near cache while it decodes.
struct CallingCodec {
  std::string Encode(const std::string& value) const { return value; }
  absl::StatusOr<std::string> Decode(absl::string_view bytes) const {
    if (bytes != "see other") return std::string(bytes);
    const auto other = (*near)->Get("other");
    if (!other.ok()) return other.status();
    return other->value_or("");
  }
  NearCache<std::string, CallingCodec>** near;
};

TEST_F(NearUsesTest, CodecMayReadTheNearCache) {
  NearCache<std::string, CallingCodec>* self = nullptr;
  auto near = New<std::string, CallingCodec>({&self});
  self = near.get();
  server_.Set("key", "see other");
  server_.Set("other", "found");
  EXPECT_EQ(*near->Get("key"), "found");
}

struct Wide {
  std::vector<int64_t> numbers;
  friend bool operator==(const Wide& a, const Wide& b) {
    return a.numbers == b.numbers;
  }
};
struct WideCodec {
  std::string Encode(const Wide& value) const {
    return std::string(value.numbers.size(), 'x');
  }
  absl::StatusOr<Wide> Decode(absl::string_view bytes) const {
    return Wide{std::vector<int64_t>(bytes.size(), 7)};
  }
};

TEST_F(NearUsesTest, ValuesOwnMemory) {
  auto near = New<Wide, WideCodec>();
  const Wide wide{std::vector<int64_t>(10'000, 7)};
  EXPECT_TRUE(near->Set("key", wide).ok());
  EXPECT_EQ(*near->Get("key"), wide);
  EXPECT_EQ(*near->Get("key"), wide);
  EXPECT_EQ(fetches(), 1);
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
}

// A type with the interface of a protocol buffer.
struct Message {
  bool SerializeToString(std::string* bytes) const {
    *bytes = "m" + text;
    return true;
  }
  bool ParseFromString(const std::string& bytes) {
    if (bytes.empty() || bytes[0] != 'm') return false;
    text = bytes.substr(1);
    return true;
  }
  std::string text;
};

TEST_F(NearUsesTest, MessagesNeedNoCodec) {
  auto near = New<Message>();
  EXPECT_TRUE(near->Set("key", Message{"hello"}).ok());
  EXPECT_EQ((**near->Get("key")).text, "hello");
  server_.Set("key", "?");
  EXPECT_TRUE(absl::IsDataLoss(near->Get("key").status()));
}

TEST_F(NearUsesTest, NumbersKeepTheirRange) {
  auto near = New<uint64_t>();
  EXPECT_TRUE(near->Set("key", std::numeric_limits<uint64_t>::max()).ok());
  EXPECT_EQ(*near->Get("key"), std::numeric_limits<uint64_t>::max());
  server_.Set("key", "-1");
  EXPECT_TRUE(absl::IsDataLoss(near->Get("key").status()));
  server_.Set("key", "");
  EXPECT_TRUE(absl::IsDataLoss(near->Get("key").status()));
}

TEST_F(NearUsesTest, BytesOfAllKindsPass) {
  auto near = New<std::string>();
  const std::string key("k\0\n\xff", 4);
  const std::string value("\0\r\n\xff", 4);
  EXPECT_TRUE(near->Set(key, value).ok());
  EXPECT_EQ(*near->Get(key), value);
  EXPECT_EQ(*near->Get(key), value);
  EXPECT_EQ(*near->Get(""), std::nullopt);
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearUsesTest, ValueThatIsTooLargeForTheLocalTierIsFetchedEachTime) {
  options_.local.max_bytes = 100'000;
  auto near = New<std::string>();
  const std::string large(200'000, 'x');
  EXPECT_TRUE(near->Set("key", large).ok());
  EXPECT_EQ(*near->Get("key"), large);
  EXPECT_EQ(*near->Get("key"), large);
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearUsesTest, OneEntryIsRoomEnough) {
  options_.local.max_entries = 1;
  auto near = New<std::string>();
  server_.Set("a", "1");
  server_.Set("b", "2");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*near->Get("a"), "1");
    EXPECT_EQ(*near->Get("b"), "2");
    EXPECT_EQ(*near->GetMany({"a", "b"})[1], "2");
  }
}

TEST_F(NearUsesTest, ClocksMayStartAnywhere) {
  for (const absl::Duration start :
       {-absl::Hours(24 * 365 * 200), absl::Hours(24 * 365 * 200)}) {
    SimulatedClock clock(start);
    FakeServer server(&clock);
    FakeStore store(&server);
    options_.local.clock = &clock;
    auto near = *NearCache<std::string>::Create(options_, &store);
    server.Set("key", "old", absl::Seconds(10));
    EXPECT_EQ(*near->Get("key"), "old");
    EXPECT_EQ(*near->Get("key"), "old");
    EXPECT_EQ(near->stats().local_hits, 1);
    store.LoseMessages();
    server.Set("key", "new");
    clock.Advance(options_.max_staleness);
    EXPECT_EQ(*near->Get("key"), "new");
  }
}

// A value whose end calls the near cache that it was in, also on the thread
// that tells of a write.
struct Caller {
  explicit Caller(std::function<void()>* call) : call(call) {}
  ~Caller() {
    if (*call) (*call)();
  }
  std::function<void()>* call;
};
struct CallerCodec {
  std::string Encode(const std::shared_ptr<Caller>&) const { return "x"; }
  absl::StatusOr<std::shared_ptr<Caller>> Decode(absl::string_view) const {
    return std::make_shared<Caller>(call);
  }
  std::function<void()>* call;
};

TEST_F(NearUsesTest, DestructorsOfValuesMayCallTheNearCacheAndTheServer) {
  std::function<void()> call;
  int calls = 0;
  {
    auto near = New<std::shared_ptr<Caller>, CallerCodec>({&call});
    call = [&] {
      if (++calls > 3) return;
      (void)near->Get("other");
      server_.Set("key", "again");
      (void)near->stats();
    };
    server_.Set("key", "x");
    EXPECT_TRUE(near->Get("key").ok());
    server_.Set("key", "y");
    EXPECT_TRUE(near->Get("key").ok());
    RunFor(absl::Seconds(1));
    EXPECT_GT(calls, 0);
    calls = 100;
  }
  call = nullptr;
}

TEST_F(NearUsesTest, ChildOfForkHasNoSessionUntilItIsGivenOne) {
  auto near = New<std::string>();
  server_.Set("key", "value");
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_TRUE(testing::HoldsInChild([&] {
    const absl::Status ready = near->WaitUntilReady(absl::Hours(1));
    return absl::IsFailedPrecondition(ready) &&
           near->stats().lease_left == absl::ZeroDuration();
  }));
}

// Threads of all kinds on one key, on a server with a thread of its own. Each
// thread sees versions that never go back.
TEST_F(NearUsesTest, ManyThreadsSeeVersionsThatNeverGoBack) {
  SimulatedClock clock;
  Reaper reaper(clock);
  FakeServer server(&clock, &reaper);
  FakeStore store(&server);
  options_.local.clock = &clock;
  auto near = *NearCache<int64_t>::Create(options_, &store);
  server.Set("key", "0");
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      int64_t seen = 0;
      for (int64_t n = 0; !done; ++n) {
        const auto value =
            i == 2 && n % 8 == 0 ? near->GetFresh("key") : near->Get("key");
        if (!value.ok()) continue;
        ASSERT_GE(**value, seen);
        seen = **value;
      }
    });
  }
  for (int64_t version = 1; version <= 300; ++version) {
    if (version % 3 == 0) {
      ASSERT_TRUE(near->Set("key", version).ok());
      ASSERT_EQ(*near->Get("key"), version);
    } else {
      server.Set("key", absl::StrCat(version));
      ASSERT_EQ(*near->Get("key"), version);
    }
    if (version % 50 == 0) store.Disconnect();
    if (version % 10 == 0) clock.RunFor(absl::Milliseconds(100));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace wheelcache
