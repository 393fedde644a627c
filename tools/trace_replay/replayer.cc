#include "wheelcache/tools/trace_replay/replayer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {
namespace {

struct TracedValue {
  uint64_t key_size = 0;
  uint64_t value_size = 0;
};

using TraceCache = Cache<std::string, TracedValue>;

// Creates the cache that the options describe, without a background thread.
absl::StatusOr<std::unique_ptr<TraceCache>> CreateTraceCache(
    const ReplayOptions& options, Clock* clock) {
  CacheOptions cache;
  cache.name = "trace_replay";
  cache.max_entries = options.max_entries;
  // No request fits into less, which Create refuses.
  cache.max_bytes = std::max(options.max_bytes, int64_t{kEntryOverhead});
  cache.policy = options.policy.policy;
  cache.advise = options.advise;
  cache.default_ttl = options.ttl;
  cache.jitter = options.jitter;
  cache.jitter_seed = 1;
  cache.shards = options.shards;
  cache.clock = clock;
  cache.reaper = nullptr;
  TraceCache::Hooks hooks;
  hooks.weigher = [](std::string_view, const TracedValue& value) {
    return value.key_size + value.value_size;
  };
  return TraceCache::Create(std::move(cache), std::move(hooks));
}

// Plays requests on one thread. Players on several threads may share a cache if
// all requests for a key go to the same player.
class Player {
 public:
  Player(TraceCache& cache, const ReplayOptions& options)
      : cache_(cache),
        default_ttl_(options.ttl),
        read_through_(options.read_through) {}

  void Play(const Request& request) {
    ++counts_.requests;
    switch (request.operation) {
      case Operation::kGet:
      case Operation::kGets:
        return Read(request);
      case Operation::kSet:
        return Write(request);
      case Operation::kAdd:
        // Get, not Contains: memcached's add refreshes the recency of a present
        // key.
        if (!cache_.Get(request.key)) Write(request);
        return;
      case Operation::kReplace:
      case Operation::kCas:
        if (cache_.Contains(request.key)) Write(request);
        return;
      case Operation::kAppend:
      case Operation::kPrepend:
        return Grow(request, request.value_size);
      case Operation::kIncr:
      case Operation::kDecr:
        return Grow(request, 0);
      case Operation::kDelete:
        cache_.Del(request.key);
        return;
    }
  }

  const ReplayCounts& counts() const { return counts_; }

 private:
  // Returns call(). Records the latency of one call in eight.
  template <typename Call>
  auto Timed(load_testing::LatencyHistogram& nanos, Call call) {
    // At random: every eighth call could coincide with a pattern in the trace.
    // This is Marsaglia's xorshift generator (2003).
    sampler_ ^= sampler_ << 13;
    sampler_ ^= sampler_ >> 17;
    sampler_ ^= sampler_ << 5;
    if (sampler_ % 8 != 0) return call();
    const auto start = std::chrono::steady_clock::now();
    auto result = call();
    const std::chrono::nanoseconds elapsed =
        std::chrono::steady_clock::now() - start;
    nanos.Record(elapsed.count());
    return result;
  }

  void Read(const Request& request) {
    if (Timed(counts_.get_nanos, [&] { return cache_.Get(request.key); })) {
      ++counts_.hits;
      return;
    }
    ++counts_.misses;
    if (read_through_) Write(request);
  }

  void Write(const Request& request) {
    Set(request, {request.key_size, request.value_size},
        request.ttl_seconds == 0 ? default_ttl_
                                 : absl::Seconds(request.ttl_seconds));
  }

  // Adds `bytes` to the size of a present value, which keeps its deadline.
  void Grow(const Request& request, uint64_t bytes) {
    std::optional<TracedValue> value = cache_.Peek(request.key);
    const std::optional<absl::Duration> ttl = cache_.TimeToLive(request.key);
    // Another player may evict the key between the two calls.
    if (!value || !ttl) return;
    value->value_size += bytes;
    Set(request, *value, *ttl);
  }

