// Snapshots: what comes back after a restart, whatever happened to the file.

#include "wheelcache/cache/snapshot/snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/failing_allocations.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

// Has one of the system calls of a save fail, or kills the process in it.
struct SystemCalls {
  int left = std::numeric_limits<int>::max();  // That go well.
  bool kill = false;
  std::function<void()> before_flock;
};
SystemCalls calls;

bool Fails() {
  if (calls.left-- > 0) return false;
  calls.left = std::numeric_limits<int>::max();
  if (calls.kill) kill(getpid(), SIGKILL);
  errno = EIO;
  return true;
}

}  // namespace
}  // namespace wheelcache

extern "C" {
int __real_open(const char* path, int flags, mode_t mode);
int __wrap_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return wheelcache::Fails() ? -1 : __real_open(path, flags, mode);
}
int __real_flock(int file, int operation);
int __wrap_flock(int file, int operation) {
  if (auto call = std::exchange(wheelcache::calls.before_flock, nullptr)) {
    call();
  }
  return wheelcache::Fails() ? -1 : __real_flock(file, operation);
}
int __real_ftruncate(int file, off_t size);
int __wrap_ftruncate(int file, off_t size) {
  return wheelcache::Fails() ? -1 : __real_ftruncate(file, size);
}
// Writes and reads halves, as a system may; before it fails as well.
ssize_t __real_write(int file, const void* bytes, size_t size);
ssize_t __wrap_write(int file, const void* bytes, size_t size) {
  const ssize_t written = __real_write(file, bytes, (size + 1) / 2);
  return wheelcache::Fails() ? -1 : written;
}
ssize_t __real_pread(int file, void* bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int file, void* bytes, size_t size, off_t offset) {
  if (wheelcache::Fails()) return -1;
  return __real_pread(file, bytes, (size + 1) / 2, offset);
}
int __real_fsync(int file);
int __wrap_fsync(int file) {
  return wheelcache::Fails() ? -1 : __real_fsync(file);
}
int __real_rename(const char* from, const char* to);
int __wrap_rename(const char* from, const char* to) {
  return wheelcache::Fails() ? -1 : __real_rename(from, to);
}
}

namespace wheelcache {

inline std::ostream& operator<<(std::ostream& out, const LoadedSnapshot& it) {
  return out << it.stored << " stored, " << it.present << " present, "
             << it.expired << " expired, " << it.refused << " refused, "
             << it.status;
}

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Strings = Cache<std::string, std::string>;

MATCHER_P2(HasStatus, code, text, "") {
  *result_listener << arg;
  return arg.code() == code && absl::StrContains(arg.message(), text);
}

std::string Padded(int number, size_t size) {
  std::string text = absl::StrCat(number, "-");
  text.resize(std::max(size, text.size()), 'x');
  return text;
}

// A cache before a restart and one after it, with other clocks, and the wall
// clock that both see.
class SnapshotTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  SnapshotTest() {
    later_.AdvanceTo(absl::Hours(1000));
    snapshot_.wall_clock = [this] { return wall_; };
  }

  template <typename Key, typename Value>
  std::unique_ptr<Cache<Key, Value>> Restarted() {
    CacheOptions options = options_;
    options.clock = &later_;
    return *Cache<Key, Value>::Create(options);
  }

  template <typename CacheType, typename... Codec>
  std::string Saved(CacheType& cache, const Codec&... codec) {
    std::string bytes;
    const auto append = [&](absl::string_view more) {
      bytes.append(more.data(), more.size());
      return absl::OkStatus();
    };
    absl::StatusOr<SavedSnapshot> saved;
    if constexpr (sizeof...(codec) == 0) {
      saved = SaveSnapshot(cache, append, {}, snapshot_);
    } else {
      saved = SaveSnapshot(cache, append, codec..., snapshot_);
    }
    EXPECT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved.value_or(SavedSnapshot()).bytes,
              static_cast<int64_t>(bytes.size()));
    return bytes;
  }

  template <typename CacheType,
            typename Codec = typename internal::SnapshotOf<CacheType>::Codec>
  absl::StatusOr<LoadedSnapshot> Load(absl::string_view bytes, CacheType& cache,
                                      const Codec& codec = {}) {
    const auto read = [&](int64_t offset, absl::Span<char> to) {
      EXPECT_LE(static_cast<size_t>(offset) + to.size(), bytes.size());
      std::memcpy(to.data(), bytes.data() + offset, to.size());
      return absl::OkStatus();
    };
    return LoadSnapshot(cache, {static_cast<int64_t>(bytes.size()), read},
                        codec, snapshot_);
  }

  // As Load, where something comes of it.
  template <typename CacheType, typename... Codec>
  LoadedSnapshot Loaded(absl::string_view bytes, CacheType& cache,
                        const Codec&... codec) {
    absl::StatusOr<LoadedSnapshot> loaded = Load(bytes, cache, codec...);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.value_or(LoadedSnapshot());
  }

  SimulatedClock later_;
  absl::Time wall_ = absl::FromUnixSeconds(1'700'000'000);
  SnapshotOptions snapshot_;
};

INSTANTIATE_TEST_SUITE_P(Policies, SnapshotTest, testing::EachPolicy());

template <typename CacheType>
auto ContentsOf(CacheType& cache) {
  std::map<std::string, std::string> contents;
  cache.ForEach([&](const auto& handle) {
    contents.emplace(handle.key(), handle.value());
    return true;
  });
  return contents;
}

