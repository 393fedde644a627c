// The reference simulators on sequences that were worked out by hand.
// //tests/tools/trace_replay:real_traces_test plays real traces.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/reference_belady.h"
#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_ghost.h"
#include "wheelcache/tests/testing/reference_lru.h"
#include "wheelcache/tests/testing/reference_scan_resistant.h"
#include "wheelcache/tests/testing/reference_sketch.h"

namespace wheelcache::testing {
namespace {

using ::testing::ElementsAre;

std::vector<int> KeysOf(const ReferenceCache& cache) {
  std::vector<int> keys;
  for (int key = 0; key < 100; ++key) {
    if (cache.Contains(key)) keys.push_back(key);
  }
  return keys;
}

void SetAll(ReferenceCache& cache, int first, int last) {
  for (int key = first; key <= last; ++key) cache.Set(key, {});
}

TEST(ReferenceLruTest, EvictsTheLeastRecentlyUsed) {
  ReferenceLru lru({/*entries=*/3});
  SetAll(lru, 1, 3);
  EXPECT_TRUE(lru.Get(1));
  lru.Set(2, {});
  lru.Set(4, {});
  EXPECT_THAT(KeysOf(lru), ElementsAre(1, 2, 4));
  EXPECT_FALSE(lru.Get(3));
  EXPECT_EQ(lru.evictions(), 1);
}

TEST(ReferenceLruTest, WhatExpiresGoesAtItsDeadlineAndBeforeTheLive) {
  ReferenceLru lru({/*entries=*/2});
  lru.AdvanceTo(0);
  lru.Set(1, {1, /*deadline=*/100});
  lru.Set(2, {1, /*deadline=*/10});
  lru.AdvanceTo(9);
  EXPECT_TRUE(lru.Contains(2));
  lru.AdvanceTo(10);
  EXPECT_FALSE(lru.Contains(2));
  lru.Set(3, {1, /*deadline=*/100});
  EXPECT_THAT(KeysOf(lru), ElementsAre(1, 3));
  EXPECT_EQ(lru.expirations(), 1);
  EXPECT_EQ(lru.evictions(), 0);
  EXPECT_FALSE(lru.Set(3, {1, /*deadline=*/10}));
  EXPECT_THAT(KeysOf(lru), ElementsAre(1));
}

TEST(ReferenceLruTest, ChargesStayWithinTheLimitOfBytes) {
  ReferenceLru lru({kReferenceUnlimited, /*bytes=*/100});
  lru.Set(1, {40});
  lru.Set(2, {40});
  lru.Set(3, {50});
  EXPECT_THAT(KeysOf(lru), ElementsAre(2, 3));
  EXPECT_EQ(lru.bytes(), 90);
  lru.Set(2, {60});  // Replaces, and takes the room of the other.
  EXPECT_THAT(KeysOf(lru), ElementsAre(2));
  EXPECT_FALSE(lru.Set(2, {101}));
  EXPECT_EQ(lru.size(), 0);
  EXPECT_EQ(lru.bytes(), 0);
}

TEST(ReferenceSketchTest, CountsUpToFifteenAndAges) {
  ReferenceSketch sketch(/*capacity=*/10);
  for (int i = 0; i < 20; ++i) sketch.Increment(7);
  EXPECT_EQ(sketch.Count(7), 15);
  for (int i = 20; i < 99; ++i) sketch.Increment(i);
  EXPECT_EQ(sketch.Count(7), 15);
  sketch.Increment(1000);  // The hundredth.
  EXPECT_EQ(sketch.Count(7), 7);
}

TEST(ReferenceGhostTest, TellsTheListOnceAndForgetsTheOldest) {
  ReferenceGhost ghost(/*capacity=*/4);
  ghost.Add(1, ReferenceGhost::kWindow);
  ghost.Add(2, ReferenceGhost::kMain);
  EXPECT_EQ(ghost.live(ReferenceGhost::kMain), 1);
  EXPECT_EQ(ghost.Take(2), ReferenceGhost::kMain);
  EXPECT_EQ(ghost.Take(2), ReferenceGhost::kNone);
  EXPECT_EQ(ghost.live(ReferenceGhost::kMain), 0);
  for (int key = 3; key <= 9; ++key) ghost.Add(key, ReferenceGhost::kMain);
  EXPECT_EQ(ghost.Take(1), ReferenceGhost::kNone);
  EXPECT_EQ(ghost.live(ReferenceGhost::kWindow), 0);
}

TEST(ReferenceScanResistantTest, ScanPassesThroughTheWindow) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 10);
  EXPECT_EQ(cache.window_size(), 1);
  SetAll(cache, 11, 14);
  EXPECT_THAT(KeysOf(cache), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 14));
}

TEST(ReferenceScanResistantTest, GhostOfTheWindowWidensIt) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 11);  // 10 is evicted from the window.
  cache.Set(10, {});
  // One ghost, which has left: a step of one entry.
  EXPECT_DOUBLE_EQ(cache.window_target(), 0.2);
  EXPECT_EQ(cache.Count(10), 2);
  // Now the window is within its target, and the main list pays.
  EXPECT_THAT(KeysOf(cache), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  cache.Set(1, {});  // A ghost of the main list narrows it.
  EXPECT_DOUBLE_EQ(cache.window_target(), 0.1);
}

