// The books of a cache: its limits and the claims on them, counters, when
// something is due, ticks, what is remembered of evictions, and the line that a
// log gets.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/eviction_record.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/engine/stats_logger.h"
#include "wheelcache/cache/internal/engine/ticks.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// As a Set that removes nothing.
bool TryTake(Budget* budget, Room room) {
  Claim claim(budget);
  const bool covered = claim.Cover(room);
  if (covered) claim.Spend(room);
  claim.GiveBack();
  return covered;
}

TEST(BudgetTest, GivesRoomUpToTheLimits) {
  Budget budget({2, 100}, /*shards=*/1);
  EXPECT_TRUE(TryTake(&budget, {1, 60}));
  EXPECT_FALSE(TryTake(&budget, {1, 41}));
  EXPECT_TRUE(TryTake(&budget, {1, 40}));
  EXPECT_FALSE(TryTake(&budget, {1, 0}));
  EXPECT_FALSE(TryTake(&budget, {0, 1}));
  EXPECT_TRUE(TryTake(&budget, {0, 0}));
  EXPECT_EQ(budget.taken(), (Room{2, 100}));
  budget.Give({1, 60});
  EXPECT_EQ(budget.taken(), (Room{1, 40}));
}

TEST(BudgetTest, NoLimitIsNeverReached) {
  Budget budget({kNoLimit, kNoLimit}, /*shards=*/1);
  EXPECT_TRUE(TryTake(&budget, {kNoLimit - 1, kNoLimit - 1}));
  EXPECT_TRUE(TryTake(&budget, {1, 1}));
  EXPECT_FALSE(TryTake(&budget, {1, 1}));
}

TEST(BudgetTest, GivesTheRoomOfAHigherLimitAtOnce) {
  Budget budget({1, 100}, /*shards=*/1);
  ASSERT_TRUE(TryTake(&budget, {1, 100}));
  budget.Raise({2, 0});
  EXPECT_EQ(budget.limit(), (Room{3, 100}));
  EXPECT_EQ(budget.taken(), (Room{1, 100}));
  EXPECT_TRUE(TryTake(&budget, {2, 0}));
  EXPECT_FALSE(TryTake(&budget, {1, 0}));
  budget.Raise({0, kNoLimit - 100});
  EXPECT_TRUE(TryTake(&budget, {0, kNoLimit - 100}));
  EXPECT_FALSE(TryTake(&budget, {0, 1}));
  EXPECT_EQ(budget.taken(), (Room{3, kNoLimit}));
}

