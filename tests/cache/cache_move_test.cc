// Entries that are moved in memory while others use them. A round moves all
// entries of a small cache, and each test has one thing happen in its middle:
// as the memory has been condemned and nothing moved, or as all is moved and
// the old blocks are not retired yet. Small as these are, a block that is freed
// too early loses its content at once: its page goes back to the system.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

using StringCache = Cache<int, std::string>;

constexpr char kBeforeMoving[] = "move: between condemning and moving";
constexpr char kBeforeRetiring[] = "limbo: before an entry is added";

// Up to 1.2 KiB, so that some are small enough to be settled later.
std::string ValueOf(int key) {
  std::string value(static_cast<size_t>(10 + key * 40), '\0');
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] = static_cast<char>('a' + (i + static_cast<size_t>(key)) % 26);
  }
  return value;
}

template <typename CacheType>
void Maintain(CacheType* cache) {
  while (cache->RunMaintenance(1000) == 1000) {
  }
}

template <typename CacheType>
void MoveAll(CacheType* cache) {
  testing::RequireRound(cache);
  Maintain(cache);
}

template <typename CacheType>
void ExpectNoBrokenInvariant(CacheType* cache) {
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  EXPECT_TRUE(testing::CheckMemory(cache).ok()) << testing::CheckMemory(cache);
}

class CacheMoveTest : public InterruptedCacheEnvironment {
 protected:
  static constexpr int kKeys = 30;

  CacheMoveTest() { options_.shards = 1; }

  // A new cache, in which the TTL of a key is so many seconds and one more.
  void Fill(StringCache::Hooks hooks = {}) {
    cache_ = New<int, std::string>(std::move(hooks));
    expected_.clear();
    for (int key = 0; key < kKeys; ++key) {
      cache_->Set(key, ValueOf(key), absl::Seconds(key + 1));
      expected_[key] = ValueOf(key);
    }
  }

  // Moves all entries of new caches. `call` comes in between, once at each of
  // the two instants; then `check` is called.
  void AtEachInstant(
      const std::function<void()>& call,
      const std::function<void()>& check = [] {}) {
    for (const char* instant : {kBeforeMoving, kBeforeRetiring}) {
      SCOPED_TRACE(instant);
      Fill();
      testing::RequireRound(cache_.get());
      At(instant, call);
      Maintain(cache_.get());
      ExpectWhole();
      check();
      // Once more, so that what was moved is moved again.
      MoveAll(cache_.get());
      ExpectWhole();
    }
  }

  // All that is there is what it should be.
  void ExpectWhole() {
    ExpectNoBrokenInvariant(cache_.get());
    for (int key = 0; key < 2 * kKeys; ++key) {
      const auto it = expected_.find(key);
      EXPECT_EQ(cache_->Peek(key), it == expected_.end()
                                       ? std::nullopt
                                       : std::optional<std::string>(it->second))
          << key;
    }
  }

  const char* PlaceOf(int key) {
    const char* place = nullptr;
    cache_->Visit(key, [&](std::string_view value) { place = value.data(); });
    return place;
  }

  std::vector<const char*> Places() {
    std::vector<const char*> places;
    for (int key = 0; key < kKeys; ++key) places.push_back(PlaceOf(key));
    return places;
  }

  // How many are no longer in these places.
  int CountMoved(const std::vector<const char*>& places) {
    int moved = 0;
    for (int key = 0; key < kKeys; ++key) {
      if (PlaceOf(key) != places[static_cast<size_t>(key)]) ++moved;
    }
    return moved;
  }

  std::unique_ptr<StringCache> cache_;
  std::map<int, std::string> expected_;
};

TEST_F(CacheMoveTest, MovedEntryIsWhatItWas) {
  Fill();
  clock_.Advance(absl::Milliseconds(100));
  const auto places = Places();
  const int64_t bytes = cache_->bytes();
  MoveAll(cache_.get());
  EXPECT_EQ(CountMoved(places), kKeys);
  ExpectWhole();
  EXPECT_EQ(cache_->bytes(), bytes);
  int64_t charges = 0;
  for (int key = 0; key < kKeys; ++key) {
    const auto handle = cache_->Find(key);
    EXPECT_EQ(handle.key(), key);
    EXPECT_EQ(handle.Age(), absl::Milliseconds(100));
    EXPECT_EQ(handle.TimeToLive(),
              absl::Seconds(key + 1) - absl::Milliseconds(100));
    charges += handle.charge();
  }
  EXPECT_EQ(charges, bytes);
}

