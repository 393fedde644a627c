// The comparison of keys, against the standard library's.

#include "wheelcache/cache/types/equal_strings.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

constexpr size_t kLongest = 70;

// Each in memory of its own, so that AddressSanitizer sees a look beyond.
TEST(EqualStringsTest, EqualAreEqualAtEveryLength) {
  for (size_t size = 0; size <= kLongest; ++size) {
    const std::string a(size, 'x');
    const std::string b(size, 'x');
    EXPECT_TRUE(EqualStrings(a, b)) << size;
  }
}

// Each among other bytes, so that a look beyond sees a difference.
TEST(EqualStringsTest, WhatIsBesideTheStringsDoesNotCount) {
  constexpr size_t kBeside = 40;
  for (size_t size = 0; size <= kLongest; ++size) {
    const std::string a = std::string(kBeside, 'a') + std::string(size, 'x') +
                          std::string(kBeside, 'b');
    const std::string b = std::string(kBeside, 'c') + std::string(size, 'x') +
                          std::string(kBeside, 'd');
    EXPECT_TRUE(EqualStrings(std::string_view(a).substr(kBeside, size),
                             std::string_view(b).substr(kBeside, size)))
        << size;
  }
}

TEST(EqualStringsTest, OneBitIsSeenWhereverItIs) {
  for (size_t size = 1; size <= kLongest; ++size) {
    const std::string a(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string b = a;
        b[i] = static_cast<char>(1 << bit);
        EXPECT_FALSE(EqualStrings(a, b)) << size << ", byte " << i;
      }
    }
  }
}

TEST(EqualStringsTest, StringsOfDifferentLengthsDiffer) {
  const std::string a(kLongest, 'x');
  for (size_t size = 0; size < kLongest; ++size) {
    EXPECT_FALSE(EqualStrings(a, std::string_view(a).substr(0, size)));
    EXPECT_FALSE(EqualStrings(std::string_view(a).substr(0, size), a));
  }
}

TEST(EqualStringsTest, EmptyViewsOfNothingAreEqual) {
  EXPECT_TRUE(EqualStrings(std::string_view(), std::string_view("")));
}

}  // namespace
}  // namespace wheelcache::internal
