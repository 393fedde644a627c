// How keys and values lie in an entry: what they take, and that they come out
// as they went in.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/base/config.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/typed_pool.h"

namespace wheelcache::internal {
namespace {

// An entry of a pool of its own.
template <typename Key, typename Value>
class OneEntry {
 public:
  template <typename K, typename V>
  OneEntry(K&& key, V&& value)
      : ref_(pool_.New(std::forward<K>(key), std::forward<V>(value))) {}
  OneEntry(const OneEntry&) = delete;
  OneEntry& operator=(const OneEntry&) = delete;
  ~OneEntry() { pool_.Unpin(ref_); }

  bool IsPlain(size_t most_bytes) const {
    return (*pool_).IsPlain((*pool_).FootprintOf(ref_), most_bytes);
  }

  const Entry<Key, Value>& operator*() const { return pool_.At(ref_); }
  const Entry<Key, Value>* operator->() const { return &pool_.At(ref_); }

 private:
  testing::TypedPool<Key, Value> pool_{Charges::kFromSizes};
  const EntryRef ref_;
};

template <typename Key, typename Value>
size_t BlockOf(const OneEntry<Key, Value>& entry) {
  return Arena::BlockBytes(entry->footprint().inside);
}

TEST(EntryLayoutTest, TwoNumbersTakeFiftySixBytes) {
  const OneEntry<uint64_t, uint64_t> entry(uint64_t{1}, uint64_t{2});
  EXPECT_EQ(BlockOf(entry), 56u);
  EXPECT_EQ(EntryPool::MemoryOf(entry->footprint()), 56u + kIndexBytes);
  EXPECT_EQ(entry->key(), 1u);
  EXPECT_EQ(entry->value(), 2u);
}

// Two cache lines.
TEST(EntryLayoutTest, AKeyOf21AndAValueOf64CharactersTake128Bytes) {
  const OneEntry<std::string, std::string> entry(std::string(21, 'k'),
                                                 std::string(64, 'v'));
  EXPECT_EQ(BlockOf(entry), 128u);
  EXPECT_EQ(EntryPool::MemoryOf(entry->footprint()), 128u + kIndexBytes);
}

TEST(EntryLayoutTest, ObjectsComeBeforeStringsAndNeedNoPadding) {
  const OneEntry<std::string, double> entry("a key", 1.5);
  EXPECT_EQ(entry->footprint().inside, kEntryBytes + sizeof(double) + 1 + 5);
  EXPECT_EQ(entry->key(), "a key");
  EXPECT_EQ(entry->value(), 1.5);
  const OneEntry<uint8_t, uint64_t> padded(uint8_t{1}, uint64_t{2});
  EXPECT_EQ(padded->footprint().inside, kEntryBytes + 16);
}

TEST(EntryLayoutTest, StringsOfEveryLengthComeOutAsTheyWentIn) {
  for (const size_t length :
       {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{16383},
        kMaxInside, kMaxInside + 1, size_t{1} << 21, (size_t{1} << 21) + 1}) {
    std::string text(length, 'x');
    for (size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * 7 / 3);
    const OneEntry<std::string, std::string> as_value("key", text);
    EXPECT_EQ(as_value->key(), "key");
    EXPECT_EQ(as_value->value(), text) << length;
    const OneEntry<std::string, std::string> as_key(text, "value");
    EXPECT_EQ(as_key->key(), text) << length;
    EXPECT_EQ(as_key->value(), "value");
  }
}

TEST(EntryLayoutTest, WhatIsLargeLiesOutsideAndIsCounted) {
  const OneEntry<std::string, std::string> text("key",
                                                std::string(100'000, 'v'));
  EXPECT_LE(text->footprint().inside, 64u);
  EXPECT_GT(EntryPool::MemoryOf(text->footprint()), 100'000u);
  EXPECT_EQ(text->footprint().outside % PageBytes(1), 0u);  // Pages of its own.
  EXPECT_LT(EntryPool::MemoryOf(text->footprint()), 100'200u + PageBytes(1));
  using Large = std::array<char, 100'000>;
  auto large = std::make_unique<Large>();
  large->back() = 'x';
  const OneEntry<int, Large> object(1, *large);
  EXPECT_LE(object->footprint().inside, 64u);
  EXPECT_GT(EntryPool::MemoryOf(object->footprint()), 100'000u);
  EXPECT_EQ(object->value().back(), 'x');
}

TEST(EntryLayoutTest, OnlySmallPairsThatEndWithTheirMemoryArePlain) {
  EXPECT_TRUE((OneEntry<int, int>(1, 2).IsPlain(100)));
  EXPECT_FALSE((OneEntry<int, std::shared_ptr<int>>(1, nullptr).IsPlain(100)));
  EXPECT_FALSE(
      (OneEntry<int, std::array<char, 100'000>>(1, std::array<char, 100'000>())
           .IsPlain(1'000'000)));
  const OneEntry<std::string, std::string> text("key", std::string(100, 'v'));
  EXPECT_TRUE(text.IsPlain(text->footprint().inside));
  EXPECT_FALSE(text.IsPlain(text->footprint().inside - 1));
  const OneEntry<std::string, std::string> large("key",
                                                 std::string(100'000, 'v'));
  EXPECT_FALSE(large.IsPlain(1'000'000));  // Not all of it is in its block.
}

TEST(EntryLayoutTest, OnlyWhatABytewiseCopyCopiesIsCopyable) {
  const auto copyable = [](auto key, auto* value) {
    using Key = decltype(key);
    using Value = std::remove_pointer_t<decltype(value)>;
    return Layout<Key, Value>::kCopyable;
  };
  struct alignas(64) Aligned {
    char byte;
  };
  EXPECT_TRUE(copyable(1, static_cast<int*>(nullptr)));
  EXPECT_TRUE(copyable(std::string(), static_cast<std::string*>(nullptr)));
  EXPECT_FALSE(copyable(1, static_cast<std::shared_ptr<int>*>(nullptr)));
  EXPECT_FALSE(copyable(1, static_cast<std::atomic<int>*>(nullptr)));
  EXPECT_FALSE(copyable(1, static_cast<Aligned*>(nullptr)));
}

TEST(EntryLayoutTest, TwoOfTheLargestThatLieInsideFitIntoABlock) {
  using Largest = std::array<char, kMaxInside>;
  EXPECT_TRUE(Stored<Largest>::kInside);
  const OneEntry<std::string, std::string> strings(
      std::string(kMaxInside, 'k'), std::string(kMaxInside, 'v'));
  EXPECT_LE(strings->footprint().inside, Arena::kMaxBytes);
  const auto largest = std::make_unique<Largest>();
  const OneEntry<Largest, Largest> objects(*largest, *largest);
  EXPECT_LE(objects->footprint().inside, Arena::kMaxBytes);
}

struct alignas(64) Aligned {
  int number;
};

TEST(EntryLayoutTest, ObjectsLieAtTheirAlignment) {
  for (int i = 1; i < 20; ++i) {
    const OneEntry<std::string, Aligned> one(std::string(i, 'k'), Aligned{i});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&one->value()) % 64, 0u);
    EXPECT_EQ(one->value().number, i);
    EXPECT_EQ(one->key(), std::string(i, 'k'));
    const OneEntry<char, Aligned> two('k', Aligned{i});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&two->value()) % 64, 0u);
    EXPECT_EQ(two->key(), 'k');
  }
}

TEST(EntryLayoutTest, StringsAreMadeFromAllThatIsAString) {
  const std::string s = "text";
  const char* const pointer = "text";
  using Strings = OneEntry<std::string, std::string>;
  EXPECT_EQ(Strings(s, s)->value(), "text");
  EXPECT_EQ(Strings(s, std::string("text"))->value(), "text");
  EXPECT_EQ(Strings(s, "text")->value(), "text");
  EXPECT_EQ(Strings(s, pointer)->value(), "text");
  EXPECT_EQ(Strings(s, std::string_view("text"))->value(), "text");
  EXPECT_EQ(Strings(s, absl::string_view("text"))->value(), "text");
}

TEST(EntryLayoutTest, MoveOnlyValuesAreMoved) {
  const OneEntry<std::string, std::unique_ptr<int>> entry(
      "key", std::make_unique<int>(3));
  EXPECT_EQ(*entry->value(), 3);
}

// Counts what lives, and throws when told to.
class Counted {
 public:
  explicit Counted(bool fails) {
#ifdef ABSL_HAVE_EXCEPTIONS
    if (fails) throw std::runtime_error("told to");
#endif
    static_cast<void>(fails);
    ++living;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --living; }

  static inline int living = 0;
};

TEST(EntryLayoutTest, KeyAndValueAreDestroyedOnce) {
  { const OneEntry<Counted, Counted> entry(false, false); }
  EXPECT_EQ(Counted::living, 0);
}

#ifdef ABSL_HAVE_EXCEPTIONS
TEST(EntryLayoutTest, AConstructorThatThrowsLeavesNothing) {
  testing::TypedPool<Counted, Counted> pool(Charges::kFromSizes);
  const EntryRef first = pool.New(false, false);
  pool.Unpin(first);
  EXPECT_THROW(pool.New(true, false), std::runtime_error);
  EXPECT_THROW(pool.New(false, true), std::runtime_error);
  EXPECT_EQ(Counted::living, 0);
  const EntryRef again = pool.New(false, false);
  EXPECT_EQ(again, first) << "a block was lost";
  pool.Unpin(again);
}
#endif

// Whether the pool has ended shows in its last entry.
TEST(EntryPoolTest, AnOrphanOutlivesTheCache) {
  testing::TypedPool<int, Counted> typed(Charges::kFromSizes);
  const EntryRef kept = typed.New(1, false);
  const EntryRef gone = typed.New(2, false);
  EntryPool* const pool = typed.release();
  pool->Pin(kept);
  pool->Pin(gone);
  pool->Unpin(kept);
  pool->UnpinOutside(gone);
  // The analyzer does not see that the pool has owners left.
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
  pool->Unpin(gone);
  EXPECT_EQ(Counted::living, 1);
  pool->Abandon();
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
  const auto& entry = static_cast<Entry<int, Counted>&>(pool->At(kept));
  EXPECT_EQ(entry.key(), 1);
  pool->UnpinOutside(kept);
  EXPECT_EQ(Counted::living, 0);
}

}  // namespace
}  // namespace wheelcache::internal
