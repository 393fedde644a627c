// Real traces: exact LRU has the counts of other programs, the scan-resistant
// policy and Belady's bound the hit ratios of the design, both in the cache and
// in the reference simulators, and a sweep's sample is near the exact curve.
//
// Skipped where the traces or zstd are missing; see real_trace.h. The longest
// are for optimized builds. WHEELCACHE_TEST_HASHES says of how many hash
// functions a hit ratio of the cache is the mean.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_lru.h"
#include "wheelcache/tests/testing/reference_scan_resistant.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/bounds.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {
namespace {

using testing::kReferenceUnlimited;
using testing::ReferenceCache;
using testing::ReferenceLimits;
using testing::ReferenceLru;
using testing::ReferenceScanResistant;

constexpr bool kOptimized =
#ifdef NDEBUG
    true;
#else
    false;
#endif

bool IsLong(absl::string_view trace) {
  return trace == "oltp" || trace == "orm_busy";
}

// Returns null where the trace is missing, or too long for this build.
const LoadedTrace* Trace(const std::string& name) {
  static auto* const traces =
      new std::map<std::string, absl::StatusOr<LoadedTrace>>();
  if (IsLong(name) && !kOptimized) return nullptr;
  auto trace = traces->find(name);
  if (trace == traces->end()) {
    trace = traces->emplace(name, LoadRealTrace(name)).first;
  }
  return trace->second.ok() ? &*trace->second : nullptr;
}

class RealTracesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Trace("sprite") == nullptr) GTEST_SKIP() << "no traces, or no zstd";
  }
};

// The size of a key differs between requests: its largest counts.
std::vector<int64_t> SizesOfKeys(const LoadedTrace& trace) {
  std::vector<int64_t> sizes(trace.keys());
  for (size_t i = 0; i < trace.size(); ++i) {
    int64_t& size = sizes[trace.key(i)];
    size = std::max<int64_t>(size, trace[i].value_size);
  }
  return sizes;
}

struct Limits {
  int64_t entries = kUnlimited;
  double bytes = 0;  // As a part of the sizes of all keys; 0: unlimited.
  int64_t ttl = kReferenceUnlimited;  // In seconds.
};

struct Ratios {
  double requests = 0;
  double bytes = 0;
};

// Reads through `cache`, which has AdvanceTo, Get and Set.
template <typename CacheToPlay>
Ratios Play(const LoadedTrace& trace, const std::vector<int64_t>& sizes,
            CacheToPlay& cache) {
  double hits = 0;
  double bytes = 0;
  double hit_bytes = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const uint64_t key = trace.key(i);
    cache.AdvanceTo(trace[i].timestamp_seconds);
    bytes += static_cast<double>(sizes[key]);
    if (cache.Get(key)) {
      ++hits;
      hit_bytes += static_cast<double>(sizes[key]);
    } else {
      cache.Set(key, sizes[key]);
    }
  }
  return {hits / static_cast<double>(trace.size()), hit_bytes / bytes};
}

int64_t Sum(const std::vector<int64_t>& sizes) {
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  return sum;
}

int64_t BytesOf(const Limits& limits, const std::vector<int64_t>& sizes) {
  if (limits.bytes == 0) return kReferenceUnlimited;
  return static_cast<int64_t>(limits.bytes * static_cast<double>(Sum(sizes)));
}

// Plays a reference simulator as if it were the cache.
struct ReferencePlayer {
  void AdvanceTo(int64_t seconds) {
    now = seconds;
    cache.AdvanceTo(seconds);
  }
  bool Get(uint64_t key) { return cache.Get(key); }
  void Set(uint64_t key, int64_t size) {
    cache.Set(key, {limits.bytes == 0 ? 1 : size,
                    limits.ttl == kReferenceUnlimited ? kReferenceUnlimited
                                                      : now + limits.ttl});
  }

  ReferenceCache& cache;
  const Limits& limits;
  int64_t now = 0;
};

Ratios PlayLru(const LoadedTrace& trace, const Limits& limits) {
  const std::vector<int64_t> sizes = SizesOfKeys(trace);
  ReferenceLru cache({limits.entries, BytesOf(limits, sizes)});
  ReferencePlayer player = {cache, limits};
  return Play(trace, sizes, player);
}