TEST(ReferenceScanResistantTest, MoreFrequentKeyWinsAPlace) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 11);
  cache.Set(10, {});
  cache.Set(12, {});  // 11 has been seen once, and loses a tie against 2.
  EXPECT_FALSE(cache.Contains(11));
  cache.Set(13, {});  // 10 has been seen twice: 2 goes.
  EXPECT_THAT(KeysOf(cache), ElementsAre(3, 4, 5, 6, 7, 8, 9, 10, 12, 13));
}

TEST(ReferenceScanResistantTest, UseIsCountedWhereItSavesAnEntry) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 10);
  EXPECT_TRUE(cache.Get(1));
  EXPECT_EQ(cache.Count(1), 1);
  cache.Set(11, {});
  EXPECT_EQ(cache.Count(1), 2);
  EXPECT_EQ(cache.Count(2), 1);
}

TEST(ReferenceScanResistantTest, ReplacedEntryStaysInItsList) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 10);
  cache.Set(1, {});
  EXPECT_EQ(cache.window_size(), 1);
  EXPECT_EQ(cache.Count(1), 1);
  SetAll(cache, 11, 14);
  EXPECT_THAT(KeysOf(cache), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 14));
}

TEST(ReferenceScanResistantTest, LongerLifeWinsATie) {
  ReferenceScanResistant cache({/*entries=*/10});
  cache.AdvanceTo(0);
  for (int key = 1; key <= 9; ++key) cache.Set(key, {1, /*deadline=*/10});
  cache.Set(10, {1, /*deadline=*/20});
  cache.Set(11, {1, /*deadline=*/21});  // 20 is not more than twice 10.
  EXPECT_FALSE(cache.Contains(10));
  cache.Set(12, {1, /*deadline=*/20});  // 21 is: 1 goes.
  EXPECT_THAT(KeysOf(cache), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 11, 12));
  cache.AdvanceTo(10);
  EXPECT_THAT(KeysOf(cache), ElementsAre(11, 12));
  EXPECT_EQ(cache.expirations(), 8);
}

TEST(ReferenceScanResistantTest, LongLifeOutweighsAFewUses) {
  for (const auto& [deadline, wins] : {std::pair(41, true), {40, false}}) {
    ReferenceScanResistant cache({/*entries=*/10});
    cache.AdvanceTo(0);
    for (int key = 1; key <= 9; ++key) cache.Set(key, {1, /*deadline=*/10});
    for (int key = 1; key <= 9; ++key) cache.Get(key);
    cache.Set(10, {1, deadline});
    cache.Set(11, {1, 100});  // Makes the counts of 1 to 9 two.
    EXPECT_EQ(cache.Count(1), 2);
    EXPECT_EQ(cache.Contains(10), wins);
  }
}

TEST(ReferenceScanResistantTest, OneEntryIsEnough) {
  ReferenceScanResistant cache({/*entries=*/1});
  SetAll(cache, 1, 3);
  EXPECT_THAT(KeysOf(cache), ElementsAre(3));
}

TEST(ReferenceScanResistantTest, EntryAsLargeAsTheLimitIsStored) {
  ReferenceScanResistant cache({kReferenceUnlimited, /*bytes=*/100}, 10);
  for (int key = 1; key <= 10; ++key) cache.Set(key, {10});
  cache.Set(11, {100});
  EXPECT_THAT(KeysOf(cache), ElementsAre(11));
  cache.Set(12, {1});
  EXPECT_THAT(KeysOf(cache), ElementsAre(12));
}

TEST(ReferenceScanResistantTest, RoomForLessThanTheOldestIsNoRoom) {
  ReferenceScanResistant cache({kReferenceUnlimited, /*bytes=*/100}, 10);
  for (int key = 1; key <= 9; ++key) cache.Set(key, {10});
  for (int key = 10; key <= 12; ++key) cache.Set(key, {5});
  EXPECT_FALSE(cache.Contains(10));  // Lost a tie against 1.
  cache.Set(10, {5});                // A step of the mean of 12 charges, 8.75.
  EXPECT_DOUBLE_EQ(cache.window_target(), 0.1875);
  EXPECT_FALSE(cache.Contains(1));
  // 80 of 81.25 are in the main list, 20 of 18.75 in the window.
  cache.Set(13, {5});
  EXPECT_EQ(cache.window_size(), 4);
  EXPECT_EQ(cache.bytes(), 100);
}

// The most hits of any choice of victims, by trying them all.
int64_t MostHits(const std::vector<uint64_t>& keys, size_t from,
                 const std::set<uint64_t>& entries, size_t capacity) {
  if (from == keys.size()) return 0;
  const uint64_t key = keys[from];
  if (entries.count(key) != 0) {
    return 1 + MostHits(keys, from + 1, entries, capacity);
  }
  std::set<uint64_t> full = entries;
  full.insert(key);
  if (full.size() <= capacity) {
    return MostHits(keys, from + 1, full, capacity);
  }
  int64_t most = 0;
  for (const uint64_t victim : full) {
    std::set<uint64_t> rest = full;
    rest.erase(victim);
    most = std::max(most, MostHits(keys, from + 1, rest, capacity));
  }
  return most;
}

TEST(ReferenceBeladyTest, NoChoiceOfVictimsHasMoreHits) {
  EXPECT_EQ(BeladyHits({1, 2, 1, 3, 2}, 2), 2);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint64_t> keys(10);
    for (uint64_t& key : keys) key = random() % 5;
    const int64_t capacity = 1 + random() % 4;
    EXPECT_EQ(BeladyHits(keys, capacity), MostHits(keys, 0, {}, capacity));
  }
}

}  // namespace
}  // namespace wheelcache::testing