TEST_F(CacheMoveTest, MovedEntriesExpireEachInTime) {
  Fill();
  for (int key = 0; key < kKeys; ++key) {
    MoveAll(cache_.get());
    clock_.Advance(absl::Seconds(1));
    cache_->RunMaintenance();
    EXPECT_EQ(cache_->size(), kKeys - key - 1);
    expected_.erase(key);
    ExpectWhole();
  }
}

TEST_F(CacheMoveTest, MovedEntriesAreEvictedInTheOrderOfTheirUse) {
  options_.max_entries = kKeys;
  RemovalLog<int, std::string> log;
  Fill(log.hooks());
  for (const int key : {3, 0, 1}) cache_->Get(key);
  MoveAll(cache_.get());
  EXPECT_THAT(log.Take(), ElementsAre());  // Nobody is told of a move.
  cache_->Get(2);
  MoveAll(cache_.get());
  std::vector<int> victims;
  for (int key = kKeys; key < 2 * kKeys; ++key) {
    cache_->Set(key, "new");
    for (const auto& removal : log.Take()) {
      EXPECT_EQ(removal.cause, RemovalCause::kEvicted);
      EXPECT_EQ(removal.value, ValueOf(removal.key));
      victims.push_back(removal.key);
    }
  }
  std::vector<int> order;
  for (int key = 4; key < kKeys; ++key) order.push_back(key);
  for (const int key : {3, 0, 1, 2}) order.push_back(key);
  EXPECT_EQ(victims, order);
}

TEST_F(CacheMoveTest, TouchBetweenTheStepsHolds) {
  for (const absl::Duration ttl :
       {absl::Milliseconds(1), absl::Hours(1), absl::InfiniteDuration()}) {
    AtEachInstant([&] { EXPECT_TRUE(cache_->Touch(7, ttl)); },
                  [&] {
                    EXPECT_EQ(cache_->TimeToLive(7), ttl);
                    clock_.Advance(absl::Milliseconds(1));
                    if (ttl == absl::Milliseconds(1)) expected_.erase(7);
                    cache_->RunMaintenance();
                    ExpectWhole();
                  });
  }
}

TEST_F(CacheMoveTest, DelBetweenTheStepsHolds) {
  AtEachInstant([&] {
    EXPECT_TRUE(cache_->Del(7));
    EXPECT_TRUE(cache_->Del(29));
    expected_.erase(7);
    expected_.erase(29);
  });
}

TEST_F(CacheMoveTest, SetBetweenTheStepsReplacesWhatIsMoved) {
  AtEachInstant(
      [&] {
        // The last one leaves what it replaces to the next call, as small as
        // that is.
        for (const int key : {40, 29, 7, 0}) {
          cache_->Set(key, "replaced");
          expected_[key] = "replaced";
        }
      },
      [&] { EXPECT_EQ(cache_->stats().replaced, 3); });
}

TEST_F(CacheMoveTest, EvictionBetweenTheStepsTakesTheOldest) {
  options_.max_entries = kKeys;
  AtEachInstant(
      [&] {
        for (int key = 0; key < 5; ++key) {
          cache_->Set(kKeys + key, "new");
          expected_[kKeys + key] = "new";
          expected_.erase(key);
        }
      },
      [&] { EXPECT_EQ(cache_->stats().evictions, 5); });
}

TEST_F(CacheMoveTest, ExpiryBetweenTheStepsTakesWhatHasExpired) {
  AtEachInstant(
      [&] {
        clock_.Advance(absl::Seconds(5));
        cache_->RunMaintenance();
        for (int key = 0; key < 5; ++key) expected_.erase(key);
      },
      [&] { EXPECT_EQ(cache_->stats().expirations, 5); });
}

