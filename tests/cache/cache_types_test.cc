// The types that a cache takes: keys that are looked up by other types, keys
// with poor hashes, values that can only be moved.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

class CacheTypesTest : public CacheEnvironment {};

template <typename Text>
void ExpectLooksUp(Cache<std::string, int>& cache, const Text& key) {
  cache.Set(key, 1);
  EXPECT_EQ(cache.Get(key), 1);
  EXPECT_EQ(cache.Peek(key), 1);
  EXPECT_TRUE(cache.Find(key));
  EXPECT_TRUE(cache.Contains(key));
  EXPECT_TRUE(cache.Touch(key, absl::Seconds(1)));
  EXPECT_EQ(cache.TimeToLive(key), absl::Seconds(1));
  EXPECT_EQ(*cache.GetOrLoad(key, [] { return absl::StatusOr<int>(2); }), 1);
  EXPECT_TRUE(cache.Del(key));
}

TEST_F(CacheTypesTest, StringKeysAreLookedUpByAllThatIsAString) {
  auto cache = New<std::string, int>();
  const char* const pointer = "key";
  char array[] = "key";
  ExpectLooksUp(*cache, "key");
  ExpectLooksUp(*cache, pointer);
  ExpectLooksUp(*cache, array);
  ExpectLooksUp(*cache, std::string("key"));
  ExpectLooksUp(*cache, std::string_view("key"));
  ExpectLooksUp(*cache, absl::string_view("key"));
}

TEST_F(CacheTypesTest, AllStringTypesNameTheSameKey) {
  auto cache = New<std::string, int>();
  cache->Set(absl::string_view("a key that is no small string"), 1);
  cache->Set(std::string_view("a key that is no small string"), 2);
  cache->Set("a key that is no small string", 3);
  EXPECT_EQ(cache->size(), 1);
  EXPECT_EQ(cache->Get(std::string("a key that is no small string")), 3);
}

TEST_F(CacheTypesTest, StringKeysMayHoldAnyBytes) {
  auto cache = New<std::string, int>();
  const std::string zeros("\0\0", 2);
  cache->Set("", 0);
  cache->Set(zeros.substr(0, 1), 1);
  cache->Set(zeros, 2);
  EXPECT_EQ(cache->Get(""), 0);
  EXPECT_EQ(cache->Get(zeros.substr(1)), 1);
  EXPECT_EQ(cache->Get(absl::string_view(zeros)), 2);
}

TEST_F(CacheTypesTest, KeysMayBeStringViews) {
  auto standard = New<std::string_view, int>();
  standard->Set("key", 1);
  EXPECT_EQ(standard->Get(std::string("key")), 1);
  auto abseil = New<absl::string_view, int>();
  abseil->Set("key", 1);
  EXPECT_EQ(abseil->Get(std::string("key")), 1);
}

TEST_F(CacheTypesTest, KeysMayBePairsAndNumbers) {
  auto pairs = New<std::pair<int, std::string>, int>();
  pairs->Set(std::make_pair(1, "a"), 1);
  EXPECT_EQ(pairs->Get(std::make_pair(1, std::string("a"))), 1);
  auto numbers = New<uint64_t, int>();
  numbers->Set(~uint64_t{0}, 1);
  numbers->Set(0, 2);
  EXPECT_EQ(numbers->Get(~uint64_t{0}), 1);
  EXPECT_EQ(numbers->Get(0), 2);
}

TEST_F(CacheTypesTest, MoveOnlyValuesWorkWithAllThatDoesNotCopy) {
  options_.max_entries = 2;
  auto cache = New<std::string, std::unique_ptr<int>>();
  EXPECT_TRUE(cache->Set("a", std::make_unique<int>(1)));
  EXPECT_TRUE(cache->Set("a", std::make_unique<int>(2), absl::Seconds(5)));
  EXPECT_EQ(**cache->Find("a"), 2);
  EXPECT_TRUE(cache->Contains("a"));
  EXPECT_TRUE(cache->Touch("a", absl::Seconds(1)));
  EXPECT_EQ(cache->TimeToLive("a"), absl::Seconds(1));
  EXPECT_TRUE(cache->Del("a"));
  for (int i = 0; i < 5; ++i) {
    cache->Set(std::to_string(i), std::make_unique<int>(i), absl::Seconds(1));
  }
  EXPECT_EQ(cache->stats().evictions, 3);
  clock_.Advance(absl::Seconds(2));
  cache->RunMaintenance();
  EXPECT_EQ(cache->stats().expirations, 2);
  cache->Set("b", std::make_unique<int>(3));
  cache->Clear();
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheTypesTest, RefusedMoveOnlyValueIsDestroyed) {
  auto cache = New<int, std::shared_ptr<int>>();
  auto value = std::make_shared<int>(1);
  cache->Set(1, std::shared_ptr<int>(value), absl::ZeroDuration());
  EXPECT_EQ(value.use_count(), 1);
}

