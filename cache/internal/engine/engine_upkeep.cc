// The upkeep of a cache: limits that change, maintenance and when it is due,
// and statistics. What reads and writes an entry is in engine.cc.

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/engine_call.h"
#include "wheelcache/cache/internal/engine/window_target.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {

int64_t Engine::MostResident(int64_t max_bytes, bool weighs) {
  constexpr int64_t kFew = 4 << 20;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (weighs || max_bytes > kMost / 2) return kMost;
  return max_bytes + max_bytes / 16 + kFew;
}

absl::Status Engine::SetLimits(int64_t entries, int64_t bytes) {
  absl::Status status = ValidateLimits(options_.name, entries, bytes);
  if (!status.ok()) return status;
  if (!limits_.SetTarget({entries, bytes})) {
    return absl::FailedPreconditionError(absl::StrCat(
        "SetLimits of cache \"", options_.name, "\": max_bytes = ", bytes,
        " must be what it is, for a MemoryShare sets it"));
  }
  ReachLimits();
  shared_.advisor.SetLimits(limit(), {shared_.counters.Sum(Count::kHits),
                                      shared_.counters.Sum(Count::kMisses)});
  return status;
}

std::optional<Advisor::MoreHits> Engine::more_hits() const {
  return shared_.advisor.more_hits();
}

void Engine::SetBytes(int64_t bytes) {
  limits_.SetBytes(bytes);
  ReachLimits();
  shared_.advisor.FollowLimits(limit());
}

void Engine::ReachLimits() {
  FollowLimits();
  bool lowers = false;
  while (LowerLimits(&lowers)) {
  }
  {
    // What shards have kept may be more than they may keep now.
    Call call(this);
    CallInCredits(&call.departures.claim);
  }
  if (lowers) GiveMemoryBack();
  // Only now: a Set that finds too much memory in use has to move entries.
  FollowLimits();
}

// Makes room, if the limits are above their target, and lowers them by that:
// expired entries first, and then what is least recently used. Returns whether
// they were. *began becomes true, and was false at first.
bool Engine::LowerLimits(bool* began) {
  const int64_t now_nanos = clock_.NowNanos();
  Call call(this, &shards_[0], now_nanos);
  Claim& claim = call.departures.claim;
  Room missing = limits_.Approach(&claim);
  if (missing == Room()) return false;
  const bool calls_in = shared_.budget.BeginCallIn(missing);
  if (calls_in || !*began) {
    CallInCredits(&claim);
    if (calls_in) shared_.budget.EndCallIn();
    missing = limits_.Approach(&claim);
    if (missing == Room()) return false;
  }
  Interleave("limits: before a step makes room");
  if (!std::exchange(*began, true)) {
    for (auto& shard : shards_) shard.PublishOldest(&call.departures);
  }
  if (shared_.due.AnyDue(now_nanos)) {
    ReclaimAll(now_nanos, &call.departures);
  } else if (!claim.Cover(missing)) {
    Shard& oldest = ShardWithOldest(/*but=*/nullptr);
    if (!oldest.Evict(&call.departures)) {
      EvictFromOthers(oldest, &call.departures);
    }
  }
  limits_.Approach(&claim);
  return true;
}

// After entries have left: shrinks the indexes, and moves entries together.
void Engine::GiveMemoryBack() {
  const int64_t now_nanos = clock_.NowNanos();
  const uint64_t budget = shared_.maintenance_budget;
  for (auto& shard : shards_) {
    uint64_t done = budget;
    while (done == budget) {
      Call call(this);
      done = shard.Reclaim(now_nanos, budget, &call.departures);
    }
  }
  shared_.limbo.Flush();
  uint64_t done = 1;
  while (done > 0 && compactor_.needed()) {
    Call call(this);
    done = compactor_.Step(budget, &call.departures);
  }
  FlushLimbo(now_nanos);
}

