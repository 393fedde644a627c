// The judges, judged: the checker of histories, the shrinker, and the reference
// simulators, by what was worked out by hand or is slow and hard to get wrong.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/cache_history.h"
#include "wheelcache/tests/testing/linearizability.h"
#include "wheelcache/tests/testing/reference_belady.h"
#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_generations.h"
#include "wheelcache/tests/testing/reference_ghost.h"
#include "wheelcache/tests/testing/reference_lru.h"
#include "wheelcache/tests/testing/reference_scan_resistant.h"
#include "wheelcache/tests/testing/shrink.h"

namespace wheelcache::testing {
namespace {

using ::testing::ElementsAre;

// Histories of a register, and of a cache, that are known to be right or wrong.

// A register that is 0 in the beginning.
struct RegisterCall {
  enum { kWrite, kRead } what;
  int value;  // Written, or read.
};
using Register = std::vector<Recorded<RegisterCall>>;

std::vector<int> AfterRegisterCall(int value, const RegisterCall& call) {
  if (call.what == RegisterCall::kWrite) return {call.value};
  return call.value == value ? std::vector<int>{value} : std::vector<int>{};
}

bool Accepts(const Register& history) {
  return IsLinearizable(history, 0, AfterRegisterCall);
}

Recorded<RegisterCall> Write(int value, uint64_t began, uint64_t ended) {
  return {{RegisterCall::kWrite, value}, began, ended};
}
Recorded<RegisterCall> Read(int value, uint64_t began, uint64_t ended) {
  return {{RegisterCall::kRead, value}, began, ended};
}

TEST(LinearizabilityCheckerTest, AcceptsTheEmptyHistory) {
  EXPECT_TRUE(Accepts({}));
}

TEST(LinearizabilityCheckerTest, AcceptsCallsOneAfterTheOther) {
  EXPECT_TRUE(Accepts({Read(0, 1, 2), Write(1, 3, 4), Read(1, 5, 6)}));
}

TEST(LinearizabilityCheckerTest, OverlappingCallsMayComeInEitherOrder) {
  EXPECT_TRUE(Accepts({Write(1, 1, 4), Read(0, 2, 3)}));
  EXPECT_TRUE(Accepts({Write(1, 1, 4), Read(1, 2, 3)}));
  EXPECT_TRUE(Accepts({Write(1, 1, 8), Read(0, 2, 3), Read(1, 4, 5)}));
}

TEST(LinearizabilityCheckerTest, TheOrderOfTheRecordDoesNotMatter) {
  EXPECT_TRUE(Accepts({Read(1, 5, 6), Write(1, 3, 4), Read(0, 1, 2)}));
  EXPECT_FALSE(Accepts({Read(0, 5, 6), Write(1, 3, 4)}));
}

TEST(LinearizabilityCheckerTest, RejectsAStaleRead) {
  EXPECT_FALSE(Accepts({Write(1, 1, 2), Read(0, 3, 4)}));
  EXPECT_FALSE(Accepts({Write(1, 1, 2), Write(2, 3, 4), Read(1, 5, 6)}));
}

TEST(LinearizabilityCheckerTest, RejectsAValueFromNowhere) {
  EXPECT_FALSE(Accepts({Write(1, 1, 4), Read(2, 2, 3)}));
}

TEST(LinearizabilityCheckerTest, RejectsAReadOfWhatIsYetToBeWritten) {
  EXPECT_FALSE(Accepts({Read(1, 1, 2), Write(1, 3, 4)}));
}

TEST(LinearizabilityCheckerTest, RejectsAValueThatComesBack) {
  EXPECT_FALSE(Accepts({Write(1, 1, 8), Read(1, 2, 3), Read(0, 4, 5)}));
}

// Each read alone can be explained, but not both.
TEST(LinearizabilityCheckerTest, RejectsReadersWhoDisagreeOnAnOrder) {
  EXPECT_FALSE(Accepts({Write(1, 1, 12), Write(2, 2, 11), Read(1, 3, 4),
                        Read(2, 5, 6), Read(1, 7, 8)}));
  EXPECT_TRUE(Accepts({Write(1, 1, 12), Write(2, 2, 11), Read(1, 3, 4),
                       Read(2, 5, 6), Read(2, 7, 8)}));
}

// A specification may leave open what a call did: here, whether a write was
// lost.
TEST(LinearizabilityCheckerTest, FollowsEachStateThatACallMayLeave) {
  const auto lossy = [](int value, const RegisterCall& call) {
    std::vector<int> after = AfterRegisterCall(value, call);
    if (call.what == RegisterCall::kWrite) after.push_back(value);
    return after;
  };
  EXPECT_TRUE(
      IsLinearizable(Register{Write(1, 1, 2), Read(0, 3, 4)}, 0, lossy));
  EXPECT_TRUE(
      IsLinearizable(Register{Write(1, 1, 2), Read(1, 3, 4)}, 0, lossy));
  EXPECT_FALSE(IsLinearizable(
      Register{Write(1, 1, 2), Read(0, 3, 4), Read(1, 5, 6)}, 0, lossy));
}

// Without a memory of what was tried, this would take 14! steps.
TEST(LinearizabilityCheckerTest, ManyOverlappingCallsTakeNotTooLong) {
  Register history;
  for (int i = 0; i < 14; ++i) history.push_back(Write(i % 2 + 1, 1 + i, 99));
  history.push_back(Read(3, 40, 98));
  EXPECT_FALSE(Accepts(history));
}

TEST(LinearizabilityCheckerTest, TakesAHistoryOfSixtyFourCalls) {
  Register history;
  for (uint64_t i = 0; i < 64; ++i) {
    history.push_back(Write(1, 2 * i, 2 * i + 1));
  }
  EXPECT_TRUE(Accepts(history));
  history.back() = Read(2, 126, 127);
  EXPECT_FALSE(Accepts(history));
}

// All orders that real time allows, one after the other: slow, and hard to get
// wrong.
bool AcceptsByTrial(const Register& history) {
  std::vector<size_t> order(history.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    int value = 0;
    bool right = true;
    for (size_t i = 0; i < order.size() && right; ++i) {
      const auto& now = history[order[i]];
      for (size_t j = i + 1; j < order.size(); ++j) {
        right = right && history[order[j]].ended > now.began;
      }
      const std::vector<int> after = AfterRegisterCall(value, now.call);
      right = right && !after.empty();
      if (right) value = after[0];
    }
    if (right) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(LinearizabilityCheckerTest, AgreesWithATrialOfAllOrders) {
  std::mt19937 random(1);
  int accepted = 0;
  constexpr int kHistories = 2000;
  for (int i = 0; i < kHistories; ++i) {
    std::vector<uint64_t> ticks(10);
    std::iota(ticks.begin(), ticks.end(), 1);
    std::shuffle(ticks.begin(), ticks.end(), random);
    Register history;
    for (size_t call = 0; call < 5; ++call) {
      const auto [began, ended] =
          std::minmax(ticks[2 * call], ticks[2 * call + 1]);
      const int value = static_cast<int>(random() % 3);
      history.push_back(random() % 2 == 0 ? Write(value, began, ended)
                                          : Read(value, began, ended));
    }
    const bool expected = AcceptsByTrial(history);
    ASSERT_EQ(Accepts(history), expected) << "history " << i;
    accepted += expected ? 1 : 0;
  }
  EXPECT_GT(accepted, kHistories / 10);
  EXPECT_LT(accepted, kHistories * 9 / 10);
}

// Histories of a cache.
struct CacheScript {
  CacheScript& Call(uint64_t began, uint64_t ended, HistoryCall call) {
    history.push_back({call, began, ended});
    return *this;
  }
  bool Accepted() const {
    return IsLinearizable(history, CacheState(), AfterCall);
  }
  CacheHistory history;
};

HistoryCall Set(int key, int value, int64_t ttl) {
  return {HistoryCall::kSet, key, ttl, value};
}
HistoryCall Get(int key, int value) {
  return {HistoryCall::kGet, key, 0, value};
}
HistoryCall Touch(int key, bool found) {
  return {HistoryCall::kTouch, key, kForever, found ? 1 : 0};
}
HistoryCall Clear() { return {HistoryCall::kClear}; }
HistoryCall Tick() { return {HistoryCall::kTick}; }

TEST(LinearizabilityCheckerTest, RejectsAValuePastItsDeadline) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, 1)).Call(3, 4, Get(0, 7)).Call(5, 6, Tick());
  EXPECT_TRUE(CacheScript(script).Call(7, 8, Get(0, 0)).Accepted());
  EXPECT_FALSE(CacheScript(script).Call(7, 8, Get(0, 7)).Accepted());
}

TEST(LinearizabilityCheckerTest, RejectsTheMissOfALiveValue) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, 1)).Call(3, 10, Get(0, 0));
  script.Call(4, 5, Set(0, 8, kForever)).Call(6, 7, Tick());
  EXPECT_FALSE(script.Accepted());
}