// Keys and values that are neither copied nor moved are built in place.
struct Immovable {
  explicit Immovable(int n) : number(n) {}
  Immovable(const Immovable&) = delete;
  Immovable& operator=(const Immovable&) = delete;
  const int number;
};

TEST_F(CacheTypesTest, ValuesAreBuiltInPlaceFromWhatSetIsGiven) {
  auto cache = New<std::string, Immovable>();
  cache->Set("key", 7);
  EXPECT_EQ(cache->Find("key")->number, 7);
}

struct alignas(64) Aligned {
  int number = 0;
};

TEST_F(CacheTypesTest, ValuesAreAligned) {
  auto cache = New<int, Aligned>();
  for (int i = 0; i < 300; ++i) cache->Set(i, Aligned{i});
  for (int i = 0; i < 300; ++i) {
    const auto handle = cache->Find(i);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&*handle) % 64, 0u);
    EXPECT_EQ(handle->number, i);
  }
}

// A hash that leaves some of its 64 bits constant, or all of them.
template <int Shift, uint64_t Mask>
struct WeakHash {
  size_t operator()(uint64_t key) const { return (key & Mask) << Shift; }
};

struct Equal {
  bool operator()(uint64_t a, uint64_t b) const { return a == b; }
};

template <typename Hash>
class WeakHashTest : public CacheEnvironment {};

using WeakHashes = ::testing::Types<WeakHash<0, ~uint64_t{0}>,   // Identity.
                                    WeakHash<32, ~uint64_t{0}>,  // High bits.
                                    WeakHash<56, ~uint64_t{0}>,  // One byte.
                                    WeakHash<0, 7>,   // Eight values.
                                    WeakHash<0, 0>>;  // One value.
TYPED_TEST_SUITE(WeakHashTest, WeakHashes);

TYPED_TEST(WeakHashTest, EveryKeyKeepsItsValue) {
  constexpr uint64_t kKeys = 1000;
  for (const int shards : {1, 64}) {
    this->options_.shards = shards;
    auto cache =
        *Cache<uint64_t, uint64_t, TypeParam, Equal>::Create(this->options_);
    for (uint64_t i = 0; i < kKeys; ++i) cache->Set(i, i);
    for (uint64_t i = 0; i < kKeys; i += 2) EXPECT_TRUE(cache->Del(i));
    for (uint64_t i = 1; i < kKeys; i += 4) cache->Set(i, i + 1);
    for (uint64_t i = 0; i < kKeys; ++i) {
      EXPECT_EQ(cache->Get(i), i % 2 == 0   ? std::nullopt
                               : i % 4 == 1 ? std::optional<uint64_t>(i + 1)
                                            : i);
    }
    EXPECT_EQ(cache->size(), kKeys / 2);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
}

// Counts how often keys are compared.
struct CountingEqual {
  static inline int comparisons = 0;
  bool operator()(uint64_t a, uint64_t b) const {
    ++comparisons;
    return a == b;
  }
};

TEST_F(CacheTypesTest, OneHashForAllKeysCostsOneComparisonPerKeyAtMost) {
  constexpr int kKeys = 500;
  auto cache =
      *Cache<uint64_t, int, WeakHash<0, 0>, CountingEqual>::Create(options_);
  for (int i = 0; i < kKeys; ++i) cache->Set(i, i);
  CountingEqual::comparisons = 0;
  EXPECT_FALSE(cache->Contains(kKeys));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
  CountingEqual::comparisons = 0;
  EXPECT_TRUE(cache->Contains(kKeys - 1));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
  CountingEqual::comparisons = 0;
  EXPECT_TRUE(cache->Set(kKeys - 1, 0));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
  CountingEqual::comparisons = 0;
  EXPECT_TRUE(cache->Del(kKeys - 1));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
}

// The bits of a poor hash that vary, wherever they are, spread over the index.
TEST_F(CacheTypesTest, HashOfPlainNumbersSeldomCollides) {
  constexpr int kKeys = 10'000;
  auto low =
      *Cache<uint64_t, int, WeakHash<0, ~uint64_t{0}>, CountingEqual>::Create(
          options_);
  auto high =
      *Cache<uint64_t, int, WeakHash<32, ~uint64_t{0}>, CountingEqual>::Create(
          options_);
  CountingEqual::comparisons = 0;
  for (int i = 0; i < kKeys; ++i) {
    low->Set(i, i);
    high->Set(i, i);
  }
  for (int i = 0; i < kKeys; ++i) {
    low->Contains(i);
    high->Contains(i);
  }
  EXPECT_LE(CountingEqual::comparisons, 2 * kKeys * 3 / 2);
}

}  // namespace
}  // namespace wheelcache
