// A timer service with many timers, and with many threads.
//
// Delays are uniform over an hour, keys are random, both drawn before the
// measurement. Times are per timer, on one core; those of the benchmarks with
// threads are the inverse of what all threads together move. Compare within one
// run only:
//
//   timer_service_benchmark --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

using Service = TimerService<uint64_t, uint64_t>;

constexpr size_t kBatch = 200'000;

std::unique_ptr<Service> NewService() {
  Service::Options options;
  options.interval = absl::Milliseconds(100);
  options.execute = [](uint64_t, uint64_t) {};
  return *Service::Create(std::move(options));
}

absl::Duration RandomDelay(std::mt19937_64& random) {
  return absl::Hours(1) + absl::Milliseconds(random() % 3'600'000);
}

// Keys and delays, in random order.
struct Draw {
  uint64_t key;
  absl::Duration delay;
};

std::vector<Draw> DrawTimers(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<Draw> draws(count);
  for (Draw& draw : draws) draw = {random(), RandomDelay(random)};
  return draws;
}

// Runs `operation(service, draw)` for a batch of timers: for new keys, or for
// some of the `pending` ones.
template <typename Operation>
void Measure(benchmark::State& state, bool is_new, Operation operation) {
  const auto pending = static_cast<size_t>(state.range(0));
  std::vector<Draw> draws = DrawTimers(1, pending + kBatch);
  std::mt19937_64 random(2);
  const benchmarks::StolenTime stolen;
  while (state.KeepRunningBatch(kBatch)) {
    state.PauseTiming();
    const std::unique_ptr<Service> service = NewService();
    for (size_t i = 0; i < pending; ++i) {
      service->Set(draws[i].key, i, draws[i].delay).IgnoreError();
    }
    std::vector<Draw> batch(draws.begin() + pending, draws.end());
    for (Draw& draw : batch) {
      if (!is_new) draw.key = draws[random() % pending].key;
    }
    state.ResumeTiming();
    for (const Draw& draw : batch) operation(*service, draw);
    state.PauseTiming();
    benchmark::DoNotOptimize(service->size());
    service->Stop();
    state.ResumeTiming();
  }
  state.counters["stolen"] = stolen.share();
}

// From none to the argument; Stop is not counted.
void BM_Fill(benchmark::State& state) {
  const auto timers = static_cast<size_t>(state.range(0));
  const std::vector<Draw> draws = DrawTimers(1, timers);
  const benchmarks::StolenTime stolen;
  while (state.KeepRunningBatch(static_cast<int64_t>(timers))) {
    const std::unique_ptr<Service> service = NewService();
    for (const Draw& draw : draws) {
      service->Set(draw.key, 1, draw.delay).IgnoreError();
    }
    state.PauseTiming();
    service->Stop();
    state.ResumeTiming();
  }
  state.counters["stolen"] = stolen.share();
}

void BM_SetNew(benchmark::State& state) {
  Measure(state, true, [](Service& service, const Draw& draw) {
    service.Set(draw.key, 1, draw.delay).IgnoreError();
  });
}

void BM_SetAgain(benchmark::State& state) {
  Measure(state, false, [](Service& service, const Draw& draw) {
    service.Set(draw.key, 1, draw.delay).IgnoreError();
  });
}

void BM_Move(benchmark::State& state) {
  Measure(state, false, [](Service& service, const Draw& draw) {
    service.Move(draw.key, draw.delay).IgnoreError();
  });
}

void BM_Remove(benchmark::State& state) {
  Measure(state, false, [](Service& service, const Draw& draw) {
    service.Remove(draw.key).IgnoreError();
  });
}

// Each thread sets keys of its own, again and again, in a service that all
// share or, to show what the machine can do, in one of its own. `pending`
// counts all timers.
void BM_SetOfThreads(benchmark::State& state) {
  const auto keys = static_cast<size_t>(state.range(0) / state.threads());
  static std::unique_ptr<Service> shared;
  static std::atomic<int> ready;
  if (state.thread_index() == 0) {
    shared = NewService();
    ready = 0;
  }
  const std::unique_ptr<Service> own = NewService();
  const std::vector<Draw> draws =
      DrawTimers(static_cast<uint64_t>(state.thread_index()), keys);
  size_t next = 0;
  const benchmarks::StolenTime stolen;
  Service* service = nullptr;
  for (auto _ : state) {
    if (service == nullptr) {
      state.PauseTiming();
      service = state.range(1) != 0 ? own.get() : shared.get();
      for (const Draw& draw : draws) {
        service->Set(draw.key, 0, draw.delay).IgnoreError();
      }
      for (++ready; ready < state.threads();) {
      }
      state.ResumeTiming();
    }
    const Draw& draw = draws[next++ % keys];
    service->Set(draw.key, 1, draw.delay).IgnoreError();
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    state.counters["stolen"] = stolen.share();
    shared = nullptr;
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("pending")->Iterations(kBatch);
  benchmark->Arg(30'000)->Arg(5'000'000);
}

BENCHMARK(BM_Fill)->ArgName("timers")->Arg(5'000'000)->Iterations(5'000'000);
BENCHMARK(BM_SetNew)->Apply(Sizes);
BENCHMARK(BM_SetAgain)->Apply(Sizes);
BENCHMARK(BM_Move)->Apply(Sizes);
BENCHMARK(BM_Remove)->Apply(Sizes);
BENCHMARK(BM_SetOfThreads)
    ->ArgNames({"pending", "own"})
    ->ArgsProduct({{30'000, 1'000'000}, {0, 1}})
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();

}  // namespace
}  // namespace wheelcache