TEST(LinearizabilityCheckerTest, RejectsWhatIsRevivedByATouch) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, 1)).Call(3, 10, Touch(0, true));
  script.Call(4, 5, Tick()).Call(6, 7, Get(0, 0));
  EXPECT_FALSE(script.Accepted());
}

TEST(LinearizabilityCheckerTest, RejectsHalfAClear) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, kForever)).Call(3, 4, Set(1, 8, kForever));
  script.Call(5, 10, Clear()).Call(6, 7, Get(0, 0));
  EXPECT_TRUE(CacheScript(script).Call(8, 9, Get(1, 0)).Accepted());
  EXPECT_FALSE(CacheScript(script).Call(8, 9, Get(1, 8)).Accepted());
}

TEST(LinearizabilityCheckerTest, ATtlMayCountFromAnyInstantOfItsSet) {
  CacheScript script;
  script.Call(1, 6, Set(0, 7, 2)).Call(2, 3, Tick()).Call(4, 5, Tick());
  EXPECT_TRUE(CacheScript(script).Call(7, 8, Get(0, 7)).Accepted());
  EXPECT_TRUE(CacheScript(script).Call(7, 8, Get(0, 0)).Accepted());
  script.Call(7, 8, Tick()).Call(9, 10, Tick()).Call(11, 12, Get(0, 7));
  EXPECT_FALSE(script.Accepted());
}