// Promise: A restart may be warm
TEST_P(SnapshotTest, WhatWasSavedComesBackWithWhatIsLeftOfItsLife) {
  std::mt19937 random(GetParam().advise ? 1 : 2);
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    auto cache = New<std::string, std::string>();
    struct Life {
      std::string value;
      absl::Duration deadline;
    };
    std::map<std::string, Life> model;
    for (int i = 0; i < 3000; ++i) {
      const std::string key =
          Padded(static_cast<int>(random() % 1000), random() % 40);
      const size_t size = random() % 50 == 0 ? 100'000 : random() % 300;
      const std::string value = Padded(i, size);
      const absl::Duration ttl = random() % 5 == 0
                                     ? absl::InfiniteDuration()
                                     : absl::Nanoseconds(1 + random());
      cache->Set(key, value, ttl);
      model[key] = {value, clock_.Now() + ttl};
      if (random() % 7 == 0) {
        cache->Del(key);
        model.erase(key);
      }
      clock_.Advance(absl::Microseconds(100));
    }
    const absl::Duration saved_at = clock_.Now();
    const std::string bytes = Saved(*cache);
    const absl::Duration down = absl::Milliseconds(500);
    wall_ += down;
    auto restarted = Restarted<std::string, std::string>();
    const LoadedSnapshot loaded = Loaded(bytes, *restarted);
    EXPECT_TRUE(loaded.status.ok()) << loaded.status;
    int64_t living = 0;
    for (const auto& [key, life] : model) {
      const absl::Duration left = life.deadline - saved_at - down;
      if (left <= absl::ZeroDuration()) {
        EXPECT_EQ(restarted->Get(key), std::nullopt);
        continue;
      }
      ++living;
      EXPECT_EQ(restarted->Get(key), life.value);
      EXPECT_EQ(restarted->TimeToLive(key), left);
    }
    EXPECT_EQ(restarted->size(), living);
    EXPECT_EQ(loaded.stored, living);
    EXPECT_TRUE(restarted->CheckInvariants().ok());
  }
}

// The last nanosecond of a life is loaded, and nothing after it.
TEST_P(SnapshotTest, WhatExpiresMeanwhileIsNotLoaded) {
  options_.jitter = 0;
  auto cache = New<std::string, std::string>();
  cache->Set("early", "1", absl::Seconds(5));
  cache->Set("late", "2", absl::Seconds(5) + absl::Nanoseconds(1));
  const std::string bytes = Saved(*cache);
  wall_ += absl::Seconds(5);
  auto restarted = Restarted<std::string, std::string>();
  const LoadedSnapshot loaded = Loaded(bytes, *restarted);
  EXPECT_EQ(loaded.expired, 1);
  EXPECT_EQ(loaded.stored, 1);
  EXPECT_TRUE(loaded.status.ok()) << loaded.status;
  EXPECT_EQ(restarted->TimeToLive("late"), absl::Nanoseconds(1));
}

TEST_P(SnapshotTest, WhatExpiresWhileItIsLoadedCountsAsExpired) {
  options_.jitter = 0;
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 100; ++i) {
    cache->Set(absl::StrCat(i), Padded(i, 9000), absl::Seconds(5));
  }
  const std::string bytes = Saved(*cache);
  auto restarted = Restarted<std::string, std::string>();
  int64_t in_time = 0;
  snapshot_.progress = [&](const SnapshotProgress& progress) {
    if (in_time == 0) {
      in_time = progress.entries;
      later_.Advance(absl::Seconds(5));
    }
    return true;
  };
  const LoadedSnapshot loaded = Loaded(bytes, *restarted);
  EXPECT_EQ(loaded.stored, in_time);
  EXPECT_EQ(loaded.expired, 100 - in_time);
  EXPECT_EQ(loaded.refused, 0);
  EXPECT_TRUE(loaded.status.ok()) << loaded.status;
}

// Nor does it where the clocks move on while the snapshot is read.
TEST_P(SnapshotTest, NoLifeGrowsByTheTimeThatSavingAndLoadingTake) {
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 100; ++i) {
    cache->Set(absl::StrCat(i), "x", absl::Hours(1));
  }
  const auto both_pass = [this](SimulatedClock* clock) {
    return [this, clock] {
      clock->Advance(absl::Seconds(1));
      return wall_ += absl::Seconds(1);
    };
  };
  snapshot_.wall_clock = both_pass(&clock_);
  snapshot_.progress = [this](const SnapshotProgress&) {
    clock_.Advance(absl::Seconds(10));
    wall_ += absl::Seconds(10);
    return true;
  };
  const absl::Time ends =
      wall_ + absl::Hours(1);  // By the wall clock, if it were asked.
  const std::string bytes = Saved(*cache);
  auto restarted = Restarted<std::string, std::string>();
  snapshot_.wall_clock = both_pass(&later_);
  snapshot_.progress = nullptr;
  EXPECT_EQ(Loaded(bytes, *restarted).stored, 100);
  EXPECT_LE(*restarted->TimeToLive("7"), ends - wall_);
  EXPECT_GE(*restarted->TimeToLive("7"), ends - wall_ - absl::Seconds(3));
}

TEST_P(SnapshotTest, AWallClockThatWentBackShortensLives) {
  auto cache = New<std::string, std::string>();
  cache->Set("short", "1", absl::Seconds(5));
  cache->Set("long", "2", absl::Seconds(50));
  cache->Set("endless", "3");
  const std::string bytes = Saved(*cache);
  wall_ -= absl::Seconds(10);
  auto restarted = Restarted<std::string, std::string>();
  EXPECT_EQ(Loaded(bytes, *restarted).expired, 1);
  EXPECT_EQ(restarted->TimeToLive("long"), absl::Seconds(40));
  EXPECT_EQ(restarted->TimeToLive("endless"), absl::InfiniteDuration());
}

// Nor does a life that ends before the saving began, by a cache's clock that
// was turned back meanwhile, become endless.
TEST_P(SnapshotTest, ACachesClockThatWentBackMakesNoLifeEndless) {
  struct TurnedClock : Clock {
    int64_t NowNanos() const override { return now; }
    int64_t now = 1'000'000'000'000;
  };
  TurnedClock clock;
  options_.clock = &clock;
  auto cache = New<std::string, std::string>();
  clock.now -= 10'000'000'000;
  cache->Set("key", "value", absl::Seconds(1));
  clock.now += 10'000'000'000;
  snapshot_.progress = [&](const SnapshotProgress& progress) {
    if (progress.entries == 0) clock.now -= 10'000'000'000;
    return true;
  };
  const std::string bytes = Saved(*cache);
  snapshot_.progress = nullptr;
  wall_ += absl::Nanoseconds(1);
  auto restarted = Restarted<std::string, std::string>();
  EXPECT_EQ(Loaded(bytes, *restarted).expired, 1);
}

