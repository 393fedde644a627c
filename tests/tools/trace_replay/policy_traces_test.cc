// The scan-resistant policy has the hit ratios of its design on real traces:
// with one shard and with the default number, with TTLs, with a limit of bytes.
//
// Skipped where the traces or zstd are missing; see real_trace.h. The longest
// are for optimized builds. WHEELCACHE_TEST_HASHES says of how many hash
// functions a hit ratio is the mean.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace replay {
namespace {

constexpr bool kOptimized =
#ifdef NDEBUG
    true;
#else
    false;
#endif

bool IsLong(absl::string_view trace) {
  return trace == "oltp" || trace == "orm_busy";
}

// The same in every run: the sketch's collisions are worth a few thousandths.
struct FixedHash {
  static inline uint64_t seed = 0;

  uint64_t operator()(uint64_t key) const {
    key ^= seed * 0x9e3779b97f4a7c15;
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
    key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
    return key ^ (key >> 31);
  }
};
using FixedCache = Cache<uint64_t, int64_t, FixedHash>;

struct Access {
  int64_t seconds;
  uint64_t key;
  int64_t size;
};

struct Ratios {
  double requests;
  double bytes;
};

class PolicyTracesTest : public ::testing::Test {
 protected:
  // Whether the trace is loaded; if not, what needs it is skipped.
  bool Load(absl::string_view name) {
    if (name == name_) return true;
    if (IsLong(name) && !kOptimized) return false;
    const absl::StatusOr<std::string> path = FindRealTrace(name);
    if (!path.ok()) return false;
    DecompressedTrace trace(*path);
    std::unordered_map<std::string, uint64_t> keys;
    std::unordered_map<uint64_t, int64_t> sizes;
    accesses_.clear();
    for (Request request; trace.reader().Next(request).value();) {
      const uint64_t key =
          keys.emplace(std::string(request.key), keys.size()).first->second;
      sizes[key] = std::max<int64_t>(sizes[key], request.value_size);
      accesses_.push_back({request.timestamp_seconds, key, 0});
    }
    // The size of a key differs between requests: its largest counts.
    for (Access& access : accesses_) access.size = sizes[access.key];
    total_bytes_ = 0;
    for (const auto& [key, size] : sizes) total_bytes_ += size;
    name_ = std::string(name);
    return true;
  }

  // Reads through, with each hash.
  Ratios Play(const CacheOptions& options) const {
    const uint64_t hashes = NumberFromEnvironment("WHEELCACHE_TEST_HASHES", 1);
    Ratios sum = {0, 0};
    for (FixedHash::seed = 0; FixedHash::seed < hashes; ++FixedHash::seed) {
      const Ratios ratios = PlayOnce(options);
      sum.requests += ratios.requests;
      sum.bytes += ratios.bytes;
    }
    const auto count = static_cast<double>(hashes);
    return {sum.requests / count, sum.bytes / count};
  }

  int64_t total_bytes() const { return total_bytes_; }

 private:
  Ratios PlayOnce(CacheOptions options) const {
    SimulatedClock clock;
    options.clock = &clock;
    options.reaper = nullptr;
    options.jitter = 0;
    options.policy = EvictionPolicy::kScanResistant;
    FixedCache::Hooks hooks;
    // With the overhead it is the size.
    hooks.weigher = [](uint64_t, int64_t size) {
      constexpr auto kOverhead = static_cast<int64_t>(kEntryOverhead);
      return static_cast<uint64_t>(std::max(size - kOverhead, int64_t{0}));
    };
    auto cache = *FixedCache::Create(options, hooks);
    double hits = 0;
    double bytes = 0;
    double hit_bytes = 0;
    int64_t now = accesses_[0].seconds;
    for (const Access& access : accesses_) {
      if (access.seconds > now) {
        clock.Advance(absl::Seconds(access.seconds - now));
        now = access.seconds;
        cache->RunMaintenance(int64_t{1} << 40);
      }
      bytes += static_cast<double>(access.size);
      if (cache->Get(access.key).has_value()) {
        ++hits;
        hit_bytes += static_cast<double>(access.size);
      } else {
        cache->Set(access.key, access.size);
      }
    }
    EXPECT_TRUE(cache->CheckInvariants().ok());
    return {hits / static_cast<double>(accesses_.size()), hit_bytes / bytes};
  }

