#include "wheelcache/tools/trace_replay/replayer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/stats.h"
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

// A batch of requests, each assigned to a worker; those for a key have the same
// one. Requests are read a batch at a time, so that the measured time of a
// replay excludes reading.
class RequestBatch {
 public:
  explicit RequestBatch(int workers) : workers_(workers) {}

  // Replaces the batch by the next requests of `source`. Returns false if there
  // are none.
  absl::StatusOr<bool> Fill(RequestSource& source);

  size_t size() const { return items_.size(); }
  int worker(size_t i) const { return items_[i].worker; }
  int64_t timestamp_seconds(size_t i) const {
    return items_[i].request.timestamp_seconds;
  }

  // The key is valid until the next Fill.
  Request operator[](size_t i) const {
    Request request = items_[i].request;
    request.key = absl::string_view(keys_).substr(items_[i].key_begin,
                                                  items_[i].key_length);
    return request;
  }

 private:
  struct Item {
    Request request;  // Its key dangles; the bytes are in keys_.
    size_t key_begin;
    size_t key_length;
    int worker;
  };

  int WorkerOf(absl::string_view key) const;

  const int workers_;
  std::vector<Item> items_;
  std::string keys_;
};

absl::StatusOr<bool> RequestBatch::Fill(RequestSource& source) {
  // Few enough to leave most of a core's private caches to the cache under
  // test.
  constexpr size_t kMaxRequests = 4096;
  constexpr size_t kMaxKeyBytes = 1 << 20;
  items_.clear();
  keys_.clear();
  Request request;
  while (items_.size() < kMaxRequests && keys_.size() < kMaxKeyBytes) {
    absl::StatusOr<bool> more = source.Next(request);
    if (!more.ok()) return more.status();
    if (!*more) break;
    items_.push_back(
        {request, keys_.size(), request.key.size(), WorkerOf(request.key)});
    keys_.append(request.key.data(), request.key.size());
  }
  return !items_.empty();
}

// Not by absl::Hash, which selects the cache's shards: each worker would have
// shards to itself, and their locks would never be contended.
int RequestBatch::WorkerOf(absl::string_view key) const {
  if (workers_ == 1) return 0;
  const std::string_view bytes(key.data(), key.size());
  return static_cast<int>(std::hash<std::string_view>()(bytes) % workers_);
}

void Merge(const PlayerCounts& from, PlayerCounts& into) {
  into.requests += from.requests;
  into.hits += from.hits;
  into.misses += from.misses;
  into.peak_entries = std::max(into.peak_entries, from.peak_entries);
  into.peak_bytes = std::max(into.peak_bytes, from.peak_bytes);
  into.get_nanos.Merge(from.get_nanos);
  into.set_nanos.Merge(from.set_nanos);
}

// Workers, one per thread, that play one batch after another together. Each
// scans the whole batch and plays the requests assigned to it. Where simulated
// time advances, they wait for each other.
class Team {
 public:
  // The cache and its clock must outlive the team.
  Team(SimulatedClock& clock, TraceCache& cache, const ReplayOptions& options)
      : clock_(clock),
        cache_(cache),
        batch_(options.threads),
        barrier_(options.threads) {
    for (int i = 0; i < options.threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(cache, options));
    }
  }

  absl::Status Run(RequestSource& source, const ProgressListener& progress);

  // REQUIRES: Run has returned.
  PlayerCounts counts() const {
    PlayerCounts counts;
    for (const auto& worker : workers_) Merge(worker->player.counts(), counts);
    return counts;
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

  void PlayBatches(int index);
  void PlayBatch(int index);
  absl::Status LeadBatches(RequestSource& source,
                           const ProgressListener& progress);
  // Advances the clock and reclaims all that has expired.
  void AdvanceClock(int64_t now_seconds);

  SimulatedClock& clock_;
  TraceCache& cache_;
  std::vector<std::unique_ptr<Worker>> workers_;

  // Written by the leader, worker 0, while the others wait at the barrier.
  RequestBatch batch_;
  bool done_ = false;
  std::chrono::nanoseconds elapsed_{0};

  Barrier barrier_;
};

absl::Status Team::Run(RequestSource& source,
                       const ProgressListener& progress) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers_.size(); ++i) {
    threads.emplace_back([this, i] { PlayBatches(static_cast<int>(i)); });
  }
  absl::Status status = LeadBatches(source, progress);
  done_ = true;
  barrier_.Pass();
  for (std::thread& thread : threads) thread.join();
  return status;
}

absl::Status Team::LeadBatches(RequestSource& source,
                               const ProgressListener& progress) {
  int64_t played = 0;
  for (;;) {
    absl::StatusOr<bool> filled = batch_.Fill(source);
    if (!filled.ok()) return filled.status();
    if (!*filled) return absl::OkStatus();
    const auto start = std::chrono::steady_clock::now();
    barrier_.Pass();
    PlayBatch(0);
    barrier_.Pass();
    elapsed_ += std::chrono::steady_clock::now() - start;
    played += static_cast<int64_t>(batch_.size());
    if (progress) progress(played);
  }
}

void Team::PlayBatches(int index) {
  for (;;) {
    barrier_.Pass();
    if (done_) return;
    PlayBatch(index);
    barrier_.Pass();
  }
}

void Team::PlayBatch(int index) {
  Worker& worker = *workers_[index];
  for (size_t i = 0; i < batch_.size(); ++i) {
    const int64_t seconds = batch_.timestamp_seconds(i);
    if (seconds > worker.now_seconds) {
      worker.now_seconds = seconds;
      barrier_.Pass([&] { AdvanceClock(seconds); });
    }
    if (batch_.worker(i) == index) worker.player.Play(batch_[i]);
  }
}

void Team::AdvanceClock(int64_t now_seconds) {
  constexpr int64_t kBudget = 1024;
  clock_.AdvanceTo(absl::Seconds(now_seconds));
  while (cache_.RunMaintenance(kBudget) >= kBudget) {
  }
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
                                    const ReplayOptions& options,
                                    const ProgressListener& progress) {
  SimulatedClock clock;
  absl::StatusOr<std::unique_ptr<TraceCache>> cache =
      CreateTraceCache(options, &clock);
  if (!cache.ok()) return cache.status();
  Team team(clock, **cache, options);
  absl::Status status = team.Run(source, progress);
  if (!status.ok()) return status;

  ReplayResult result;
  result.counts = team.counts();
  result.elapsed = team.elapsed();
  const CacheStats stats = (*cache)->stats();
  result.evictions = stats.evictions;
  result.expirations = stats.expirations;
  result.advice = stats.advice;
  result.bad_lines = source.bad_lines();
  return result;
}

}  // namespace wheelcache::replay