// A session lives on as it would have: it ends by its TTL, and for want of use.
TEST_P(SnapshotTest, AnIdleTtlGoesOnWhereItWas) {
  options_.idle_ttl = absl::Seconds(64);
  auto cache = New<std::string, std::string>();
  cache->Set("used", "1", absl::Seconds(300));
  cache->Set("unused", "2");
  cache->Set("short", "3", absl::Seconds(30));
  cache->Set("gone", "4");
  clock_.Advance(absl::Seconds(20));
  cache->Get("used");
  cache->Get("unused");
  const std::string bytes = Saved(*cache);
  for (const absl::Duration down : {absl::Seconds(0), absl::Seconds(50)}) {
    SCOPED_TRACE(down);
    wall_ += down;
    const absl::Duration saved = later_.Now() - down;
    auto restarted = Restarted<std::string, std::string>();
    const bool all = down == absl::ZeroDuration();
    EXPECT_EQ(Loaded(bytes, *restarted).expired, all ? 0 : 2);
    EXPECT_EQ(restarted->Contains("short"), all);
    EXPECT_EQ(restarted->Contains("gone"), all);
    // Loading was no use.
    EXPECT_EQ(restarted->TimeToLive("unused"), absl::Seconds(64) - down);
    // Uses extend it up to what was its TTL.
    for (int second = 60; second < 280; second += 50) {
      later_.AdvanceTo(saved + absl::Seconds(second));
      EXPECT_TRUE(restarted->Get("used").has_value()) << second;
    }
    EXPECT_FALSE(restarted->Contains("unused"));
    later_.AdvanceTo(saved + absl::Seconds(280) - absl::Nanoseconds(2));
    EXPECT_TRUE(restarted->Contains("used"));
    later_.AdvanceTo(saved + absl::Seconds(280));
    EXPECT_FALSE(restarted->Contains("used"));
  }
}

// Of a cache without an idle TTL, and for one.
TEST_P(SnapshotTest, AnIdleTtlMayComeAndGo) {
  auto without = New<std::string, std::string>();
  without->Set("a", "1", absl::Seconds(100));
  without->Set("b", "2");
  const std::string bytes = Saved(*without);
  options_.idle_ttl = absl::Seconds(10);
  auto with = Restarted<std::string, std::string>();
  EXPECT_EQ(Loaded(bytes, *with).stored, 2);
  EXPECT_EQ(with->TimeToLive("a"), absl::Seconds(10));
  EXPECT_EQ(with->TimeToLive("b"), absl::Seconds(10));
  EXPECT_EQ(with->Find("b").HardTimeToLive(), absl::InfiniteDuration());
  EXPECT_EQ(with->Find("a").HardTimeToLive(), absl::Seconds(100));
  options_.clock = &later_;
  auto other = New<std::string, std::string>();
  other->Set("c", "3", absl::Seconds(100));
  const std::string more = Saved(*other);
  options_.idle_ttl = absl::InfiniteDuration();
  without = Restarted<std::string, std::string>();
  EXPECT_EQ(Loaded(more, *without).stored, 1);
  EXPECT_EQ(without->TimeToLive("c"), absl::Seconds(100));
}

TEST_P(SnapshotTest, JitterVariesNoLifeOnceMore) {
  options_.jitter = 1;
  options_.jitter_seed = 7;
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 50; ++i) {
    cache->Set(absl::StrCat(i), "x", absl::Seconds(100));
  }
  auto restarted = Restarted<std::string, std::string>();
  Loaded(Saved(*cache), *restarted);
  for (int i = 0; i < 50; ++i) {
    const std::string key = absl::StrCat(i);
    EXPECT_EQ(restarted->TimeToLive(key), cache->TimeToLive(key));
  }
}

TEST_P(SnapshotTest, ALiveValueInTheCacheIsNewerAndStays) {
  auto cache = New<std::string, std::string>();
  for (const char* key : {"new", "expired", "absent"}) {
    cache->Set(key, "old", absl::Hours(1));
  }
  const std::string bytes = Saved(*cache);
  auto restarted = Restarted<std::string, std::string>();
  restarted->Set("new", "new", absl::Seconds(1));
  restarted->Set("expired", "new", absl::Seconds(1));
  later_.Advance(absl::Milliseconds(500));
  restarted->Set("new", "new", absl::Seconds(1));
  later_.Advance(absl::Milliseconds(500));
  const LoadedSnapshot loaded = Loaded(bytes, *restarted);
  EXPECT_EQ(loaded.present, 1);
  EXPECT_EQ(loaded.stored, 2);
  EXPECT_EQ(restarted->Get("new"), "new");
  EXPECT_EQ(restarted->TimeToLive("new"), absl::Milliseconds(500));
  EXPECT_EQ(restarted->Get("expired"), "old");
}

