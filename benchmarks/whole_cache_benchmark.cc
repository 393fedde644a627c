// What calls on all of a cache cost, in a cache of a million entries with
// 21-byte keys and 64-byte values, and what they do to the others meanwhile:
//
//   BM_ForEach/reads:R     ForEach over all entries
//   BM_EraseIf/reads:R     EraseIf of every other entry
//   BM_SetLimits/sets:W    SetLimits to half of the entries
//   BM_SaveSnapshot/reads:R  SaveSnapshot to memory
//   BM_LoadSnapshot/reads:R  LoadSnapshot from there, to an empty cache
//
// With R or W = 1 another thread reads, or Sets new keys, as fast as it can;
// the counters tell the latencies of its calls during the measured one (p50 to
// max) and for as long before it (calm_p50 to calm_max), in nanoseconds of wall
// time from the end of one call to the end of the next. `entries` is the number
// that were shown, erased or evicted; the time is that of one call, and cpu_ns
// the CPU time of its thread for each of these entries.
//
//   whole_cache_benchmark --benchmark_filter=EraseIf

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/cache/snapshot/snapshot.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"

namespace wheelcache::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;
using load_testing::LatencyHistogram;

constexpr absl::Duration kForLong = absl::Hours(1);

class WholeCache {
 public:
  WholeCache() : subject_(Options()) {
    for (int64_t i = 0; i < kCapacity; ++i) Set(i);
  }

  Cache<std::string, std::string>& cache() { return subject_.cache(); }

  void Read(int64_t number) {
    // Each key once before the first again, in no order.
    subject_.ReadInPlace(MakeKey(number * 7919 % kCapacity).view());
  }
  void SetNew(int64_t number) { Set(kCapacity + number); }

 private:
  static CacheOptions Options() {
    CacheOptions options;
    options.max_entries = kCapacity;
    return options;
  }
  void Set(int64_t number) {
    subject_.Set(MakeKey(number).view(), ValueFor(number), kForLong);
  }

  WheelcacheSubject subject_;
};

// That the calling thread has used, in nanoseconds.
int64_t CpuNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Report(benchmark::State& state, const std::string& prefix,
            const LatencyHistogram& latencies) {
  const auto report = [&](absl::string_view name, int64_t value) {
    state.counters[absl::StrCat(prefix, name)] = static_cast<double>(value);
  };
  report("p50", latencies.Percentile(50));
  report("p99", latencies.Percentile(99));
  report("p99.9", latencies.Percentile(99.9));
  report("max", latencies.max());
}

// Runs `call`, which returns how many entries it was about, while another
// thread repeats `other`, if that is asked for.
template <typename Call, typename Other>
void Measure(benchmark::State& state, WholeCache& whole, Call call,
             Other other) {
  constexpr auto kCalm = std::chrono::milliseconds(300);
  LatencyHistogram calm;
  LatencyHistogram busy;
  std::atomic<int> phase{0};
  std::thread thread;
  if (state.range(0) == 1) {
    thread = std::thread([&] {
      Clock::time_point before = Clock::now();
      for (int64_t i = 0; phase.load(std::memory_order_relaxed) < 2; ++i) {
        other(whole, i);
        const Clock::time_point after = Clock::now();
        LatencyHistogram& latencies = phase.load() == 0 ? calm : busy;
        latencies.Record((after - before).count());
        before = after;
      }
    });
    std::this_thread::sleep_for(kCalm);
  }
  const StolenTime stolen;
  phase.store(1);
  const Clock::time_point begin = Clock::now();
  const int64_t cpu_begin = CpuNanos();
  const int64_t entries = call(whole.cache());
  const int64_t cpu = CpuNanos() - cpu_begin;
  const Clock::time_point end = Clock::now();
  phase.store(2);
  if (thread.joinable()) {
    thread.join();
    Report(state, "calm_", calm);
    Report(state, "", busy);
  }
  state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  state.counters["cpu_ns"] =
      static_cast<double>(cpu) / static_cast<double>(entries);
  state.counters["entries"] = static_cast<double>(entries);
  state.counters["stolen"] = stolen.share();
}

void BM_ForEach(benchmark::State& state) {
  for (auto _ : state) {
    WholeCache whole;
    Measure(
        state, whole,
        [](auto& cache) {
          int64_t shown = 0;
          cache.ForEach([&](const auto& handle) {
            benchmark::DoNotOptimize(handle->size());
            ++shown;
            return true;
          });
          return shown;
        },
        [](WholeCache& cache, int64_t i) { cache.Read(i); });
  }
}

void BM_EraseIf(benchmark::State& state) {
  for (auto _ : state) {
    WholeCache whole;
    Measure(
        state, whole,
        [](auto& cache) {
          // By the last digit of the key.
          return cache.EraseIf(
              [](const auto& handle) { return handle.key().back() % 2 == 0; });
        },
        [](WholeCache& cache, int64_t i) { cache.Read(i); });
  }
}

void BM_SetLimits(benchmark::State& state) {
  for (auto _ : state) {
    WholeCache whole;
    Measure(
        state, whole,
        [&](auto& cache) {
          const int64_t before = cache.size();
          if (!cache.SetLimits(kCapacity / 2, kUnlimited).ok()) {
            state.SkipWithError("the limits were refused");
          }
          return before - cache.size();
        },
        [](WholeCache& cache, int64_t i) { cache.SetNew(i); });
  }
}

void BM_SaveSnapshot(benchmark::State& state) {
  for (auto _ : state) {
    WholeCache whole;
    int64_t bytes = 0;
    Measure(
        state, whole,
        [&](auto& cache) {
          const auto saved = SaveSnapshot(cache, [&](absl::string_view more) {
            bytes += static_cast<int64_t>(more.size());
            return absl::OkStatus();
          });
          return saved->entries;
        },
        [](WholeCache& cache, int64_t i) { cache.Read(i); });
    // Of the file, for each byte of a key or value.
    state.counters["size"] =
        static_cast<double>(bytes) / (kCapacity * (21.0 + 64.0));
  }
}

void BM_LoadSnapshot(benchmark::State& state) {
  for (auto _ : state) {
    WholeCache whole;
    std::string bytes;
    const auto append = [&](absl::string_view more) {
      bytes.append(more.data(), more.size());
      return absl::OkStatus();
    };
    if (!SaveSnapshot(whole.cache(), append).ok()) state.SkipWithError("save");
    const auto read = [&](int64_t offset, absl::Span<char> to) {
      std::memcpy(to.data(), bytes.data() + offset, to.size());
      return absl::OkStatus();
    };
    whole.cache().Clear();
    Measure(
        state, whole,
        [&](auto& cache) {
          const auto size = static_cast<int64_t>(bytes.size());
          return LoadSnapshot(cache, SnapshotSource{size, read})->stored;
        },
        [](WholeCache& cache, int64_t i) { cache.Read(i); });
  }
}

BENCHMARK(BM_SaveSnapshot)
    ->ArgName("reads")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();
BENCHMARK(BM_LoadSnapshot)
    ->ArgName("reads")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();
BENCHMARK(BM_ForEach)
    ->ArgName("reads")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();
BENCHMARK(BM_EraseIf)
    ->ArgName("reads")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();
BENCHMARK(BM_SetLimits)
    ->ArgName("sets")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace wheelcache::benchmarks