TEST(BudgetTest, IsAmpleUntilASetLacksRoomAndAgainWhenA32ndIsFree) {
  Budget budget({3200, 32'000}, /*shards=*/2);
  EXPECT_TRUE(budget.ample());
  EXPECT_EQ(budget.most_credit(), (Room{25, 250}));
  ASSERT_TRUE(TryTake(&budget, {1, 31'000}));
  EXPECT_EQ(budget.LackOf({2, 1000}), Room());
  EXPECT_FALSE(budget.BeginCallIn(Room()));
  EXPECT_TRUE(budget.ample());
  const Room lack = budget.LackOf({2, 1001});
  EXPECT_EQ(lack, (Room{0, 1001}));
  EXPECT_TRUE(budget.BeginCallIn(lack));
  EXPECT_TRUE(budget.BeginCallIn(lack)) << "by another one";
  EXPECT_FALSE(budget.ample());
  EXPECT_EQ(budget.most_credit(), (Room{25, 0}));
  EXPECT_EQ(budget.most_rest(), (Room{25, 62}));
  budget.EndCallIn();
  EXPECT_FALSE(budget.BeginCallIn(lack)) << "has been called in";
  ASSERT_TRUE(TryTake(&budget, {0, 1000}));
  budget.Give({0, 1000});
  EXPECT_FALSE(budget.ample());
  budget.Give({0, 1});
  EXPECT_TRUE(budget.ample());
  EXPECT_EQ(budget.most_credit(), (Room{25, 250}));
}

// Nobody else could have any.
TEST(BudgetTest, CreditsAreNotCalledInForTheOnlyShardNorWhereThereAreNone) {
  for (const auto& [limit, shards] : {std::pair{6400, 1}, std::pair{100, 2}}) {
    Budget budget({limit, kNoLimit}, shards);
    EXPECT_FALSE(budget.BeginCallIn({limit + 1, 0}));
    EXPECT_FALSE(budget.ample());
  }
}

TEST(BudgetTest, CreditsOfAllShardsAreAtMostA64thOfEachLimit) {
  for (const int shards : {2, 64, 1024}) {
    for (const int64_t limit : {int64_t{1}, int64_t{100'000}, kNoLimit}) {
      const Budget budget({limit, limit}, shards);
      EXPECT_EQ(budget.most_credit().entries, limit / 64 / shards);
    }
  }
  EXPECT_EQ(Budget({kNoLimit, kNoLimit}, /*shards=*/1).most_credit(), Room());
}

// What a thread has read of a limit before that falls must not help it.
TEST(BudgetTest, LimitThatChangesIsNeverExceededByManyThreads) {
  Budget budget({1000, 1000}, /*shards=*/1);
  std::atomic<int64_t> taken{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      while (!done.load()) {
        const Room room = {static_cast<int64_t>(random() % 40), 0};
        if (!TryTake(&budget, room)) continue;
        taken.fetch_add(room.entries);
        taken.fetch_sub(room.entries);
        budget.Give(room);
      }
    });
  }
  for (int i = 0; i < 20'000; ++i) {
    const Room kept = budget.Take({}, {980, 0});
    EXPECT_EQ(kept.bytes, 0);
    budget.Lower(kept);
    // Of whoever has taken now, all of it is within the limit.
    EXPECT_LE(taken.load(), 1000 - kept.entries);
    EXPECT_LE(budget.taken().entries, budget.limit().entries);
    EXPECT_GE(budget.taken().entries, 0);
    budget.Raise(kept);
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.taken(), Room());
  EXPECT_EQ(budget.limit(), (Room{1000, 1000}));
}

TEST(ClaimTest, LowersTheLimitsByWhatItHolds) {
  Budget budget({10, 100}, /*shards=*/1);
  Claim claim(&budget);
  ASSERT_TRUE(TryTake(&budget, {8, 50}));
  claim.CoverUpTo({5, 20});
  EXPECT_EQ(budget.taken(), (Room{10, 70}));
  EXPECT_EQ(claim.LowerLimits({5, 20}), (Room{2, 20}));
  EXPECT_EQ(budget.limit(), (Room{8, 80}));
  EXPECT_EQ(budget.taken(), (Room{8, 50}));
  claim.Add({1, 10});
  EXPECT_EQ(claim.LowerLimits({3, 0}), (Room{1, 0}));
  claim.GiveBack();
  EXPECT_EQ(budget.limit(), (Room{7, 80}));
  EXPECT_EQ(budget.taken(), (Room{7, 40}));
  EXPECT_FALSE(TryTake(&budget, {1, 0}));
}

TEST(ClaimTest, CoversFromTheBudgetWhatItLacks) {
  Budget budget({10, 100}, /*shards=*/1);
  Claim claim(&budget);
  EXPECT_TRUE(claim.Cover({1, 30}));
  EXPECT_TRUE(claim.Cover({1, 50}));  // Twenty more.
  EXPECT_EQ(budget.taken(), (Room{1, 50}));
  EXPECT_FALSE(claim.Cover({1, 101}));
  EXPECT_EQ(claim.need(), (Room{1, 101}));
  EXPECT_EQ(budget.taken(), (Room{1, 50}));
}

TEST(ClaimTest, RoomOfARemovedEntryIsUsedBeforeTheBudgets) {
  Budget budget({1, 100}, /*shards=*/1);
  ASSERT_TRUE(TryTake(&budget, {1, 80}));  // The entry's.
  Claim claim(&budget);
  EXPECT_FALSE(claim.Cover({1, 90}));
  claim.Add({1, 80});
  EXPECT_TRUE(claim.Cover({1, 90}));
  claim.Spend({1, 90});
  claim.GiveBack();
  EXPECT_EQ(budget.taken(), (Room{1, 90}));
}

TEST(ClaimTest, TakesFromTheCreditFirstAndAsMuchAsMayBeOneAheadOfTheRest) {
  Budget budget({3200, 32'000}, /*shards=*/2);
  Claim claim(&budget);
  Room credit = {5, 50};
  ASSERT_TRUE(claim.Cover({3, 50}, &credit));
  EXPECT_EQ(budget.taken(), Room());
  ASSERT_TRUE(claim.Cover({5, 60}, &credit));
  EXPECT_EQ(credit, Room());
  EXPECT_EQ(budget.taken(), (Room{0, 10 + 250}));
  claim.Spend({5, 60});
  EXPECT_FALSE(claim.empty());
  claim.LeaveTo(&credit, budget.most_credit());
  EXPECT_EQ(credit, (Room{0, 250}));
  EXPECT_TRUE(claim.empty());
  ASSERT_TRUE(claim.Cover({3200, 0}, &credit)) << "as far as there is room";
}

TEST(ClaimTest, LeavesACreditAllUpToItsMostOrElseHalfOfThat) {
  Budget budget({100, 1000}, /*shards=*/1);
  Claim claim(&budget);
  ASSERT_TRUE(claim.Cover({10, 100}));
  Room credit = {3, 30};
  claim.LeaveTo(&credit, {13, 120});
  EXPECT_EQ(credit, (Room{13, 60}));
  claim.GiveBack();
  EXPECT_EQ(budget.taken(), (Room{10, 30}));
  claim.CallIn(&credit);
  EXPECT_EQ(credit, Room());
  EXPECT_TRUE(claim.Cover({13, 60}));
  EXPECT_EQ(budget.taken(), (Room{10, 30})) << "of the credit";
}

TEST(ClaimTest, GivesBackWhatIsLeft) {
  Budget budget({10, 100}, /*shards=*/1);
  Claim claim(&budget);
  ASSERT_TRUE(claim.Cover({2, 70}));
  claim.Spend({1, 40});
  claim.GiveBack();
  EXPECT_EQ(budget.taken(), (Room{1, 40}));
}

// A smaller value in the place of a larger one needs less than nothing.
TEST(ClaimTest, ReplacementThatShrinksGivesRoom) {
  Budget budget({1, 100}, /*shards=*/1);
  ASSERT_TRUE(TryTake(&budget, {1, 80}));
  Claim claim(&budget);
  EXPECT_TRUE(claim.Cover({0, -50}));
  claim.Spend({0, -50});
  claim.GiveBack();
  EXPECT_EQ(budget.taken(), (Room{1, 30}));
}

TEST(DueBoardTest, NothingIsDueAtFirst) {
  DueBoard board(/*shards=*/4);
  EXPECT_FALSE(board.AnyDue(Clock::kNever - 1));
  EXPECT_EQ(board.Earliest(), Clock::kNever);
}

// The bound is raised by those who ask, and must come down again.
TEST(DueBoardTest, AnyDueFollowsTheCellsUpAndDown) {
  DueBoard board(/*shards=*/2);
  board.Set(0, 100);
  EXPECT_TRUE(board.AnyDue(150));
  board.Set(0, 300);
  EXPECT_FALSE(board.AnyDue(150));
  EXPECT_FALSE(board.AnyDue(299));
  board.Set(1, 200);
  EXPECT_FALSE(board.AnyDue(199));
  EXPECT_TRUE(board.AnyDue(200));
  board.Set(1, Clock::kNever);
  EXPECT_FALSE(board.AnyDue(299));
  EXPECT_TRUE(board.AnyDue(300));
}

using DueBoardRaceTest = InterruptedCacheEnvironment;

// The cell is set to less than the bound is about to be.
TEST_F(DueBoardRaceTest, BoundIsNotRaisedAboveACellThatWasSetMeanwhile) {
  DueBoard board(/*shards=*/2);
  board.Set(0, 100);
  board.Set(0, 300);
  At("due board: between the look and the bound", [&] { board.Set(1, 200); });
  EXPECT_FALSE(board.AnyDue(150));
  EXPECT_FALSE(board.AnyDue(199));
  EXPECT_TRUE(board.AnyDue(200));
}

using Wide = __int128;

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
constexpr int64_t kLast = Clock::kNever;
constexpr int64_t kTickNanos[] = {1, 2, 3, 1'000'000, int64_t{86'400} << 30};

// The tick that begins at the reading 0.
Wide ZeroOf(const Ticks& ticks) { return ticks.Floor(0); }

// Readings around those where ticks begin and where the range ends.
std::vector<int64_t> Readings(int64_t tick_nanos) {
  std::vector<int64_t> readings = {kFirst, kFirst + 1, kLast - 1, kLast};
  for (const int64_t ticks : {-1000, -2, -1, 0, 1, 2, 1000}) {
    for (const int64_t off : {-1, 0, 1}) {
      readings.push_back(ticks * tick_nanos + off);
    }
  }
  return readings;
}

TEST(TicksTest, ReadingLiesBetweenItsTicks) {
  for (const int64_t tick_nanos : kTickNanos) {
    const Ticks ticks(tick_nanos);
    for (const int64_t nanos : Readings(tick_nanos)) {
      const Wide floor = (ticks.Floor(nanos) - ZeroOf(ticks)) * tick_nanos;
      const Wide ceil = (ticks.Ceil(nanos) - ZeroOf(ticks)) * tick_nanos;
      EXPECT_LE(floor, nanos);
      EXPECT_GT(floor + tick_nanos, nanos);
      EXPECT_GE(ceil, nanos);
      EXPECT_LT(ceil - tick_nanos, nanos);
    }
  }
}

TEST(TicksTest, TickBeginsAtItsReadingOrWhereTheReadingsEnd) {
  for (const int64_t tick_nanos : kTickNanos) {
    const Ticks ticks(tick_nanos);
    for (const int64_t nanos : Readings(tick_nanos)) {
      for (const uint64_t tick : {ticks.Floor(nanos), ticks.Ceil(nanos)}) {
        const Wide begin = (tick - ZeroOf(ticks)) * tick_nanos;
        const Wide expected = begin > kLast    ? kLast
                              : begin < kFirst ? kFirst
                                               : begin;
        EXPECT_EQ(ticks.Nanos(tick), static_cast<int64_t>(expected));
      }
    }
  }
}

constexpr Count kAll[] = {Count::kHits,
                          Count::kMisses,
                          Count::kSets,
                          Count::kExpired,
                          Count::kDeleted,
                          Count::kReplaced,
                          Count::kListenerExceptions};

void InANewThread(const std::function<void()>& function) {
  std::thread(function).join();
}

TEST(CountersTest, EachEventIsCountedApart) {
  Counters counters;
  const auto count = [&] {
    int64_t times = 0;
    for (const Count what : kAll) {
      counters.ForThisThread().Add(what, ++times);
    }
  };
  count();
  InANewThread(count);
  int64_t times = 0;
  for (const Count what : kAll) EXPECT_EQ(counters.Sum(what), 2 * ++times);
}

TEST(CountersTest, AThreadCountsInAStripeOfItsOwnFromTheFirstEventOn) {
  Counters counters;
  for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(counters.Add(Count::kHits), i);
  std::atomic<bool> done{false};
  std::thread other([&] {
    EXPECT_FALSE(HasThreadRecord());
    for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(counters.Add(Count::kHits), i);
    EXPECT_TRUE(HasThreadRecord());
    done.store(true);
  });
  other.join();
  EXPECT_TRUE(done.load());
  EXPECT_EQ(counters.Add(Count::kHits), 4);
  EXPECT_EQ(counters.Sum(Count::kHits), 7);
}

TEST(CountersTest, AThreadHasAStripeOfItsOwnInEachOfSeveral) {
  Counters first;
  Counters second;
  const auto count_in_both = [&] {
    for (int64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(first.Add(Count::kHits), i);
      EXPECT_EQ(second.Add(Count::kHits), i);
    }
  };
  std::atomic<bool> done{false};
  std::thread other([&] {
    count_in_both();
    // While this thread still has its index, which another would go on with.
    std::thread(count_in_both).join();
    done.store(true);
  });
  other.join();
  EXPECT_TRUE(done.load());
}

TEST(CountersTest, AThreadGoesOnInTheStripeOfTheOneWhoseIndexItHas) {
  Counters counters;
  ThreadIndex();
  for (int64_t i = 1; i <= 3; ++i) {
    InANewThread([&] { EXPECT_EQ(counters.Add(Count::kHits), i); });
  }
  EXPECT_EQ(counters.Sum(Count::kHits), 3);
}

// Of those the last ones share a stripe.
TEST(CountersTest, NothingIsLostHoweverManyThreadsThereAre) {
  constexpr int kThreads = 270;
  constexpr int kTimes = 1000;
  Counters counters;
  std::atomic<int> ready{0};
  std::atomic<int> alone{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ThreadIndex();
      ++ready;
      while (ready.load() < kThreads) std::this_thread::yield();
      for (int j = 0; j < kTimes; ++j) {
        const int64_t sets = counters.Add(Count::kSets);
        counters.Add(Count::kListenerExceptions);
        if (j + 1 == kTimes && sets == kTimes) ++alone;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.Sum(Count::kSets), kThreads * kTimes);
  EXPECT_EQ(counters.Sum(Count::kListenerExceptions), kThreads * kTimes);
  EXPECT_GE(alone.load(), 254);  // This thread has an index as well.
}

// At its very end a thread has no index of its own.
struct Late {
  ~Late() { EXPECT_EQ(counters->Add(Count::kHits), expected); }
  Counters* counters;
  int64_t expected;
};

TEST(CountersTest, ThreadsAtTheirVeryEndShareAStripe) {
  Counters counters;
  for (int64_t i = 1; i <= 3; ++i) {
    InANewThread([&] {
      thread_local Late late = {&counters, i};  // Destroyed after the record.
      (void)&late;
      ThreadIndex();
    });
  }
  EXPECT_EQ(counters.Sum(Count::kHits), 3);
}

constexpr int64_t kSecond = 1'000'000'000;

// The statistics after one eviction, at `now`.
CacheStats Evict(int64_t created, int64_t deadline, int64_t now) {
  EntryHeader entry;
  entry.SetCreated(CreationTimeAt(created));
  entry.deadline_nanos.store(deadline);
  EvictionRecord record;
  record.Add(entry, {now, CreationTimeAt(now)});
  CacheStats stats;
  record.AddTo(&stats);
  EXPECT_EQ(stats.evictions, 1);
  EXPECT_EQ(stats.eviction_age.count(), 1);
  return stats;
}

// The bucket that has something.
size_t BucketOf(const Histogram& histogram) {
  size_t bucket = 0;
  while (histogram.counts[bucket] == 0) ++bucket;
  return bucket;
}

TEST(EvictionRecordTest, EachBoundIsTwoToFourTimesTheOneBefore) {
  for (size_t i = 1; i < std::size(kEvictionAgeBounds); ++i) {
    const double ratio = kEvictionAgeBounds[i] / kEvictionAgeBounds[i - 1];
    EXPECT_GE(ratio, 2) << i;
    EXPECT_LE(ratio, 4.3) << i;
  }
}

TEST(EvictionRecordTest, EveryAgeIsInTheBucketThatASearchFinds) {
  for (int shift = 0; shift < 32; ++shift) {
    for (int64_t steps :
         {(int64_t{1} << shift) - 1, int64_t{1} << shift,
          (int64_t{1} << shift) + 1, int64_t{3} << shift >> 1}) {
      if (steps > int64_t{kMaxAge}) continue;
      const int64_t age = steps * kAgeStepNanos;
      size_t expected = 0;
      while (expected < std::size(kEvictionAgeBounds) &&
             static_cast<double>(age) / 1e9 >
                 kEvictionAgeBounds[expected] + 1e-9) {
        ++expected;
      }
      EXPECT_EQ(BucketOf(Evict(0, Clock::kNever, age).eviction_age), expected)
          << steps;
    }
  }
}

// Promise: Observable
TEST(EvictionRecordTest, PartOfTheLifeThatIsLeftIsInItsTenth) {
  const auto bucket = [](int64_t lived, int64_t left) {
    return BucketOf(Evict(0, lived + left, lived).eviction_life_left);
  };
  for (size_t tenth = 1; tenth <= 10; ++tenth) {
    const auto left = static_cast<int64_t>(tenth) * kSecond;
    // A bound belongs to the bucket below it.
    EXPECT_EQ(bucket(10 * kSecond - left, left), tenth - 1);
    if (tenth == 10) continue;
    EXPECT_EQ(bucket(10 * kSecond - left, left + 1), tenth);
    EXPECT_EQ(bucket(10 * kSecond - left, left - 1), tenth - 1);
  }
}

TEST(EvictionRecordTest, WhatHasExpiredHasNothingLeft) {
  for (int64_t late : {int64_t{0}, int64_t{1}, 5 * kSecond}) {
    const CacheStats stats = Evict(0, kSecond, kSecond + late);
    EXPECT_EQ(BucketOf(stats.eviction_life_left), 0u);
  }
  EXPECT_EQ(BucketOf(Evict(0, 0, 0).eviction_life_left), 0u);
}

TEST(EvictionRecordTest, WhatNeverExpiresHasAnAgeAndNoLife) {
  const CacheStats stats = Evict(0, Clock::kNever, kSecond);
  EXPECT_EQ(stats.eviction_life_left.count(), 0);
  EXPECT_EQ(stats.eviction_life_left.sum, 0);
}

TEST(EvictionRecordTest, LivesOfAnyLengthAtAnyTimeDoNotOverflow) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = Clock::kNever - 1;
  // Just stored, for 292 years.
  EXPECT_EQ(BucketOf(Evict(0, kMost, 0).eviction_life_left), 9u);
  EXPECT_EQ(BucketOf(Evict(kLeast, -2, kLeast).eviction_life_left), 9u);
  // An age is up to a step too large.
  for (const int64_t lived : {14'775'808, 19'999'998}) {
    EXPECT_EQ(BucketOf(Evict(kLeast, kMost, kLeast + lived).eviction_life_left),
              9u);
  }
  // The greatest age, of twice that.
  const int64_t age = int64_t{kMaxAge} * kAgeStepNanos;
  const int64_t start = kLeast / kAgeStepNanos * kAgeStepNanos;
  EXPECT_EQ(BucketOf(Evict(0, 2 * age, age).eviction_life_left), 4u);
  EXPECT_EQ(
      BucketOf(Evict(start, start + 2 * age, start + age).eviction_life_left),
      4u);
}

// Weights, of which each entry may have one.
TEST(PatienceForTest, IsNotSmallBecauseOfFewBytes) {
  EXPECT_EQ(PatienceFor({kUnlimited, 1000}), 1024);
  EXPECT_EQ(PatienceFor({160, 1000}), 10);
}

constexpr int64_t kMinute = 60'000'000'000;

class StatsLoggerTest : public ::testing::Test {
 protected:
  static CacheOptions OptionsThatLogTo(std::vector<std::string>* lines) {
    CacheOptions options;
    options.stats_log = [lines](absl::string_view line) {
      lines->emplace_back(line);
    };
    return options;
  }

  std::vector<std::string> lines_;
  StatsLogger logger_{OptionsThatLogTo(&lines_), /*now_nanos=*/0};
  CacheStats stats_;
};

TEST_F(StatsLoggerTest, LineComesOnceAMinuteWithWhatHasHappenedInIt) {
  stats_.hits = 3;
  logger_.Run(kMinute - 1, stats_);
  EXPECT_THAT(lines_, IsEmpty());
  logger_.Run(kMinute, stats_);
  stats_.misses = 1;
  logger_.Run(kMinute, stats_);
  logger_.Run(2 * kMinute, stats_);
  EXPECT_THAT(lines_, ElementsAre("cache(cache) - qpm: 3, hit_ratio: 100.0%, "
                                  "elements: 0, hit: 3, miss: 0",
                                  "cache(cache) - qpm: 1, hit_ratio: 0.0%, "
                                  "elements: 0, hit: 0, miss: 1"));
  logger_.Run(3 * kMinute, stats_);  // Nobody has read.
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(StatsLoggerTest, NeverIsDueWithoutALog) {
  EXPECT_EQ(StatsLogger(CacheOptions(), 0).due_nanos(), Clock::kNever);
}

}  // namespace
}  // namespace wheelcache::internal