TEST_P(SnapshotTest, LimitsHoldAndAnEntryThatIsTooLargeIsRefused) {
  options_.shards = 1;
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 100; ++i) cache->Set(absl::StrCat(i), Padded(i, 100));
  cache->Set("large", std::string(50'000, 'l'));
  const std::string bytes = Saved(*cache);
  options_.max_entries = 10;
  options_.max_bytes = 20'000;
  auto restarted = Restarted<std::string, std::string>();
  snapshot_.progress = [&](const SnapshotProgress&) {
    EXPECT_LE(restarted->size(), 10);
    EXPECT_LE(restarted->bytes(), 20'000);
    return true;
  };
  const LoadedSnapshot loaded = Loaded(bytes, *restarted);
  EXPECT_EQ(loaded.stored, 100);
  EXPECT_EQ(loaded.refused, 1);
  EXPECT_EQ(restarted->size(), 10);
}

class SnapshotOrderTest : public SnapshotTest {
 protected:
  // The keys of a cache in the order in which it would evict them.
  static std::vector<int> OrderOf(Cache<int, int>& cache) {
    std::vector<int> order;
    while (cache.size() > 1) {
      std::set<int> before;
      cache.ForEach([&](const auto& handle) {
        before.insert(handle.key());
        return true;
      });
      EXPECT_TRUE(cache.SetLimits(cache.size() - 1, kUnlimited).ok());
      cache.ForEach([&](const auto& handle) {
        before.erase(handle.key());
        return true;
      });
      order.insert(order.end(), before.begin(), before.end());
    }
    return order;
  }
};

INSTANTIATE_TEST_SUITE_P(Lru, SnapshotOrderTest,
                         ::testing::Values(testing::PolicySetup{
                             EvictionPolicy::kLru, false}));

TEST_P(SnapshotOrderTest, WithOneShardTheOrderOfUseIsExact) {
  options_.shards = 1;
  auto cache = New<int, int>();
  std::mt19937 random(3);
  for (int key = 0; key < 500; ++key) cache->Set(key, key);
  for (int i = 0; i < 1000; ++i) {
    // Most uses are of few keys.
    cache->Get(static_cast<int>(random() % (1 + random() % 500)));
  }
  const std::string bytes = Saved(*cache);
  auto restarted = Restarted<int, int>();
  EXPECT_EQ(Loaded(bytes, *restarted).stored, 500);
  EXPECT_EQ(OrderOf(*restarted), OrderOf(*cache));
}

// Not only within a block, and not only among shards of one age.
// In one run of a hundred a restart loses more than one value of a hundred, as
// chance puts keys into shards; in five together it does not.
TEST_P(SnapshotOrderTest, OfManyShardsTheLongestUnusedStayOut) {
  constexpr int kRuns = 5;
  constexpr int kKeys = 8000;
  options_.shards = 16;
  int used = 0;
  int used_without = 0;
  for (int run = 0; run < kRuns; ++run) {
    options_.max_entries = kUnlimited;
    auto cache = New<int, std::string>();
    const int first = run * 100'000;  // Other keys are in other shards.
    const auto set = [&](int key) {
      cache->Set(first + key, std::string(300, 'x'));
    };
    for (int key = 0; key < kKeys; ++key) set(key);
    // Shards are unlike each other: some keys are stored very often.
    for (int i = 0; i < 50'000; ++i) set(i % 700);
    // Every fourth is used; the hits begin a generation only now and then.
    for (int round = 0; round < 3; ++round) {
      for (int key = 0; key < kKeys; key += 4) cache->Get(first + key);
      for (int key = 0; key < kKeys / 8; ++key) set(kKeys + key);
    }
    const std::string bytes = Saved(*cache);
    options_.max_entries = kKeys / 2;
    auto restarted = Restarted<int, std::string>();
    Loaded(bytes, *restarted);
    ASSERT_TRUE(cache->SetLimits(options_.max_entries, kUnlimited).ok());
    for (int key = 0; key < kKeys; key += 4) {
      used += restarted->Contains(first + key) ? 1 : 0;
      used_without += cache->Contains(first + key) ? 1 : 0;
    }
  }
  constexpr int kUsed = kRuns * kKeys / 4;
  EXPECT_GT(used_without, kUsed * 9 / 10);
  EXPECT_GT(used, used_without - kUsed / 100);
}

// How many of the requests of a trace hit in the time after its middle, with a
// restart there or without. Zipf's, with other popular keys now and then.
class SnapshotTraceTest : public SnapshotTest {
 protected:
  enum class Restart { kNone, kWarm, kCold };

  double HitRatio(Restart restart) {
    constexpr int kBefore = 60'000;
    constexpr int kAfter = 20'000;
    constexpr int kKeys = 50'000;
    options_.max_entries = 5000;
    auto cache = New<int, int>();
    std::mt19937 random(11);
    int hits = 0;
    for (int i = 0; i < kBefore + kAfter; ++i) {
      if (i == kBefore) {
        hits = 0;
        const std::string bytes = Saved(*cache);
        if (restart != Restart::kNone) cache = Restarted<int, int>();
        if (restart == Restart::kWarm) Loaded(bytes, *cache);
      }
      const double uniform = std::uniform_real_distribution<>(0, 1)(random);
      const int rank = static_cast<int>(std::pow(kKeys, uniform));
      const int key = (rank * 7919 + i / 25'000 * 300) % kKeys;
      if (cache->Get(key).has_value()) {
        ++hits;
      } else {
        cache->Set(key, i);
      }
    }
    return 100.0 * hits / kAfter;
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, SnapshotTraceTest, testing::EachPolicy());

// With one list in one shard it costs nothing. With more, each run is another,
// by the seeds of hashes; and a scan-resistant cache forgets the keys that it
// has evicted.
TEST_P(SnapshotTraceTest, AWarmRestartCostsHardlyAHit) {
  const bool is_lru = GetParam().policy == EvictionPolicy::kLru;
  options_.shards = 1;
  const double without = HitRatio(Restart::kNone);
  EXPECT_GE(HitRatio(Restart::kWarm), without - (is_lru ? 0 : 1.5));
  EXPECT_LT(HitRatio(Restart::kCold), HitRatio(Restart::kWarm) - 0.5);
  options_.shards = 16;
  EXPECT_GE(HitRatio(Restart::kWarm), without - (is_lru ? 0.5 : 1.5));
}

// The form.

TEST_P(SnapshotTest, TheChecksumIsThatOfZlib) {
  EXPECT_EQ(internal::Crc32(""), 0u);
  EXPECT_EQ(internal::Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(internal::Crc32("The quick brown fox jumps over the lazy dog"),
            0x414FA339u);
}

// A snapshot's parts, as cache/snapshot/snapshot_format.h describes them.
struct RawBlock {
  uint32_t rank;
  std::string contents;

  std::string bytes() const {
    std::string body;
    const auto append = [&body](uint32_t number) {
      body.append(reinterpret_cast<const char*>(&number), sizeof(number));
    };
    append(static_cast<uint32_t>(contents.size()));
    append(rank);
    body += contents;
    const uint32_t crc = internal::Crc32(body);
    return std::string(reinterpret_cast<const char*>(&crc), sizeof(crc)) + body;
  }
};

std::vector<RawBlock> BlocksOf(absl::string_view bytes) {
  std::vector<RawBlock> blocks;
  while (!bytes.empty()) {
    uint32_t head[3];
    std::memcpy(head, bytes.data(), sizeof(head));
    blocks.push_back({head[2], std::string(bytes.substr(12, head[1]))});
    EXPECT_EQ(blocks.back().bytes(), bytes.substr(0, 12 + head[1]));
    bytes.remove_prefix(12 + head[1]);
  }
  return blocks;
}

std::string Joined(const std::vector<RawBlock>& blocks) {
  std::string bytes;
  for (const RawBlock& block : blocks) bytes += block.bytes();
  return bytes;
}

TEST_P(SnapshotTest, TheFileIsATenthLargerThanWhatItHoldsAtMost) {
  auto cache = New<std::string, std::string>();
  size_t held = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = Padded(i, 20);
    const std::string value = Padded(i, 70);
    held += key.size() + value.size();
    cache->Set(key, value, absl::Minutes(5) + absl::Nanoseconds(i));
  }
  const std::string bytes = Saved(*cache);
  EXPECT_LE(bytes.size(), held + held / 10);
  for (const RawBlock& block : BlocksOf(bytes)) {
    EXPECT_LE(block.contents.size(), 64 << 10);
  }
}

TEST_P(SnapshotTest, ASnapshotOfSomethingElseIsRefusedInWords) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value");
  const std::string bytes = Saved(*cache);
  auto numbers = Restarted<std::string, int64_t>();
  EXPECT_THAT(
      Load(bytes, *numbers).status(),
      HasStatus(
          absl::StatusCode::kFailedPrecondition,
          "of format 1, codec string to string, version 1; this cache "
          "loads format 1, codec string to integer of 64 bits, version 1"));
  EXPECT_EQ(numbers->size(), 0);
  std::vector<RawBlock> blocks = BlocksOf(bytes);
  blocks[0].contents.replace(blocks[0].contents.find("format 1"), 8,
                             "format 2");
  EXPECT_THAT(Load(Joined(blocks), *cache).status(),
              HasStatus(absl::StatusCode::kFailedPrecondition, "of format 2"));
  for (const char* other : {"", "#!/bin/sh", "a text that is long enough"}) {
    EXPECT_THAT(Load(other, *cache).status(),
                HasStatus(absl::StatusCode::kInvalidArgument,
                          "this is no snapshot of a cache"));
  }
  std::string broken = bytes;
  broken[20] ^= 1;
  EXPECT_THAT(Load(broken, *cache).status(),
              HasStatus(absl::StatusCode::kDataLoss, "checksum"));
}

// Of a crash, of a full disk.
TEST_P(SnapshotTest, OfATruncatedSnapshotTheWholeBlocksAreLoaded) {
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 40; ++i) cache->Set(absl::StrCat(i), Padded(i, 9000));
  const std::string bytes = Saved(*cache);
  const std::vector<RawBlock> blocks = BlocksOf(bytes);
  ASSERT_GE(blocks.size(), 5u);
  size_t whole = blocks[0].bytes().size();
  for (size_t i = 1; i + 1 < blocks.size(); ++i) {
    const size_t next = whole + blocks[i].bytes().size();
    for (const size_t size : {whole, whole + 1, whole + 12, next - 1}) {
      auto restarted = Restarted<std::string, std::string>();
      const LoadedSnapshot loaded = Loaded(bytes.substr(0, size), *restarted);
      EXPECT_THAT(loaded.status,
                  HasStatus(absl::StatusCode::kDataLoss,
                            absl::StrCat("the block at byte ", whole)));
      EXPECT_EQ(loaded.stored, restarted->size());
      int64_t before = 0;
      for (size_t j = 1; j < i; ++j) {
        before += static_cast<int64_t>(blocks[j].contents.size()) / 9000;
      }
      EXPECT_EQ(loaded.stored, before);
    }
    whole = next;
  }
}

TEST_P(SnapshotTest, NoBrokenByteIsLoaded) {
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 30; ++i) cache->Set(absl::StrCat(i), Padded(i, i));
  const auto contents = ContentsOf(*cache);
  const std::string bytes = Saved(*cache);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ (1 << at % 8));
    auto restarted = Restarted<std::string, std::string>();
    const absl::StatusOr<LoadedSnapshot> loaded = Load(broken, *restarted);
    EXPECT_FALSE(loaded.ok() && loaded->status.ok()) << at;
    for (const auto& [key, value] : ContentsOf(*restarted)) {
      EXPECT_EQ(contents.at(key), value);
    }
  }
}

