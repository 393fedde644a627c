// What the benchmarks are measured by: samples of memory, shared cores, sizes
// over time, stolen time, against files that stand for the system's, and lines
// that move between cores.

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/benchmarks/line_model.h"
#include "wheelcache/benchmarks/memory_series.h"
#include "wheelcache/benchmarks/shared_core.h"
#include "wheelcache/benchmarks/size_history.h"
#include "wheelcache/benchmarks/stolen_time.h"

namespace wheelcache::benchmarks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::UnorderedElementsAre;

TEST(MemorySeriesTest, KnowsTheWorstAndWhereItWasFirst) {
  MemorySeries series(/*length=*/9, /*parts=*/3);
  EXPECT_EQ(series.worst(), 0);
  series.Add(1, 0.5);
  series.Add(4, 1.25);
  series.Add(5, 1.25);
  series.Add(8, 1);
  EXPECT_EQ(series.worst(), 1.25);
  EXPECT_EQ(series.worst_at(), 4);
}

TEST(MemorySeriesTest, HasTheLargestOfEachPart) {
  MemorySeries series(/*length=*/9, /*parts=*/3);
  series.Add(0, 0.25);
  series.Add(2.9, 0.75);
  series.Add(3, 1.25);
  series.Add(4, 1);
  series.Add(8.9, 0.5);
  EXPECT_THAT(series.parts(), ElementsAre(0.75, 1.25, 0.5));
}

TEST(MemorySeriesTest, APartWithoutASampleIsAsThePartBefore) {
  MemorySeries series(/*length=*/4, /*parts=*/4);
  series.Add(1, 0.75);
  series.Add(3, 0.5);
  EXPECT_THAT(series.parts(), ElementsAre(0, 0.75, 0.75, 0.5));
}

TEST(MemorySeriesTest, WhatIsBeyondTheEndCountsForTheLastPart) {
  MemorySeries series(/*length=*/4, /*parts=*/2);
  series.Add(1, 0.5);
  series.Add(4, 1);
  series.Add(4.1, 1.5);
  EXPECT_THAT(series.parts(), ElementsAre(0.5, 1.5));
}

TEST(SharedCoreTest, FindsNothingBeforeItLooks) {
  const SharedCore core;
  EXPECT_EQ(core.share(), 0);
}

// One test for both, as the shortest is that of the process.
TEST(SharedCoreTest, ComparesWhatALoopTookEvery2048thCallWithTheShortest) {
  SharedCore core;
  core.Count(1000);
  EXPECT_EQ(core.share(), 0);
  core.Count(1500);
  EXPECT_EQ(core.share(), 0);
  core.Count(1501);
  EXPECT_EQ(core.share(), 1.0 / 3);

  // That of any thread, from when it is known.
  SharedCore other;
  other.Count(1600);
  EXPECT_EQ(other.share(), 1);
  other.Count(800);
  EXPECT_EQ(other.share(), 1.0 / 2);
  core.Count(1400);
  EXPECT_EQ(core.share(), 2.0 / 4);

  SharedCore looking;
  looking.Count(2);  // Less than a loop takes.
  for (int call = 1; call < 2048; ++call) looking.Look();
  EXPECT_EQ(looking.share(), 0);
  looking.Look();
  EXPECT_EQ(looking.share(), 1.0 / 2);
}

SizeHistory Named(const std::string& name) {
  for (const SizeHistory& history : SizeHistories()) {
    if (history.name == name) return history;
  }
  ADD_FAILURE() << "no history " << name;
  return {};
}

TEST(SizeHistoryTest, HasThePhaseOfAPosition) {
  const SizeHistory history = Named("small_large_small");
  EXPECT_EQ(history.volumes(), 9);
  EXPECT_EQ(history.PhaseAt(0).smallest, 64);
  EXPECT_EQ(history.PhaseAt(2.999).smallest, 64);
  EXPECT_EQ(history.PhaseAt(3).smallest, 64 << 10);
  EXPECT_EQ(history.PhaseAt(5.999).largest, 512 << 10);
  EXPECT_EQ(history.PhaseAt(6).largest, 128);
  // Threads may end beyond the end.
  EXPECT_EQ(history.PhaseAt(9.001).largest, 128);
}

TEST(SizeHistoryTest, DrawsSizesWithinThePhase) {
  std::mt19937_64 random(/*seed=*/1);
  for (const SizeHistory& history : SizeHistories()) {
    for (const SizePhase& phase : history.phases) {
      for (int i = 0; i < 1000; ++i) {
        EXPECT_THAT(
            phase.DrawSize(random),
            AllOf(Ge(phase.smallest), Le(phase.largest), Le(kLargestSize)))
            << history.name;
      }
    }
  }
}

TEST(SizeHistoryTest, DrawsAsManyBelowTheMiddleAsAboveOfALogarithmicRange) {
  const SizePhase phase = Named("log_uniform").phases.front();
  std::mt19937_64 random(/*seed=*/1);
  int below = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (phase.DrawSize(random) < 4096) ++below;  // 16 * 2^8, of 16 * 2^16.
  }
  EXPECT_NEAR(below, 5000, 200);
}

