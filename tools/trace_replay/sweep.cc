#include "wheelcache/tools/trace_replay/sweep.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/bounds.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/parallel.h"
#include "wheelcache/tools/trace_replay/player.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/sweep_limits.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {
namespace {

// Adds up what the threads have done.
class Progress {
 public:
  // Loading the trace counts as one job.
  Progress(size_t jobs, const SweepListener& listener)
      : jobs_(static_cast<double>(jobs) + 1), listener_(listener) {}

  void Load(std::optional<double> done, int64_t requests) {
    loaded_ = requests;
    if (listener_) listener_(Part(done), requests);
  }

  // A job has gone on by a part of it, and replayed so many requests.
  void Add(double part, int64_t requests) {
    MutexLock lock(&mu_);
    done_ += part;
    replayed_ += requests;
    if (listener_) listener_((done_ + 1) / jobs_, loaded_ + replayed_);
  }

 private:
  std::optional<double> Part(std::optional<double> done) const {
    if (!done.has_value()) return std::nullopt;
    return *done / jobs_;
  }

  const double jobs_;
  const SweepListener& listener_;
  int64_t loaded_ = 0;  // Before there is a second thread.

  Mutex mu_;
  double done_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t replayed_ ABSL_GUARDED_BY(mu_) = 0;
};

// What the cache charges for an entry besides the sizes in the trace.
absl::StatusOr<int64_t> OverheadOfAnEntry(const ReplayOptions& options) {
  ReplayOptions unlimited = options;
  unlimited.max_entries = unlimited.max_bytes = kUnlimited;
  SimulatedClock clock;
  absl::StatusOr<std::unique_ptr<TraceCache>> cache =
      CreateTraceCache(unlimited, &clock);
  if (!cache.ok()) return cache.status();
  (*cache)->Set("", TracedValue());
  return (*cache)->bytes();
}

// The charges of all keys, each at its largest.
int64_t BytesOfAllKeys(const LoadedTrace& trace, int64_t overhead) {
  std::vector<int64_t> charges(trace.keys());
  for (size_t i = 0; i < trace.size(); ++i) {
    const Request request = trace[i];
    int64_t& charge = charges[trace.key(i)];
    charge = std::max(charge, overhead + int64_t{request.key_size} +
                                  int64_t{request.value_size});
  }
  int64_t bytes = 0;
  for (const int64_t charge : charges) bytes += charge;
  return bytes;
}

// How many caches tell of all limits: each of a half to four times its own.
constexpr int kSampledCaches = 3;

class Sweeper {
 public:
  Sweeper(const SweepOptions& options, const SweepListener& listener)
      : options_(options), progress_(NumberOfJobs(options), listener) {}

  absl::StatusOr<Sweep> Run(RequestSource& source);

 private:
  // A job replays the trace once, or finds the bound for one limit.
  static size_t NumberOfJobs(const SweepOptions& options) {
    const size_t sizes = options.sizes;
    const size_t samples = HasLru(options) ? kSampledCaches : 0;
    return sizes +
           options.ttls.size() * (sizes * options.policies.size() + samples);
  }
  static bool HasLru(const SweepOptions& options) {
    return absl::c_any_of(options.policies, [](const Policy& policy) {
      return policy.policy == EvictionPolicy::kLru;
    });
  }

  bool by_bytes() const { return options_.by == SweepBy::kBytes; }

  absl::Status Plan(const LoadedTrace& trace);
  void Bound(const LoadedTrace& trace);
  absl::Status ReplayAll(const LoadedTrace& trace);
  ReplayOptions OptionsOf(const SweepCurve& curve, int64_t limit) const;
  void AddPoints(int64_t limit, const CacheAdvice& advice);
  absl::Status SampleAll(const LoadedTrace& trace);
  absl::StatusOr<ReplayResult> Play(const LoadedTrace& trace,
                                    const ReplayOptions& options);