TEST_P(SnapshotTest, ABrokenBlockCostsNoOther) {
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 100; ++i) cache->Set(absl::StrCat(i), Padded(i, 9000));
  std::string bytes = Saved(*cache);
  bytes[20'000] ^= 1;
  auto restarted = Restarted<std::string, std::string>();
  const LoadedSnapshot loaded = Loaded(bytes, *restarted);
  EXPECT_THAT(loaded.status,
              HasStatus(absl::StatusCode::kDataLoss, "checksum"));
  EXPECT_EQ(loaded.stored, 93);
}

// The checksums are right; what they say is not.
TEST_P(SnapshotTest, ForgedLengthsAndCountsAreNotTrusted) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value", absl::Hours(1));
  const std::vector<RawBlock> blocks = BlocksOf(Saved(*cache));
  ASSERT_EQ(blocks.size(), 3u);
  const auto load = [&](const std::vector<RawBlock>& forged) {
    auto restarted = Restarted<std::string, std::string>();
    const LoadedSnapshot loaded = Loaded(Joined(forged), *restarted);
    EXPECT_EQ(restarted->size(), loaded.stored);
    return loaded;
  };
  const std::string endless(20, '\xFF');
  const std::string huge = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
  for (const std::string& entry :
       {endless, huge, std::string("\3"), std::string("\3\5"),
        std::string("\3\5\0", 3), std::string("\3\6\0keyvalue", 11),
        huge + "\5" + std::string("\0keyvalue", 9),
        "\3" + huge + std::string("\0keyvalue", 9)}) {
    std::vector<RawBlock> forged = blocks;
    forged[1].contents += entry;
    const LoadedSnapshot loaded = load(forged);
    EXPECT_EQ(loaded.stored, 1);
    EXPECT_THAT(loaded.status,
                HasStatus(absl::StatusCode::kDataLoss, "has half an entry"));
  }
  std::vector<RawBlock> forged = blocks;
  forged[2].contents[0] = 5;
  EXPECT_THAT(load(forged).status,
              HasStatus(absl::StatusCode::kDataLoss,
                        "has 1 entries, and its trailer says 5"));
  forged[2].contents = "5";
  EXPECT_THAT(load(forged).status, HasStatus(absl::StatusCode::kDataLoss, ""));
  // The longest life, a time before all others and one after them.
  forged = blocks;
  forged[1].contents = "\1\1" + huge + "kv";
  EXPECT_EQ(load(forged).stored, 1);
  for (const int64_t time : {std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max()}) {
    forged = blocks;
    std::string header;
    for (auto left = static_cast<uint64_t>(time); left != 0; left >>= 7) {
      header.push_back(static_cast<char>(left | 0x80));
    }
    header.back() &= 0x7F;
    forged[0].contents.replace(0, 9, header);
    EXPECT_EQ(load(forged).expired, 1);
  }
}

