// The timing wheel, in all its forms, against an oracle: random calls, each
// outcome compared, the invariants checked after each.

#include <cstdint>
#include <iostream>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/numbered_wheels.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/testing/timing_wheel_driver.h"

namespace wheelcache {
namespace {

// A few hundred calls: few enough to read, when they fail.
constexpr size_t kTapeSize = 4096;

template <typename Wheel>
class TimingWheelModelTest : public testing::Test {};

using Wheels =
    testing::Types<PointerWheel, IndexWheel<uint32_t>, IndexWheel<uint64_t>>;
TYPED_TEST_SUITE(TimingWheelModelTest, Wheels);

TYPED_TEST(TimingWheelModelTest, AgreesWithASortedMap) {
  uint64_t seed = TestSeed();
  for (uint64_t calls = 0; calls < TestOperations(); ++seed) {
    const std::vector<uint8_t> bytes = RandomBytes(seed, kTapeSize);
    Tape tape(bytes);
    TimingWheelDriver<TypeParam> driver(tape);
    const absl::Status status = driver.Run();
    calls += driver.calls();
    if (status.ok()) continue;

    Tape again(bytes);
    TimingWheelDriver<TypeParam>(again, &std::cerr).Run().IgnoreError();
    FAIL() << status.message() << "; repeat with WHEELCACHE_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace wheelcache
