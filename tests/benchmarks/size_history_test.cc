// Which sizes the histories of the memory benchmark have, and when.

#include "wheelcache/benchmarks/size_history.h"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace wheelcache::benchmarks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

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

}  // namespace
}  // namespace wheelcache::benchmarks