TEST_P(SnapshotTest, ALargeEntryGetsABlockAndAVeryLargeOneIsLeftOut) {
  struct HugeCodec : SnapshotCodec<int, int> {
    static void EncodeValue(int value, std::string* bytes) {
      bytes->resize(static_cast<size_t>(value));
    }
    static absl::StatusOr<int> DecodeValue(absl::string_view bytes) {
      return static_cast<int>(bytes.size());
    }
  };
  auto cache = New<int, int>();
  cache->Set(1, 10);
  cache->Set(2, 200'000);
  cache->Set(3, 256 << 20);
  std::string bytes;
  const auto append = [&](absl::string_view more) {
    bytes.append(more.data(), more.size());
    return absl::OkStatus();
  };
  auto saved = SaveSnapshot(*cache, append, HugeCodec(), snapshot_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->entries, 2);
  EXPECT_EQ(saved->left_out, 1);
  auto restarted = Restarted<int, int>();
  EXPECT_EQ(Loaded(bytes, *restarted, HugeCodec()).stored, 2);
  EXPECT_EQ(restarted->Get(2), 200'000);
}

// Codecs.

struct Message {
  bool SerializeToString(std::string* bytes) const {
    *bytes = text;
    return true;
  }
  bool ParseFromString(const std::string& bytes) {
    text = bytes;
    return bytes != "bad";
  }
  std::string text;
};

TEST_P(SnapshotTest, StringsNumbersAndMessagesNeedNoCodec) {
  const auto expect_back = [&](auto key, auto value, const char* name) {
    using Key = decltype(key);
    using Value = decltype(value);
    auto cache = New<Key, Value>();
    cache->Set(key, value);
    EXPECT_EQ((SnapshotCodec<Key, Value>::name()), name);
    auto restarted = Restarted<Key, Value>();
    EXPECT_EQ(Loaded(Saved(*cache), *restarted).stored, 1) << name;
    EXPECT_EQ(restarted->Get(key), value) << name;
  };
  expect_back(std::string(), std::string("\0x", 2), "string to string");
  expect_back(int8_t{-3}, true, "integer of 8 bits to integer of 8 bits");
  expect_back('c', false, "integer of 8 bits to integer of 8 bits");
  expect_back(uint16_t{65'535}, -0.25f,
              "integer of 16 bits to float of 32 bits");
  expect_back(-1, 1e300, "integer of 32 bits to float of 64 bits");
  expect_back(std::numeric_limits<uint64_t>::max(), int64_t{-1},
              "integer of 64 bits to integer of 64 bits");
  auto cache = New<int, Message>();
  cache->Set(1, Message{"hello"});
  cache->Set(2, Message{"bad"});
  auto restarted = Restarted<int, Message>();
  const LoadedSnapshot loaded = Loaded(Saved(*cache), *restarted);
  EXPECT_EQ(restarted->Get(1)->text, "hello");
  EXPECT_EQ(loaded.refused, 1);
  EXPECT_THAT(loaded.status, HasStatus(absl::StatusCode::kDataLoss,
                                       "must be a serialized message"));
}

TEST_P(SnapshotTest, AnotherVersionOfACodecIsRefused) {
  struct Codec : SnapshotCodec<std::string, std::string> {
    static std::string name() { return "mine"; }
    uint32_t version() const { return number; }
    uint32_t number = 1;
  };
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value");
  Codec codec;
  const std::string bytes = Saved(*cache, codec);
  codec.number = 2;
  EXPECT_THAT(Load(bytes, *cache, codec).status(),
              HasStatus(absl::StatusCode::kFailedPrecondition,
                        "codec mine, version 1; this cache loads format 1, "
                        "codec mine, version 2"));
}

TEST_P(SnapshotTest, ANumberOfAnotherSizeIsRefused) {
  EXPECT_THAT(
      (SnapshotCodec<int, int>::DecodeKey("123").status()),
      HasStatus(absl::StatusCode::kDataLoss, "must be a number of 4 bytes"));
}

// A codec with state, a value that can only be moved, a hash, a weigher.
TEST_P(SnapshotTest, ACacheOfAnyKindMayBeSaved) {
  using Pointer = std::unique_ptr<int>;
  struct PointerCodec : SnapshotCodec<std::string, Pointer> {
    std::string name() const { return "pointer"; }
    void EncodeValue(const Pointer& value, std::string* bytes) const {
      absl::StrAppend(bytes, *value + offset);
    }
    absl::StatusOr<Pointer> DecodeValue(absl::string_view bytes) const {
      return std::make_unique<int>(std::stoi(std::string(bytes)) - offset);
    }
    int offset = 7;
  };
  struct OneHash {
    size_t operator()(std::string_view) const { return 42; }
  };
  using Pointers = Cache<std::string, Pointer, OneHash>;
  Pointers::Hooks hooks;
  hooks.weigher = [](std::string_view, const Pointer&) { return 1000; };
  options_.max_bytes = 20'000;
  auto cache = *Pointers::Create(options_, hooks);
  const std::string empty = Saved(*cache, PointerCodec());
  EXPECT_EQ(Loaded(empty, *cache, PointerCodec()).stored, 0);
  for (int i = 0; i < 40; ++i) {
    cache->Set(absl::StrCat(i), std::make_unique<int>(i));
  }
  const std::string bytes = Saved(*cache, PointerCodec());
  const int64_t size = cache->size();
  cache->Clear();
  EXPECT_EQ(Loaded(bytes, *cache, PointerCodec()).stored, size);
  EXPECT_EQ(cache->size(), size);
  EXPECT_EQ(**cache->Find("39"), 39);
}

// As a server may, to go on meanwhile.
TEST_P(SnapshotTest, AChildOfForkMaySave) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value");
  EXPECT_TRUE(testing::HoldsInChild(
      [&] { return BlocksOf(Saved(*cache)).size() == 3; }));
}

// While others go on.

TEST_P(SnapshotTest, WhatLivesThroughoutIsSavedOnceWhateverElseHappens) {
  options_.shards = 4;
  options_.maintenance_budget = 3;
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 400; ++i) cache->Set(Padded(i, 1), Padded(i, 2000));
  int next = 400;
  // Between all blocks the tables grow.
  snapshot_.progress = [&](const SnapshotProgress&) {
    for (int i = 0; i < 500; ++i, ++next) cache->Set(Padded(next, 1), "new");
    cache->Get("7-");
    return true;
  };
  const std::string bytes = Saved(*cache);
  snapshot_.progress = nullptr;
  auto restarted = Restarted<std::string, std::string>();
  const LoadedSnapshot loaded = Loaded(bytes, *restarted);
  EXPECT_EQ(loaded.present, 0);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(restarted->Get(Padded(i, 1)), Padded(i, 2000));
  }
}

