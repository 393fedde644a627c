// Throughput of caches of a million entries, with 21-byte keys and 64-byte
// values, on 1, 2, 4 and 8 threads, and on more where there are more cores:
//
//   BM_GetHit       reads in place; all keys resident, Zipf distribution
//   BM_GetHitCopy   the same, each value copied
//   BM_Mixed        9 reads to a write, over twice as many keys as fit; a Set
//                   follows each miss
//   BM_SetExisting  Set of resident keys, uniform distribution
//   BM_SetNew       Set of new keys, each of which evicts an entry
//
// The subjects are wheelcache, with BM_GetHit, BM_Mixed and BM_SetNew also with
// its scan-resistant policy, the floor (a hash table on one thread, without
// lock, TTL, order and limit), a hand-written cache with sharded locks and,
// with --config=peers, other libraries. items_per_second is the sum over all
// threads.
//
//   cache_benchmark --benchmark_filter='BM_GetHit<wheelcache>/.*threads:2$'
//
// tools/benchmark runs everything and writes RESULTS.md. It interleaves the
// subjects of a workload (--benchmark_enable_random_interleaving=true), so the
// caches of all of them must fit in memory.

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/experiment.h"
#include "wheelcache/benchmarks/new_keys.h"
#include "wheelcache/benchmarks/shared_core.h"
#include "wheelcache/benchmarks/subjects/flat_hash_map_subject.h"
#include "wheelcache/benchmarks/subjects/sharded_mutex_subject.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"

#ifdef WHEELCACHE_BENCHMARK_PEERS
#include "wheelcache/benchmarks/subjects/leveldb_subject.h"
#include "wheelcache/benchmarks/subjects/rocksdb_subject.h"
#include "wheelcache/benchmarks/subjects/tbb_subject.h"
#endif

namespace wheelcache::benchmarks {
namespace {

// Longer than a benchmark runs.
constexpr absl::Duration kLongTtl = absl::Seconds(60);

// Keeps kCapacity entries resident even in a cache that splits its capacity
// evenly over shards, although the hash spreads the keys unevenly.
constexpr int64_t kRoomyCapacity = kCapacity + kCapacity / 16;

template <typename Subject>
void Fill(Subject& subject, int64_t keys, absl::Duration ttl) {
  for (int64_t i = 0; i < keys; ++i) {
    subject.Set(MakeKey(i).view(), ValueFor(i), ttl);
  }
}

std::vector<AccessCursor> CursorsOf(const AccessOptions& options, int threads) {
  const std::vector<Access>& accesses = AccessesOf(options);
  std::vector<AccessCursor> cursors;
  for (int i = 0; i < threads; ++i) cursors.emplace_back(accesses, i, threads);
  return cursors;
}

// Reports the iterations and the miss ratio of all threads, and the fraction of
// time in which they shared their cores (shared_core.h).
void Report(benchmark::State& state, int64_t misses, const SharedCore& core) {
  state.SetItemsProcessed(state.iterations());
  state.counters["miss_ratio"] = benchmark::Counter(
      static_cast<double>(misses) / static_cast<double>(state.iterations()),
      benchmark::Counter::kAvgThreads);
  state.counters["shared"] =
      benchmark::Counter(core.share(), benchmark::Counter::kAvgThreads);
}

enum class ReadBy { kReference, kCopy };

template <typename Subject, ReadBy Way>
class GetHit {
 public:
  static constexpr const char* kName =
      Way == ReadBy::kCopy ? "BM_GetHitCopy" : "BM_GetHit";

  explicit GetHit(int threads)
      : cursors_(CursorsOf({/*keys=*/kCapacity, /*skew=*/kZipfSkew}, threads)),
        subject_(kRoomyCapacity) {
    Fill(subject_, kCapacity, kLongTtl);
  }

  void Run(benchmark::State& state) {
    AccessCursor& cursor = cursors_[state.thread_index()];
    SharedCore core;
    int64_t misses = 0;
    for (auto _ : state) {
      if (!Read(cursor.Next().key.view())) ++misses;
      core.Look();
    }
    Report(state, misses, core);
    if (misses * 1000 > state.iterations()) {
      state.SkipWithError("not all keys are resident");
    }
  }

 private:
  bool Read(absl::string_view key) {
    if constexpr (Way == ReadBy::kReference) {
      return subject_.ReadInPlace(key);
    } else {
      auto copy = subject_.Copy(key);
      benchmark::DoNotOptimize(copy);
      return copy.has_value();
    }
  }

  std::vector<AccessCursor> cursors_;
  Subject subject_;
};

template <typename Subject>
class Mixed {
 public:
  static constexpr char kName[] = "BM_Mixed";

  explicit Mixed(int threads)
      : cursors_(CursorsOf(kAccesses, threads)), subject_(kCapacity) {
    FillAsIfLongUsed();
  }

  void Run(benchmark::State& state) {
    AccessCursor& cursor = cursors_[state.thread_index()];
    SharedCore core;
    int64_t misses = 0;
    for (auto _ : state) {
      if (!Step(cursor.Next())) ++misses;
      core.Look();
    }
    Report(state, misses, core);
  }

