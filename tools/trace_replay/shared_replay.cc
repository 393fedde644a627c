#include "wheelcache/tools/trace_replay/shared_replay.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/share/memory_share.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tools/trace_replay/player.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {
namespace {

// In which the requests of a second come.
constexpr int kStepsPerSecond = 10;

// Of whom nothing is left to come.
constexpr int64_t kNoMore = std::numeric_limits<int64_t>::max();

// A trace on its way through its cache.
class Member {
 public:
  static absl::StatusOr<std::unique_ptr<Member>> Create(
      const SharedTrace& trace, const ReplayOptions& options, Clock* clock) {
    absl::StatusOr<std::unique_ptr<TraceCache>> cache =
        CreateTraceCache(options, clock);
    if (!cache.ok()) return cache.status();
    return std::unique_ptr<Member>(
        new Member(*trace.trace, options, *std::move(cache)));
  }

  TraceCache& cache() { return *cache_; }
  const ReplayCounts& counts() const { return player_.counts(); }

  // The time of the next request, from the first on.
  int64_t next_seconds() const {
    return end_ == trace_.size() ? kNoMore : SecondsOf(end_);
  }

  // Has the requests of this second come.
  void Begin(int64_t seconds) {
    begin_ = end_;
    while (next_seconds() <= seconds) ++end_;
  }

  // Plays those of one of its steps.
  void Play(int step) {
    const size_t requests = end_ - begin_;
    const size_t end = begin_ + requests * (step + 1) / kStepsPerSecond;
    for (; next_ < end; ++next_) player_.Play(trace_[next_]);
  }

 private:
  Member(const LoadedTrace& trace, const ReplayOptions& options,
         std::unique_ptr<TraceCache> cache)
      : trace_(trace), cache_(std::move(cache)), player_(*cache_, options) {}

  int64_t SecondsOf(size_t i) const {
    return trace_.timestamp_seconds(i) - trace_.timestamp_seconds(0);
  }

  const LoadedTrace& trace_;
  const std::unique_ptr<TraceCache> cache_;
  Player player_;
  // Of the present second; and what is played next.
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t next_ = 0;
};

int64_t SecondsOf(absl::Span<const SharedTrace> traces) {
  int64_t seconds = 0;
  for (const SharedTrace& trace : traces) {
    for (size_t i = 0; i < trace.trace->size(); ++i) {
      seconds = std::max(seconds, trace.trace->timestamp_seconds(i) -
                                      trace.trace->timestamp_seconds(0));
    }
  }
  return seconds;
}

class SharedReplayer {
 public:
  SharedReplayer(absl::Span<const SharedTrace> traces,
                 const ReplayOptions& options)
      : traces_(traces), options_(options), end_(SecondsOf(traces) + 1) {
    options_.advise = true;
  }

  absl::StatusOr<SharedReplay> Run() {
    absl::Status status = Prepare();
    if (!status.ok()) return status;
    for (int64_t now; (now = NextSecond()) != kNoMore;) PlaySecond(now);
    Note(end_);
    for (size_t i = 0; i < traces_.size(); ++i) {
      SharedReplay::Member member;
      member.name = traces_[i].name;
      member.counts = members_[i]->counts();
      member.evictions = members_[i]->cache().stats().evictions;
      absl::StatusOr<int64_t> hits = HitsOfEqualPart(*traces_[i].trace);
      if (!hits.ok()) return hits.status();
      member.equal_hits = *hits;
      result_.members.push_back(std::move(member));
    }
    return std::move(result_);
  }

 private:
  absl::Status Prepare() {
    MemoryShareOptions share;
    share.max_bytes = options_.max_bytes;
    share.clock = &clock_;
    share.reaper = nullptr;
    auto created = MemoryShare::Create(share);
    if (!created.ok()) return created.status();
    share_ = *std::move(created);
    ShareMemberOptions of_each;
    of_each.min_bytes = std::max<int64_t>(EqualPart() / 16, 1);
    for (const SharedTrace& trace : traces_) {
      auto member = Member::Create(trace, options_, &clock_);
      if (!member.ok()) return member.status();
      members_.push_back(*std::move(member));
      of_each.name = trace.name;
      absl::Status added = share_->Add(members_.back()->cache(), of_each);
      if (!added.ok()) return added;
    }
    return absl::OkStatus();
  }

  int64_t NextSecond() const {
    int64_t next = kNoMore;
    for (const auto& member : members_) {
      next = std::min(next, member->next_seconds());
    }
    return next;
  }

  void PlaySecond(int64_t now) {
    Note(now);
    for (const auto& member : members_) member->Begin(now);
    for (int step = 0; step < kStepsPerSecond; ++step) {
      clock_.AdvanceTo(absl::Seconds(now) +
                       absl::Seconds(1) * step / kStepsPerSecond);
      for (const auto& member : members_) {
        member->cache().RunMaintenance();
        member->Play(step);
      }
      share_->RunMaintenance();
    }
  }

  // Notes the splits up to this time.
  void Note(int64_t seconds) {
    constexpr int64_t kSplits = SharedReplay::kSplits;
    for (; noted_ <= kSplits && noted_ * end_ <= seconds * kSplits; ++noted_) {
      SharedReplay::Split split;
      split.seconds = end_ * noted_ / kSplits;
      // A short trace has fewer seconds.
      if (!result_.splits.empty() &&
          result_.splits.back().seconds == split.seconds) {
        continue;
      }
      for (const auto& member : share_->stats().members) {
        split.bytes.push_back(member.bytes);
      }
      result_.splits.push_back(std::move(split));
    }
  }

  int64_t EqualPart() const {
    return options_.max_bytes / static_cast<int64_t>(traces_.size());
  }
  absl::StatusOr<int64_t> HitsOfEqualPart(const LoadedTrace& trace) const {
    ReplayOptions alone = options_;
    alone.max_bytes = EqualPart();
    alone.advise = false;
    absl::StatusOr<ReplayResult> result = Replay(trace, alone);
    if (!result.ok()) return result.status();
    return result->counts.hits;
  }

  const absl::Span<const SharedTrace> traces_;
  ReplayOptions options_;
  const int64_t end_;  // In seconds.
  SimulatedClock clock_;
  std::unique_ptr<MemoryShare> share_;
  std::vector<std::unique_ptr<Member>> members_;  // End before the share.
  int64_t noted_ = 0;
  SharedReplay result_;
};

}  // namespace

absl::StatusOr<SharedReplay> ReplayShared(absl::Span<const SharedTrace> traces,
                                          const ReplayOptions& options) {
  return SharedReplayer(traces, options).Run();
}

}  // namespace wheelcache::replay
