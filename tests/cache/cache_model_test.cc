// The cache against its oracle: random calls of every method, every outcome
// compared, the invariants checked after every eighth call.

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_driver.h"
#include "wheelcache/tests/testing/cache_tape.h"
#include "wheelcache/tests/testing/shrink.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

// Some hundred calls to each cache.
constexpr size_t kTapeSize = 4096;

// The failure as a test, with as few calls as it takes.
std::string TestThatRepeats(const CacheSetup& setup,
                            const std::vector<CacheCall>& calls) {
  const auto few = Shrink(calls, [&](const std::vector<CacheCall>& some) {
    return !Disagreement(setup, some).empty();
  });
  std::ostringstream test;
  test << "TEST(CacheModelTest, NameTheBugHere) {\n  EXPECT_EQ(Disagreement("
       << setup << ",\n                         {";
  for (size_t i = 0; i < few.size(); ++i) {
    test << (i == 0 ? "" : ",\n                          ") << few[i];
  }
  test << "}),\n            \"\");\n}\n";
  return test.str();
}

// Promise: Each call takes effect at one instant
TEST(CacheModelTest, AgreesWithTheOracle) {
  uint64_t seed = TestSeed();
  for (uint64_t made = 0; made < TestOperations(); ++seed) {
    const std::vector<uint8_t> bytes = RandomBytes(seed, kTapeSize);
    Tape tape(bytes);
    CacheSetup setup = CacheSetupFrom(tape);
    // Every other clock begins below zero, most of these not for long.
    if (seed % 2 == 1) {
      setup.start_nanos = -1 - static_cast<int64_t>(seed % 64) *
                                   static_cast<int64_t>(seed % 3) *
                                   setup.tick_nanos;
    }
    const std::vector<CacheCall> calls = CacheCallsFrom(tape, setup);
    made += calls.size();
    const std::string difference = Disagreement(setup, calls);
    ASSERT_EQ(difference, "")
        << "WHEELCACHE_TEST_SEED=" << seed << " repeats this, and so does\n"
        << TestThatRepeats(setup, calls);
  }
}

// What the printed test of a failure looks like.
TEST(CacheModelTest, DeadlineBeyondTheLastWholeTickIsNeverDue) {
  EXPECT_EQ(Disagreement({10, 1864, 4, 1000000, 0, 3, false},
                         {{CacheCall::kLoad, 22, 54, 4611686018427387903},
                          {CacheCall::kAdvanceToDeadline, 7, 7, 0},
                          {CacheCall::kSet, 13, 18, 4611686018427387903},
                          {CacheCall::kAdvance, 5, 49, 5750000}}),
            "");
}

TEST(CacheModelTest, ScriptRepeatsCalls) {
  EXPECT_EQ(Disagreement({2, 1000, 1, 1000000, 0, 64, false},
                         {{CacheCall::kSet, 1, 20, 5000000},
                          {CacheCall::kSet, 2, 30, 9223372036854775807},
                          {CacheCall::kGet, 1, 0, 0},
                          {CacheCall::kSet, 3, 0, 1},
                          {CacheCall::kAdvanceToDeadline, 0, 0, 0},
                          {CacheCall::kMaintain, 0, 0, 0}}),
            "");
}

}  // namespace
}  // namespace wheelcache