Ratios PlayScanResistant(const LoadedTrace& trace, const Limits& limits) {
  const std::vector<int64_t> sizes = SizesOfKeys(trace);
  const ReferenceLimits most = {limits.entries, BytesOf(limits, sizes)};
  const int64_t mean =
      limits.bytes == 0 ? 1 : Sum(sizes) / static_cast<int64_t>(sizes.size());
  ReferenceScanResistant cache(most, mean);
  ReferencePlayer player = {cache, limits};
  return Play(trace, sizes, player);
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

// The cache itself, with the scan-resistant policy.
class EnginePlayer {
 public:
  EnginePlayer(const Limits& limits, int64_t max_bytes, int shards) {
    CacheOptions options;
    options.max_entries = limits.entries;
    options.max_bytes = max_bytes;
    options.shards = shards;
    options.default_ttl = limits.ttl == kReferenceUnlimited
                              ? absl::InfiniteDuration()
                              : absl::Seconds(limits.ttl);
    options.jitter = 0;
    options.policy = EvictionPolicy::kScanResistant;
    options.clock = &clock_;
    options.reaper = nullptr;
    FixedCache::Hooks hooks;
    // With the overhead it is the size.
    hooks.weigher = [](uint64_t, int64_t size) {
      constexpr auto kOverhead = static_cast<int64_t>(kEntryOverhead);
      return static_cast<uint64_t>(std::max(size - kOverhead, int64_t{0}));
    };
    cache_ = *FixedCache::Create(options, std::move(hooks));
  }
  ~EnginePlayer() { EXPECT_TRUE(cache_->CheckInvariants().ok()); }

  void AdvanceTo(int64_t seconds) {
    if (seconds <= now_) return;
    now_ = seconds;
    clock_.AdvanceTo(absl::Seconds(seconds));
    cache_->RunMaintenance(int64_t{1} << 40);
  }
  bool Get(uint64_t key) { return cache_->Get(key).has_value(); }
  void Set(uint64_t key, int64_t size) { cache_->Set(key, size); }

 private:
  using FixedCache = Cache<uint64_t, int64_t, FixedHash>;

  SimulatedClock clock_;
  int64_t now_ = 0;
  std::unique_ptr<FixedCache> cache_;
};

// The mean of all hashes, with this number of shards; 0 is the default.
Ratios PlayEngine(const LoadedTrace& trace, const Limits& limits, int shards) {
  const std::vector<int64_t> sizes = SizesOfKeys(trace);
  const uint64_t hashes = NumberFromEnvironment("WHEELCACHE_TEST_HASHES", 1);
  Ratios mean;
  for (FixedHash::seed = 0; FixedHash::seed < hashes; ++FixedHash::seed) {
    EnginePlayer player(limits, BytesOf(limits, sizes), shards);
    const Ratios ratios = Play(trace, sizes, player);
    mean.requests += ratios.requests / static_cast<double>(hashes);
    mean.bytes += ratios.bytes / static_cast<double>(hashes);
  }
  return mean;
}

// By an ordered dictionary.
struct LruRow {
  const char* trace;
  int64_t entries;
  int64_t hits_without_ttl;
  int64_t ttl_seconds;
  int64_t hits;
  int64_t evictions;
  int64_t expirations;
};

constexpr LruRow kLruRows[] = {
    {"cloudphysics", 1'000, 19'049, 300, 19'049, 93'823, 0},
    {"cloudphysics", 10'000, 34'434, 300, 34'434, 69'438, 0},
    {"cloudphysics", 40'000, 64'878, 300, 64'878, 8'994, 0},
    {"oltp", 1'000, 300'122, 60, 300'025, 613'014, 106},
    {"oltp", 5'000, 490'443, 60, 487'352, 418'016, 3'777},
    {"oltp", 15'000, 590'851, 60, 573'500, 273'780, 51'866},
    {"sprite", 500, 104'922, 20, 104'782, 28'471, 243},
    {"sprite", 2'000, 125'255, 20, 121'215, 3'087, 7'694},
    {"orm_busy", 1'000, 3'938'943, 300, 3'938'943, 1'060'057, 0},
    {"orm_busy", 10'000, 4'474'313, 300, 4'466'621, 508'829, 14'550},
};

TEST_F(RealTracesTest, LruHasTheCountsOfAnOrderedDictionary) {
  for (const LruRow& row : kLruRows) {
    SCOPED_TRACE(absl::StrCat(row.trace, " at ", row.entries));
    const LoadedTrace* const trace = Trace(row.trace);
    if (trace == nullptr) continue;
    const auto requests = static_cast<double>(trace->size());
    const auto replayed = [&](absl::Duration ttl, int shards) {
      ReplayOptions options;
      options.max_entries = row.entries;
      options.ttl = ttl;
      options.jitter = 0;
      options.shards = shards;
      return Replay(*trace, options).value();
    };
    Limits limits;
    limits.entries = row.entries;
    EXPECT_DOUBLE_EQ(PlayLru(*trace, limits).requests * requests,
                     static_cast<double>(row.hits_without_ttl));
    const ReplayResult exact = replayed(absl::InfiniteDuration(), 1);
    EXPECT_EQ(exact.counts.hits, row.hits_without_ttl);
    EXPECT_EQ(exact.evictions, exact.counts.misses - row.entries);
    EXPECT_NEAR(replayed(absl::InfiniteDuration(), 0).hit_ratio(),
                exact.hit_ratio(), 0.005);

    limits.ttl = row.ttl_seconds;
    EXPECT_DOUBLE_EQ(PlayLru(*trace, limits).requests * requests,
                     static_cast<double>(row.hits));
    const ReplayResult with_ttl = replayed(absl::Seconds(row.ttl_seconds), 1);
    EXPECT_EQ(with_ttl.counts.hits, row.hits);
    EXPECT_EQ(with_ttl.evictions, row.evictions);
    EXPECT_EQ(with_ttl.expirations, row.expirations);
  }
}

// Below, one shard is the default.
constexpr int64_t kFewestForShards = 8'192;

// The cache, with one shard and with the default number.
void ExpectEngineHits(const LoadedTrace& trace, const Limits& limits,
                      double hit_ratio) {
  EXPECT_NEAR(PlayEngine(trace, limits, 1).requests, hit_ratio, 0.005);
  if (limits.entries < kFewestForShards) return;
  EXPECT_NEAR(PlayEngine(trace, limits, 0).requests, hit_ratio, 0.005);
}

struct PolicyRow {
  const char* trace;
  int64_t entries;
  double lru;
  double scan_resistant;
  double belady;
};

constexpr PolicyRow kPolicyRows[] = {
    {"sprite", 354, 0.6574, 0.6617, 0.8236},
    {"sprite", 1'415, 0.9221, 0.9211, 0.9413},
    {"cdn_sizes", 1'841, 0.3095, 0.3575, 0.4293},
    {"cdn_sizes", 7'363, 0.3821, 0.4025, 0.4504},
    {"cloudphysics", 2'449, 0.1754, 0.1879, 0.2968},
    {"cloudphysics", 4'897, 0.1951, 0.2345, 0.3711},
    {"cloudphysics", 9'795, 0.2752, 0.3203, 0.4551},
    {"oltp", 1'869, 0.4164, 0.4632, 0.5977},
    {"oltp", 9'344, 0.6008, 0.6243, 0.7264},
    {"oltp", 37'376, 0.7197, 0.7293, 0.7914},
    {"orm_busy", 3'817, 0.8413, 0.8567, 0.9018},
    {"orm_busy", 7'635, 0.8801, 0.8953, 0.9331},
    {"orm_busy", 15'270, 0.9212, 0.9318, 0.9590},
};

TEST_F(RealTracesTest, EachPolicyHasTheHitRatiosOfTheDesign) {
  for (const PolicyRow& row : kPolicyRows) {
    SCOPED_TRACE(absl::StrCat(row.trace, " at ", row.entries));
    const LoadedTrace* const trace = Trace(row.trace);
    if (trace == nullptr) continue;
    Limits limits;
    limits.entries = row.entries;
    EXPECT_NEAR(PlayLru(*trace, limits).requests, row.lru, 0.0001);
    const int64_t most =
        MostHits(NextReads(*trace, /*read_through=*/true), row.entries);
    EXPECT_NEAR(static_cast<double>(most) / static_cast<double>(trace->size()),
                row.belady, 0.0001);
    // Another seed of the hashes is worth up to this much in the small traces.
    EXPECT_NEAR(PlayScanResistant(*trace, limits).requests, row.scan_resistant,
                IsLong(row.trace) ? 0.0015 : 0.005);
    ExpectEngineHits(*trace, limits, row.scan_resistant);
  }
}

struct TtlRow {
  const char* trace;
  int64_t entries;
  int64_t ttl_seconds;
  double scan_resistant;
};

constexpr TtlRow kTtlRows[] = {
    {"sprite", 2'000, 20, 0.899},
    {"oltp", 5'000, 60, 0.543},
    {"oltp", 15'000, 60, 0.619},
    {"orm_busy", 10'000, 300, 0.897},
};

TEST_F(RealTracesTest, ScanResistantPolicyHasItsHitRatiosWithDeadlines) {
  for (const TtlRow& row : kTtlRows) {
    SCOPED_TRACE(absl::StrCat(row.trace, " at ", row.entries));
    const LoadedTrace* const trace = Trace(row.trace);
    if (trace == nullptr) continue;
    Limits limits;
    limits.entries = row.entries;
    limits.ttl = row.ttl_seconds;
    EXPECT_NEAR(PlayScanResistant(*trace, limits).requests, row.scan_resistant,
                0.001);
    ExpectEngineHits(*trace, limits, row.scan_resistant);
  }
}

struct BytesRow {
  const char* trace;
  double part;  // The limit, of the sizes of all keys.
  Ratios scan_resistant;
  Ratios lru;            // Zero: not known.
  Ratios of_any_shards;  // At least, with one shard and the default number.
};

constexpr BytesRow kBytesRows[] = {
    {"cdn_sizes", 0.05, {0.359, 0.375}, {0.313, 0.346}, {0.335, 0.351}},
    {"cdn_sizes", 0.2, {0.411, 0.410}, {}, {0.406, 0.405}},
    {"cloudphysics", 0.2, {0.283, 0.194}, {0.261, 0.149}, {0.274, 0.184}},
};

// By default a shard of cloudphysics holds some 180 entries, as they are large.
TEST_F(RealTracesTest, LimitOfBytesHasTheHitRatiosOfTheDesign) {
  for (const BytesRow& row : kBytesRows) {
    SCOPED_TRACE(absl::StrCat(row.trace, " at ", row.part));
    const LoadedTrace* const trace = Trace(row.trace);
    if (trace == nullptr) continue;
    Limits limits;
    limits.bytes = row.part;
    if (row.lru.requests != 0) {
      const Ratios lru = PlayLru(*trace, limits);
      EXPECT_NEAR(lru.requests, row.lru.requests, 0.0006);
      EXPECT_NEAR(lru.bytes, row.lru.bytes, 0.0006);
    }
    const Ratios reference = PlayScanResistant(*trace, limits);
    EXPECT_NEAR(reference.requests, row.scan_resistant.requests, 0.005);
    EXPECT_NEAR(reference.bytes, row.scan_resistant.bytes, 0.005);
    for (const int shards : {1, 0}) {
      const Ratios engine = PlayEngine(*trace, limits, shards);
      EXPECT_GE(engine.requests, row.of_any_shards.requests);
      EXPECT_GE(engine.bytes, row.of_any_shards.bytes);
    }
  }
}

// From a half to four times the capacities of docs/policy.md. The same keys are
// sampled in each run: very few other choices of them are beyond 0.02, where
// the curve is steep.
TEST_F(RealTracesTest, SampleOfASweepIsNearTheExactCurve) {
  internal::SetHashSeed(1);
  for (const PolicyRow& row : kPolicyRows) {
    const absl::string_view name = row.trace;
    const LoadedTrace* const trace = Trace(row.trace);
    if (trace == nullptr) continue;
    SweepOptions options;
    options.replay.max_entries = 4 * row.entries;
    options.replay.shards = 1;
    options.replay.jitter = 0;
    options.sizes = 2;
    options.policies = {kPolicies[0]};
    options.ttls = {absl::Seconds(name == "sprite" ? 20
                                  : name == "oltp" ? 60
                                                   : 300)};
    if (kOptimized) options.ttls.push_back(absl::InfiniteDuration());
    const Sweep sweep = RunSweep(*trace, options).value();
    for (const SweepSection& section : sweep.sections) {
      const SweepCurve& sample = section.sample.value();
      for (size_t i = 0; i < sample.limits.size(); ++i) {
        if (sample.limits[i] < row.entries / 2) continue;
        ReplayOptions exact = options.replay;
        exact.max_entries = sample.limits[i];
        exact.ttl = section.ttl;
        EXPECT_NEAR(sweep.hit_ratio(sample.hits[i]),
                    Replay(*trace, exact).value().hit_ratio(), 0.02)
            << row.trace << " at " << sample.limits[i];
      }
    }
    // One in builds that are slow.
    if (!kOptimized) break;
  }
}

}  // namespace
}  // namespace wheelcache::replay
