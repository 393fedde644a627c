// Throughput of the calls that load, in a cache of a million entries with
// 21-byte keys and 64-byte values, uniform distribution:
//
//   BM_Get             what the next two compare with, all keys resident
//   BM_GetOrLoadHit
//   BM_FindOrLoadHit
//   BM_SetAndDel       what the next three compare with
//   BM_FindOrLoadMiss  each key is deleted, and loaded again
//   BM_TicketMiss      the same by BeginLoad and Finish
//   BM_LoadManyMiss    the same for a hundred keys at a time; an item is a key
//   BM_Find            what the next one compares with, all keys resident
//   BM_FindMany        the same for 32 keys at a time; an item is a key
//
// And what refreshes do to readers:
//
//   BM_RefreshStorm/refresh:R    one thread reads a hundred thousand keys, all
//                                of them stale; another runs the refreshes
//
// The counters tell the latencies of these reads in nanoseconds of wall time,
// from the end of one to the end of the next; without refreshes (R = 0), the
// values are fresh.
//
//   load_benchmark --benchmark_filter='threads:[12]$|Storm'

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/experiment.h"
#include "wheelcache/benchmarks/shared_core.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/thread_pool.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"

namespace wheelcache::benchmarks {
namespace {

using StringCache = Cache<std::string, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;

// Longer than a benchmark runs.
constexpr absl::Duration kTtl = absl::Hours(1);

Result Load(absl::string_view key) {
  return Loaded<std::string>{std::string(ValueFor(key[5])), kTtl};
}

struct Get {
  static constexpr char kName[] = "BM_Get";
  static void Call(StringCache& cache, absl::string_view key) {
    benchmark::DoNotOptimize(cache.Get(key));
  }
};

struct GetOrLoadHit {
  static constexpr char kName[] = "BM_GetOrLoadHit";
  static void Call(StringCache& cache, absl::string_view key) {
    benchmark::DoNotOptimize(
        cache.GetOrLoad(key, []() -> absl::StatusOr<std::string> {
          return absl::InternalError("called");
        }));
  }
};

struct FindOrLoadHit {
  static constexpr char kName[] = "BM_FindOrLoadHit";
  static void Call(StringCache& cache, absl::string_view key) {
    benchmark::DoNotOptimize(
        cache.FindOrLoad(key, {}, [&] { return Load(key); }));
  }
};

struct SetAndDel {
  static constexpr char kName[] = "BM_SetAndDel";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.Del(key);
    cache.Set(key, ValueFor(key[5]), kTtl);
  }
};

struct FindOrLoadMiss {
  static constexpr char kName[] = "BM_FindOrLoadMiss";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.Del(key);
    FindOrLoadHit::Call(cache, key);
  }
};

struct TicketMiss {
  static constexpr char kName[] = "BM_TicketMiss";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.Del(key);
    auto ticket = cache.BeginLoad(
        key, {}, [](const auto& value) { benchmark::DoNotOptimize(value); });
    if (ticket) ticket.Finish(Load(key));
  }
};

template <typename Operation>
class Calls {
 public:
  static constexpr const char* kName = Operation::kName;

  explicit Calls(int threads) : subject_(2 * kCapacity) {
    for (int i = 0; i < threads; ++i) {
      cursors_.emplace_back(AccessesOf({}), i, threads);
    }
    for (int64_t i = 0; i < kCapacity; ++i) {
      subject_.Set(MakeKey(i).view(), ValueFor(i), kTtl);
    }
  }

  void Run(benchmark::State& state) {
    AccessCursor* const cursor = &cursors_[state.thread_index()];
    SharedCore core;
    for (auto _ : state) {
      Operation::Call(subject_.cache(), cursor->Next().key.view());
      core.Look();
    }
    Report(state, state.iterations(), core);
  }

 protected:
  static void Report(benchmark::State& state, int64_t keys,
                     const SharedCore& core) {
    state.SetItemsProcessed(keys);
    state.counters["shared"] =
        benchmark::Counter(core.share(), benchmark::Counter::kAvgThreads);
  }

  std::vector<AccessCursor> cursors_;
  WheelcacheSubject subject_;
};

// Those of many keys call with some that the accesses hold.
using Views = std::vector<absl::string_view>;