// What has expired and is not reclaimed is moved like the rest.
TEST_F(CacheMoveTest, EntryThatHasExpiredMayBeMoved) {
  AtEachInstant(
      [&] {
        clock_.Advance(absl::Seconds(5));
        for (int key = 0; key < 5; ++key) expected_.erase(key);
      },
      [&] {
        cache_->RunMaintenance();
        EXPECT_EQ(cache_->stats().expirations, 5);
      });
}

TEST_F(CacheMoveTest, ClearBetweenTheStepsTakesAll) {
  AtEachInstant(
      [&] {
        cache_->Clear();
        expected_.clear();
        cache_->Set(3, "new");
        expected_[3] = "new";
      },
      [&] { EXPECT_EQ(cache_->size(), 1); });
}

TEST_F(CacheMoveTest, HandleBetweenTheStepsKeepsItsValue) {
  std::vector<StringCache::Handle> handles;
  AtEachInstant(
      [&] {
        for (const int key : {0, 7, 29}) handles.push_back(cache_->Find(key));
      },
      [&] {
        cache_->Clear();
        expected_.clear();
        for (int key = 0; key < kKeys; ++key) cache_->Set(key, "other");
        for (int key = 0; key < kKeys; ++key) expected_[key] = "other";
        for (const auto& handle : handles) {
          EXPECT_EQ(*handle, ValueOf(handle.key()));
        }
        handles.clear();
      });
}

// Where the entries stay, for it has pinned them.
TEST_F(CacheMoveTest, EntryThatIsPinnedAsItIsCopiedStays) {
  Fill();
  StringCache::Handle handle;
  const auto places = Places();
  int pinned = -1;
  testing::RequireRound(cache_.get());
  const std::function<void()> pin_all_to_come = [&] {
    for (int key = 0; key < kKeys && !handle; ++key) {
      if (PlaceOf(key) == places[static_cast<size_t>(key)]) {
        handle = cache_->Find(key);
        pinned = key;
      }
    }
  };
  At("move: before the entry is marked", pin_all_to_come);
  Maintain(cache_.get());
  ASSERT_TRUE(handle);
  EXPECT_EQ(handle->data(), places[static_cast<size_t>(pinned)]);
  EXPECT_EQ(PlaceOf(pinned), handle->data());
  EXPECT_EQ(CountMoved(places), kKeys - 1);
  ExpectWhole();
  handle = {};
  MoveAll(cache_.get());
  EXPECT_NE(PlaceOf(pinned), places[static_cast<size_t>(pinned)]);
  ExpectWhole();
}

// Its entry is marked as moved, and the copy in no index yet.
TEST_F(CacheMoveTest, FindInTheMiddleOfAMovePinsTheCopy) {
  Fill();
  std::atomic<int> looked{0};
  std::vector<std::thread> readers;
  std::vector<StringCache::Handle> handles(kKeys);
  testing::RequireRound(cache_.get());
  At("move: between list and index", [&] {
    for (int key = 0; key < kKeys; ++key) {
      readers.emplace_back([&, key] {
        At("read: between index and deadline", [&] { ++looked; });
        handles[static_cast<size_t>(key)] = cache_->Find(key);
      });
    }
    while (looked.load() < kKeys) std::this_thread::yield();
  });
  Maintain(cache_.get());
  for (std::thread& reader : readers) reader.join();
  for (int key = 0; key < kKeys; ++key) {
    const auto& handle = handles[static_cast<size_t>(key)];
    ASSERT_TRUE(handle) << key;
    EXPECT_EQ(handle->data(), PlaceOf(key));
    EXPECT_EQ(*handle, ValueOf(key));
  }
  ExpectWhole();
}

TEST_F(CacheMoveTest, GetInTheMiddleOfAMoveSeesTheValue) {
  Fill();
  testing::RequireRound(cache_.get());
  At("move: between list and index", [&] {
    for (int key = 0; key < kKeys; ++key) {
      EXPECT_EQ(cache_->Get(key), ValueOf(key));
    }
  });
  Maintain(cache_.get());
  ExpectWhole();
}