TEST(SizeHistoryTest, CreepsFromTheSmallestToTheLargest) {
  const SizeHistory history = Named("creep");
  EXPECT_EQ(history.phases.front().smallest, 64);
  EXPECT_EQ(history.phases.back().largest, 18 << 10);
  for (size_t i = 1; i < history.phases.size(); ++i) {
    EXPECT_GT(history.phases[i].smallest, history.phases[i - 1].largest);
  }
}

TEST(SizeHistoryTest, ReadsWhatItKeeps) {
  std::vector<std::string> reading;
  for (const SizeHistory& history : SizeHistories()) {
    bool reads = false;
    for (const SizePhase& phase : history.phases) reads |= phase.reads_kept;
    EXPECT_EQ(reads, history.kept_stride > 0) << history.name;
    if (reads) reading.push_back(history.name);
  }
  EXPECT_THAT(reading, ElementsAre("kept_by_use"));
}

class StolenTimeTest : public testing::Test {
 protected:
  // What the system tells from now on.
  void Tell(const std::string& text) const { std::ofstream(file_) << text; }

  const std::string file_ = testing::TempDir() + "/stat";
};

TEST_F(StolenTimeTest, IsAPartOfWhatWasAskedForSinceTheBeginning) {
  // User, nice, system, idle, iowait, irq, softirq, steal and guests.
  Tell("cpu  100 20 30 4000 50 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  const StolenTime stolen(file_);
  EXPECT_EQ(stolen.share(), 0);
  // Who idles or waits for a disk does not ask.
  Tell("cpu  100 20 30 9000 99 6 7 80 9 10\n");
  EXPECT_EQ(stolen.share(), 0);
  Tell("cpu  110 25 34 9000 99 8 9 81 9 10\n");
  EXPECT_EQ(stolen.share(), 1.0 / 24);
  Tell("cpu  100 20 30 9000 99 6 7 90 9 10\n");
  EXPECT_EQ(stolen.share(), 1);
}

TEST_F(StolenTimeTest, IsNothingWhereTheSystemDoesNotTell) {
  // As Linux before 2.6.11.
  Tell("cpu  100 20 30 4000 50 6 7\n");
  const StolenTime old(file_);
  Tell("cpu  200 20 30 4000 50 6 7\n");
  EXPECT_EQ(old.share(), 0);
  const StolenTime other(testing::TempDir() + "/no/such/file");
  EXPECT_EQ(other.share(), 0);
}

class LineModelTest : public ::testing::Test {
 protected:
  // The writers of what an access of the other core made it fetch.
  std::vector<uintptr_t> WritersFor(int core, const char& at) {
    model_.Read(core, &at, 1, kReader);
    std::vector<uintptr_t> writers;
    for (const LineModel::Fetch& fetch : model_.TakeFetches()) {
      EXPECT_EQ(fetch.by, kReader);
      writers.insert(writers.end(), fetch.writers.begin(), fetch.writers.end());
    }
    return writers;
  }

  static constexpr uintptr_t kReader = 100;

  LineModel model_{3};
  alignas(64) std::array<char, 256> memory_ = {};
};

TEST_F(LineModelTest, WhatNobodyElseHasWrittenIsNotFetched) {
  EXPECT_THAT(WritersFor(0, memory_[0]), IsEmpty());
  model_.Write(0, &memory_[0], 1, 1);
  EXPECT_THAT(WritersFor(0, memory_[0]), IsEmpty());
}

TEST_F(LineModelTest, EachOtherCoreFetchesALineOnceAfterAWrite) {
  for (int i = 0; i < 2; ++i) {
    model_.Write(0, &memory_[0], 1, 1);
    for (const int core : {1, 2}) {
      EXPECT_THAT(WritersFor(core, memory_[63]), ElementsAre(1));
      EXPECT_THAT(WritersFor(core, memory_[63]), IsEmpty());
      EXPECT_THAT(WritersFor(core, memory_[64]), IsEmpty());
    }
  }
}

TEST_F(LineModelTest, AFetchTellsWhoHasWrittenSinceTheCoreHadTheLine) {
  model_.Write(0, &memory_[0], 1, 1);
  EXPECT_THAT(WritersFor(1, memory_[0]), ElementsAre(1));
  model_.Write(0, &memory_[1], 1, 2);
  model_.Write(2, &memory_[2], 1, 3);
  model_.Write(1, &memory_[3], 1, 4);
  const std::vector<LineModel::Fetch> fetches = model_.TakeFetches();
  ASSERT_EQ(fetches.size(), 2u);
  EXPECT_THAT(fetches[0].writers, UnorderedElementsAre(1, 2));  // By core 2.
  EXPECT_THAT(fetches[1].writers, UnorderedElementsAre(2, 3));  // By core 1.
  EXPECT_THAT(fetches[1].all_writers, UnorderedElementsAre(1, 2, 3));
  EXPECT_TRUE(fetches[1].writes);
  EXPECT_EQ(fetches[1].line, reinterpret_cast<uintptr_t>(&memory_[0]));
}

TEST_F(LineModelTest, AnAccessMayHaveSeveralLines) {
  model_.Write(0, &memory_[60], 70, 1);
  model_.Read(1, &memory_[0], 256, kReader);
  EXPECT_EQ(model_.TakeFetches().size(), 3u);
}

}  // namespace
}  // namespace wheelcache::benchmarks