TEST_P(SnapshotTest, ThreadsMaySetAndReadMeanwhile) {
  options_.max_entries = 3000;
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 1000; ++i) cache->Set(Padded(i, 1), Padded(i, 1));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (int i = 0; !stop; ++i) {
      cache->Get(Padded(i % 1000, 1));
      cache->Set(Padded(1000 + i % 1000, 1), Padded(1000 + i % 1000, 1));
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::string bytes = Saved(*cache);
    auto restarted = Restarted<std::string, std::string>();
    const LoadedSnapshot loaded = Loaded(bytes, *restarted);
    EXPECT_GE(loaded.stored, 1000);
    EXPECT_TRUE(loaded.status.ok()) << loaded.status;
    EXPECT_EQ(Loaded(bytes, *cache).refused, 0);
    for (const auto& [key, value] : ContentsOf(*restarted)) {
      EXPECT_EQ(key, value);
    }
  }
  stop = true;
  other.join();
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_P(SnapshotTest, ProgressComesWithEachBlockAndMayEndIt) {
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 100; ++i) cache->Set(absl::StrCat(i), Padded(i, 9000));
  std::vector<SnapshotProgress> told;
  snapshot_.progress = [&](const SnapshotProgress& progress) {
    told.push_back(progress);
    return true;
  };
  const std::string bytes = Saved(*cache);
  const size_t blocks = BlocksOf(bytes).size();
  EXPECT_EQ(told.size(), blocks);
  EXPECT_EQ(told.back().entries, 100);
  EXPECT_EQ(told.back().bytes, static_cast<int64_t>(bytes.size()));
  told.clear();
  auto restarted = Restarted<std::string, std::string>();
  Loaded(bytes, *restarted);
  EXPECT_EQ(told.size(), blocks - 2);
  EXPECT_EQ(told.back().entries, 100);
  EXPECT_GT(told.back().bytes, 900'000);
  snapshot_.progress = [](const SnapshotProgress& progress) {
    return progress.entries == 0;
  };
  restarted = Restarted<std::string, std::string>();
  const LoadedSnapshot some = Loaded(bytes, *restarted);
  EXPECT_THAT(some.status, HasStatus(absl::StatusCode::kCancelled, "progress"));
  EXPECT_EQ(some.stored, restarted->size());
  EXPECT_LT(some.stored, 10);
  const auto sink = [](absl::string_view) { return absl::OkStatus(); };
  EXPECT_THAT(SaveSnapshot(*cache, sink, {}, snapshot_).status(),
              HasStatus(absl::StatusCode::kCancelled, "progress"));
}

// Files.

class SnapshotFileTest : public SnapshotTest {
 protected:
  SnapshotFileTest() : cache_(New<std::string, std::string>()) {
    for (int i = 0; i < 20; ++i) cache_->Set(absl::StrCat(i), Padded(i, 9000));
  }
  ~SnapshotFileTest() override {
    calls = {};
    unlink(path_.c_str());
    unlink(part_.c_str());
    unlink(other_.c_str());
  }

  absl::StatusOr<SavedSnapshot> Save() {
    return SaveSnapshotFile(*cache_, path_, {}, snapshot_);
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::unique_ptr<Strings> cache_;
  const std::string path_ = ::testing::TempDir() + "users.snapshot";
  const std::string part_ = path_ + ".part";
  const std::string other_ = path_ + ".other";
};

INSTANTIATE_TEST_SUITE_P(Lru, SnapshotFileTest,
                         ::testing::Values(testing::PolicySetup{
                             EvictionPolicy::kLru, false}));

TEST_P(SnapshotFileTest, SavesAndLoadsAFileForItsOwnerAlone) {
  ASSERT_TRUE(Save().ok());
  struct stat file;
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, mode_t{0600});
  EXPECT_NE(access(part_.c_str(), F_OK), 0);
  auto restarted = Restarted<std::string, std::string>();
  auto loaded = LoadSnapshotFile(*restarted, path_, {}, snapshot_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->status.ok()) << loaded->status;
  EXPECT_EQ(ContentsOf(*restarted), ContentsOf(*cache_));
}