  std::string name_;
  std::vector<Access> accesses_;
  int64_t total_bytes_ = 0;  // Of all keys.
};

bool HasOneShardByDefault(int64_t entries) { return entries < 8'192; }

struct Row {
  const char* trace;
  int64_t entries;
  double hit_ratio;
};

constexpr Row kRows[] = {
    {"sprite", 354, 0.6679},         {"sprite", 1'415, 0.9218},
    {"cdn_sizes", 1'841, 0.3474},    {"cdn_sizes", 7'363, 0.4056},
    {"cloudphysics", 2'449, 0.2003}, {"cloudphysics", 4'897, 0.2523},
    {"cloudphysics", 9'795, 0.3385}, {"oltp", 1'869, 0.4600},
    {"oltp", 9'344, 0.6239},         {"oltp", 37'376, 0.7268},
    {"orm_busy", 3'817, 0.8550},     {"orm_busy", 7'635, 0.8926},
    {"orm_busy", 15'270, 0.9323},
};

TEST_F(PolicyTracesTest, HitRatioIsThatOfTheDesign) {
  for (const Row& row : kRows) {
    if (!Load(row.trace)) continue;
    for (const int shards : {1, 0}) {
      if (shards == 0 && HasOneShardByDefault(row.entries)) continue;
      CacheOptions options;
      options.max_entries = row.entries;
      options.shards = shards;
      EXPECT_NEAR(Play(options).requests, row.hit_ratio, 0.005)
          << row.trace << " at " << row.entries << ", shards: " << shards;
    }
  }
}

struct TtlRow {
  const char* trace;
  int64_t entries;
  int ttl_seconds;
  double hit_ratio;
};

constexpr TtlRow kTtlRows[] = {
    {"sprite", 2'000, 20, 0.899},
    {"oltp", 5'000, 60, 0.545},
    {"oltp", 15'000, 60, 0.627},
    {"orm_busy", 10'000, 300, 0.899},
};

TEST_F(PolicyTracesTest, HitRatioWithTtlIsThatOfTheDesign) {
  for (const TtlRow& row : kTtlRows) {
    if (!Load(row.trace)) continue;
    for (const int shards : {1, 0}) {
      if (shards == 0 && HasOneShardByDefault(row.entries)) continue;
      CacheOptions options;
      options.max_entries = row.entries;
      options.default_ttl = absl::Seconds(row.ttl_seconds);
      options.shards = shards;
      EXPECT_NEAR(Play(options).requests, row.hit_ratio, 0.005)
          << row.trace << " at " << row.entries << ", shards: " << shards;
    }
  }
}

// The last row is what the reference simulator gives.
struct BytesRow {
  const char* trace;
  double part;  // The limit, of the sizes of all keys.
  double hit_ratio;
  double byte_hit_ratio;
};

constexpr BytesRow kBytesRows[] = {
    {"cdn_sizes", 0.05, 0.348, 0.366},
    {"cloudphysics", 0.2, 0.328, 0.253},
    {"cdn_sizes", 0.2, 0.411, 0.410},
};

// By default a shard of cloudphysics holds some 180 entries, as they are large.
TEST_F(PolicyTracesTest, HitRatioWithALimitOfBytesIsAtLeastThatOfTheDesign) {
  for (const BytesRow& row : kBytesRows) {
    if (!Load(row.trace)) continue;
    CacheOptions options;
    options.max_bytes =
        static_cast<int64_t>(row.part * static_cast<double>(total_bytes()));
    for (const int shards : {1, 0}) {
      options.shards = shards;
      const Ratios ratios = Play(options);
      EXPECT_GE(ratios.requests, row.hit_ratio - 0.005)
          << row.trace << ", shards: " << shards;
      EXPECT_GE(ratios.bytes, row.byte_hit_ratio - 0.005)
          << row.trace << ", shards: " << shards;
    }
  }
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
