// The reference simulators on real traces: exact LRU and Belady's bound have
// the hits that other programs computed, the scan-resistant policy the hit
// ratios of its design, as far as the hashes of its sketch leave them open.
//
// Skipped where the traces or zstd are missing; see real_trace.h. The longest
// are for optimized builds.

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/reference_belady.h"
#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_lru.h"
#include "wheelcache/tests/testing/reference_scan_resistant.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {
namespace {

using testing::BeladyHits;
using testing::kReferenceUnlimited;
using testing::ReferenceCache;
using testing::ReferenceLru;
using testing::ReferenceScanResistant;

constexpr bool kOptimized =
#ifdef NDEBUG
    true;
#else
    false;
#endif

struct Access {
  int64_t seconds;
  uint64_t key;
  int64_t size;
};

struct Ratios {
  double requests;
  double bytes;
};

class ReferenceTracesTest : public ::testing::Test {
 protected:
  // Whether the trace can be read; if not, the test is skipped.
  bool Load(absl::string_view name) {
    absl::StatusOr<std::string> path = FindRealTrace(name);
    if (!path.ok()) return false;
    DecompressedTrace trace(*path);
    std::unordered_map<std::string, uint64_t> keys;
    accesses_.clear();
    Request request;
    while (trace.reader().Next(request).value()) {
      const uint64_t key =
          keys.emplace(std::string(request.key), keys.size()).first->second;
      accesses_.push_back({request.timestamp_seconds, key, request.value_size});
    }
    return true;
  }

  int64_t PlayLru(int64_t entries, int64_t ttl) {
    ReferenceLru lru({entries});
    return Play(lru, ttl);
  }
  double ScanResistantRatio(int64_t entries, int64_t ttl) {
    ReferenceScanResistant cache({entries});
    return Ratio(Play(cache, ttl));
  }

  double Ratio(int64_t hits) const {
    return static_cast<double>(hits) / static_cast<double>(accesses_.size());
  }

  std::vector<uint64_t> Keys() const {
    std::vector<uint64_t> keys;
    for (const Access& access : accesses_) keys.push_back(access.key);
    return keys;
  }

  // Reads through, with a limit that is a part of the sizes of all keys.
  template <typename Policy>
  Ratios PlayByBytes(double part);

  std::vector<Access> accesses_;

