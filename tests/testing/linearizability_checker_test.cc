// The judge of histories, judged: histories of a register, and of a cache, that
// are known to be right or wrong. And what makes a failing input shorter.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/cache_history.h"
#include "wheelcache/tests/testing/linearizability.h"
#include "wheelcache/tests/testing/shrink.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace wheelcache
