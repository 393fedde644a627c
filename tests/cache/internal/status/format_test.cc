#include "wheelcache/cache/internal/status/format.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

TEST(FormatTest, CountsAreInGroupsOfThreeDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(-123), "-123");
}

TEST(FormatTest, BytesAreInTheLargestUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{300} << 20), "300 MiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 50), "5120 TiB");
}

TEST(FormatTest, TimesAreInTheLargestUnitThatFits) {
  EXPECT_EQ(FormatSeconds(0), "0 ms");
  EXPECT_EQ(FormatSeconds(0.1), "100 ms");
  EXPECT_EQ(FormatSeconds(1), "1 s");
  EXPECT_EQ(FormatSeconds(41.4), "41 s");
  EXPECT_EQ(FormatSeconds(90), "1.5 min");
  EXPECT_EQ(FormatSeconds(3600), "1 h");
  EXPECT_EQ(FormatSeconds(30 * 86400), "30 d");
}

TEST(FormatTest, SharesArePercentages) {
  EXPECT_EQ(FormatShare(0), "0.0 %");
  EXPECT_EQ(FormatShare(0.9314), "93.1 %");
  EXPECT_EQ(FormatShare(1), "100.0 %");
}

TEST(FormatTest, NumbersAndTheirUnitsDoNotBreakApart) {
  EXPECT_EQ(KeepUnits("at 20 s with 9.5 % of it"),
            "at 20\xC2\xA0s with 9.5\xC2\xA0% of it");
}

}  // namespace
}  // namespace wheelcache::internal