// Afterwards somebody comes for what a reader holds back. A turn of the reaper
// may have found that limbo is empty while this thread had its entries.
void Engine::FlushLimbo(int64_t now_nanos) {
  shared_.limbo.Flush();
  next_flush_nanos_.store(LimboDue(now_nanos), std::memory_order_relaxed);
  if (!shared_.limbo.empty()) WakeReaperFor(shards_[0], now_nanos);
}

// Has all that depends on the limits follow them.
void Engine::FollowLimits() {
  limits_.Follow([this](Room limit) {
    most_resident_.store(MostResident(limit.bytes, weighs_),
                         std::memory_order_relaxed);
    shared_.limbo.SetPatience(PatienceFor(limit));
    for (auto& shard : shards_) {
      shard.Reserve(ExpectedEntries(limit) / shards_.size(),
                    shared_.ShareOf(limit));
    }
  });
}

CacheStats Engine::stats() const {
  CacheStats stats;
  stats.hits = shared_.counters.Sum(Count::kHits);
  stats.misses = shared_.counters.Sum(Count::kMisses);
  stats.sets = shared_.counters.Sum(Count::kSets);
  stats.deletes = shared_.counters.Sum(Count::kDeleted);
  stats.expirations = shared_.counters.Sum(Count::kExpired);
  stats.replaced = shared_.counters.Sum(Count::kReplaced);
  stats.listener_exceptions = shared_.counters.Sum(Count::kListenerExceptions);
  stats.refused = shared_.counters.Sum(Count::kRefused);
  stats.loads = shared_.counters.Sum(Count::kLoads);
  stats.load_errors = shared_.counters.Sum(Count::kLoadErrors);
  stats.superseded_loads = shared_.counters.Sum(Count::kSupersededLoads);
  stats.load_nanos = shared_.counters.Sum(Count::kLoadNanos);
  stats.load_waits = shared_.counters.Sum(Count::kLoadWaits);
  stats.stale_hits = shared_.counters.Sum(Count::kStaleHits);
  stats.refreshes = shared_.counters.Sum(Count::kRefreshes);
  const Room used = this->used();
  stats.entries = used.entries;
  stats.bytes = used.bytes;
  stats.max_entries = shared_.budget.limit().entries;
  stats.max_bytes = shared_.budget.limit().bytes;
  stats.resident_bytes = ResidentBytes();
  stats.advice = shared_.advisor.Advise({stats.hits, stats.misses});
  // Evictions, and when they came.
  for (const auto& shard : shards_) shard.eviction_record().AddTo(&stats);
  return stats;
}

double Engine::window_part() const {
  const auto& target = shared_.window_target;
  return target == nullptr ? 0 : target->Get();
}

void Engine::SetWindowPart(double part) {
  if (shared_.window_target != nullptr) shared_.window_target->Set(part);
}

std::optional<CacheAdvice> Engine::Advise() const {
  return shared_.advisor.Advise({shared_.counters.Sum(Count::kHits),
                                 shared_.counters.Sum(Count::kMisses)});
}

int64_t Engine::RunMaintenance(int64_t budget) {
  CheckCopy(shared_.copy);
  const int64_t now_nanos = clock_.NowNanos();
  Interleave("maintenance: between clock and lock");
  int64_t done = GiveUpLateWaits(now_nanos, budget);
  for (size_t i = 0; i < shards_.size() && done < budget;) {
    if (shared_.due.Get(static_cast<int>(i)) > now_nanos) {
      ++i;
      continue;
    }
    const uint64_t step = std::min(shared_.maintenance_budget,
                                   static_cast<uint64_t>(budget - done));
    Call call(this);
    const uint64_t used = shards_[i].Reclaim(now_nanos, step, &call.departures);
    done += static_cast<int64_t>(used);
    if (used < step) ++i;
  }
  while (done < budget && compactor_.needed()) {
    Call call(this);
    const uint64_t most = std::min(shared_.maintenance_budget,
                                   static_cast<uint64_t>(budget - done));
    const uint64_t step = compactor_.Step(most, &call.departures);
    if (step == 0) break;
    done = std::min(budget, done + static_cast<int64_t>(step));
    if (compactor_.waits_for_readers()) break;
  }
  FlushLimbo(now_nanos);
  if (logger_.due_nanos() <= now_nanos) logger_.Run(now_nanos, stats());
  return done;
}

