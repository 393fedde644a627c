// Latency of Set while the container grows:
//
//   BM_Growth/wheelcache      limited by bytes alone, so the number of entries
//                             is not known ahead
//   BM_Growth/flat_hash_map   rehashes all at once
//
// One thread Sets four million new keys, without evictions. Each latency runs
// from the end of one Set to the end of the next, so every stall counts.

#include <chrono>
#include <cstdint>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/benchmarks/subjects/flat_hash_map_subject.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"

namespace wheelcache::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;
using load_testing::LatencyHistogram;

WheelcacheSubject LimitedByBytes() {
  CacheOptions options;
  options.max_bytes = int64_t{1} << 30;
  return WheelcacheSubject(options);
}

FlatHashMapSubject WithoutReserve() { return FlatHashMapSubject(0); }

void Report(benchmark::State& state, const LatencyHistogram& sets) {
  const auto report = [&](const char* name, int64_t nanos) {
    state.counters[name] = static_cast<double>(nanos);
  };
  report("set_p50", sets.Percentile(50));
  report("set_p99", sets.Percentile(99));
  report("set_p99.9", sets.Percentile(99.9));
  report("set_p99.99", sets.Percentile(99.99));
  report("set_max", sets.max());
}

template <typename Subject>
void BM_Growth(benchmark::State& state, Subject (*make)()) {
  constexpr int64_t kKeys = 4 * kCapacity;
  for (auto _ : state) {
    Subject subject = make();
    LatencyHistogram sets;
    const StolenTime stolen;
    Clock::time_point before = Clock::now();
    for (int64_t i = 0; i < kKeys; ++i) {
      subject.Set(MakeKey(i).view(), ValueFor(i), absl::Hours(1));
      const Clock::time_point after = Clock::now();
      sets.Record((after - before).count());
      before = after;
    }
    state.counters["stolen"] = stolen.share();
    if (!subject.ReadInPlace(MakeKey(0).view())) {
      state.SkipWithError("not all keys are resident");
    }
    Report(state, sets);
  }
}

#define BENCHMARK_GROWTH(name, make)       \
  BENCHMARK_CAPTURE(BM_Growth, name, make) \
      ->Iterations(1)                      \
      ->Unit(benchmark::kSecond)           \
      ->UseRealTime()

BENCHMARK_GROWTH(wheelcache, LimitedByBytes);
BENCHMARK_GROWTH(flat_hash_map, WithoutReserve);

}  // namespace
}  // namespace wheelcache::benchmarks