// The read has found the old block, and must pin the new one.
TEST_F(CacheMoveTest, FindPinsWhatWasMovedAfterItWasFound) {
  Fill();
  for (int key = 0; key < kKeys; ++key) {
    const char* const before = PlaceOf(key);
    At("read: between index and deadline", [&] { MoveAll(cache_.get()); });
    const auto handle = cache_->Find(key);
    ASSERT_TRUE(handle);
    EXPECT_NE(PlaceOf(key), before);
    EXPECT_EQ(handle->data(), PlaceOf(key));
    MoveAll(cache_.get());
    EXPECT_EQ(handle->data(), PlaceOf(key));
    EXPECT_EQ(*handle, ValueOf(key));
  }
  ExpectWhole();
}

TEST_F(CacheMoveTest, FindMissesWhatWasMovedAndDeletedAfterItWasFound) {
  Fill();
  At("read: between index and deadline", [&] {
    MoveAll(cache_.get());
    cache_->Del(7);
  });
  EXPECT_FALSE(cache_->Find(7));
  expected_.erase(7);
  ExpectWhole();
}

TEST_F(CacheMoveTest, VisitorSeesTheOldBlockUntilItReturns) {
  Fill();
  cache_->Visit(7, [&](std::string_view value) {
    for (int i = 0; i < 3; ++i) {
      MoveAll(cache_.get());
      EXPECT_EQ(value, ValueOf(7));
    }
  });
  ExpectWhole();
}