struct LoadManyMiss {
  static constexpr char kName[] = "BM_LoadManyMiss";
  static constexpr int kKeys = 100;
  static void Call(StringCache& cache, const Views& views) {
    std::vector<std::string> keys;
    for (const absl::string_view view : views) {
      keys.emplace_back(view);
      cache.Del(view);
    }
    benchmark::DoNotOptimize(
        cache.FindOrLoadMany(keys, {}, [&](absl::Span<const size_t> missing) {
          std::vector<Result> loaded;
          loaded.reserve(missing.size());
          for (const size_t i : missing) loaded.push_back(Load(keys[i]));
          return loaded;
        }));
  }
};

// Both leave the handles, whose pins end with the call.
struct FindEach {
  static constexpr char kName[] = "BM_Find";
  static constexpr int kKeys = 32;
  static void Call(StringCache& cache, const Views& views) {
    StringCache::Handle handles[kKeys];
    for (int i = 0; i < kKeys; ++i) handles[i] = cache.Find(views[i]);
    benchmark::DoNotOptimize(handles);
  }
};

struct FindMany {
  static constexpr char kName[] = "BM_FindMany";
  static constexpr int kKeys = 32;
  static void Call(StringCache& cache, const Views& views) {
    StringCache::Handle handles[kKeys];
    cache.FindMany(views, absl::MakeSpan(handles));
    benchmark::DoNotOptimize(handles);
  }
};

// The iterations of these are batches.
template <typename Operation>
class ManyCalls : public Calls<Operation> {
 public:
  using Calls<Operation>::Calls;

  void Run(benchmark::State& state) {
    AccessCursor& cursor = this->cursors_[state.thread_index()];
    Views views(Operation::kKeys);
    SharedCore core;
    for (auto _ : state) {
      for (absl::string_view& view : views) view = cursor.Next().key.view();
      Operation::Call(this->subject_.cache(), views);
      core.Look();
    }
    this->Report(state, state.iterations() * Operation::kKeys, core);
  }
};

template <typename... Workloads>
bool Register() {
  (RegisterExperiment<Workloads, WheelcacheSubject>(), ...);
  return true;
}

[[maybe_unused]] const bool registered =
    Register<Calls<Get>, Calls<GetOrLoadHit>, Calls<FindOrLoadHit>,
             Calls<SetAndDel>, Calls<FindOrLoadMiss>, Calls<TicketMiss>,
             ManyCalls<LoadManyMiss>, ManyCalls<FindEach>,
             ManyCalls<FindMany>>();

void BM_RefreshStorm(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kKeys = kCapacity / 10;
  testing::ThreadPool worker(1);
  CacheOptions options;
  options.default_ttl = kTtl;
  if (state.range(0) == 1) options.refresh_after = absl::Milliseconds(100);
  StringCache::Hooks hooks;
  hooks.reload = [](std::string_view key, std::string_view) {
    return Load(absl::string_view(key.data(), key.size()));
  };
  hooks.executor = [&](std::function<void()> task) {
    worker.Add(std::move(task));
  };
  auto cache = *StringCache::Create(options, hooks);
  for (auto _ : state) {
    for (int64_t i = 0; i < kKeys; ++i) {
      cache->Set(MakeKey(i).view(), ValueFor(i), kTtl);
    }
    absl::SleepFor(absl::Milliseconds(150));
    const StolenTime stolen;
    load_testing::LatencyHistogram latencies;
    const int64_t before = cache->stats().refreshes;
    Clock::time_point last = Clock::now();
    for (int64_t i = 0; i < 20 * kKeys; ++i) {
      // Each key once before the first again, in no order.
      const auto key = MakeKey(i * 7919 % kKeys);
      FindOrLoadHit::Call(*cache, key.view());
      const Clock::time_point now = Clock::now();
      latencies.Record((now - last).count());
      last = now;
    }
    state.counters["p50"] = static_cast<double>(latencies.Percentile(50));
    state.counters["p99"] = static_cast<double>(latencies.Percentile(99));
    state.counters["p99.9"] = static_cast<double>(latencies.Percentile(99.9));
    state.counters["max"] = static_cast<double>(latencies.max());
    state.counters["refreshes"] =
        static_cast<double>(cache->stats().refreshes - before);
    state.counters["stolen"] = stolen.share();
  }
  cache->Stop();
}
BENCHMARK(BM_RefreshStorm)
    ->ArgName("refresh")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  return wheelcache::benchmarks::RunExperiments(argc, argv);
}
