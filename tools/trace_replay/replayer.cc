#include "wheelcache/tools/trace_replay/replayer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/player.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {
namespace {

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
