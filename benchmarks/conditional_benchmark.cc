// Throughput of conditional writes in a cache of a million entries, with
// 21-byte keys and 64-byte values, uniform distribution, all keys resident:
//
//   BM_Set        Set of a key: what the first two compare with
//   BM_SetIf      Find of a key, and SetIf with its handle
//   BM_Update     Update of a key
//   BM_DelAndSet  Del of a key, and Set: what the last two compare with
//   BM_DelIf      Find of a key, DelIf with its handle, SetIf with an empty one
//   BM_Take       Take of a key, and Set
//
// Each with a number of threads. Where threads meet on a key, one may lose: in
// a cache of this size that is rare.
//
//   conditional_benchmark --benchmark_filter='threads:[12]$'

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/experiment.h"
#include "wheelcache/benchmarks/shared_core.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/cache/cache.h"

namespace wheelcache::benchmarks {
namespace {

using StringCache = Cache<std::string, std::string>;

// Longer than a benchmark runs.
constexpr absl::Duration kTtl = absl::Hours(1);

struct Set {
  static constexpr char kName[] = "BM_Set";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.Set(key, ValueFor(key[5]), kTtl);
  }
};

struct SetIf {
  static constexpr char kName[] = "BM_SetIf";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.SetIf(key, cache.Find(key), ValueFor(key[5]), kTtl);
  }
};

struct Update {
  static constexpr char kName[] = "BM_Update";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.Update(key, [&](const StringCache::Handle& old) {
      benchmark::DoNotOptimize(old.value());
      return StringCache::Decision::Set(ValueFor(key[5]), kTtl);
    });
  }
};

struct DelAndSet {
  static constexpr char kName[] = "BM_DelAndSet";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.Del(key);
    cache.Set(key, ValueFor(key[5]), kTtl);
  }
};

struct DelIf {
  static constexpr char kName[] = "BM_DelIf";
  static void Call(StringCache& cache, absl::string_view key) {
    cache.DelIf(key, cache.Find(key));
    cache.SetIf(key, /*expected=*/{}, ValueFor(key[5]), kTtl);
  }
};

struct Take {
  static constexpr char kName[] = "BM_Take";
  static void Call(StringCache& cache, absl::string_view key) {
    benchmark::DoNotOptimize(cache.Take(key));
    cache.Set(key, ValueFor(key[5]), kTtl);
  }
};

template <typename Operation>
class Writes {
 public:
  static constexpr const char* kName = Operation::kName;

  // Each key was written several times, so that the order in memory is that of
  // a cache in use.
  explicit Writes(int threads) : subject_(2 * kCapacity) {
    for (int i = 0; i < threads; ++i) {
      cursors_.emplace_back(AccessesOf({}), i, threads);
    }
    for (int64_t i = 0; i < kCapacity; ++i) {
      subject_.Set(MakeKey(i).view(), ValueFor(i), kTtl);
    }
    for (int64_t i = 0; i < 2 * kCapacity; ++i) Step(&cursors_[0]);
  }

  void Run(benchmark::State& state) {
    AccessCursor* const cursor = &cursors_[state.thread_index()];
    SharedCore core;
    for (auto _ : state) {
      Step(cursor);
      core.Look();
    }
    state.SetItemsProcessed(state.iterations());
    state.counters["shared"] =
        benchmark::Counter(core.share(), benchmark::Counter::kAvgThreads);
  }

 private:
  void Step(AccessCursor* cursor) {
    Operation::Call(subject_.cache(), cursor->Next().key.view());
  }

  std::vector<AccessCursor> cursors_;
  WheelcacheSubject subject_;
};

template <typename... Operations>
bool Register() {
  (RegisterExperiment<Writes<Operations>, WheelcacheSubject>(), ...);
  return true;
}

[[maybe_unused]] const bool registered =
    Register<Set, SetIf, Update, DelAndSet, DelIf, Take>();

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  return wheelcache::benchmarks::RunExperiments(argc, argv);
}