  void Set(const Request& request, TracedValue value, absl::Duration ttl) {
    Timed(counts_.set_nanos,
          [&] { return cache_.Set(request.key, value, ttl); });
    counts_.peak_entries = std::max(counts_.peak_entries, cache_.size());
    counts_.peak_bytes = std::max(counts_.peak_bytes, cache_.bytes());
  }

  TraceCache& cache_;
  const absl::Duration default_ttl_;
  const bool read_through_;
  uint32_t sampler_ = 1;
  ReplayCounts counts_;
};

// A reusable barrier with a completion, as C++20's std::barrier has one.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  // Blocks until all threads have called this. The last one to arrive runs its
  // completion, before any of them is released.
  void Pass(const std::function<void()>& completion = [] {}) {
    MutexLock lock(&mu_);
    if (++waiting_ == threads_) {
      completion();
      waiting_ = 0;
      ++generation_;
      all_arrived_.SignalAll();
      return;
    }
    const int64_t generation = generation_;
    while (generation == generation_) all_arrived_.Wait(&mu_);
  }

 private:
  const int threads_;

  Mutex mu_;
  CondVar all_arrived_;
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
};

// Some requests of a trace. They are read before the clock of the replay runs,
// and few enough to leave most of a core's private caches to the cache under
// test.
struct Batch {
  const LoadedTrace* trace;
  size_t begin;
  size_t end;
};
constexpr size_t kBatchRequests = 4096;

// Returns the next requests; none at the end.
using NextBatch = std::function<absl::StatusOr<Batch>()>;

// Workers, one per thread, that play one batch after another together. Each
// scans the whole batch and plays the requests for its keys. Where simulated
// time advances, they wait for each other.
class Team {
 public:
  // The cache and its clock must outlive the team.
  Team(SimulatedClock& clock, TraceCache& cache, const ReplayOptions& options)
      : clock_(clock), cache_(cache), barrier_(options.threads) {
    for (int i = 0; i < options.threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(cache, options));
    }
  }

  absl::Status Run(const NextBatch& next) {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < workers_.size(); ++i) {
      threads.emplace_back([this, i] { PlayBatches(i); });
    }
    absl::Status status = LeadBatches(next);
    done_ = true;
    barrier_.Pass();
    for (std::thread& thread : threads) thread.join();
    return status;
  }

  // REQUIRES: Run has returned.
  ReplayCounts counts() const {
    ReplayCounts sum;
    for (const auto& worker : workers_) {
      const ReplayCounts& counts = worker->player.counts();
      sum.requests += counts.requests;
      sum.hits += counts.hits;
      sum.misses += counts.misses;
      sum.peak_entries = std::max(sum.peak_entries, counts.peak_entries);
      sum.peak_bytes = std::max(sum.peak_bytes, counts.peak_bytes);
      sum.get_nanos.Merge(counts.get_nanos);
      sum.set_nanos.Merge(counts.set_nanos);
    }
    return sum;
  }
  absl::Duration elapsed() const { return absl::FromChrono(elapsed_); }

 private:
  // Aligned against false sharing: each is written by its own thread.
  struct alignas(64) Worker {
    Worker(TraceCache& cache, const ReplayOptions& options)
        : player(cache, options) {}

    Player player;
    int64_t now_seconds = -1;  // The latest time seen so far.
  };

  absl::Status LeadBatches(const NextBatch& next) {
    for (;;) {
      absl::StatusOr<Batch> batch = next();
      if (!batch.ok()) return batch.status();
      if (batch->begin == batch->end) return absl::OkStatus();
      batch_ = *batch;
      const auto start = std::chrono::steady_clock::now();
      barrier_.Pass();
      PlayBatch(0);
      barrier_.Pass();
      elapsed_ += std::chrono::steady_clock::now() - start;
    }
  }

  void PlayBatches(size_t index) {
    for (;;) {
      barrier_.Pass();
      if (done_) return;
      PlayBatch(index);
      barrier_.Pass();
    }
  }

  void PlayBatch(size_t index) {
    Worker& worker = *workers_[index];
    const LoadedTrace& trace = *batch_.trace;
    for (size_t i = batch_.begin; i < batch_.end; ++i) {
      const int64_t seconds = trace.timestamp_seconds(i);
      if (seconds > worker.now_seconds) {
        worker.now_seconds = seconds;
        barrier_.Pass([&] { AdvanceClock(seconds); });
      }
      // By the numbers of the keys, which have nothing to do with the hashes
      // that select shards: else workers would have shards to themselves.
      if (trace.key(i) % workers_.size() == index) worker.player.Play(trace[i]);
    }
  }

  // Advances the clock and reclaims all that has expired.
  void AdvanceClock(int64_t now_seconds) {
    constexpr int64_t kBudget = 1024;
    clock_.AdvanceTo(absl::Seconds(now_seconds));
    while (cache_.RunMaintenance(kBudget) >= kBudget) {
    }
  }

  SimulatedClock& clock_;
  TraceCache& cache_;
  std::vector<std::unique_ptr<Worker>> workers_;

  // Written by the leader, worker 0, while the others wait at the barrier.
  Batch batch_ = {};
  bool done_ = false;
  std::chrono::nanoseconds elapsed_{0};

  Barrier barrier_;
};

