// What calls see that others overtake, at one point of the engine each time in
// the same way, and what threads see while others write, time passes, entries
// leave and limits change.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/spin_barrier.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/testing/validated_values.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

// Each test has one thing happen at one point of the engine.
class CacheInterleavingTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  // Has another thread call `call`, which comes to the lock of a shard and
  // waits there until this thread lets go of it; or which has come to its end
  // without.
  void CallBesides(std::function<void()> call) {
    std::atomic<bool> goes_on{false};
    other_ = std::thread([&goes_on, call = std::move(call)] {
      At("read: before the lock", [&] { goes_on.store(true); });
      call();
      if (!std::exchange(testing::interruption, {}).point.empty()) {
        goes_on.store(true);
      }
    });
    while (!goes_on.load()) std::this_thread::yield();
  }
  void WaitForTheOther() { other_.join(); }

 private:
  std::thread other_;
};

TEST_P(CacheInterleavingTest, TouchDoesNotReviveWhatWasSeenToBeExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("touch: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(cache->Get(1), std::nullopt);
  });
  EXPECT_FALSE(cache->Touch(1, absl::Hours(1)));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// The thread of Touch holds the lock, so that whoever finds the value expired
// has to wait for the new deadline.
TEST_P(CacheInterleavingTest, NobodySeesAValueExpireThatATouchHasFoundAlive) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  std::optional<int> seen;
  At("touch: between clock and deadline", [&] {
    clock_.Advance(absl::Seconds(1));
    CallBesides([&] { seen = cache->Get(1); });
  });
  EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
  WaitForTheOther();
  EXPECT_EQ(seen, 10);
}

TEST_P(CacheInterleavingTest, TimeToLiveIsThatOfAValueTouchedMeanwhile) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("time to live: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->TimeToLive(1), absl::Hours(1) - absl::Seconds(1));
}

// Promise: Each call takes effect at one instant
TEST_P(CacheInterleavingTest, GetFindsWhatReplacedAValueBeforeItExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock", [&] {
    cache->Set(1, 11);
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), 11);
}

TEST_P(CacheInterleavingTest, GetFindsWhatWasTouchedBeforeItExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), 10);
}