TEST_P(SnapshotFileTest, AFirstStartFindsNone) {
  EXPECT_THAT(LoadSnapshotFile(*cache_, path_).status(),
              HasStatus(absl::StatusCode::kNotFound, path_));
  EXPECT_THAT(SaveSnapshotFile(*cache_, "/no/such/folder/x").status(),
              HasStatus(absl::StatusCode::kNotFound, "/no/such/folder/x.part"));
}

// What a crash has left is overwritten, not appended to.
TEST_P(SnapshotFileTest, ACrashLeavesNothingThatDisturbs) {
  std::ofstream(part_) << std::string(1'000'000, 'x');
  ASSERT_TRUE(Save().ok());
  EXPECT_EQ(BytesOf(path_), Saved(*cache_));
}

// Promise: A restart may be warm
TEST_P(SnapshotFileTest, KilledAtAnyStepItLeavesTheOldFileOrTheNewOne) {
  ASSERT_TRUE(Save().ok());
  const std::string before = BytesOf(path_);
  cache_->Set("new", "value");
  const std::string after = Saved(*cache_);
  bool was_before = false;
  bool was_after = false;
  bool ended = false;
  for (int step = 0; !ended; ++step) {
    const pid_t child = fork();
    if (child == 0) {
      calls = {step, /*kill=*/true, nullptr};
      _exit(Save().ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ended = WIFEXITED(status);
    ASSERT_TRUE(ended || WTERMSIG(status) == SIGKILL);
    const std::string bytes = BytesOf(path_);
    (bytes == after ? was_after : was_before) = true;
    EXPECT_TRUE(bytes == before || bytes == after) << step;
    if (was_after && !ended) {  // Once more, from the old one.
      std::ofstream(path_, std::ios::binary) << before;
    }
  }
  EXPECT_TRUE(was_before);
  EXPECT_TRUE(was_after);
}

TEST_P(SnapshotFileTest, AnErrorAtAnyStepLeavesTheOldFileAndNothingElse) {
  ASSERT_TRUE(Save().ok());
  const std::string before = BytesOf(path_);
  cache_->Set("new", "value");
  absl::StatusOr<SavedSnapshot> saved;
  std::vector<std::string> steps;
  for (int step = 0;; ++step) {
    calls = {step, /*kill=*/false, nullptr};
    saved = Save();
    calls = {};
    if (saved.ok()) break;
    EXPECT_EQ(saved.status().code(), absl::ErrnoToStatusCode(EIO));
    steps.emplace_back(
        saved.status().message().substr(0, saved.status().message().find(' ')));
    // Without the lock, it may be another's.
    EXPECT_EQ(access(part_.c_str(), F_OK) == 0,
              absl::StartsWith(saved.status().message(), "flock"))
        << saved.status();
    // Once it is in its place, all that can fail is to bring that to the disk.
    if (BytesOf(path_) != before) {
      EXPECT_FALSE(absl::StrContains(saved.status().message(), ".part"));
    }
  }
  // The bytes before the name, and that before the end.
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  EXPECT_THAT(steps, ElementsAre("open", "flock", "ftruncate", "write", "fsync",
                                 "rename", "open", "fsync"));
}

TEST_P(SnapshotFileTest, AnErrorWhileReadingIsTold) {
  ASSERT_TRUE(Save().ok());
  bool loaded_some = false;
  for (int step = 0;; ++step) {
    auto restarted = Restarted<std::string, std::string>();
    calls = {step, /*kill=*/false, nullptr};
    auto loaded = LoadSnapshotFile(*restarted, path_, {}, snapshot_);
    calls = {};
    if (loaded.ok() && loaded->status.ok()) break;
    const absl::Status status = loaded.ok() ? loaded->status : loaded.status();
    EXPECT_EQ(status.code(), absl::ErrnoToStatusCode(EIO)) << status;
    loaded_some = loaded_some || (loaded.ok() && loaded->stored > 0);
  }
  EXPECT_TRUE(loaded_some);
}

TEST_P(SnapshotFileTest, OnlyOneSaveAtATimeWritesToAFile) {
  absl::Status second;
  snapshot_.progress = [&](const SnapshotProgress&) {
    if (second.ok()) second = SaveSnapshotFile(*cache_, path_).status();
    return true;
  };
  ASSERT_TRUE(Save().ok());
  EXPECT_THAT(second,
              HasStatus(absl::StatusCode::kUnavailable, "another save"));
  snapshot_.progress = nullptr;
  EXPECT_TRUE(Save().ok());
}

// Between open and flock, another save has brought that file to its place.
TEST_P(SnapshotFileTest, ASaveThatWasOvertakenWritesToAFileOfItsOwn) {
  ASSERT_TRUE(Save().ok());
  const std::string bytes = BytesOf(path_);
  struct stat before;
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  calls.before_flock = [&] {
    ASSERT_EQ(rename(part_.c_str(), other_.c_str()), 0);
  };
  ASSERT_TRUE(Save().ok());
  EXPECT_EQ(BytesOf(path_), bytes);
  EXPECT_EQ(BytesOf(other_), "");
  struct stat other;
  struct stat after;
  ASSERT_EQ(stat(other_.c_str(), &other), 0);
  ASSERT_EQ(stat(path_.c_str(), &after), 0);
  EXPECT_NE(other.st_ino, after.st_ino);
}

TEST_P(SnapshotFileTest, WithoutMemoryTheOldFileStays) {
  ASSERT_TRUE(Save().ok());
  const std::string before = BytesOf(path_);
  cache_->Set("new", "value");
  const std::string after = Saved(*cache_);
  testing::WithEachAllocationFailing(
      [&] { (void)Save(); },
      [&](bool thrown) {
        EXPECT_NE(access(part_.c_str(), F_OK), 0);
        const std::string bytes = BytesOf(path_);
        EXPECT_TRUE(bytes == after || (thrown && bytes == before));
      });
  auto restarted = Restarted<std::string, std::string>();
  testing::WithEachAllocationFailing(
      [&] { (void)LoadSnapshotFile(*restarted, path_, {}, snapshot_); },
      [&](bool) { EXPECT_TRUE(restarted->CheckInvariants().ok()); });
  EXPECT_EQ(ContentsOf(*restarted), ContentsOf(*cache_));
}

}  // namespace
}  // namespace wheelcache