// The deadline is read in the old block, which a Touch does not reach.
TEST_F(CacheMoveTest, ReadFindsWhatWasMovedAndTouchedBeforeItExpired) {
  Fill();
  At("read: between index and deadline", [&] {
    MoveAll(cache_.get());
    EXPECT_TRUE(cache_->Touch(0, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache_->Get(0), ValueOf(0));
}

TEST_F(CacheMoveTest, ReadReturnsNothingThatExpiredAfterItWasMoved) {
  Fill();
  At("read: between index and deadline", [&] {
    MoveAll(cache_.get());
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache_->Get(0), std::nullopt);
}

TEST_F(CacheMoveTest, UseNotedInTheOldBlockLeavesTheListWhole) {
  for (const int shards : {1, 2}) {
    options_.shards = shards;
    options_.max_entries = kKeys;
    Fill();
    for (int key = 0; key < kKeys; ++key) {
      At("read: between index and deadline", [&] { MoveAll(cache_.get()); });
      EXPECT_EQ(cache_->Get(key), ValueOf(key));
    }
    ExpectWhole();
    for (int key = 0; key < kKeys; ++key) cache_->Set(1000 + key, "new");
    ExpectNoBrokenInvariant(cache_.get());
    EXPECT_EQ(cache_->size(), kKeys);
  }
}

TEST_F(CacheMoveTest, ChildOfForkGoesOnMoving) {
  options_.shards = 4;
  for (int steps = 0; steps < 8; ++steps) {
    Fill();
    const auto places = Places();
    testing::RequireRound(cache_.get());
    cache_->RunMaintenance(steps);
    const auto goes_on = [&] {
      Maintain(cache_.get());
      if (CountMoved(places) != kKeys) return false;
      for (int key = 0; key < kKeys; ++key) {
        if (cache_->Peek(key) != expected_[key]) return false;
      }
      MoveAll(cache_.get());
      return cache_->CheckInvariants().ok() &&
             testing::CheckMemory(cache_.get()).ok();
    };
    EXPECT_TRUE(testing::HoldsInChild(goes_on)) << steps;
    EXPECT_TRUE(goes_on()) << steps;
    ExpectWhole();
  }
}

// Another thread is in a step, with what the child needs locked.
TEST_F(CacheMoveTest, ForkWaitsForTheStepOfAnotherThread) {
  Fill();
  std::atomic<bool> has_come{false};
  std::atomic<bool> leaves{false};
  testing::Notification has_forked;
  testing::RequireRound(cache_.get());
  std::thread other([&] {
    At(kBeforeMoving, [&] {
      has_come.store(true);
      // Long enough, most times, for the other to come to the lock.
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      leaves.store(true);
    });
    Maintain(cache_.get());
    has_forked.Wait();
  });
  while (!has_come.load()) std::this_thread::yield();
  EXPECT_TRUE(testing::HoldsInChild([&] {
    if (!leaves.load()) return false;
    Maintain(cache_.get());
    MoveAll(cache_.get());
    for (int key = 0; key < kKeys; ++key) {
      if (cache_->Peek(key) != expected_[key]) return false;
    }
    return cache_->CheckInvariants().ok();
  }));
  has_forked.Notify();
  other.join();
  ExpectWhole();
}

TEST_F(CacheMoveTest, RunMaintenanceKeepsToItsBudget) {
  constexpr int kBucket = 12;  // Entries that are moved in one go.
  options_.shards = 1;
  cache_ = New<int, std::string>();
  for (int key = 0; key < 10 * kKeys; ++key) cache_->Set(key, "value");
  testing::RequireRound(cache_.get());
  int steps = 0;
  for (int64_t done = 1; done == 1; ++steps) {
    const auto places = Places();
    done = cache_->RunMaintenance(1);
    EXPECT_LE(CountMoved(places), kBucket);
    ExpectNoBrokenInvariant(cache_.get());
  }
  EXPECT_GT(steps, 10 * kKeys / kBucket);
}

TEST_F(CacheMoveTest, EachShardIsMovedOnceInARound) {
  options_.shards = 8;
  Fill();
  for (int round = 0; round < 3; ++round) {
    const auto places = Places();
    testing::RequireRound(cache_.get());
    int64_t done = 0;
    while (const int64_t step = cache_->RunMaintenance(1)) done += step;
    EXPECT_EQ(CountMoved(places), kKeys);
    EXPECT_LE(done, kKeys + 2 * 8 + 8);  // And a few for each shard.
    ExpectWhole();
  }
}

// An entry counts as one, and as one more for each 512 bytes; each look at a
// shard and at limbo counts, too.
TEST_F(CacheMoveTest, RunMaintenanceTellsHowMuchItHasMoved) {
  for (const int shards : {1, 8}) {
    options_.shards = shards;
    Fill();
    int64_t expected = shards + 1;
    for (int key = 0; key < kKeys; ++key) {
      expected += 1 + cache_->Find(key).charge() / 512;
    }
    testing::RequireRound(cache_.get());
    EXPECT_EQ(cache_->RunMaintenance(1000), expected);
    EXPECT_EQ(cache_->RunMaintenance(1000), 0);
  }
}

// Also where entries are moved while the index is copied to a larger table.
TEST_F(CacheMoveTest, IndexThatGrowsFindsWhatWasMovedMeanwhile) {
  for (int keys = 1; keys < 60; ++keys) {
    auto cache = New<int, int>();
    for (int key = 0; key < keys; ++key) cache->Set(key, key);
    MoveAll(cache.get());
    for (int key = keys; key < 2 * keys; ++key) cache->Set(key, key);
    MoveAll(cache.get());
    ExpectNoBrokenInvariant(cache.get());
    for (int key = 0; key < 2 * keys; ++key) EXPECT_EQ(cache->Get(key), key);
    for (int key = 0; key < 2 * keys; ++key) EXPECT_TRUE(cache->Del(key));
  }
}

// For what it holds back; in each round as long.
TEST_F(CacheMoveTest, RoundWaitsForAReaderAFewStepsAndEnds) {
  Fill();
  cache_->Visit(7, [&](std::string_view) {
    std::vector<int> steps;
    for (int round = 0; round < 3; ++round) {
      testing::RequireRound(cache_.get());
      steps.push_back(0);
      while (cache_->RunMaintenance(1) == 1) ++steps.back();
      ExpectNoBrokenInvariant(cache_.get());
    }
    EXPECT_GT(steps[0], 3);
    EXPECT_EQ(steps[1], steps[0]);
    EXPECT_EQ(steps[2], steps[0]);
  });
  Maintain(cache_.get());
  ExpectWhole();
}

TEST_F(CacheMoveTest, ReaperMovesWithoutACall) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  Fill();
  clock_.RunFor(absl::Milliseconds(500));
  const auto places = Places();
  testing::RequireRound(cache_.get());
  cache_->Set(1000, "wakes the reaper");
  clock_.RunFor(options_.reclaim_delay);
  EXPECT_EQ(CountMoved(places), kKeys);
  ExpectWhole();
  cache_.reset();  // Before the reaper.
}

TEST_F(CacheMoveTest, NextDeadlineTellsOfARound) {
  options_.default_ttl = absl::InfiniteDuration();
  cache_ = New<int, std::string>();
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
  cache_->Set(1, "value");
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
  testing::RequireRound(cache_.get());
  EXPECT_LE(cache_->NextDeadline(), clock_.Now() + options_.reclaim_delay);
  cache_->RunMaintenance(1);  // In the middle.
  EXPECT_LE(cache_->NextDeadline(), clock_.Now() + options_.reclaim_delay);
  Maintain(cache_.get());
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
}

// Moving takes memory as long as a reader keeps the old blocks.
TEST_F(CacheMoveTest, StalledReaderStopsTheMoving) {
  constexpr int64_t kMiB = 1 << 20;
  constexpr int kLarge = 600;
  const std::string large(60'000, 'x');  // 34 MiB.
  cache_ = New<int, std::string>();
  for (int key = 0; key < kLarge; ++key) cache_->Set(key, large);
  const int64_t before = cache_->stats().resident_bytes;
  cache_->Visit(0, [&](std::string_view) {
    MoveAll(cache_.get());
    EXPECT_GT(cache_->stats().resident_bytes, before + 3 * kMiB);
    EXPECT_LT(cache_->stats().resident_bytes, before + 6 * kMiB);
    MoveAll(cache_.get());
    EXPECT_LT(cache_->stats().resident_bytes, before + 6 * kMiB);
  });
  Maintain(cache_.get());
  EXPECT_LT(cache_->stats().resident_bytes, before + 6 * kMiB);
  for (int key = 0; key < kLarge; ++key) ASSERT_EQ(cache_->Peek(key), large);
  ExpectNoBrokenInvariant(cache_.get());
}

// What is moved after a reader has stalled was made after that, whenever it was
// Set: the reader cannot see it.
TEST_F(CacheMoveTest, StalledReaderHoldsNoCopiesBack) {
  Fill();
  const auto in_use = [&] {
    auto& arena = internal::CachePeer::ArenaOf(cache_.get());
    return arena.carved_bytes() - arena.free_bytes();
  };
  cache_->Visit(7, [&](std::string_view value) {
    for (int i = 0; i < 40; ++i) {  // More collections than make a stall.
      cache_->Set(-1, "value");
      cache_->RunMaintenance();
    }
    const size_t old_blocks = in_use();
    MoveAll(cache_.get());
    const size_t both = in_use();
    EXPECT_GT(both, old_blocks / 10 * 19);
    cache_->Clear();
    cache_->RunMaintenance();
    EXPECT_LT(in_use(), old_blocks / 10 * 12);
    EXPECT_EQ(value, ValueOf(7));
  });
  Maintain(cache_.get());
  expected_.clear();
  ExpectWhole();
}

TEST_F(CacheMoveTest, ChargeOfAWeigherMovesWithItsEntry) {
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    StringCache::Hooks hooks;
    hooks.weigher = [](int key, std::string_view) {
      return uint64_t{1000} + static_cast<uint64_t>(key);
    };
    Fill(hooks);
    const auto places = Places();
    const int64_t bytes = cache_->bytes();
    const int64_t overhead = OverheadOfAnEntry<int, std::string>();
    for (int i = 0; i < 3; ++i) {
      MoveAll(cache_.get());
      ExpectWhole();
    }
    EXPECT_EQ(CountMoved(places), kKeys);
    EXPECT_EQ(cache_->bytes(), bytes);
    for (int key = 0; key < kKeys; ++key) {
      EXPECT_EQ(cache_->Find(key).charge(), overhead + 1000 + key);
    }
    for (int key = 0; key < kKeys; ++key) cache_->Del(key);
    EXPECT_EQ(cache_->bytes(), 0);
  }
}

// Of which the entry has a pointer only.
TEST_F(CacheMoveTest, StringsThatLieElsewhereStay) {
  cache_ = New<int, std::string>();
  const std::string inside(64 << 10, 'i');
  const std::string outside((64 << 10) + 1, 'o');
  for (int key = 0; key < 20; ++key) {
    cache_->Set(key, key % 2 == 0 ? inside : outside);
  }
  std::vector<const char*> places;
  for (int key = 0; key < 20; ++key) places.push_back(PlaceOf(key));
  MoveAll(cache_.get());
  for (int key = 0; key < 20; ++key) {
    const bool stays = PlaceOf(key) == places[static_cast<size_t>(key)];
    EXPECT_EQ(stays, key % 2 != 0) << key;
    EXPECT_EQ(cache_->Peek(key), key % 2 == 0 ? inside : outside);
  }
  ExpectNoBrokenInvariant(cache_.get());
  for (int key = 0; key < 20; ++key) EXPECT_TRUE(cache_->Del(key));
  MoveAll(cache_.get());
  ExpectNoBrokenInvariant(cache_.get());
}

// Each value tells which one it is.
struct Plain {
  int64_t number;
  int64_t more[3] = {};
};
struct alignas(64) Aligned {
  int64_t number;
};
struct Atomic {
  explicit Atomic(int64_t n) : number(n) {}
  Atomic(const Atomic& other) : number(other.number.load()) {}
  std::atomic<int64_t> number;
};
struct Uncopyable {  // Whose bytes a compiler would copy.
  explicit Uncopyable(int64_t n) : number(n) {}
  Uncopyable(const Uncopyable&) = delete;
  Uncopyable& operator=(const Uncopyable&) = delete;
  std::atomic<int64_t> number;
};
struct Shared {
  explicit Shared(int64_t n) : pointer(std::make_shared<int64_t>(n)) {}
  std::shared_ptr<int64_t> pointer;
};
struct KnowsItsPlace {
  explicit KnowsItsPlace(int64_t n) : number(n) {}
  KnowsItsPlace(const KnowsItsPlace& other) : number(other.number) {}
  int64_t number;
  const KnowsItsPlace* self = this;
};

int64_t NumberOf(const Plain& value) { return value.number; }
int64_t NumberOf(const Aligned& value) {
  return reinterpret_cast<uintptr_t>(&value) % 64 == 0 ? value.number : -1;
}
int64_t NumberOf(const Atomic& value) { return value.number.load(); }
int64_t NumberOf(const Uncopyable& value) { return value.number.load(); }
int64_t NumberOf(const Shared& value) { return *value.pointer; }
int64_t NumberOf(const KnowsItsPlace& value) {
  return value.self == &value ? value.number : -1;
}

template <typename Value>
class CacheMoveOfTypesTest : public CacheEnvironment {};
using Types =
    ::testing::Types<Plain, Aligned, Atomic, Uncopyable, Shared, KnowsItsPlace>;
TYPED_TEST_SUITE(CacheMoveOfTypesTest, Types);

TYPED_TEST(CacheMoveOfTypesTest, MovesWhatIsCopiedByteByByteAndNothingElse) {
  constexpr int kKeys = 50;
  for (const bool weighs : {false, true}) {
    typename Cache<int, TypeParam>::Hooks hooks;
    if (weighs) {
      hooks.weigher = [](int, const TypeParam&) { return uint64_t{1}; };
    }
    auto cache = this->template New<int, TypeParam>(hooks);
    std::vector<const TypeParam*> places;
    const auto place_of = [&](int key) {
      const TypeParam* place = nullptr;
      cache->Visit(key, [&](const TypeParam& value) { place = &value; });
      return place;
    };
    for (int key = 0; key < kKeys; ++key) {
      if constexpr (std::is_constructible_v<TypeParam, int64_t>) {
        cache->Set(key, int64_t{key});
      } else {
        cache->Set(key, TypeParam{key});
      }
    }
    for (int key = 0; key < kKeys; ++key) places.push_back(place_of(key));
    MoveAll(cache.get());
    for (int key = 0; key < kKeys; ++key) {
      EXPECT_EQ(place_of(key) != places[static_cast<size_t>(key)],
                (std::is_same_v<TypeParam, Plain>))
          << key;
      const auto handle = cache->Find(key);
      ASSERT_TRUE(handle) << key;
      EXPECT_EQ(NumberOf(*handle), key);
    }
    ExpectNoBrokenInvariant(cache.get());
  }
}

}  // namespace
}  // namespace wheelcache
