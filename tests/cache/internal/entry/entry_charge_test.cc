// What an entry is charged, and where that is stored: nowhere, or in four bytes
// behind its key and value.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/typed_pool.h"

namespace wheelcache::internal {
namespace {

using testing::TypedPool;
using Numbers = TypedPool<uint64_t, uint64_t>;
using Strings = TypedPool<std::string, std::string>;

TEST(EntryChargeTest, ChargeFromSizesIsTheMemoryOfTheEntry) {
  Numbers numbers(Charges::kFromSizes);
  const EntryRef number = numbers.New(1, 2);
  EXPECT_EQ(numbers.Charge(number), 40 + 8 + 8 + 12);
  numbers.Unpin(number);
  Strings strings(Charges::kFromSizes);
  const EntryRef text = strings.New(std::string(21, 'k'), std::string(64, 'v'));
  EXPECT_EQ(strings.Charge(text), 40 + 1 + 21 + 1 + 64 + 1 + 12);
  strings.Unpin(text);
}

TEST(EntryChargeTest, ChargeFromSizesIncludesWhatLiesOutside) {
  Strings strings(Charges::kFromSizes);
  const EntryRef text = strings.New("key", std::string(kMaxInside + 1, 'v'));
  EXPECT_GT(strings.Charge(text), int64_t{kMaxInside});
  // It has pages of its own.
  EXPECT_LT(strings.Charge(text),
            static_cast<int64_t>(kMaxInside + PageBytes(1) + 120));
  strings.Unpin(text);
  using Large = std::array<char, kMaxInside + 1>;
  TypedPool<int, Large> objects(Charges::kFromSizes);
  const EntryRef object = objects.New(1, *std::make_unique<Large>());
  EXPECT_GT(objects.Charge(object), int64_t{kMaxInside});
  EXPECT_LT(objects.Charge(object), int64_t{kMaxInside} + 120);
  objects.Unpin(object);
}

// Whether blocks follow each other without a gap shows in their references.
TEST(EntryChargeTest, OnlyAStoredChargeTakesMemory) {
  for (const auto& [charges, bytes] :
       {std::pair(Charges::kFromSizes, 56), std::pair(Charges::kStored, 64)}) {
    Numbers pool(charges);
    const EntryRef first = pool.New(1, 2);
    const EntryRef second = pool.New(3, 4);
    EXPECT_EQ((second - first) * 8, static_cast<uint32_t>(bytes));
    pool.Unpin(first);
    pool.Unpin(second);
  }
}

TEST(EntryChargeTest, OverheadIsAllThatAWeigherDoesNotSee) {
  TypedPool<uint64_t, uint32_t> pool(Charges::kStored);
  const EntryRef first = pool.New(1, 2);
  const EntryRef second = pool.New(3, 4);
  EXPECT_EQ(uint64_t{second - first} * 8 + kIndexBytes, kEntryOverhead + 8 + 4);
  pool.Unpin(first);
  pool.Unpin(second);
}

// A pair of strings of 0 to 24 bytes in all: so that the charge lies at every
// address, and ends with its block or begins a new granule.
TEST(EntryChargeTest, StoredChargeAndItsNeighboursStayWhatTheyAre) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  Strings pool(Charges::kStored);
  std::vector<EntryRef> refs;
  for (uint32_t i = 0; i < 25; ++i) {
    refs.push_back(pool.New(std::string(i / 3, 'k'),
                            std::string(i - i / 3, static_cast<char>(i))));
    pool.SetCharge(refs.back(), kMost - i);
  }
  for (uint32_t i = 0; i < 25; ++i) {
    EXPECT_EQ(pool.Charge(refs[i]), int64_t{kMost} - i);
    EXPECT_EQ(pool.At(refs[i]).key(), std::string(i / 3, 'k'));
    EXPECT_EQ(pool.At(refs[i]).value(),
              std::string(i - i / 3, static_cast<char>(i)));
  }
  for (const EntryRef ref : refs) pool.Unpin(ref);
}

struct alignas(64) Aligned {
  int number;
};

TEST(EntryChargeTest, ChargeIsStoredBehindObjectsAndPointersToObjects) {
  TypedPool<char, Aligned> aligned(Charges::kStored);
  using Large = std::array<char, kMaxInside + 1>;
  TypedPool<Large, char> outside(Charges::kStored);
  const auto large = std::make_unique<Large>();
  large->fill('x');
  const EntryRef first = aligned.New('k', Aligned{7});
  const EntryRef second = aligned.New('l', Aligned{8});
  const EntryRef third = outside.New(*large, 'v');
  aligned.SetCharge(first, 1);
  aligned.SetCharge(second, 2);
  outside.SetCharge(third, 3);
  EXPECT_EQ(aligned.Charge(first), 1);
  EXPECT_EQ(aligned.Charge(second), 2);
  EXPECT_EQ(outside.Charge(third), 3);
  EXPECT_EQ(aligned.At(first).value().number, 7);
  EXPECT_EQ(aligned.At(second).key(), 'l');
  EXPECT_EQ(outside.At(third).key(), *large);
  EXPECT_EQ(outside.At(third).value(), 'v');
  aligned.Unpin(first);
  aligned.Unpin(second);
  outside.Unpin(third);
}

// 48 bytes and the charge: a granule more than without it, which has to come
// back.
TEST(EntryChargeTest, BlockComesBackWithItsCharge) {
  Strings pool(Charges::kStored);
  const EntryRef first = pool.New("key", "val");
  pool.Unpin(first);
  const size_t carved = pool.arena().carved_bytes();
  for (int i = 0; i < 10; ++i) {
    const EntryRef again = pool.New("yek", "lav");
    EXPECT_EQ(again, first);
    pool.Unpin(again);
  }
  EXPECT_EQ(pool.arena().carved_bytes(), carved);
  EXPECT_TRUE(pool.arena().CheckInvariants().ok());
}

}  // namespace
}  // namespace wheelcache::internal
