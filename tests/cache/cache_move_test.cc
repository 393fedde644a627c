// Entries that are moved in memory while others use them: each test has one
// thing happen in the middle of a round.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_move_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

using CacheMoveTest = CacheMoveEnvironment;

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

}  // namespace
}  // namespace wheelcache
