// Latency of Get during a storm:
//
//   BM_Storm/calm        nothing else happens for a second
//   BM_Storm/one_tick    a million entries expire at one deadline
//   BM_Storm/touches     another thread Touches a million entries
//   BM_Storm/new_keys    two threads Set a million new keys in a full cache
//
// The cache holds two million entries. One thread reads one half, by a Zipf
// distribution; the storm hits the other half. Each latency runs from the end
// of one read to the end of the next, so every stall counts. The threads of the
// storm and the reaper compete with the reader for the CPUs, which is part of
// the measurement.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
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

class Storm {
 public:
  Storm() : subject_(FullOptions()) {
    for (int64_t i = 0; i < kCapacity; ++i) Set(i, kForLong);
  }

  // Sets the other half, with one deadline that is `ttl` from now. Returns at
  // the deadline if that is near.
  void Fill(absl::Duration ttl) {
    const absl::Time deadline = absl::Now() + ttl;
    for (int64_t i = 0; i < kCapacity; ++i) {
      Set(kCapacity + i, deadline - absl::Now());
    }
    if (ttl < kForLong) absl::SleepFor(deadline - absl::Now());
  }

  // Reads until `storm` returns, which runs on its own thread.
  template <typename Function>
  void ReadDuring(Function storm) {
    std::atomic<bool> over{false};
    std::thread thread([&] {
      storm();
      over.store(true, std::memory_order_relaxed);
    });
    AccessCursor cursor(AccessesOf({/*keys=*/kCapacity, /*skew=*/kZipfSkew}),
                        /*thread=*/0, /*threads=*/1);
    Clock::time_point before = Clock::now();
    while (!over.load(std::memory_order_relaxed)) {
      subject_.ReadInPlace(cursor.Next().key.view());
      const Clock::time_point after = Clock::now();
      gets_.Record((after - before).count());
      before = after;
    }
    thread.join();
  }

  void WaitUntilTheOtherHalfHasGone() {
    while (subject_.cache().size() > kCapacity) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  void TouchTheOtherHalf() {
    for (int64_t i = 0; i < kCapacity; ++i) {
      subject_.cache().Touch(MakeKey(kCapacity + i).view(), 2 * kForLong);
    }
  }

  // Sets `count` new keys, from number `first` on.
  void SetNewKeys(int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Set(2 * kCapacity + first + i, kForLong);
    }
  }

  void Report(benchmark::State& state) const {
    const auto report = [&](const char* name, int64_t nanos) {
      state.counters[name] = static_cast<double>(nanos);
    };
    report("get_p50", gets_.Percentile(50));
    report("get_p99", gets_.Percentile(99));
    report("get_p99.9", gets_.Percentile(99.9));
    report("get_max", gets_.max());
    report("gets", gets_.count());
  }

 private:
  static CacheOptions FullOptions() {
    CacheOptions options;
    options.max_entries = 2 * kCapacity;
    options.jitter = 0;
    return options;
  }

  void Set(int64_t key, absl::Duration ttl) {
    const auto made = MakeKey(key);
    subject_.Set(made.view(), ValueFor(made.view()[5]), ttl);
  }

  WheelcacheSubject subject_;
  LatencyHistogram gets_;
};

void Calm(Storm& storm) {
  storm.Fill(kForLong);
  storm.ReadDuring([] { absl::SleepFor(absl::Seconds(1)); });
}

void OneTick(Storm& storm) {
  storm.Fill(absl::Seconds(10));
  storm.ReadDuring([&] { storm.WaitUntilTheOtherHalfHasGone(); });
}

void Touches(Storm& storm) {
  storm.Fill(kForLong);
  storm.ReadDuring([&] { storm.TouchTheOtherHalf(); });
}

void NewKeys(Storm& storm) {
  storm.Fill(kForLong);
  storm.ReadDuring([&] {
    std::thread other([&] { storm.SetNewKeys(0, kCapacity / 2); });
    storm.SetNewKeys(kCapacity / 2, kCapacity / 2);
    other.join();
  });
}

void BM_Storm(benchmark::State& state, void (*run)(Storm&)) {
  for (auto _ : state) {
    AccessesOf({/*keys=*/kCapacity, /*skew=*/kZipfSkew});  // Made ahead.
    Storm storm;
    const StolenTime stolen;
    run(storm);
    state.counters["stolen"] = stolen.share();
    storm.Report(state);
  }
}

#define BENCHMARK_STORM(name, run) \
  BENCHMARK_CAPTURE(BM_Storm, name, run)->Iterations(1)->UseRealTime()

BENCHMARK_STORM(calm, Calm);
BENCHMARK_STORM(one_tick, OneTick);
BENCHMARK_STORM(touches, Touches);
BENCHMARK_STORM(new_keys, NewKeys);

}  // namespace
}  // namespace wheelcache::benchmarks