HistoryCall Conditional(HistoryCall::What what, int expected, int value,
                        HistoryCall::Outcome outcome) {
  HistoryCall call{what, /*key=*/0, kKept, value};
  call.expected = expected;
  call.outcome = outcome;
  return call;
}
constexpr auto kWon = HistoryCall::kWon;
constexpr auto kLost = HistoryCall::kLost;

TEST(LinearizabilityCheckerTest, OneOfTwoConditionalWritesLoses) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, 1));
  script.Call(3, 8, Conditional(HistoryCall::kSetIf, 7, 8, kWon));
  const auto other = [](HistoryCall::Outcome outcome) {
    return Conditional(HistoryCall::kSetIf, 7, 9, outcome);
  };
  EXPECT_TRUE(CacheScript(script).Call(4, 5, other(kLost)).Accepted());
  EXPECT_FALSE(CacheScript(script).Call(4, 5, other(kWon)).Accepted());
  EXPECT_FALSE(CacheScript(script)
                   .Call(4, 5, other(kLost))
                   .Call(9, 10, Get(0, 9))
                   .Accepted());
}

TEST(LinearizabilityCheckerTest, RejectsALoserWithoutAWinner) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, kForever));
  for (const auto what : {HistoryCall::kSetIf, HistoryCall::kDelIf}) {
    const auto call = [&](HistoryCall::Outcome outcome) {
      return Conditional(what, 7, 8, outcome);
    };
    EXPECT_TRUE(CacheScript(script).Call(3, 4, call(kWon)).Accepted());
    EXPECT_FALSE(CacheScript(script).Call(3, 4, call(kLost)).Accepted());
  }
}

TEST(LinearizabilityCheckerTest, RejectsTwoUpdatesOfOneValue) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, kForever));
  script.Call(3, 8, Conditional(HistoryCall::kUpdate, 7, 8, kWon));
  for (const int seen : {7, 8}) {
    EXPECT_EQ(CacheScript(script)
                  .Call(4, 9, Conditional(HistoryCall::kUpdate, seen, 9, kWon))
                  .Call(10, 11, Get(0, 9))
                  .Accepted(),
              seen == 8);
  }
}

TEST(LinearizabilityCheckerTest, RejectsAKeptDeadlineThatPassed) {
  CacheScript script;
  script.Call(1, 2, Set(0, 7, 2)).Call(3, 4, Tick());
  script.Call(5, 6, Conditional(HistoryCall::kSetIf, 7, 8, kWon));
  EXPECT_TRUE(CacheScript(script).Call(7, 8, Get(0, 8)).Accepted());
  script.Call(7, 8, Tick());
  EXPECT_TRUE(CacheScript(script).Call(9, 10, Get(0, 0)).Accepted());
  EXPECT_FALSE(CacheScript(script).Call(9, 10, Get(0, 8)).Accepted());
}