  const SweepOptions& options_;
  Progress progress_;
  int64_t overhead_ = 0;
  Sweep sweep_;
};

absl::StatusOr<Sweep> Sweeper::Run(RequestSource& source) {
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(
      source,
      [&](int64_t requests) { progress_.Load(source.progress(), requests); });
  if (!trace.ok()) return trace.status();
  progress_.Load(1, static_cast<int64_t>(trace->size()));
  absl::Status status = Plan(*trace);
  if (!status.ok()) return status;
  Bound(*trace);
  status = ReplayAll(*trace);
  if (status.ok() && HasLru(options_)) status = SampleAll(*trace);
  if (!status.ok()) return status;
  return std::move(sweep_);
}

absl::Status Sweeper::Plan(const LoadedTrace& trace) {
  absl::StatusOr<int64_t> overhead = OverheadOfAnEntry(options_.replay);
  if (!overhead.ok()) return overhead.status();
  overhead_ = *overhead;
  sweep_.by = options_.by;
  sweep_.requests = static_cast<int64_t>(trace.size());
  sweep_.reads = trace.reads();
  sweep_.keys = static_cast<int64_t>(trace.keys());
  int64_t largest =
      by_bytes() ? options_.replay.max_bytes : options_.replay.max_entries;
  if (largest == kUnlimited) {
    largest = by_bytes() ? BytesOfAllKeys(trace, overhead_) : sweep_.keys;
  }
  sweep_.limits = SweepLimits(std::max<int64_t>(largest, 1), options_.sizes);
  return absl::OkStatus();
}

void Sweeper::Bound(const LoadedTrace& trace) {
  const bool read_through = options_.replay.read_through;
  const size_t sizes = sweep_.limits.size();
  const std::vector<uint32_t> next_reads = NextReads(trace, read_through);
  std::vector<int64_t> without_ttl(sizes);
  if (by_bytes()) {
    without_ttl = MostHitsByBytes(trace, next_reads, sweep_.limits, overhead_);
    progress_.Add(static_cast<double>(sizes), 0);
  } else {
    RunInParallel(options_.replay.threads, sizes, [&](size_t i) {
      without_ttl[i] = MostHits(next_reads, sweep_.limits[i]);
      progress_.Add(1, 0);
    });
  }
  for (const absl::Duration ttl : options_.ttls) {
    const int64_t most =
        MostHitsByTtl(trace, {ttl, options_.replay.jitter, read_through});
    SweepBound bound = {ttl, without_ttl};
    for (int64_t& hits : bound.hits) hits = std::min(hits, most);
    sweep_.bounds.push_back(std::move(bound));
  }
}

absl::Status Sweeper::ReplayAll(const LoadedTrace& trace) {
  const size_t sizes = sweep_.limits.size();
  for (const absl::Duration ttl : options_.ttls) {
    for (const Policy& policy : options_.policies) {
      sweep_.curves.push_back({policy, ttl, std::vector<int64_t>(sizes)});
    }
  }
  const size_t cells = sweep_.curves.size() * sizes;
  std::vector<absl::Status> statuses(cells);
  RunInParallel(options_.replay.threads, cells, [&](size_t cell) {
    SweepCurve& curve = sweep_.curves[cell / sizes];
    const size_t limit = cell % sizes;
    const auto result = Play(trace, OptionsOf(curve, sweep_.limits[limit]));
    statuses[cell] = result.status();
    if (result.ok()) curve.hits[limit] = result->counts.hits;
  });
  absl::Status first;
  for (const absl::Status& status : statuses) first.Update(status);
  return first;
}

absl::Status Sweeper::SampleAll(const LoadedTrace& trace) {
  const std::vector<int64_t> limits =
      SampledLimits(sweep_.limits.back(), kSampledCaches);
  std::vector<absl::StatusOr<ReplayResult>> results(options_.ttls.size() *
                                                    limits.size());
  RunInParallel(options_.replay.threads, results.size(), [&](size_t i) {
    SweepCurve curve;
    curve.policy.policy = EvictionPolicy::kLru;
    curve.ttl = options_.ttls[i / limits.size()];
    ReplayOptions replay = OptionsOf(curve, limits[i % limits.size()]);
    replay.advise = true;
    results[i] = Play(trace, replay);
  });
  // Jobs that there were not.
  progress_.Add(static_cast<double>(options_.ttls.size() * kSampledCaches -
                                    results.size()),
                0);
  absl::Status first;
  for (size_t i = 0; i < results.size(); ++i) {
    first.Update(results[i].status());
    if (i % limits.size() == 0) {
      sweep_.samples.push_back({options_.ttls[i / limits.size()], {}, {}});
    }
    if (!results[i].ok() || !results[i]->advice.has_value()) continue;
    AddPoints(limits[i % limits.size()], *results[i]->advice);
  }
  return first;
}

// Adds what a cache with this limit says, as far as the axis goes.
void Sweeper::AddPoints(int64_t limit, const CacheAdvice& advice) {
  SweepSample& sample = sweep_.samples.back();
  const std::pair<int64_t, double> points[] = {{limit / 2, advice.half},
                                               {limit, advice.same},
                                               {2 * limit, advice.twice},
                                               {4 * limit, advice.four_times}};
  for (const auto& [at, ratio] : points) {
    if (at < sweep_.limits.front() || at > sweep_.limits.back()) continue;
    if (!sample.limits.empty() && at <= sample.limits.back()) continue;
    sample.limits.push_back(at);
    sample.hit_ratios.push_back(ratio);
  }
}

ReplayOptions Sweeper::OptionsOf(const SweepCurve& curve, int64_t limit) const {
  ReplayOptions replay = options_.replay;
  (by_bytes() ? replay.max_bytes : replay.max_entries) = limit;
  replay.policy = curve.policy.policy;
  replay.ttl = curve.ttl;
  replay.threads = 1;
  return replay;
}

absl::StatusOr<ReplayResult> Sweeper::Play(const LoadedTrace& trace,
                                           const ReplayOptions& options) {
  LoadedTrace::Reader reader(trace);
  int64_t before = 0;
  return Replay(reader, options, [&](int64_t played) {
    progress_.Add(static_cast<double>(played - before) /
                      static_cast<double>(trace.size()),
                  played - before);
    before = played;
  });
}

}  // namespace

absl::StatusOr<Sweep> RunSweep(RequestSource& source,
                               const SweepOptions& options,
                               const SweepListener& listener) {
  return Sweeper(options, listener).Run(source);
}

}  // namespace wheelcache::replay