TEST_P(CacheInterleavingTest, GetReturnsNothingThatExpiresWhileItLooks) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock",
     [&] { clock_.Advance(absl::Seconds(1)); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_P(CacheInterleavingTest, GetReturnsWhatIsDeletedAfterItWasFound) {
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  At("read: between index and deadline", [&] {
    EXPECT_TRUE(cache->Del(1));
    cache->Set(2, "two");
  });
  EXPECT_EQ(cache->Get(1), "one");
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_P(CacheInterleavingTest, FindManyFindsWhatCameSinceItPrefetched) {
  auto cache = New<int, int>();
  for (int key = 0; key < 5; ++key) cache->Set(key, 10);
  At("find many: after it has prefetched", [&] {
    cache->Clear();
    cache->Set(3, 11);
  });
  Cache<int, int>::Handle handles[5];
  EXPECT_EQ(cache->FindMany({0, 1, 2, 3, 4}, absl::MakeSpan(handles)), 1U);
  EXPECT_EQ(*handles[3], 11);
}

TEST_P(CacheInterleavingTest, GetNeverReturnsTheValueOfAnotherKey) {
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  At("index: between tag and cell", [&] {
    EXPECT_TRUE(cache->Del(1));
    for (int key = 2; key < 100; ++key) cache->Set(key, "another");
  });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// Puts all keys into one bucket of the index and those that follow it.
struct OneHash {
  size_t operator()(int) const { return 0; }
};

// A read that meets what was made after it began must begin anew. Otherwise the
// value is destroyed under its eyes as soon as the read counts as stalled.
class ReadProtectsTest : public CacheInterleavingTest {
 protected:
  using Value = std::shared_ptr<int>;

  template <typename CacheType>
  void Renew(CacheType& cache, int key) {
    auto value = std::make_shared<int>(key);
    watched_ = value;
    cache.Set(key, std::move(value));
  }

  // Visits a key that is renewed meanwhile; the last value stays until then.
  template <typename CacheType>
  void ExpectProtected(CacheType& cache, int key) {
    EXPECT_TRUE(cache.Visit(key, [&](const Value&) {
      cache.Del(key);
      for (int i = 0; i < 40; ++i) {  // More collections than make a stall.
        cache.Set(-1, nullptr);
        cache.RunMaintenance();
      }
      EXPECT_FALSE(watched_.expired());
    }));
    cache.RunMaintenance();
    EXPECT_TRUE(watched_.expired());
  }

  std::weak_ptr<int> watched_;
};

TEST_P(ReadProtectsTest, WhatWasMadeAfterItBegan) {
  constexpr int kKeys = 14;  // Two more than a bucket has room for.
  for (const int visited : {0, kKeys - 1}) {
    for (int look = 1; look <= visited + 1; ++look) {
      auto cache = *Cache<int, Value, OneHash>::Create(options_);
      for (int key = 0; key < kKeys; ++key) cache->Set(key, nullptr);
      AtNth("index: between tag and cell", look, [&] {
        internal::AdvanceBirth();
        for (int key = 0; key < kKeys; ++key) {
          if (key != visited) cache->Set(key, std::make_shared<int>(key));
          if (key == visited) Renew(*cache, key);
        }
      });
      ExpectProtected(*cache, visited);
    }
  }
}

TEST_P(ReadProtectsTest, WhatWasMadeAfterItBeganAnew) {
  auto cache = New<int, Value>();
  cache->Set(1, nullptr);
  const auto renew = [&] {
    internal::AdvanceBirth();
    Renew(*cache, 1);
  };
  At("index: between tag and cell", [&] {
    renew();
    At("index: between tag and cell", renew);
  });
  ExpectProtected(*cache, 1);
}

TEST_P(CacheInterleavingTest, SetOvertakenByADelStillExpires) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("store: between clock and lock", [&] { EXPECT_TRUE(cache->Del(1)); });
  cache->Set(1, 11, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
}

TEST_P(CacheInterleavingTest, SetCountsItsTtlFromWhenItWasCalled) {
  auto cache = New<int, int>();
  At("store: between clock and lock",
     [&] { clock_.Advance(absl::Milliseconds(600)); });
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->TimeToLive(1), absl::Milliseconds(400));
}

TEST_P(CacheInterleavingTest, DelOvertakenByASetTakesTheNewValue) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("remove: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    cache->Set(1, 11);
  });
  EXPECT_TRUE(cache->Del(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// One shard is empty already, another one not yet.
TEST_P(CacheInterleavingTest, ReadersSeeAllOrNothingOfAClear) {
  constexpr int kKeys = 16;
  options_.shards = 2;
  auto cache = New<int, int>();
  for (int key = 0; key < kKeys; ++key) cache->Set(key, key);
  bool missed = false;
  bool hit_after_a_miss = false;
  const auto read_all_twice = [&] {
    for (int i = 0; i < 2 * kKeys; ++i) {
      const bool hit = cache->Get(i % kKeys).has_value();
      hit_after_a_miss = hit_after_a_miss || (missed && hit);
      missed = missed || !hit;
    }
  };
  const auto before_the_second_shard = [&] { CallBesides(read_all_twice); };
  At("clear: before a shard is emptied",
     [&] { At("clear: before a shard is emptied", before_the_second_shard); });
  cache->Clear();
  WaitForTheOther();
  EXPECT_TRUE(missed);
  EXPECT_FALSE(hit_after_a_miss);
}

// For ThreadSanitizer. The flag is relaxed, so that it orders nothing that the
// lock does not.
TEST_P(CacheInterleavingTest, UseOfAnEntryThatHasLeftDoesNotLookAtItsLinks) {
  options_.shards = 1;  // Where nothing but the last one used is young.
  auto cache = New<int, int>();
  for (int key = 0; key < 3; ++key) cache->Set(key, key);
  std::atomic<bool> unlocked{false};
  std::thread deleter;
  At("read: between index and deadline", [&] {
    deleter = std::thread([&] {
      At("limbo: before an entry is added",
         [&] { unlocked.store(true, std::memory_order_relaxed); });
      EXPECT_TRUE(cache->Del(1));
    });
    while (!unlocked.load(std::memory_order_relaxed)) std::this_thread::yield();
  });
  EXPECT_EQ(cache->Get(1), 1);
  deleter.join();
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Two look through limbo at a time: the reaper finds nothing there while the
// other has it in hand, and has to be told of what that one puts back.
TEST_P(CacheInterleavingTest, ReaperComesForWhatMaintenancePutBackIntoLimbo) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  using CacheType = Cache<int, std::shared_ptr<int>>;
  const std::function<void(CacheType*)> others[] = {
      [](CacheType* cache) { cache->RunMaintenance(); },
      [](CacheType* cache) {
        EXPECT_TRUE(cache->SetLimits(1, kUnlimited).ok());
      },
  };
  for (const auto& other : others) {
    auto cache = New<int, std::shared_ptr<int>>();
    auto value = std::make_shared<int>(7);
    cache->Set(1, value);
    cache->Set(2, nullptr);
    cache->Set(3, nullptr);
    cache->Visit(2, [&](const auto&) {
      cache->Del(1);
      clock_.RunFor(absl::Seconds(1));
      At("limbo: between the epoch's end and the scan of readers",
         [&] { clock_.RunFor(absl::Seconds(1)); });
      other(cache.get());
    });
    EXPECT_EQ(value.use_count(), 2);
    clock_.RunFor(absl::Seconds(1));
    EXPECT_EQ(value.use_count(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheInterleavingTest,
                         testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, ReadProtectsTest, testing::EachPolicy());

// At the comparison of a key, which a read makes without a lock.

// Runs what a test wants to happen, on another thread, in the thread's next
// comparison.
struct InterruptedEqual {
  static inline thread_local std::function<void()> interruption;
  bool operator()(int a, int b) const {
    if (interruption) std::thread(std::exchange(interruption, {})).join();
    return a == b;
  }
};

using RaceCache = Cache<int, int, DefaultHash<int>, InterruptedEqual>;

class CacheRaceTest : public CacheEnvironment {
 protected:
  std::unique_ptr<RaceCache> NewCache() { return *RaceCache::Create(options_); }
};

TEST_F(CacheRaceTest, ValueReplacedDuringAReadIsStillWhole) {
  auto cache = NewCache();
  cache->Set(1, 10);
  InterruptedEqual::interruption = [&] {
    for (int i = 0; i < 1'000; ++i) cache->Set(1, 20);
    cache->RunMaintenance();
  };
  EXPECT_EQ(cache->Get(1), 10);
}

TEST_F(CacheRaceTest, IndexThatGrowsDuringAReadIsStillWhole) {
  auto cache = NewCache();
  cache->Set(1, 10);
  InterruptedEqual::interruption = [&] {
    for (int key = 2; key < 10'000; ++key) cache->Set(key, 20);
    cache->RunMaintenance();
  };
  EXPECT_EQ(cache->Get(1), 10);
}

TEST_F(CacheRaceTest, ReadGoesOnInTheIndexThatHasGrownMeanwhile) {
  auto cache = *Cache<int, int, OneHash, InterruptedEqual>::Create(options_);
  for (int key = 0; key < 5; ++key) cache->Set(key, 10 * key);
  for (int key = 0; key < 5; ++key) {
    InterruptedEqual::interruption = [&] {
      for (int i = 0; i < 100; ++i) cache->Set(100 * (key + 1) + i, 1);
      cache->RunMaintenance();
    };
    EXPECT_EQ(cache->Get(key), 10 * key);
    EXPECT_EQ(cache->Get(-1), std::nullopt);
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheRaceTest, LastOfManyHandlesDestroysTheValueWhereverItIs) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 200; ++round) {
    auto cache = New<int, std::shared_ptr<int>>();
    const auto value = std::make_shared<int>(round);
    cache->Set(1, value);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([round, handle = cache->Find(1)]() mutable {
        EXPECT_EQ(**handle, round);
        handle = {};
      });
    }
    // Some handles go before it, some after it, some at the same time.
    cache = nullptr;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(value.use_count(), 1);
  }
}

// An equality that, in the one thread that asks for it, first calls a function:
// under the lock of the shard, since a Set compares keys under it.
thread_local std::function<void()>* under_lock = nullptr;

struct WatchedEqual {
  bool operator()(int a, int b) const {
    if (under_lock != nullptr) (*under_lock)();
    return a == b;
  }
};

// Promise: Hits take no lock
// A hit, or a miss, that waited for the lock would here wait for ever.
TEST_F(CacheRaceTest, HitTakesNoLock) {
  options_.shards = 1;
  for (const bool advise : {false, true}) {
    options_.advise = advise;
    auto cache =
        *Cache<int, int, DefaultHash<int>, WatchedEqual>::Create(options_);
    for (int i = 0; i < 10; ++i) cache->Set(i, i);
    int calls = 0;
    std::function<void()> read = [&] {
      ++calls;
      std::thread reader([&] {
        for (int i = 0; i < 10; ++i) {
          EXPECT_EQ(cache->Get(i), i);
          EXPECT_EQ(*cache->Find(i), i);
          CacheHandle<int, int> handle;
          cache->FindMany({i}, absl::MakeSpan(&handle, 1));
          EXPECT_EQ(*handle, i);
          EXPECT_TRUE(cache->Visit(i, [i](int v) { EXPECT_EQ(v, i); }));
          EXPECT_EQ(cache->Peek(i), i);
          EXPECT_TRUE(cache->Contains(i));
          EXPECT_TRUE(cache->TimeToLive(i).has_value());
        }
        EXPECT_FALSE(cache->Get(10).has_value());
      });
      reader.join();
    };
    under_lock = &read;
    cache->Set(3, 33);
    under_lock = nullptr;
    EXPECT_GT(calls, 0);
    EXPECT_EQ(cache->Get(3), 33);
  }
}

// Random calls, with values that validate themselves.

constexpr int kKeys = 60;
constexpr int kWriters = 3;
constexpr int kReaders = 4;  // Eight threads, with the one of the clock.

// Threads that write, read and let time pass, in one cache. Each key has one
// writer, so that its versions follow one another. `Make` is one of
// tests/testing/validated_values.h.
template <typename Value, typename Make>
class Storm {
 public:
  using CacheType = Cache<uint64_t, Value>;

  Storm(CacheOptions options, SimulatedClock* clock, uint64_t operations)
      : clock_(*clock),
        operations_(operations),
        cache_(std::move(*CacheType::Create(std::move(options)))) {}

  void Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) {
      threads.emplace_back([this, i] { Write(i); });
    }
    for (int i = 0; i < kReaders; ++i) {
      threads.emplace_back([this, i] { Read(i); });
    }
    threads.emplace_back([this] { LetTimePass(); });
    for (std::thread& thread : threads) thread.join();
    cache_->Stop();
    const absl::Status invariants = cache_->CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    const absl::Status memory = testing::CheckMemory(cache_.get());
    EXPECT_TRUE(memory.ok()) << memory;
    const CacheStats stats = cache_->stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.deletes + stats.evictions +
                              stats.expirations + stats.replaced);
  }

 private:
  // What one thread has seen of each key.
  class Witness {
   public:
    explicit Witness(const SimulatedClock& clock) : clock_(clock) {}

    // Called before a read.
    void Begin() { begin_nanos_ = clock_.NowNanos(); }

    // Called with what the read found in the cache.
    void Saw(uint64_t key, const Stamp& stamp) {
      GotFromLoad(key, stamp);
      seen_[key] = stamp.version;
    }

    // Called with what came from the cache or from a load. The latter need not
    // have been in the cache: a load that a Del has overtaken returns its value
    // all the same, and the load that follows may have asked for the newest
    // version before that did.
    void GotFromLoad(uint64_t key, const Stamp& stamp) {
      EXPECT_EQ(stamp.key, key);
      EXPECT_GE(stamp.version, seen_[key]);
      EXPECT_GT(stamp.deadline_nanos, begin_nanos_);
    }

   private:
    const SimulatedClock& clock_;
    int64_t begin_nanos_ = 0;
    std::map<uint64_t, uint64_t> seen_;
  };

  // The newest version of the key, and a deadline for it. While `clock_mu_` is
  // held the time stands still, so that this is the deadline that it gets.
  Stamp NewStamp(uint64_t key, absl::Duration ttl) {
    return {key, versions_[key].load(),
            clock_.NowNanos() + absl::ToInt64Nanoseconds(ttl)};
  }

  void Write(int writer) {
    std::mt19937_64 random(writer);
    Witness witness(clock_);
    for (uint64_t i = 0; i < operations_; ++i) {
      const uint64_t key = random() % (kKeys / kWriters) * kWriters + writer;
      const auto ttl = absl::Milliseconds(1 + random() % 50);
      switch (random() % 8) {
        case 0:
          cache_->Del(key);
          break;
        case 1:  // Never to a later deadline than the value tells.
          cache_->Touch(key, absl::Nanoseconds(random() % 2));
          break;
        case 2:
          if (random() % 200 == 0) cache_->Clear();
          break;
        default: {
          ++versions_[key];
          std::shared_lock<std::shared_mutex> lock(clock_mu_);
          cache_->Set(key, Make::Make(NewStamp(key, ttl)), ttl);
        }
      }
      witness.Begin();
      cache_->Visit(key, [&](const auto& value) {
        witness.Saw(key, Make::Check(value));
      });
    }
  }

  void Read(int reader) {
    std::mt19937_64 random(100 + reader);
    Witness witness(clock_);
    typename CacheType::Handle handles[3];
    for (uint64_t i = 0; i < operations_; ++i) {
      const uint64_t key = random() % kKeys;
      witness.Begin();
      switch (random() % 8) {
        case 0:
        case 1:
          if (const auto value = cache_->Get(key)) {
            witness.Saw(key, Make::Check(*value));
          }
          break;
        case 2:
          if (const auto value = cache_->Peek(key)) {
            witness.Saw(key, Make::Check(*value));
          }
          break;
        case 3: {
          const uint64_t keys[] = {key, random() % kKeys, random() % kKeys};
          for (const auto& handle : handles) {
            // It shows what it did when it was found.
            if (!handle) continue;
            EXPECT_EQ(Make::Check(*handle).key, handle.key());
          }
          cache_->FindMany(keys, absl::MakeSpan(handles));
          for (size_t k = 0; k < std::size(keys); ++k) {
            if (handles[k]) witness.Saw(keys[k], Make::Check(*handles[k]));
          }
          break;
        }
        case 4:
          Load(key, &witness);
          break;
        default:
          cache_->Visit(key, [&](const auto& value) {
            witness.Saw(key, Make::Check(value));
          });
      }
    }
    ++readers_done_;
  }

  void Load(uint64_t key, Witness* witness) {
    const auto ttl = absl::Milliseconds(20);
    std::shared_lock<std::shared_mutex> lock(clock_mu_, std::defer_lock);
    const absl::StatusOr<Value> value = cache_->GetOrLoad(key, ttl, [&] {
      lock.lock();
      return absl::StatusOr<Value>(Make::Make(NewStamp(key, ttl)));
    });
    witness->GotFromLoad(key, Make::Check(*value));
  }

  void LetTimePass() {
    std::mt19937_64 random(200);
    while (readers_done_ < kReaders) {
      {
        std::unique_lock<std::shared_mutex> lock(clock_mu_);
        clock_.Advance(absl::Microseconds(random() % 2000));
      }
      if (random() % 8 == 0) testing::RequireRound(cache_.get());
      if (random() % 4 == 0) cache_->RunMaintenance(random() % 100);
      (void)cache_->stats();  // And with them the advice, if there is any.
    }
  }

  SimulatedClock& clock_;
  const uint64_t operations_;
  const std::unique_ptr<CacheType> cache_;
  std::shared_mutex clock_mu_;
  std::atomic<uint64_t> versions_[kKeys] = {};
  std::atomic<int> readers_done_{0};
};

class CacheThreadsTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  template <typename Value, typename Make>
  void RunStorms() {
    options_.max_entries = kKeys * 2 / 3;
    options_.reaper = &reaper_;
    options_.reclaim_delay = absl::Milliseconds(5);
    for (const int shards : {1, 8}) {
      options_.shards = shards;
      Storm<Value, Make>(options_, &clock_, TestOperations() / 40).Run();
    }
  }

  Reaper reaper_{clock_};
};

TEST_P(CacheThreadsTest, ReadersSeeWholeCurrentAndLiveObjects) {
  RunStorms<HeapValue, HeapValue>();
}

// Promise: Each call takes effect at one instant
TEST_P(CacheThreadsTest, ReadersSeeWholeCurrentAndLiveStrings) {
  RunStorms<std::string, StringValue>();
}

// ForEach and EraseIf while other threads write.

class ForEachThreadsTest : public CacheEnvironment {
 protected:
  using CacheType = Cache<uint64_t, std::string>;

  static constexpr uint64_t kStaying = 200;  // Keys that no thread removes.
  static constexpr uint64_t kKeys = 2000;
  static constexpr int kWriters = 2;

  // Sets, deletes and clears keys from kStaying on, and gives those below new
  // values, until `done`.
  void Write(int writer) {
    std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(writer));
    uint64_t version = static_cast<uint64_t>(writer);
    while (!done_.load()) {
      version += kWriters;
      const uint64_t key = random() % kKeys;
      if (key < kStaying) {
        if (key % kWriters == static_cast<uint64_t>(writer)) Set(key, version);
      } else if (version / 5000 % 2 == 0) {
        Set(key, version);  // The index grows, and then shrinks.
      } else {
        cache_->Del(key);
      }
    }
  }

  void Set(uint64_t key, uint64_t version) {
    cache_->Set(key, StringValue::Make({key, version, 1}));
  }

  // Returns the stamp of the value.
  static Stamp Check(const CacheType::Handle& handle) {
    const Stamp stamp = StringValue::Check(*handle);
    EXPECT_EQ(stamp.key, handle.key());
    return stamp;
  }

  void Start(int shards, int64_t budget) {
    options_.shards = shards;
    options_.maintenance_budget = budget;
    cache_ = New<uint64_t, std::string>();
    for (uint64_t key = 0; key < kStaying; ++key) Set(key, key % kWriters);
    done_ = false;
    for (int i = 0; i < kWriters; ++i) {
      threads_.emplace_back([this, i] { Write(i); });
    }
  }

  void Stop() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
    const CacheStats stats = cache_->stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.deletes + stats.replaced);
  }

  std::unique_ptr<CacheType> cache_;
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