absl::Duration Engine::NextDeadline() const {
  const bool tells = options_.on_earlier_deadline != nullptr;
  // First: of what this look misses, its caller is to be told. Whoever makes
  // the deadline earlier writes it, and then reads this: one of the two threads
  // sees what the other has written, all sequentially consistent.
  if (tells) told_nanos_.store(Clock::kNever, std::memory_order_seq_cst);
  Interleave("next deadline: before it looks");
  const int64_t next = std::min({shared_.due.Earliest(), logger_.due_nanos(),
                                 waits_.due_nanos(), NextFlush()});
  Interleave("next deadline: after it has looked");
  int64_t told = Clock::kNever;
  if (tells) {
    told_nanos_.compare_exchange_strong(told, next, std::memory_order_seq_cst);
  }
  return next == Clock::kNever ? absl::InfiniteDuration()
                               : absl::Nanoseconds(next);
}

// When RunMaintenance is to look at limbo, or move entries.
int64_t Engine::NextFlush() const {
  return shared_.limbo.empty() && !compactor_.needed()
             ? Clock::kNever
             : next_flush_nanos_.load(std::memory_order_relaxed);
}

// Where this time, or that of the next flush, is earlier than the deadline that
// was told.
void Engine::TellEarlierDeadline(int64_t due_nanos) {
  if (options_.on_earlier_deadline == nullptr) return;
  due_nanos = std::min(due_nanos, NextFlush());
  int64_t told = told_nanos_.load(std::memory_order_seq_cst);
  while (due_nanos < told) {
    if (told_nanos_.compare_exchange_weak(told, kAnyTime,
                                          std::memory_order_seq_cst)) {
      Contain([&] { options_.on_earlier_deadline(); });
      return;
    }
  }
}

// A turn of the reaper: one step for each shard, and back in the queue if that
// was not all.
int64_t Engine::RunDue(int64_t now_nanos) {
  // Without overflow, however large the budget is.
  const auto shards = static_cast<int64_t>(shards_.size());
  const int64_t turn = std::min(options_.maintenance_budget,
                                std::numeric_limits<int64_t>::max() / shards) *
                       shards;
  if (RunMaintenance(turn) == turn) return now_nanos;
  // Under the locks, not from the DueBoard: a Set that found this turn still
  // planned has left its deadline there, and will not wake the reaper.
  int64_t due = Clock::kNever;
  for (const auto& shard : shards_) due = std::min(due, shard.due_nanos());
  int64_t next =
      Clock::NanosAfter(std::max(due, now_nanos), reclaim_delay_nanos_);
  if (!shared_.limbo.empty() || compactor_.needed()) {
    next = std::min(next, LimboDue(now_nanos));
  }
  return std::min({next, logger_.due_nanos(), waits_.due_nanos()});
}

// When a thread should look at what waits in limbo.
int64_t Engine::LimboDue(int64_t now_nanos) const {
  constexpr int64_t kSoonNanos = 4'000'000;
  return Clock::NanosAfter(now_nanos, compactor_.waits_for_readers()
                                          ? kSoonNanos
                                          : limbo_delay_nanos_);
}

absl::Status Engine::CheckInvariants() {
  Room taken;
  for (auto& shard : shards_) {
    if (auto status = shard.CheckInvariants(&taken); !status.ok()) {
      return status;
    }
  }
  if (!(shared_.budget.taken() == taken)) {
    return absl::InternalError(
        "the budget is not the sum of the charges and credits");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
