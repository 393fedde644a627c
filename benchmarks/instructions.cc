// What tools/instructions counts: a hit, and Sets of new and of resident keys,
// in a full cache of strings with the default options; and local hits of a near
// cache.
//
// Callgrind counts inside the functions named Counted* alone, and starts a new
// count after each EndOfPhase. The program prints the name and the number of
// operations of each phase, in their order. Time is simulated, and the reaper
// works between the counted batches only, and the hash has a seed of the
// program's own, so that every run executes the same instructions. With
// --advise, the cache samples its keys (CacheOptions::advise); with
// --scan_resistant, it has that policy.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/near/fake_server.h"
#include "wheelcache/cache/near/fake_store.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::benchmarks {
namespace {

using StringCache = Cache<std::string, std::string>;

// Enough for several shards by default.
constexpr int64_t kEntries = 100'000;

// The operations of each phase: half of the cache.
constexpr int64_t kOperations = kEntries / 2;

// Operations between two moves of the clock, at a million operations a second.
constexpr int64_t kBatch = 1000;
constexpr absl::Duration kBatchTime = absl::Milliseconds(1);
static_assert(kOperations % kBatch == 0);

// Far beyond the end of the program: no entry expires.
constexpr absl::Duration kTtl = absl::Hours(1);

// That of Clock::Monotonic(), so that a hit decides by the coarse reading.
constexpr absl::Duration kCoarseLag = absl::Seconds(1);

ABSL_ATTRIBUTE_NOINLINE void CountedHits(StringCache& cache, const Key* keys) {
  for (int64_t i = 0; i < kBatch; ++i) {
    cache.Visit(keys[i].view(), [](const auto& value) {
      benchmark::DoNotOptimize(value.data());
    });
  }
}

ABSL_ATTRIBUTE_NOINLINE void CountedGets(StringCache& cache, const Key* keys) {
  for (int64_t i = 0; i < kBatch; ++i) {
    benchmark::DoNotOptimize(cache.Get(keys[i].view()));
  }
}

ABSL_ATTRIBUTE_NOINLINE void CountedNearGets(NearCache<std::string>& near,
                                             const Key* keys) {
  for (int64_t i = 0; i < kBatch; ++i) {
    benchmark::DoNotOptimize(near.Get(keys[i].view()));
  }
}

ABSL_ATTRIBUTE_NOINLINE void CountedSets(StringCache& cache, const Key* keys) {
  const absl::string_view value = ValueFor(0);
  for (int64_t i = 0; i < kBatch; ++i) cache.Set(keys[i].view(), value, kTtl);
}

ABSL_ATTRIBUTE_NOINLINE void EndOfPhase() { benchmark::ClobberMemory(); }

// The keys of the numbers from `begin` to `end`.
std::vector<Key> MakeKeys(int64_t begin, int64_t end) {
  std::vector<Key> keys;
  keys.reserve(end - begin);
  for (int64_t i = begin; i < end; ++i) keys.push_back(MakeKey(i));
  return keys;
}

// The last keys of the numbers before `end` that are resident, as many as a
// phase needs. A scan-resistant cache has evicted many of the latest.
std::vector<Key> ResidentKeys(const StringCache& cache, int64_t end) {
  std::vector<Key> keys;
  keys.reserve(kOperations);
  for (int64_t i = end - 1; i >= 0 && keys.size() < kOperations; --i) {
    const Key key = MakeKey(i);
    if (cache.Contains(key.view())) keys.push_back(key);
  }
  std::reverse(keys.begin(), keys.end());
  return keys;
}

// Gets of keys that are in the local tier. Returns whether they were hits.
bool RunNearPhase(SimulatedClock& clock, Reaper& reaper,
                  const std::vector<Key>& keys) {
  FakeServer server(&clock, &reaper);
  FakeStore store(&server);
  NearCacheOptions options;
  options.local.max_entries = kEntries;
  options.local.clock = &clock;
  options.local.reaper = &reaper;
  const auto near = *NearCache<std::string>::Create(options, &store);
  for (const Key& key : keys) {
    server.Set(key.view(), ValueFor(0));
    benchmark::DoNotOptimize(near->Get(key.view()));
  }
  for (size_t i = 0; i < keys.size(); i += kBatch) {
    CountedNearGets(*near, &keys[i]);
    clock.RunFor(kBatchTime);
  }
  std::printf("near_get\t%zu\n", keys.size());
  EndOfPhase();
  return near->stats().local_hits == kOperations;
}

int Main(bool advise, EvictionPolicy policy) {
  internal::SetHashSeed(1);
  SimulatedClock clock(/*start=*/absl::Hours(1), kCoarseLag);
  Reaper reaper(clock);
  CacheOptions options;
  options.max_entries = kEntries;
  options.jitter_seed = 1;
  options.clock = &clock;
  options.reaper = &reaper;
  options.advise = advise;
  options.policy = policy;
  const std::unique_ptr<StringCache> cache = *StringCache::Create(options);
  const auto run_phase = [&](const char* name, const std::vector<Key>& keys,
                             void (*run_batch)(StringCache&, const Key*)) {
    for (size_t i = 0; i < keys.size(); i += kBatch) {
      run_batch(*cache, &keys[i]);
      clock.RunFor(kBatchTime);
    }
    std::printf("%s\t%zu\n", name, keys.size());
    EndOfPhase();
  };

  // Fills the cache, and turns it over so that eviction is in its steady state.
  run_phase("warm_up", MakeKeys(0, 2 * kEntries), CountedSets);
  constexpr int64_t kEnd = 2 * kEntries + kOperations;
  run_phase("set_new", MakeKeys(2 * kEntries, kEnd), CountedSets);
  const std::vector<Key> keys = ResidentKeys(*cache, kEnd);
  run_phase("hit", keys, CountedHits);
  run_phase("set_resident", keys, CountedSets);
  run_phase("get", keys, CountedGets);
  const bool near_hits = RunNearPhase(clock, reaper, keys);

  const CacheStats stats = cache->stats();
  if (stats.evictions == kEntries + kOperations &&
      stats.hits == 2 * kOperations && stats.replaced == kOperations &&
      near_hits) {
    return 0;
  }
  std::fprintf(stderr, "instructions: not what the phases claim: %s\n",
               StatsLine("all phases", CacheStats(), stats).c_str());
  return 1;
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  using wheelcache::EvictionPolicy;
  const auto has = [&](const char* option) {
    return argc == 2 && std::strcmp(argv[1], option) == 0;
  };
  return wheelcache::benchmarks::Main(
      has("--advise"), has("--scan_resistant") ? EvictionPolicy::kScanResistant
                                               : EvictionPolicy::kLru);
}