// Promise: Every value is seen once
// A key that always has a value is shown with one of its values.
TEST_F(ForEachThreadsTest, WhatStaysIsShownWhoeverWrites) {
  for (const int shards : {1, 8}) {
    Start(shards, /*budget=*/8);
    std::map<uint64_t, uint64_t> newest;
    for (uint64_t i = 0; i < TestOperations() / 1000; ++i) {
      std::set<uint64_t> staying;
      std::set<uint64_t> versions;
      EXPECT_TRUE(cache_->ForEach([&](const auto& handle) {
        const Stamp stamp = Check(handle);
        if (stamp.key >= kStaying) {
          EXPECT_TRUE(versions.insert(stamp.version).second);
          return true;
        }
        EXPECT_TRUE(staying.insert(stamp.key).second) << stamp.key;
        EXPECT_GE(stamp.version, newest[stamp.key]);
        newest[stamp.key] = stamp.version;
        return true;
      }));
      ASSERT_EQ(staying.size(), kStaying);
    }
    Stop();
  }
}

// What it counts as removed is what the others miss in the end.
TEST_F(ForEachThreadsTest, EraseIfRemovesOnlyWhatItSaw) {
  for (const int shards : {1, 8}) {
    Start(shards, /*budget=*/8);
    int64_t erased = 0;
    // Longer if the other threads begin late.
    for (uint64_t i = 0; i < TestOperations() / 1000 || erased == 0; ++i) {
      std::set<uint64_t> seen;
      erased += cache_->EraseIf([&](const auto& handle) {
        const Stamp stamp = Check(handle);
        if (stamp.key < kStaying) return false;
        seen.insert(stamp.key);
        return stamp.version % 3 == 0;
      });
      for (uint64_t key = 0; key < kStaying; ++key) {
        ASSERT_TRUE(cache_->Contains(key));
      }
    }
    Stop();
  }
}

