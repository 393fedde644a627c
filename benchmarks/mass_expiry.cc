// Latency of Get and Set while a million entries expire within a second, and
// without expiry:
//
//   BM_MassExpiry/expiring:0/pairs:1
//   BM_MassExpiry/expiring:1/pairs:1
//
// The cache holds two million entries. Pairs of a reader and a writer work on
// one half, by a Zipf distribution; the other half expires or, for comparison,
// lives on. Latencies are wall time, and the reaper competes for the CPUs: that
// is part of the measurement. Each runs from the end of one operation to the
// end of the next, so every stall counts.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"

namespace wheelcache::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;
using load_testing::LatencyHistogram;

constexpr absl::Duration kForLong = absl::Hours(1);
constexpr auto kExpiry = std::chrono::seconds(1);
// Longer than the default reclaim_delay, so the reaper's last turn counts.
constexpr auto kAfterExpiry = std::chrono::milliseconds(200);

CacheOptions OptionsForTwoMillion() {
  CacheOptions options;
  options.max_entries = 2 * kCapacity + kCapacity / 16;
  options.jitter = 0;
  return options;
}

class MassExpiry {
 public:
  explicit MassExpiry(bool expiring) : subject_(OptionsForTwoMillion()) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < kCapacity; ++i) Set(MakeKey(i).view(), kForLong);
    // The second half may take longer: its memory is untouched.
    const auto enough_for_the_rest = 5 * (Clock::now() - begin);
    start_ = Clock::now() + enough_for_the_rest;
    for (int64_t i = 0; i < kCapacity; ++i) {
      const auto deadline = start_ + kExpiry * i / kCapacity;
      Set(MakeKey(kCapacity + i).view(),
          expiring ? absl::FromChrono(deadline - Clock::now()) : kForLong);
    }
  }

  // Returns whether the first deadline is in the future.
  bool ready() const { return Clock::now() < start_; }

  // Runs until kAfterExpiry after the last deadline.
  void Run(int pairs) {
    std::vector<LatencyHistogram> gets(pairs);
    std::vector<LatencyHistogram> sets(pairs);
    std::vector<std::thread> threads;
    const auto& read = AccessesOf({/*keys=*/kCapacity, /*skew=*/kZipfSkew});
    for (int i = 0; i < pairs; ++i) {
      threads.emplace_back([&, i] {
        Repeat(AccessCursor(read, i, 2 * pairs), &gets[i],
               [&](absl::string_view key) { subject_.ReadInPlace(key); });
      });
      threads.emplace_back([&, i] {
        Repeat(AccessCursor(read, pairs + i, 2 * pairs), &sets[i],
               [&](absl::string_view key) { Set(key, kForLong); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const LatencyHistogram& latencies : gets) gets_.Merge(latencies);
    for (const LatencyHistogram& latencies : sets) sets_.Merge(latencies);
  }

  void Report(benchmark::State& state) {
    Report(state, "get", gets_);
    Report(state, "set", sets_);
    state.counters["left"] =
        static_cast<double>(subject_.cache().size() - kCapacity);
  }

 private:
  void Set(absl::string_view key, absl::Duration ttl) {
    subject_.Set(key, ValueFor(key[5]), ttl);
  }

  template <typename Operation>
  void Repeat(const AccessCursor& begin, LatencyHistogram* latencies,
              Operation operation) {
    AccessCursor cursor = begin;
    const Clock::time_point end = start_ + kExpiry + kAfterExpiry;
    Clock::time_point before = Clock::now();
    while (before < end) {
      operation(cursor.Next().key.view());
      const Clock::time_point after = Clock::now();
      if (before >= start_) latencies->Record((after - before).count());
      before = after;
    }
  }

  static void Report(benchmark::State& state, const std::string& operation,
                     const LatencyHistogram& latencies) {
    const auto report = [&](absl::string_view name, int64_t value) {
      state.counters[absl::StrCat(operation, name)] =
          static_cast<double>(value);
    };
    report("_p50", latencies.Percentile(50));
    report("_p99", latencies.Percentile(99));
    report("_p99.9", latencies.Percentile(99.9));
    report("_max", latencies.max());
    report("s", latencies.count());
  }

  WheelcacheSubject subject_;
  Clock::time_point start_;
  LatencyHistogram gets_;
  LatencyHistogram sets_;
};

void BM_MassExpiry(benchmark::State& state) {
  for (auto _ : state) {
    // Generates the accesses before the TTLs start.
    AccessesOf({/*keys=*/kCapacity, /*skew=*/kZipfSkew});
    MassExpiry mass_expiry(/*expiring=*/state.range(0) == 1);
    if (!mass_expiry.ready()) {
      state.SkipWithError("filling the cache took too long");
      break;
    }
    const StolenTime stolen;
    mass_expiry.Run(/*pairs=*/static_cast<int>(state.range(1)));
    state.counters["stolen"] = stolen.share();
    mass_expiry.Report(state);
  }
}
BENCHMARK(BM_MassExpiry)
    ->ArgNames({"expiring", "pairs"})
    ->ArgsProduct({{0, 1}, {1, 2}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond)
    ->UseRealTime();

}  // namespace
}  // namespace wheelcache::benchmarks
