// When the benchmarks take a core for shared, by what loops took.

#include "wheelcache/benchmarks/shared_core.h"

#include "gtest/gtest.h"

namespace wheelcache::benchmarks {
namespace {

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

}  // namespace
}  // namespace wheelcache::benchmarks