 private:
  int64_t Play(ReferenceCache& cache, int64_t ttl) const {
    int64_t hits = 0;
    for (const Access& access : accesses_) {
      cache.AdvanceTo(access.seconds);
      if (cache.Get(access.key)) {
        ++hits;
      } else {
        cache.Set(access.key,
                  {1, ttl == kReferenceUnlimited ? ttl : access.seconds + ttl});
      }
    }
    return hits;
  }
};

template <typename Policy>
Ratios ReferenceTracesTest::PlayByBytes(double part) {
  // The size of a key differs between requests: its largest counts.
  std::unordered_map<uint64_t, int64_t> sizes;
  for (const Access& access : accesses_) {
    int64_t& size = sizes[access.key];
    size = std::max(size, access.size);
  }
  double total = 0;
  for (const auto& [key, size] : sizes) total += static_cast<double>(size);
  const auto limit = static_cast<int64_t>(part * total);
  const auto mean =
      static_cast<int64_t>(total / static_cast<double>(sizes.size()));
  Policy cache({kReferenceUnlimited, limit}, mean);
  double hits = 0;
  double bytes = 0;
  double hit_bytes = 0;
  for (const Access& access : accesses_) {
    const int64_t size = sizes[access.key];
    bytes += static_cast<double>(size);
    if (cache.Get(access.key)) {
      ++hits;
      hit_bytes += static_cast<double>(size);
    } else {
      cache.Set(access.key, {size});
    }
  }
  return {hits / static_cast<double>(accesses_.size()), hit_bytes / bytes};
}

// An exact LRU takes no expected charge.
class Lru : public ReferenceLru {
 public:
  Lru(testing::ReferenceLimits limits, int64_t) : ReferenceLru(limits) {}
};

struct LruRow {
  const char* trace;
  int64_t entries;
  int64_t hits_without_ttl;
  int64_t ttl;
  int64_t hits;
};

constexpr LruRow kLruRows[] = {
    {"cloudphysics", 1'000, 19'049, 300, 19'049},
    {"cloudphysics", 10'000, 34'434, 300, 34'434},
    {"cloudphysics", 40'000, 64'878, 300, 64'878},
    {"sprite", 500, 104'922, 20, 104'782},
    {"sprite", 2'000, 125'255, 20, 121'215},
    {"oltp", 1'000, 300'122, 60, 300'025},
    {"oltp", 5'000, 490'443, 60, 487'352},
    {"oltp", 15'000, 590'851, 60, 573'500},
    {"orm_busy", 1'000, 3'938'943, 300, 3'938'943},
    {"orm_busy", 10'000, 4'474'313, 300, 4'466'621},
};

bool IsLong(absl::string_view trace) {
  return trace == "oltp" || trace == "orm_busy";
}

TEST_F(ReferenceTracesTest, LruHasTheHitsOfAnOrderedDictionary) {
  absl::string_view loaded;
  for (const LruRow& row : kLruRows) {
    if (IsLong(row.trace) && !kOptimized) continue;
    if (loaded != row.trace && !Load(row.trace)) GTEST_SKIP() << "no traces";
    loaded = row.trace;
    EXPECT_EQ(PlayLru(row.entries, kReferenceUnlimited), row.hits_without_ttl)
        << row.trace << " at " << row.entries;
    EXPECT_EQ(PlayLru(row.entries, row.ttl), row.hits)
        << row.trace << " at " << row.entries;
  }
}

struct PolicyRow {
  const char* trace;
  int64_t entries;
  double lru;
  double scan_resistant;
  double belady;
};

constexpr PolicyRow kPolicyRows[] = {
    {"sprite", 354, 0.6574, 0.6679, 0.8236},
    {"sprite", 1'415, 0.9221, 0.9218, 0.9413},
    {"cdn_sizes", 1'841, 0.3095, 0.3474, 0.4293},
    {"cdn_sizes", 7'363, 0.3821, 0.4056, 0.4504},
    {"cloudphysics", 2'449, 0.1754, 0.2003, 0.2968},
    {"cloudphysics", 4'897, 0.1951, 0.2523, 0.3711},
    {"cloudphysics", 9'795, 0.2752, 0.3385, 0.4551},
    {"oltp", 1'869, 0.4164, 0.4600, 0.5977},
    {"oltp", 9'344, 0.6008, 0.6239, 0.7264},
    {"oltp", 37'376, 0.7197, 0.7268, 0.7914},
    {"orm_busy", 3'817, 0.8413, 0.8550, 0.9018},
    {"orm_busy", 7'635, 0.8801, 0.8926, 0.9331},
    {"orm_busy", 15'270, 0.9212, 0.9323, 0.9590},
};

TEST_F(ReferenceTracesTest, EachPolicyHasTheHitRatiosOfTheDesign) {
  absl::string_view loaded;
  for (const PolicyRow& row : kPolicyRows) {
    if (IsLong(row.trace) && !kOptimized) continue;
    if (loaded != row.trace && !Load(row.trace)) GTEST_SKIP() << "no traces";
    loaded = row.trace;
    const std::string where =
        std::string(row.trace) + " at " + std::to_string(row.entries);
    EXPECT_NEAR(Ratio(PlayLru(row.entries, kReferenceUnlimited)), row.lru,
                0.0001)
        << where;
    EXPECT_NEAR(Ratio(BeladyHits(Keys(), row.entries)), row.belady, 0.0001)
        << where;
    // Another seed of the hashes is worth up to this much in the small traces.
    EXPECT_NEAR(ScanResistantRatio(row.entries, kReferenceUnlimited),
                row.scan_resistant, IsLong(row.trace) ? 0.0015 : 0.005)
        << where;
  }
}

TEST_F(ReferenceTracesTest, DeadlinesCountInContests) {
  if (!Load("sprite")) GTEST_SKIP() << "no traces";
  EXPECT_NEAR(ScanResistantRatio(2'000, 20), 0.899, 0.001);
  if (!kOptimized) return;
  ASSERT_TRUE(Load("oltp"));
  EXPECT_NEAR(ScanResistantRatio(5'000, 60), 0.545, 0.001);
  EXPECT_NEAR(ScanResistantRatio(15'000, 60), 0.627, 0.001);
  ASSERT_TRUE(Load("orm_busy"));
  EXPECT_NEAR(ScanResistantRatio(10'000, 300), 0.899, 0.001);
}

TEST_F(ReferenceTracesTest, LimitOfBytesHasTheHitRatiosOfTheDesign) {
  if (!Load("cdn_sizes")) GTEST_SKIP() << "no traces";
  const Ratios cdn_lru = PlayByBytes<Lru>(0.05);
  EXPECT_NEAR(cdn_lru.requests, 0.313, 0.0006);
  EXPECT_NEAR(cdn_lru.bytes, 0.346, 0.0006);
  const Ratios cdn = PlayByBytes<ReferenceScanResistant>(0.05);
  EXPECT_NEAR(cdn.requests, 0.348, 0.005);
  EXPECT_NEAR(cdn.bytes, 0.366, 0.005);
  ASSERT_TRUE(Load("cloudphysics"));
  const Ratios blocks_lru = PlayByBytes<Lru>(0.2);
  EXPECT_NEAR(blocks_lru.requests, 0.261, 0.0006);
  EXPECT_NEAR(blocks_lru.bytes, 0.149, 0.0006);
  const Ratios blocks = PlayByBytes<ReferenceScanResistant>(0.2);
  EXPECT_NEAR(blocks.requests, 0.328, 0.005);
  EXPECT_NEAR(blocks.bytes, 0.253, 0.005);
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
