// What the benchmarks take for stolen, against files that stand for the
// system's.

#include "wheelcache/benchmarks/stolen_time.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace wheelcache::benchmarks {
namespace {

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

}  // namespace
}  // namespace wheelcache::benchmarks