TEST(LinearizabilityCheckerTest, RejectsAValueThatIsTakenTwice) {
  const HistoryCall take{HistoryCall::kTake, 0, 0, 7};
  CacheScript script;
  script.Call(1, 2, Set(0, 7, kForever)).Call(3, 6, take);
  EXPECT_TRUE(script.Accepted());
  EXPECT_FALSE(script.Call(4, 5, take).Accepted());
}

// The shrinker.

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(ShrinkTest, LeavesWhatTheFailureNeeds) {
  const auto fails = [](const std::vector<int>& numbers) {
    return absl::c_linear_search(numbers, 17) &&
           absl::c_linear_search(numbers, 800) &&
           absl::c_linear_search(numbers, 801);
  };
  EXPECT_THAT(Shrink(Numbers(1000), fails), ElementsAre(17, 800, 801));
}

TEST(ShrinkTest, LeavesNothingWhereNothingIsNeeded) {
  EXPECT_THAT(Shrink(Numbers(10), [](const std::vector<int>&) { return true; }),
              ElementsAre());
}

TEST(ShrinkTest, LeavesNoItemThatCanGo) {
  // What fails are sums from 100 on, so which numbers stay is open.
  const auto fails = [](const std::vector<int>& numbers) {
    return absl::c_accumulate(numbers, 0) >= 100;
  };
  const std::vector<int> few = Shrink(Numbers(50), fails);
  EXPECT_TRUE(fails(few));
  for (size_t i = 0; i < few.size(); ++i) {
    std::vector<int> fewer = few;
    fewer.erase(fewer.begin() + static_cast<int>(i));
    EXPECT_FALSE(fails(fewer));
  }
}

// The reference simulators, on sequences that were worked out by hand.
// //tests/tools/trace_replay:real_traces_test plays real traces.

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
  EXPECT_EQ(cache.window_size(), 2);
  SetAll(cache, 11, 14);
  EXPECT_THAT(KeysOf(cache), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 13, 14));
}

TEST(ReferenceScanResistantTest, GhostOfTheWindowWidensIt) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 11);  // 9 is evicted from the window.
  cache.Set(9, {});
  // One ghost: a step of one entry.
  EXPECT_DOUBLE_EQ(cache.window_target(), 0.2);
  // It is in the main list. The window is within its target, and 1 has to go.
  EXPECT_THAT(KeysOf(cache), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(cache.window_size(), 2);
  cache.Set(1, {});  // A ghost of the main list narrows it.
  EXPECT_DOUBLE_EQ(cache.window_target(), 0.1);
}

TEST(ReferenceScanResistantTest, ReplacedEntryStaysInItsList) {
  ReferenceScanResistant cache({/*entries=*/10});
  SetAll(cache, 1, 10);
  cache.Set(1, {});
  EXPECT_EQ(cache.window_size(), 2);
  SetAll(cache, 11, 14);
  EXPECT_THAT(KeysOf(cache), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 13, 14));
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

TEST(ReferenceScanResistantTest, WhatWasUsedInTheWindowMovesOn) {
  ReferenceScanResistant cache({/*entries=*/100});
  SetAll(cache, 1, 110);  // Ten or eleven of them are in the window.
  for (int key = 111; key <= 130; ++key) {
    cache.Set(key, {});
    if (key % 4 == 0) cache.Get(key - 8);
  }
  // What was used in a later generation than its own is in the main list.
  int stayed = 0;
  for (int key = 104; key <= 116; key += 4) stayed += cache.Contains(key);
  EXPECT_GE(stayed, 2);
  EXPECT_FALSE(cache.Contains(111));
  EXPECT_EQ(cache.size(), 100);
}

TEST(ReferenceGenerationsTest, WhatWasUsedMovesToTheGenerationOfItsUse) {
  ReferenceGenerations list(/*parts=*/2);
  for (int key = 1; key <= 4; ++key) list.Append(key);
  EXPECT_FALSE(list.OldestWasUsed());
  list.Use(1);
  EXPECT_TRUE(list.OldestWasUsed());
  list.Append(5);
  list.MoveOldest();
  EXPECT_THAT(list.keys(), ElementsAre(2, 3, 4, 5, 1));
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
