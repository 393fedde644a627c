// That the memory of a cache follows max_bytes through any history of sizes,
// and comes back: by what the cache itself says is resident, which a benchmark
// compares with the process's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

constexpr int64_t kMiB = 1 << 20;

using StringCache = Cache<uint64_t, std::string>;

// A value that tells its key.
class Values {
 public:
  static constexpr size_t kMost = 1 << 20;

  std::string_view Of(uint64_t key, size_t size) const {
    return std::string_view(bytes_).substr(key % 251, size);
  }
  bool IsOf(uint64_t key, std::string_view value) const {
    return value == Of(key, value.size());
  }

 private:
  static std::string Bytes() {
    std::string bytes(kMost + 251, '\0');
    std::mt19937_64 random(1);
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  const std::string bytes_ = Bytes();
};

class CacheMemoryTest : public CacheEnvironment {
 protected:
  static constexpr int64_t kMaxBytes = 20 * kMiB;
  static constexpr int64_t kMostResident = kMaxBytes / 100 * 112 + 8 * kMiB;

  void SetUp() override {
    options_.max_bytes = kMaxBytes;
    options_.reaper = nullptr;
    options_.shards = 4;
  }

  // Sets values of these sizes until so many bytes were Set. `maintains` after
  // each thousand.
  template <typename CacheType>
  void Fill(CacheType* cache, size_t least, size_t most, int64_t bytes,
            bool maintains = false) {
    while (bytes > 0) {
      const size_t size = least + random_() % (most - least + 1);
      cache->Set(next_key_, values_.Of(next_key_, size));
      bytes -= static_cast<int64_t>(size) + 64;
      ++next_key_;
      if (next_key_ % 64 == 0) {
        const CacheStats stats = cache->stats();
        ASSERT_LE(stats.resident_bytes, kMostResident);
        ASSERT_GE(stats.resident_bytes, stats.bytes / 2);
      }
      if (maintains && next_key_ % 1000 == 0) cache->RunMaintenance(10'000);
    }
  }

  // All that is there is right.
  template <typename CacheType>
  void ExpectValid(CacheType* cache) {
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    int64_t found = 0;
    for (uint64_t key = 0; key < next_key_; ++key) {
      cache->Visit(key, [&](std::string_view value) {
        ASSERT_TRUE(values_.IsOf(key, value)) << key;
        ++found;
      });
    }
    EXPECT_EQ(found, cache->size());
  }

  const Values values_{};
  std::mt19937_64 random_{1};
  uint64_t next_key_ = 0;
};

// Promise: Hard limits
TEST_F(CacheMemoryTest, FollowsTheLimitThroughSizes) {
  for (const bool maintains : {false, true}) {
    const auto cache = New<uint64_t, std::string>();
    const auto fill = [&](size_t least, size_t most) {
      Fill(cache.get(), least, most, kMaxBytes * 3 / 2, maintains);
    };
    fill(128, 256);
    fill(8 << 10, 16 << 10);
    ExpectValid(cache.get());
    fill(128, 256);
    fill(64 << 10, 512 << 10);
    ExpectValid(cache.get());
    fill(128, 256);
    ExpectValid(cache.get());
    // Nearly all of the limit serves.
    EXPECT_GT(cache->bytes(), kMaxBytes / 100 * 80);
  }
}

// Which entries moving reaches first depends on the hash.
struct FixedHash {
  size_t operator()(uint64_t key) const {
    key = (key + seed) * 0x9e3779b97f4a7c15;
    return (key ^ key >> 32) * 0xd6e8feb86659fd93;
  }
  static inline uint64_t seed = 0;
};

// Promise: Hard limits
TEST_F(CacheMemoryTest, FollowsTheLimitWhereAFewSmallEntriesStay) {
  for (FixedHash::seed = 0; FixedHash::seed < 3; ++FixedHash::seed) {
    const auto cache = New<uint64_t, std::string, FixedHash>();
    const uint64_t first = next_key_;
    Fill(cache.get(), 64, 128, kMaxBytes);
    const uint64_t last = next_key_;
    for (int i = 0; i < 24; ++i) {
      for (uint64_t key = first; key < last; key += 64) cache->Get(key);
      Fill(cache.get(), 16 << 10, 16 << 10, kMaxBytes / 8);
    }
    ExpectValid(cache.get());
    int64_t kept = 0;
    for (uint64_t key = first; key < last; key += 64) {
      kept += cache->Contains(key);
    }
    // Some are evicted where moving could not keep up; were it most of them,
    // this would be another history.
    EXPECT_GT(kept, static_cast<int64_t>((last - first) / 64 / 2));
  }
}

// Promise: Hard limits
TEST_F(CacheMemoryTest, PinnedEntriesStayWhereTheyAre) {
  const auto cache = New<uint64_t, std::string>();
  Fill(cache.get(), 64, 128, kMaxBytes / 2);
  std::vector<std::pair<const char*, StringCache::Handle>> pinned;
  for (uint64_t key = 0; key < next_key_; key += 200) {
    auto handle = cache->Find(key);
    ASSERT_TRUE(handle);
    pinned.emplace_back(handle->data(), std::move(handle));
  }
  Fill(cache.get(), 8 << 10, 16 << 10, 3 * kMaxBytes, /*maintains=*/true);
  for (const auto& [data, handle] : pinned) {
    EXPECT_EQ(handle->data(), data);
    EXPECT_TRUE(values_.IsOf(handle.key(), *handle));
  }
  ExpectValid(cache.get());
}

// What was deleted or replaced is no memory that evicting others gives back.
TEST_F(CacheMemoryTest, WhatOnlyHandlesKeepEvictsNothing) {
  constexpr uint64_t kEntries = 4'000;  // 16 MiB.
  const auto cache = New<uint64_t, std::string>();
  const std::string_view value = values_.Of(0, 4'000);
  std::vector<StringCache::Handle> handles;
  for (uint64_t key = 0; key < kEntries; ++key) {
    cache->Set(key, value);
    handles.push_back(cache->Find(key));
    ASSERT_TRUE(handles.back());
  }
  for (uint64_t key = 0; key < kEntries; key += 2) cache->Del(key);
  for (uint64_t key = 0; key < kEntries; ++key) cache->Set(key, value);
  EXPECT_GT(cache->stats().resident_bytes, 2 * int64_t{kEntries} * 4'000);
  EXPECT_EQ(cache->size(), kEntries);
  EXPECT_EQ(cache->stats().evictions, 0);
  for (const auto& handle : handles) EXPECT_EQ(*handle, value);
}

template <typename V>
class CacheMemoryOfTypesTest : public CacheEnvironment {};

using MemoryTypes =
    ::testing::Types<uint64_t, std::string, std::shared_ptr<int>>;
TYPED_TEST_SUITE(CacheMemoryOfTypesTest, MemoryTypes);

// Promise: Memory comes back by itself
TYPED_TEST(CacheMemoryOfTypesTest, ComesBackWhenAllHasExpired) {
  this->options_.max_entries = 200'000;
  this->options_.default_ttl = absl::Seconds(1);
  this->options_.reaper = nullptr;
  const auto cache = this->template New<uint64_t, TypeParam>();
  const int64_t empty = cache->stats().resident_bytes;
  for (const bool clears : {false, true}) {
    for (uint64_t key = 0; key < 200'000; ++key) cache->Set(key, TypeParam());
    const int64_t peak = cache->stats().resident_bytes;
    EXPECT_GT(peak, 200'000 * 56);
    if (clears) {
      cache->Clear();
    } else {
      this->clock_.RunFor(absl::Seconds(2));
    }
    while (cache->RunMaintenance(10'000) == 10'000) {
    }
    EXPECT_EQ(cache->size(), 0);
    EXPECT_LE(cache->stats().resident_bytes, empty + peak / 10 + 4 * kMiB);
  }
}

}  // namespace
}  // namespace wheelcache
