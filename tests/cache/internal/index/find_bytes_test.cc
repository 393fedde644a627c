// Sixteen bytes compared with one, against a loop.

#include "wheelcache/cache/internal/index/find_bytes.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

uint32_t FindInLoop(uint64_t low, uint64_t high, uint8_t byte) {
  uint32_t found = 0;
  for (int i = 0; i < 16; ++i) {
    const uint64_t word = i < 8 ? low : high;
    if ((word >> (i % 8 * 8) & 0xff) == byte) found |= 1u << i;
  }
  return found;
}

TEST(FindBytesTest, AgreesWithALoop) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    // Few values, so that neighbours are equal, and differ by one.
    const uint64_t mask = i % 2 == 0 ? 0x0303030303030303 : ~uint64_t{0};
    const uint64_t low = random() & mask;
    const uint64_t high = random() & mask;
    const auto byte = static_cast<uint8_t>(random() & mask);
    const uint32_t expected = FindInLoop(low, high, byte);
    ASSERT_EQ(FindBytes(low, high, byte), expected)
        << low << " " << high << " " << int{byte};
    ASSERT_EQ(FindBytesInWords(low, high, byte), expected)
        << low << " " << high << " " << int{byte};
  }
}

}  // namespace
}  // namespace wheelcache::internal
