// The parts of a hash: that each is spread, and independent of the others, also
// where the user's hash is the identity.

#include "wheelcache/cache/internal/index/key_hash.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"
#include "wheelcache/cache/hash.h"

namespace wheelcache::internal {
namespace {

struct Identity {
  size_t operator()(uint64_t key) const { return key; }
};

constexpr int kKeys = 640'000;

// Sorts keys into 64 parts by a number of each, and expects as many in each.
class Parts {
 public:
  void Add(uint32_t part) { ++counts_[part % counts_.size()]; }
  void ExpectEven() const {
    int all = 0;
    for (const int count : counts_) all += count;
    const double each = all / 64.0;
    for (const int count : counts_) EXPECT_NEAR(count, each, each * 0.35);
  }

 private:
  std::array<int, 64> counts_ = {};
};

// Keys in any steps; only those of one shard of sixteen.
template <typename Hash, typename KeyOf>
void ExpectSpread(KeyOf key_of) {
  Parts shards;
  Parts buckets;
  Parts tags;
  Parts shards_of_all;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const KeyHash hash = HashKey<Hash>(key_of(i));
    shards_of_all.Add(hash.for_shard);
    if (hash.for_shard % 16 != 5) continue;
    shards.Add(hash.for_shard / 16);
    buckets.Add(hash.for_index >> 26);
    tags.Add(hash.for_index);
  }
  shards_of_all.ExpectEven();
  shards.ExpectEven();
  buckets.ExpectEven();
  tags.ExpectEven();
}

TEST(KeyHashTest, NumbersAreSpreadWhereTheirHashIsTheNumber) {
  for (const uint64_t step : {uint64_t{1}, uint64_t{64}, uint64_t{4096},
                              uint64_t{1} << 32, uint64_t{1} << 40}) {
    ExpectSpread<Identity>([step](uint64_t i) { return i * step; });
  }
}

TEST(KeyHashTest, StringsAreSpread) {
  ExpectSpread<DefaultHash<std::string>>(
      [](uint64_t i) { return "user:" + std::to_string(1'000'000 + i); });
}

TEST(KeyHashTest, NumbersAreSpreadByTheDefaultHash) {
  ExpectSpread<DefaultHash<uint64_t>>([](uint64_t i) { return i; });
}

}  // namespace
}  // namespace wheelcache::internal