TEST_F(ForEachThreadsTest, EraseIfSupersedesBeforeItLooks) {
  auto cache = New<int, int>();
  cache->Set(1, 1);
  // Stored before the predicate's first call, or not at all.
  std::thread loader;
  testing::Notification loads;
  testing::Notification go_on;
  loader = std::thread([&] {
    EXPECT_EQ(*cache->GetOrLoad(2,
                                [&]() -> absl::StatusOr<int> {
                                  loads.Notify();
                                  go_on.Wait();
                                  return 3;
                                }),
              3);
  });
  loads.Wait();
  cache->EraseIf([&](const auto&) {
    if (loader.joinable()) {
      go_on.Notify();
      loader.join();
      EXPECT_FALSE(cache->Contains(2));
    }
    return true;
  });
  EXPECT_EQ(cache->size(), 0);
}

// Limits.

// The values are weights: an entry is charged its value and the overhead.
using WeightCache = Cache<int, int64_t>;

uint64_t Weigh(int /*key*/, int64_t weight) {
  return static_cast<uint64_t>(weight);
}

class CacheRoomThreadsTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  // Of two shards.
  static uint32_t ShardOf(int key) {
    return internal::HashKey<DefaultHash<int>>(key).for_shard % 2;
  }
};

// Promise: Hard limits
// What a Clear takes was in the cache at one instant.
TEST_P(CacheRoomThreadsTest, ClearTakesNoMoreThanTheLimits) {
  const int64_t overhead = OverheadOfAnEntry<int, int64_t>();
  constexpr int64_t kMaxEntries = 50;
  constexpr int kThreads = 3;
  constexpr int kSets = 4000;
  options_.max_entries = kMaxEntries;
  options_.max_bytes = 40 * (overhead + 50);
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    int64_t cleared_entries = 0;
    int64_t cleared_bytes = 0;
    const std::thread::id clearer = std::this_thread::get_id();
    WeightCache::Hooks hooks;
    hooks.weigher = &Weigh;
    hooks.on_removal = [&](int, int64_t weight, RemovalCause cause) {
      if (cause != RemovalCause::kDeleted) return;
      EXPECT_EQ(std::this_thread::get_id(), clearer);
      ++cleared_entries;
      cleared_bytes += overhead + weight;
    };
    auto cache = New<int, int64_t>(std::move(hooks));

    std::atomic<int> running{kThreads};
    std::vector<std::thread> setters;
    for (int t = 0; t < kThreads; ++t) {
      setters.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < kSets; ++i) {
          cache->Set(static_cast<int>(random() % 100), random() % 100);
        }
        --running;
      });
    }
    for (int i = 0; running > 0; ++i) {
      EXPECT_LE(cache->size(), kMaxEntries);
      EXPECT_LE(cache->bytes(), options_.max_bytes);
      if (i % 100 != 0) continue;
      cache->Clear();
      EXPECT_LE(std::exchange(cleared_entries, 0), kMaxEntries);
      EXPECT_LE(std::exchange(cleared_bytes, 0), options_.max_bytes);
    }
    for (std::thread& setter : setters) setter.join();
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