absl::StatusOr<ReplayResult> ReplayBatches(const NextBatch& next,
                                           const ReplayOptions& options) {
  SimulatedClock clock;
  absl::StatusOr<std::unique_ptr<TraceCache>> cache =
      CreateTraceCache(options, &clock);
  if (!cache.ok()) return cache.status();
  Team team(clock, **cache, options);
  absl::Status status = team.Run(next);
  if (!status.ok()) return status;

  ReplayResult result;
  result.counts = team.counts();
  result.elapsed = team.elapsed();
  const CacheStats stats = (*cache)->stats();
  result.evictions = stats.evictions;
  result.expirations = stats.expirations;
  result.advice = stats.advice;
  return result;
}

}  // namespace

double ReplayResult::hit_ratio() const {
  const int64_t reads = counts.hits + counts.misses;
  if (reads == 0) return 0;
  return static_cast<double>(counts.hits) / static_cast<double>(reads);
}

double ReplayResult::requests_per_second() const {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  return seconds > 0 ? static_cast<double>(counts.requests) / seconds : 0;
}

absl::StatusOr<ReplayResult> Replay(RequestSource& source,
                                    const ReplayOptions& options) {
  absl::StatusOr<LoadedTrace> part;
  const auto next = [&]() -> absl::StatusOr<Batch> {
    part = LoadedTrace::LoadPart(source, kBatchRequests);
    if (!part.ok()) return part.status();
    return Batch{&*part, 0, part->size()};
  };
  absl::StatusOr<ReplayResult> result = ReplayBatches(next, options);
  if (result.ok()) result->bad_lines = source.bad_lines();
  return result;
}

absl::StatusOr<ReplayResult> Replay(const LoadedTrace& trace,
                                    const ReplayOptions& options) {
  size_t begin = 0;
  const auto next = [&]() -> absl::StatusOr<Batch> {
    const size_t end = std::min(begin + kBatchRequests, trace.size());
    return Batch{&trace, std::exchange(begin, end), end};
  };
  return ReplayBatches(next, options);
}

absl::StatusOr<int64_t> OverheadPerEntry(const ReplayOptions& options) {
  ReplayOptions unlimited = options;
  unlimited.max_entries = unlimited.max_bytes = kUnlimited;
  SimulatedClock clock;
  absl::StatusOr<std::unique_ptr<TraceCache>> cache =
      CreateTraceCache(unlimited, &clock);
  if (!cache.ok()) return cache.status();
  (*cache)->Set("", TracedValue());
  return (*cache)->bytes();
}

}  // namespace wheelcache::replay