 private:
  static constexpr AccessOptions kAccesses = {
      /*keys=*/2 * kCapacity, /*skew=*/kZipfSkew, /*writes=*/0.1};
  static constexpr absl::Duration kTtl = absl::Seconds(30);

  // Brings the cache to the state after long use: the entries and the LRU order
  // that it would have, but at addresses that do not depend on popularity.
  // Subjects without a limit start with the same entries, and grow.
  void FillAsIfLongUsed() {
    const std::vector<int64_t> used = LastUsed(kAccesses, kCapacity);
    std::vector<bool> resident(kAccesses.keys);
    for (const int64_t number : used) resident[number] = true;
    for (int64_t i = 0; i < kAccesses.keys; ++i) {
      if (resident[i]) Store(MakeKey(i).view());
    }
    for (auto i = used.rbegin(); i != used.rend(); ++i) {
      subject_.ReadInPlace(MakeKey(*i).view());
    }
    // Some caches defer the reordering of reads to evictions, so the first
    // evictions would pay for all reads above.
    for (int64_t i = 0; i < kCapacity / 10; ++i) Step(cursors_[0].Next());
  }

  void Store(absl::string_view key) {
    subject_.Set(key, ValueFor(key[5]), kTtl);
  }

  // Returns false if it missed.
  bool Step(const Access& access) {
    const absl::string_view key = access.key.view();
    const bool hit = !access.write && subject_.ReadInPlace(key);
    if (!hit) Store(key);
    return hit || access.write;
  }

  std::vector<AccessCursor> cursors_;
  Subject subject_;
};

template <typename Subject>
class SetExisting {
 public:
  static constexpr char kName[] = "BM_SetExisting";

  explicit SetExisting(int threads)
      : cursors_(CursorsOf({}, threads)), subject_(kRoomyCapacity) {
    Fill(subject_, kCapacity, kLongTtl);
    for (int64_t i = 0; i < 2 * kCapacity; ++i) Step(cursors_[0].Next());
  }

  void Run(benchmark::State& state) {
    AccessCursor& cursor = cursors_[state.thread_index()];
    SharedCore core;
    for (auto _ : state) {
      Step(cursor.Next());
      core.Look();
    }
    Report(state, /*misses=*/0, core);
  }

 private:
  void Step(const Access& access) {
    const absl::string_view key = access.key.view();
    subject_.Set(key, ValueFor(key[5]), kLongTtl);
  }

  std::vector<AccessCursor> cursors_;
  Subject subject_;
};

template <typename Subject>
class SetNew {
 public:
  static constexpr char kName[] = "BM_SetNew";

  explicit SetNew(int threads) : keys_(threads), subject_(kCapacity) {
    for (int64_t i = 0; i < kCapacity; ++i) {
      subject_.Set(keys_.Initial(i).view(), ValueFor(i), kLongTtl);
    }
    for (int64_t i = 0; i < kCapacity; ++i) Step(/*thread=*/0);
  }

  void Run(benchmark::State& state) {
    const int thread = state.thread_index();
    SharedCore core;
    for (auto _ : state) {
      Step(thread);
      core.Look();
    }
    Report(state, /*misses=*/0, core);
  }

 private:
  void Step(int thread) {
    const NewKeys::Taken taken = keys_.Take(thread);
    const absl::string_view key = taken.key.view();
    subject_.SetNew(key, ValueFor(key[5]), kLongTtl, taken.oldest.view());
  }

  NewKeys keys_;
  Subject subject_;
};

template <typename Subject>
using GetHitInPlace = GetHit<Subject, ReadBy::kReference>;

template <typename Subject>
using GetHitCopy = GetHit<Subject, ReadBy::kCopy>;

template <template <typename> class Workload, typename... Subjects>
void RegisterFor() {
  (RegisterExperiment<Workload<Subjects>, Subjects>(), ...);
}

template <template <typename> class Workload>
void RegisterForAll() {
  RegisterFor<Workload, WheelcacheSubject, FlatHashMapSubject,
              ShardedMutexSubject>();
#ifdef WHEELCACHE_BENCHMARK_PEERS
  RegisterFor<Workload, RocksdbHyperClockSubject, RocksdbLruSubject,
              LeveldbSubject, TbbSubject>();
#endif
}

void RegisterAll() {
  RegisterForAll<GetHitInPlace>();
  RegisterForAll<GetHitCopy>();
  RegisterForAll<Mixed>();
  RegisterForAll<SetExisting>();
  RegisterFor<SetExisting, OverwritingMapSubject>();
  RegisterForAll<SetNew>();
  // The other eviction policy.
  RegisterFor<GetHitInPlace, ScanResistantSubject>();
  RegisterFor<Mixed, ScanResistantSubject>();
  RegisterFor<SetNew, ScanResistantSubject>();
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  wheelcache::benchmarks::RegisterAll();
  return wheelcache::benchmarks::RunExperiments(argc, argv);
}
