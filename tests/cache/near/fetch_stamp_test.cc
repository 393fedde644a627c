#include "wheelcache/cache/near/fetch_stamp.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(FetchStampTest, SessionIsThatOfTheFetch) {
  EXPECT_EQ(FetchStamp::Of(7, 123).session(), 7);
  EXPECT_EQ(FetchStamp::Of((uint64_t{1} << 62) - 1, 0).session(),
            (uint64_t{1} << 62) - 1);
  EXPECT_EQ(FetchStamp::Of(0, 123).session(), 0);
  EXPECT_FALSE(FetchStamp::Of(7, 123).BeganWithin(1'000, 123));
}

TEST(FetchStampTest, TimeIsComparedToTheNanosecond) {
  for (const int64_t now :
       {int64_t{0}, int64_t{5}, kLeast, kLeast + 50, kMost, kMost - 50}) {
    const auto at = [now](int64_t nanos) {
      return static_cast<int64_t>(static_cast<uint64_t>(now) +
                                  static_cast<uint64_t>(nanos));
    };
    EXPECT_FALSE(FetchStamp::Of(0, at(-101)).BeganWithin(100, now)) << now;
    EXPECT_FALSE(FetchStamp::Of(0, at(-100)).BeganWithin(100, now)) << now;
    EXPECT_TRUE(FetchStamp::Of(0, at(-99)).BeganWithin(100, now)) << now;
    EXPECT_TRUE(FetchStamp::Of(0, at(99)).BeganWithin(100, now)) << now;
  }
}

TEST(FetchStampTest, BitZeroIsOfNoConcern) {
  const FetchStamp stamp = FetchStamp::Of(7, 0);
  EXPECT_EQ(FetchStamp::FromBits(stamp.bits() | 1).bits(), stamp.bits());
  EXPECT_EQ(stamp.bits() & 1, 0);
}

}  // namespace
}  // namespace wheelcache::internal