// Promise: Hard limits
// Each has evicted what its shard had, and needs what the other has in hand.
TEST_P(CacheRoomThreadsTest, OneOfTwoSetsThatWaitForEachOthersRoomLetsGo) {
  constexpr int64_t kWeight = 1000;
  const int64_t overhead = OverheadOfAnEntry<int, int64_t>();
  options_.shards = 2;
  options_.max_bytes = 2 * (overhead + kWeight);
  options_.maintenance_budget = 1;  // Evicts one at a time under the lock.
  WeightCache::Hooks hooks;
  hooks.weigher = &Weigh;
  auto cache = New<int, int64_t>(hooks);
  std::vector<int> keys[2];
  for (int key = 0; key < 100; ++key) keys[ShardOf(key)].push_back(key);
  for (const auto& of_shard : keys) cache->Set(of_shard[0], kWeight);
  SpinBarrier both_have_evicted(2);
  const auto set_all = [&](int key) {
    AtNth("store: between clock and lock", 2,
          [&] { both_have_evicted.Pass([] {}); });
    EXPECT_TRUE(cache->Set(key, 2 * kWeight + overhead));
  };
  std::thread other([&] { set_all(keys[1][1]); });
  set_all(keys[0][1]);
  other.join();
  EXPECT_EQ(cache->size(), 1);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}
