// That entries are moved in memory, whatever others do with them meanwhile; by
// which memory follows max_bytes (cache_limits_test.cc), also next to other
// threads.

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
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

std::string SmallValue(uint64_t key) {
  return std::string(100, static_cast<char>('a' + key % 26));
}

class ShortMemoryTest : public InterruptedCacheEnvironment {
 protected:
  static constexpr int64_t kMaxBytes = 20 << 20;

  void SetUp() override {
    InterruptedCacheEnvironment::SetUp();
    options_.max_bytes = kMaxBytes;
    options_.shards = 4;
    options_.reaper = nullptr;
    cache_ = New<uint64_t, std::string>();
  }

  // Whether a Set is to move entries before it adds one.
  bool MemoryIsShort() const {
    return cache_->stats().resident_bytes > kMaxBytes / 16 * 17 + (4 << 20);
  }

  // Has `action` happen once in the step of a Set that moves entries, while
  // memory is short.
  void InShortMemory(const std::function<void()>& action) {
    At("move: between condemning and moving", [this, action] {
      if (MemoryIsShort()) {
        happened_ = true;
        action();
      } else {
        InShortMemory(action);
      }
    });
  }

  // Leaves every other small value in memory, and Sets large ones, which do not
  // fit between, until that action has happened.
  void SetUntilItHappens() {
    uint64_t key = 0;
    for (; cache_->stats().evictions == 0; ++key) {
      cache_->Set(key, SmallValue(key));
    }
    for (uint64_t small = 0; small < key; small += 2) cache_->Del(small);
    const std::string large(12 << 10, 'x');
    for (const uint64_t end = key + 10'000; !happened_ && key < end; ++key) {
      cache_->Set(key, large);
    }
  }

  std::unique_ptr<Cache<uint64_t, std::string>> cache_;
  bool happened_ = false;
};

// Else it would take fresh memory, as nothing it could evict has gone back.
TEST_F(ShortMemoryTest, SetWaitsWhileAnotherThreadMoves) {
  std::thread other;
  std::atomic<bool> has_set{false};
  InShortMemory([&] {
    testing::Notification waits_or_has_set;
    other = std::thread([&] {
      At("move: before the wait for others",
         [&] { waits_or_has_set.Notify(); });
      cache_->Set(~uint64_t{0}, "value");
      has_set = true;
      if (testing::interruption.point.empty()) return;
      testing::interruption = {};
      waits_or_has_set.Notify();
    });
    waits_or_has_set.Wait();
    EXPECT_FALSE(has_set);
  });
  SetUntilItHappens();
  ASSERT_TRUE(other.joinable());
  other.join();
  EXPECT_TRUE(cache_->Contains(~uint64_t{0}));
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
}

