// Which entries are moved in memory: those whose bytes can be copied, with what
// belongs to them.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_move_environment.h"

namespace wheelcache {
namespace {

using CacheMoveTypesTest = CacheMoveEnvironment;

TEST_F(CacheMoveTypesTest, ChargeOfAWeigherMovesWithItsEntry) {
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    StringCache::Hooks hooks;
    hooks.weigher = [](int key, std::string_view) {
      return uint64_t{1000} + static_cast<uint64_t>(key);
    };
    Fill(hooks);
    const auto places = Places();
    const int64_t bytes = cache_->bytes();
    const int64_t overhead = OverheadOfAnEntry<int, std::string>();
    for (int i = 0; i < 3; ++i) {
      MoveAll(cache_.get());
      ExpectWhole();
    }
    EXPECT_EQ(CountMoved(places), kKeys);
    EXPECT_EQ(cache_->bytes(), bytes);
    for (int key = 0; key < kKeys; ++key) {
      EXPECT_EQ(cache_->Find(key).charge(), overhead + 1000 + key);
    }
    for (int key = 0; key < kKeys; ++key) cache_->Del(key);
    EXPECT_EQ(cache_->bytes(), 0);
  }
}

// Of which the entry has a pointer only.
TEST_F(CacheMoveTypesTest, StringsThatLieElsewhereStay) {
  cache_ = New<int, std::string>();
  const std::string inside(64 << 10, 'i');
  const std::string outside((64 << 10) + 1, 'o');
  for (int key = 0; key < 20; ++key) {
    cache_->Set(key, key % 2 == 0 ? inside : outside);
  }
  std::vector<const char*> places;
  for (int key = 0; key < 20; ++key) places.push_back(PlaceOf(key));
  MoveAll(cache_.get());
  for (int key = 0; key < 20; ++key) {
    const bool stays = PlaceOf(key) == places[static_cast<size_t>(key)];
    EXPECT_EQ(stays, key % 2 != 0) << key;
    EXPECT_EQ(cache_->Peek(key), key % 2 == 0 ? inside : outside);
  }
  ExpectNoBrokenInvariant(cache_.get());
  for (int key = 0; key < 20; ++key) EXPECT_TRUE(cache_->Del(key));
  MoveAll(cache_.get());
  ExpectNoBrokenInvariant(cache_.get());
}

// Each value tells which one it is.
struct Plain {
  int64_t number;
  int64_t more[3] = {};
};
struct alignas(64) Aligned {
  int64_t number;
};
struct Atomic {
  explicit Atomic(int64_t n) : number(n) {}
  Atomic(const Atomic& other) : number(other.number.load()) {}
  std::atomic<int64_t> number;
};
struct Uncopyable {  // Whose bytes a compiler would copy.
  explicit Uncopyable(int64_t n) : number(n) {}
  Uncopyable(const Uncopyable&) = delete;
  Uncopyable& operator=(const Uncopyable&) = delete;
  std::atomic<int64_t> number;
};
struct Shared {
  explicit Shared(int64_t n) : pointer(std::make_shared<int64_t>(n)) {}
  std::shared_ptr<int64_t> pointer;
};
struct KnowsItsPlace {
  explicit KnowsItsPlace(int64_t n) : number(n) {}
  KnowsItsPlace(const KnowsItsPlace& other) : number(other.number) {}
  int64_t number;
  const KnowsItsPlace* self = this;
};

int64_t NumberOf(const Plain& value) { return value.number; }
int64_t NumberOf(const Aligned& value) {
  return reinterpret_cast<uintptr_t>(&value) % 64 == 0 ? value.number : -1;
}
int64_t NumberOf(const Atomic& value) { return value.number.load(); }
int64_t NumberOf(const Uncopyable& value) { return value.number.load(); }
int64_t NumberOf(const Shared& value) { return *value.pointer; }
int64_t NumberOf(const KnowsItsPlace& value) {
  return value.self == &value ? value.number : -1;
}

template <typename Value>
class CacheMoveOfTypesTest : public CacheEnvironment {};
using Types =
    ::testing::Types<Plain, Aligned, Atomic, Uncopyable, Shared, KnowsItsPlace>;
TYPED_TEST_SUITE(CacheMoveOfTypesTest, Types);

TYPED_TEST(CacheMoveOfTypesTest, MovesWhatIsCopiedByteByByteAndNothingElse) {
  constexpr int kKeys = 50;
  for (const bool weighs : {false, true}) {
    typename Cache<int, TypeParam>::Hooks hooks;
    if (weighs) {
      hooks.weigher = [](int, const TypeParam&) { return uint64_t{1}; };
    }
    auto cache = this->template New<int, TypeParam>(hooks);
    std::vector<const TypeParam*> places;
    const auto place_of = [&](int key) {
      const TypeParam* place = nullptr;
      cache->Visit(key, [&](const TypeParam& value) { place = &value; });
      return place;
    };
    for (int key = 0; key < kKeys; ++key) {
      if constexpr (std::is_constructible_v<TypeParam, int64_t>) {
        cache->Set(key, int64_t{key});
      } else {
        cache->Set(key, TypeParam{key});
      }
    }
    for (int key = 0; key < kKeys; ++key) places.push_back(place_of(key));
    MoveAll(cache.get());
    for (int key = 0; key < kKeys; ++key) {
      EXPECT_EQ(place_of(key) != places[static_cast<size_t>(key)],
                (std::is_same_v<TypeParam, Plain>))
          << key;
      const auto handle = cache->Find(key);
      ASSERT_TRUE(handle) << key;
      EXPECT_EQ(NumberOf(*handle), key);
    }
    ExpectNoBrokenInvariant(cache.get());
  }
}

}  // namespace
}  // namespace wheelcache
