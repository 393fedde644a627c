// The definitions of what a Cache does beside its users' reads and writes:
// maintenance, with and without a reaper, statistics, its checks of itself and
// fork(). cache/cache.h shows the declarations, and alone includes this.

#ifndef WHEELCACHE_CACHE_INTERNAL_CACHE_UPKEEP_IMPL_H_
#define WHEELCACHE_CACHE_INTERNAL_CACHE_UPKEEP_IMPL_H_

#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/cache_impl.h"

namespace wheelcache {

template <typename Key, typename Value, typename Hash, typename Equal>
CacheStats Cache<Key, Value, Hash, Equal>::stats() const {
  using internal::Count;
  CacheStats stats;
  stats.hits = counters_.Sum(Count::kHits);
  stats.misses = counters_.Sum(Count::kMisses);
  stats.sets = counters_.Sum(Count::kSets);
  stats.deletes = counters_.Sum(Count::kDeleted);
  stats.evictions = counters_.Sum(Count::kEvicted);
  stats.expirations = counters_.Sum(Count::kExpired);
  stats.replaced = counters_.Sum(Count::kReplaced);
  stats.listener_exceptions = counters_.Sum(Count::kListenerExceptions);
  stats.entries = size();
  stats.bytes = bytes();
  return stats;
}

template <typename Key, typename Value, typename Hash, typename Equal>
int64_t Cache<Key, Value, Hash, Equal>::RunMaintenance(int64_t budget) {
  const int64_t now_nanos = clock_.NowNanos();
  internal::Interleave("maintenance: between clock and lock");
  int64_t done = 0;
  for (size_t i = 0; i < shards_.size() && done < budget;) {
    if (shared_.due.Get(static_cast<int>(i)) > now_nanos) {
      ++i;
      continue;
    }
    const uint64_t step = std::min(shared_.maintenance_budget,
                                   static_cast<uint64_t>(budget - done));
    Removals removals(this);
    const uint64_t used =
        shards_[i].Reclaim(now_nanos, step, &removals.claim, &removals.removed);
    done += static_cast<int64_t>(used);
    if (used < step) ++i;
  }
  shared_.limbo.Flush();
  next_flush_nanos_.store(LimboDue(now_nanos), std::memory_order_relaxed);
  // What a reader holds back. A turn of the reaper may have found it gone while
  // it was looked through here.
  if (!shared_.limbo.empty()) WakeReaperFor(shards_[0], now_nanos);
  if (logger_.due_nanos() <= now_nanos) logger_.Run(now_nanos, stats());
  return done;
}

template <typename Key, typename Value, typename Hash, typename Equal>
absl::Duration Cache<Key, Value, Hash, Equal>::NextDeadline() const {
  int64_t next = std::min(shared_.due.Earliest(), logger_.due_nanos());
  if (!shared_.limbo.empty()) {
    next = std::min(next, next_flush_nanos_.load(std::memory_order_relaxed));
  }
  return next == Clock::kNever ? absl::InfiniteDuration()
                               : absl::Nanoseconds(next);
}

// A turn of the reaper: one step for each shard, and back in the queue if that
// was not all.
template <typename Key, typename Value, typename Hash, typename Equal>
int64_t Cache<Key, Value, Hash, Equal>::RunDue(int64_t now_nanos) {
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
  if (!shared_.limbo.empty()) next = std::min(next, LimboDue(now_nanos));
  return std::min(next, logger_.due_nanos());
}

// Has the reaper come for what is due in the shard, or waits in limbo.
template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::WakeReaperFor(const ShardType& shard,
                                                   int64_t now_nanos) {
  if (options_.reaper == nullptr) return;
  int64_t due =
      Clock::NanosAfter(shared_.due.Get(shard.number()), reclaim_delay_nanos_);
  if (shared_.limbo.HasOwn()) due = std::min(due, LimboDue(now_nanos));
  options_.reaper->WakeAt(&client_, due);
}

template <typename Key, typename Value, typename Hash, typename Equal>
absl::Status Cache<Key, Value, Hash, Equal>::CheckInvariants() {
  internal::Room used;
  for (auto& shard : shards_) {
    if (auto status = shard.CheckInvariants(&used); !status.ok()) {
      return status;
    }
  }
  const internal::Room budget = shared_.budget.used();
  if (!(budget == used)) {
    return absl::InternalError("the budget is not the sum of the charges");
  }
  return absl::OkStatus();
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::BeforeFork() {
  for (auto& shard : shards_) shard.Lock();
  shared_.limbo.BeforeFork();
  shared_.pool->BeforeFork();
  logger_.BeforeFork();
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::AfterForkInParent() {
  logger_.AfterForkInParent();
  shared_.pool->AfterForkInParent();
  shared_.limbo.AfterForkInParent();
  for (auto& shard : shards_) shard.Unlock();
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::AfterForkInChild() {
  logger_.AfterForkInChild();
  shared_.pool->AfterForkInChild();
  shared_.limbo.AfterForkInChild();
  internal::Room used;
  for (auto& shard : shards_) shard.ResetAfterFork(&used);
  // No claim is this thread's: it would have forked within the cache's code.
  shared_.budget.ResetAfterFork(used);
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_CACHE_UPKEEP_IMPL_H_
