#include "wheelcache/tools/trace_replay/replayer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tools/trace_replay/barrier.h"
#include "wheelcache/tools/trace_replay/player.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/request_batch.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace replay {
namespace {

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
  return result;
}

}  // namespace replay
}  // namespace wheelcache