// Writers, two threads that change the limits, and one that looks.
class SetLimitsThreadsTest : public testing::WithEachPolicy<CacheEnvironment> {
};

// Promise: Hard limits
TEST_P(SetLimitsThreadsTest, PresentLimitHoldsAtEveryInstant) {
  for (const int shards : {1, 8}) {
    options_.shards = shards;
    options_.max_entries = 1000;
    auto cache = New<int, int>();
    std::atomic<bool> done{false};
    // While it is even the limit falls, while it is odd it grows.
    std::atomic<uint64_t> phase{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(i));
        while (!done.load()) {
          cache->Set(static_cast<int>(random() % 5000), 1);
        }
      });
    }
    threads.emplace_back([&] {
      while (!done.load()) {
        const uint64_t before = phase.load();
        const int64_t first = cache->limits().entries;
        const int64_t size = cache->size();
        const int64_t last = cache->limits().entries;
        if (phase.load() != before) continue;
        EXPECT_LE(size, before % 2 == 0 ? first : last);
        EXPECT_GE(size, 0);
      }
    });
    std::mt19937_64 random(TestSeed());
    for (uint64_t i = 0; i < TestOperations() / 500; ++i) {
      const auto low = static_cast<int64_t>(1 + random() % 300);
      ASSERT_TRUE(cache->SetLimits(low, kUnlimited).ok());
      ASSERT_EQ(cache->limits().entries, low);
      ASSERT_LE(cache->size(), low);
      phase.fetch_add(1);
      ASSERT_TRUE(cache->SetLimits(1000, kUnlimited).ok());
      phase.fetch_add(1);
    }
    done.store(true);
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_P(SetLimitsThreadsTest, OneOfSeveralCallsWinsAndHolds) {
  options_.shards = 4;
  options_.maintenance_budget = 4;
  auto cache = New<int, int>();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int key = 0; !done.load(); key = (key + 1) % 5000) cache->Set(key, 1);
  });
  for (uint64_t i = 0; i < TestOperations() / 1000; ++i) {
    std::vector<std::thread> threads;
    for (const int64_t limit : {30, 200, 2000}) {
      threads.emplace_back([&cache, limit] {
        EXPECT_TRUE(cache->SetLimits(limit, 100'000 + limit).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    const CacheLimits limits = cache->limits();
    ASSERT_TRUE(limits.entries == 30 || limits.entries == 200 ||
                limits.entries == 2000);
    ASSERT_EQ(limits.bytes, 100'000 + limits.entries);
    ASSERT_LE(cache->size(), limits.entries);
    ASSERT_LE(cache->bytes(), limits.bytes);
  }
  done.store(true);
  writer.join();
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

using EarlierDeadlineThreadsTest = CacheEnvironment;

TEST_F(EarlierDeadlineThreadsTest, NoLoopSleepsBeyondADeadline) {
  std::atomic<int> told{0};
  options_.on_earlier_deadline = [&told] { told.fetch_add(1); };
  options_.shards = 2;
  auto cache = New<int, int>();
  absl::Duration looked;
  SpinBarrier barrier(2);
  const auto begin = [&] {  // As when a loop has just been told.
    (void)cache->NextDeadline();
    cache->Set(1, 1, absl::Seconds(1));
    cache->Clear();
    cache->RunMaintenance();
    told.store(0);
  };
  const uint64_t rounds = TestOperations() / 10;
  std::thread writer([&] {
    for (uint64_t i = 0; i < rounds; ++i) {
      barrier.Pass(begin);
      cache->Set(static_cast<int>(i), 1, absl::Seconds(1));
      barrier.Pass([] {});
    }
  });
  for (uint64_t i = 0; i < rounds; ++i) {
    barrier.Pass(begin);
    looked = cache->NextDeadline();
    barrier.Pass([] {});
    EXPECT_TRUE(looked <= clock_.Now() + absl::Seconds(2) || told.load() == 1);
    EXPECT_LE(told.load(), 1);
  }
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheThreadsTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, CacheRoomThreadsTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, SetLimitsThreadsTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
