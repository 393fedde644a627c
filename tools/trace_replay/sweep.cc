#include "wheelcache/tools/trace_replay/sweep.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/bounds.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {
namespace {

// Calls run(0) to run(jobs - 1), in this order, each on one of `threads`
// threads, the caller's included. Returns when all have returned.
template <typename Run>
void RunInParallel(int threads, size_t jobs, Run run) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < jobs;) run(i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

int64_t WithTwoDigits(double number) {
  const double unit = std::pow(10, std::floor(std::log10(number)) - 1);
  return std::llround(std::round(number / unit) * unit);
}

// How many caches tell of all limits: each of a half to four times its own.
constexpr int kSampledCaches = 3;

// Returns the limits of those caches, ascending: a quarter of the largest, a
// 32nd and a 256th, so that together they tell of all limits from a 512th on.
std::vector<int64_t> SampledLimits(int64_t largest) {
  std::vector<int64_t> limits;
  for (int i = 0; i < kSampledCaches; ++i) {
    limits.push_back(std::max<int64_t>((largest / 4) >> (3 * i), 1));
  }
  std::reverse(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
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

// Adds what a cache with this limit says, as far as the axis goes.
void AddPoints(int64_t limit, const CacheAdvice& advice, const Sweep& sweep,
               SweepCurve& sample) {
  const std::pair<int64_t, double> points[] = {{limit / 2, advice.half},
                                               {limit, advice.same},
                                               {2 * limit, advice.twice},
                                               {4 * limit, advice.four_times}};
  for (const auto& [at, ratio] : points) {
    if (at < sweep.limits.front() || at > sweep.limits.back()) continue;
    if (!sample.limits.empty() && at <= sample.limits.back()) continue;
    sample.limits.push_back(at);
    sample.hits.push_back(
        std::llround(ratio * static_cast<double>(sweep.reads)));
  }
}

class Sweeper {
 public:
  Sweeper(const LoadedTrace& trace, const SweepOptions& options)
      : trace_(trace), options_(options) {}

  absl::StatusOr<Sweep> Run();

 private:
  // A replay, and what it found.
  struct Job {
    ReplayOptions options;
    absl::Status status;
    int64_t hits = 0;
    std::optional<CacheAdvice> advice;
  };

  absl::Status Plan();
  void AddJob(const Policy& policy, absl::Duration ttl, int64_t limit,
              bool advise);
  void ReplayAll();
  void Bound();

  bool by_bytes() const { return options_.by == SweepBy::kBytes; }

  const LoadedTrace& trace_;
  const SweepOptions& options_;
  int64_t overhead_ = 0;
  Sweep sweep_;
  std::vector<Job> jobs_;
};

absl::StatusOr<Sweep> Sweeper::Run() {
  absl::Status status = Plan();
  if (!status.ok()) return status;
  const bool has_lru = absl::c_any_of(options_.policies, [](const Policy& p) {
    return p.policy == EvictionPolicy::kLru;
  });
  std::vector<int64_t> sampled;
  if (has_lru) sampled = SampledLimits(sweep_.limits.back());
  for (const absl::Duration ttl : options_.ttls) {
    for (const Policy& policy : options_.policies) {
      for (const int64_t limit : sweep_.limits) {
        AddJob(policy, ttl, limit, /*advise=*/false);
      }
    }
    for (const int64_t limit : sampled) {
      AddJob(kPolicies[0], ttl, limit, /*advise=*/true);
    }
  }
  ReplayAll();
  for (const Job& job : jobs_) status.Update(job.status);
  if (!status.ok()) return status;

  auto job = jobs_.begin();
  for (const absl::Duration ttl : options_.ttls) {
    SweepSection section;
    section.ttl = ttl;
    for (const Policy& policy : options_.policies) {
      SweepCurve curve = {policy.name, policy.title, sweep_.limits, {}};
      for (size_t i = 0; i < sweep_.limits.size(); ++i, ++job) {
        curve.hits.push_back(job->hits);
      }
      section.curves.push_back(std::move(curve));
    }
    if (has_lru) section.sample = {"sample", "LRU, from a sample", {}, {}};
    for (size_t i = 0; i < sampled.size(); ++i, ++job) {
      if (!job->advice.has_value()) continue;
      AddPoints(sampled[i], *job->advice, sweep_, *section.sample);
    }
    sweep_.sections.push_back(std::move(section));
  }
  Bound();
  return std::move(sweep_);
}

absl::Status Sweeper::Plan() {
  absl::StatusOr<int64_t> overhead = OverheadPerEntry(options_.replay);
  if (!overhead.ok()) return overhead.status();
  overhead_ = *overhead;
  sweep_.by = options_.by;
  sweep_.requests = static_cast<int64_t>(trace_.size());
  sweep_.reads = trace_.reads();
  sweep_.keys = static_cast<int64_t>(trace_.keys());
  sweep_.policies = options_.policies;
  int64_t largest =
      by_bytes() ? options_.replay.max_bytes : options_.replay.max_entries;
  if (largest == kUnlimited) {
    largest = by_bytes() ? BytesOfAllKeys(trace_, overhead_) : sweep_.keys;
  }
  sweep_.limits = SweepLimits(std::max<int64_t>(largest, 1), options_.sizes);
  return absl::OkStatus();
}

void Sweeper::AddJob(const Policy& policy, absl::Duration ttl, int64_t limit,
                     bool advise) {
  Job job;
  job.options = options_.replay;
  (by_bytes() ? job.options.max_bytes : job.options.max_entries) = limit;
  job.options.policy = policy;
  job.options.ttl = ttl;
  job.options.threads = 1;
  job.options.advise = advise;
  jobs_.push_back(std::move(job));
}

void Sweeper::ReplayAll() {
  RunInParallel(options_.replay.threads, jobs_.size(), [&](size_t i) {
    const auto result = Replay(trace_, jobs_[i].options);
    jobs_[i].status = result.status();
    if (!result.ok()) return;
    jobs_[i].hits = result->counts.hits;
    jobs_[i].advice = result->advice;
  });
}

void Sweeper::Bound() {
  const bool read_through = options_.replay.read_through;
  const std::vector<uint32_t> next_reads = NextReads(trace_, read_through);
  std::vector<int64_t> without_ttl(sweep_.limits.size());
  if (by_bytes()) {
    without_ttl = MostHitsByBytes(trace_, next_reads, sweep_.limits, overhead_);
  } else {
    RunInParallel(options_.replay.threads, without_ttl.size(), [&](size_t i) {
      without_ttl[i] = MostHits(next_reads, sweep_.limits[i]);
    });
  }
  for (SweepSection& section : sweep_.sections) {
    const int64_t most = MostHitsByTtl(
        trace_, {section.ttl, options_.replay.jitter, read_through});
    SweepCurve bound = {"bound", by_bytes() ? "Upper bound" : "Belady's bound",
                        sweep_.limits, without_ttl};
    for (int64_t& hits : bound.hits) hits = std::min(hits, most);
    section.curves.push_back(std::move(bound));
  }
}

}  // namespace

absl::StatusOr<Sweep> RunSweep(RequestSource& source,
                               const SweepOptions& options) {
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
  if (!trace.ok()) return trace.status();
  absl::StatusOr<Sweep> sweep = RunSweep(*trace, options);
  if (sweep.ok()) sweep->bad_lines = source.bad_lines();
  return sweep;
}

absl::StatusOr<Sweep> RunSweep(const LoadedTrace& trace,
                               const SweepOptions& options) {
  return Sweeper(trace, options).Run();
}

std::vector<int64_t> SweepLimits(int64_t largest, int count) {
  constexpr double kSpan = 256;
  const auto top = static_cast<double>(largest);
  std::vector<int64_t> limits;
  for (int i = 0; i + 1 < count; ++i) {
    const double part =
        std::pow(kSpan, static_cast<double>(i) / (count - 1) - 1);
    const int64_t limit = WithTwoDigits(std::max(top * part, 1.0));
    const int64_t last = limits.empty() ? 0 : limits.back();
    if (limit > last && limit < largest) limits.push_back(limit);
  }
  limits.push_back(largest);
  return limits;
}

}  // namespace wheelcache::replay