// Promise: Memory comes back by itself
// A half of the entries of each page leaves, and the other half moves together:
// at once, or by way of limbo where another thread may read.
TEST_F(ShortMemoryTest, ComesBackWhereSomeEntriesAreDeleted) {
  constexpr uint64_t kKeys = 100'000;
  testing::Notification done;
  std::thread reader;
  for (const bool another_reads : {false, true}) {
    const auto cache = New<uint64_t, std::string>();
    if (another_reads) {
      testing::Notification reads;
      reader = std::thread([&] {
        cache->Get(uint64_t{0});
        reads.Notify();
        done.Wait();
      });
      reads.Wait();
    }
    for (uint64_t key = 0; key < kKeys; ++key) cache->Set(key, SmallValue(key));
    const int64_t full = cache->stats().resident_bytes;
    for (uint64_t key = 0; key < kKeys; ++key) {
      if (key % 4 != 0) cache->Del(key);
    }
    while (cache->RunMaintenance(10'000) == 10'000) {
    }
    EXPECT_LT(cache->stats().resident_bytes, full / 4 + full / 10 + (4 << 20));
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    for (uint64_t key = 0; key < kKeys; key += 4) {
      ASSERT_EQ(cache->Peek(key), SmallValue(key));
    }
  }
  done.Notify();
  reader.join();
}

// A cache whose entries are moved in memory while a test uses them.
//
//   Fill();
//   testing::RequireRound(cache_.get());
//   At(kBeforeMoving, [&] { cache_->Del(3); });
//   Maintain(cache_.get());
//
// A round moves all entries of a small cache, in two steps that a test may
// interrupt: as the memory has been condemned and nothing moved, or as all is
// moved and the old blocks are not retired yet.

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

class CacheMoveEnvironment : public InterruptedCacheEnvironment {
 protected:
  using StringCache = Cache<int, std::string>;

  static constexpr int kKeys = 30;

  CacheMoveEnvironment() { options_.shards = 1; }

  // A new cache, in which the TTL of a key is so many seconds and one more.
  void Fill() {
    cache_ = New<int, std::string>();
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

// One thing happens in the middle of a round.
using CacheMoveTest = CacheMoveEnvironment;

TEST_F(CacheMoveTest, CallBetweenTheStepsHolds) {
  const auto set = [this](int key) {
    cache_->Set(key, "new");
    expected_[key] = "new";
  };
  const auto pass = [this](absl::Duration time) {
    clock_.Advance(time);
    cache_->RunMaintenance();
  };
  struct Case {
    const char* name;
    std::function<void()> call;
    std::function<void()> check;
  };
  const Case cases[] = {
      {"Touch", [&] { EXPECT_TRUE(cache_->Touch(7, absl::Milliseconds(1))); },
       [&] {
         EXPECT_EQ(cache_->TimeToLive(7), absl::Milliseconds(1));
         pass(absl::Milliseconds(1));
         expected_.erase(7);
         ExpectWhole();
       }},
      {"Touch for ever",
       [&] { EXPECT_TRUE(cache_->Touch(0, absl::InfiniteDuration())); },
       [&] {
         pass(absl::Seconds(1));
         ExpectWhole();
       }},
      {"Del",
       [&] {
         for (const int key : {7, 29}) {
           EXPECT_TRUE(cache_->Del(key));
           expected_.erase(key);
         }
       },
       [&] { EXPECT_EQ(cache_->stats().deletes, 2); }},
      // The last one leaves what it replaces to the next call, as small as that
      // is.
      {"Set",
       [&] {
         for (const int key : {40, 29, 7, 0}) set(key);
       },
       [&] { EXPECT_EQ(cache_->stats().replaced, 3); }},
      {"expiry",
       [&] {
         pass(absl::Seconds(5));
         for (int key = 0; key < 5; ++key) expected_.erase(key);
       },
       [&] { EXPECT_EQ(cache_->stats().expirations, 5); }},
      // What has expired and is not reclaimed is moved like the rest.
      {"time that passes",
       [&] {
         clock_.Advance(absl::Seconds(5));
         for (int key = 0; key < 5; ++key) expected_.erase(key);
       },
       [&] {
         cache_->RunMaintenance();
         EXPECT_EQ(cache_->stats().expirations, 5);
       }},
      {"Clear",
       [&] {
         cache_->Clear();
         expected_.clear();
         set(3);
       },
       [&] { EXPECT_EQ(cache_->size(), 1); }},
      {"eviction",
       [&] {
         ASSERT_TRUE(cache_->SetLimits(kKeys, kUnlimited).ok());
         for (int key = 0; key < 5; ++key) {
           set(kKeys + key);
           expected_.erase(key);
         }
       },
       [&] { EXPECT_EQ(cache_->stats().evictions, 5); }}};
  for (const auto& [name, call, check] : cases) {
    SCOPED_TRACE(name);
    AtEachInstant(call, check);
  }
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

// Promise: Each call takes effect at one instant
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

TEST_F(CacheMoveTest, WhatWasMovedAndRemovedAfterItWasFoundIsAMiss) {
  Fill();
  At("read: between index and deadline", [&] {
    MoveAll(cache_.get());
    cache_->Del(7);
  });
  EXPECT_FALSE(cache_->Find(7));
  expected_.erase(7);
  EXPECT_EQ(cache_->stats().hits, 0);
  EXPECT_EQ(cache_->stats().misses, 1);
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

// Who does the work of a round, how much of it at a time, and what it waits
// for.
using CacheMoveRoundTest = CacheMoveEnvironment;

TEST_F(CacheMoveRoundTest, ChildOfForkGoesOnMoving) {
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

TEST_F(CacheMoveRoundTest, RunMaintenanceKeepsToItsBudget) {
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

// Also where entries are moved while the index is copied to a larger table.
TEST_F(CacheMoveRoundTest, IndexThatGrowsFindsWhatWasMovedMeanwhile) {
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
TEST_F(CacheMoveRoundTest, RoundWaitsForAReaderAFewStepsAndEnds) {
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

TEST_F(CacheMoveRoundTest, ReaperMovesWithoutACall) {
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

TEST_F(CacheMoveRoundTest, NextDeadlineTellsOfARound) {
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
TEST_F(CacheMoveRoundTest, StalledReaderStopsTheMoving) {
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
TEST_F(CacheMoveRoundTest, StalledReaderHoldsNoCopiesBack) {
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

// Which entries are moved: those whose bytes can be copied, with what belongs
// to them.
using CacheMoveTypesTest = CacheMoveEnvironment;

// Of which the entry has a pointer only.
TEST_F(CacheMoveTypesTest, StringsThatLieElsewhereStay) {
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
int64_t NumberOf(const Uncopyable& value) { return value.number.load(); }
int64_t NumberOf(const Shared& value) { return *value.pointer; }
int64_t NumberOf(const KnowsItsPlace& value) {
  return value.self == &value ? value.number : -1;
}

template <typename Value>
class CacheMoveOfTypesTest : public CacheEnvironment {};
using MoveTypes =
    ::testing::Types<Plain, Aligned, Uncopyable, Shared, KnowsItsPlace>;
TYPED_TEST_SUITE(CacheMoveOfTypesTest, MoveTypes);

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
      if constexpr (std::is_move_constructible_v<TypeParam>) {
        cache->Set(key, TypeParam{key});
      } else {
        cache->Set(key, int64_t{key});
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
