// The upkeep of a shard: what expired, what other shards need room for, and
// entries that move. What a call does with one key is in shard.cc.

#include <algorithm>
#include <limits>
#include <utility>

#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/removal_order_impl.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// By which an entry counts where so much is moved under a lock.
constexpr int64_t kBytesPerMove = 512;

}  // namespace

uint64_t Shard::Reclaim(int64_t now_nanos, uint64_t budget,
                        Departures* departures) {
  MutexLock lock(&mu_);
  index_.FreeOldTables();
  departures->AddUnlinked(order_.UnlinkReplaced());
  const uint64_t used = ReclaimLocked(now_nanos, budget, departures);
  KeepCreditLocked(&departures->claim);
  return used + ShrinkIndexLocked(budget - used);
}

uint64_t Shard::ShrinkIndexLocked(uint64_t budget) {
  uint64_t used = 0;
  // Where there is no memory for a smaller table, it stays as it is.
  Contain([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (index_.size() == 0) index_.Clear();
    while (used < budget && index_.IsSparse()) {
      ReserveCellLocked();
      used += std::min<uint64_t>(Index::kMostCopied, budget - used);
    }
  });
  return used;
}

// REQUIRES: no replaced entry is linked.
uint64_t Shard::ReclaimDueLocked(int64_t now_nanos, uint64_t budget,
                                 Departures* departures) {
  const auto remove = [&](EntryRef ref) {
    mu_.AssertHeld();
    RemoveLocked(ref, RemovalCause::kExpired, departures);
  };
  if (!pool_.idle().on()) return order_.Advance(now_nanos, budget, remove);
  return order_.Advance(now_nanos, budget, [&](EntryRef ref) {
    mu_.AssertHeld();
    if (order_.ExpiresNow(ref, now_nanos)) remove(ref);
  });
}

void Shard::PublishOldest(Departures* departures) {
  MutexLock lock(&mu_);
  departures->AddUnlinked(order_.UnlinkReplaced());
  uint64_t budget = shared_.maintenance_budget;
  order_.FindVictim(/*keep=*/0, Room(), &budget);
}

bool Shard::Evict(Departures* departures) {
  MutexLock lock(&mu_);
  departures->AddUnlinked(order_.UnlinkReplacedForEviction());
  Claim& claim = departures->claim;
  bool got = !(credit_ == Room());
  claim.CallIn(&credit_);
  const EvictionRecord::Time now(clock_);
  uint64_t budget = shared_.maintenance_budget;
  while (budget > 0) {
    // From others: who has what it needs must not give that up to them.
    if (claim.Cover(claim.need())) return true;
    const EntryRef victim = order_.FindVictim(/*keep=*/0, Room(), &budget);
    if (victim == 0) break;
    EvictLocked(victim, now, departures);
    got = true;
    // Behind the tail of one list may be much younger entries. So the caller
    // compares anew which shard has the oldest.
    if (shared_.scan_resistant && shared_.shards > 1) break;
    if (budget > 0) --budget;
  }
  return got;
}

int64_t Shard::EvictBytes(int64_t bytes, Departures* departures) {
  MutexLock lock(&mu_);
  departures->AddUnlinked(order_.UnlinkReplacedForEviction());
  const EvictionRecord::Time now(clock_);
  uint64_t budget = shared_.maintenance_budget;
  int64_t evicted = 0;
  while (budget > 0 && evicted < bytes) {
    const EntryRef victim = order_.FindVictim(/*keep=*/0, Room(), &budget);
    if (victim == 0) break;
    evicted += RoomOf(victim).bytes;
    EvictLocked(victim, now, departures);
    if (budget > 0) --budget;
  }
  return evicted;
}

uint64_t Shard::MoveCondemned(size_t* bucket, uint64_t budget,
                              Departures* departures) {
  // The index is read in sequence, which is fast.
  constexpr size_t kMostBuckets = 256;
  MutexLock lock(&mu_);
  departures->AddUnlinked(order_.UnlinkReplaced());
  const size_t end = index_.buckets();
  const size_t stop = std::min(end, *bucket + kMostBuckets);
  uint64_t moved = 0;
  while (*bucket < stop && moved < budget) {
    index_.ForEachIn(*bucket, [&](EntryRef ref) {
      mu_.AssertHeld();
      if (!pool_.arena().IsCondemned(ref)) return;
      if (MoveLocked(ref, departures)) {
        moved += 1 + static_cast<uint64_t>(pool_.Charge(ref) / kBytesPerMove);
      }
    });
    ++*bucket;
  }
  if (*bucket >= end) *bucket = std::numeric_limits<size_t>::max();
  return moved;
}

bool Shard::MoveLocked(EntryRef ref, Departures* departures) {
  const Hash32 hash = order_.HashOf(ref);
  const EntryRef copy = pool_.Move(ref);
  if (copy == 0) return false;
  order_.Substitute(ref, copy);
  Interleave("move: between list and index");
  index_.Replace(hash, ref, copy);
  departures->AddUntold(ref);
  return true;
}

void Shard::TakeAllLocked(Departures* departures) {
  Interleave("clear: before a shard is emptied");
  departures->AddUnlinked(order_.UnlinkReplaced());
  const bool cleared = Contain([this] { index_.Clear(); });
  const auto erase = [&, this](EntryRef newest) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (cleared) return;
    for (EntryRef ref = newest; ref != 0; ref = At(ref).lru.older) {
      index_.Erase(CellHashOf(ref), ref);
    }
  };
  const Room used = used_.Get();
  const int64_t values = used.entries - failures_;
  placeholders_ = failures_ = 0;
  if (const EntryRef newest = std::exchange(newest_load_, 0); newest != 0) {
    const EntryRef oldest = At(newest).lru.newer;
    At(oldest).lru.older = 0;
    erase(newest);
    departures->AddCleared(newest, oldest);
  }
  if (order_.empty()) return;
  const auto [newest, oldest] = order_.TakeAll();
  erase(newest);
  departures->CountRemoved(RemovalCause::kDeleted, values);
  departures->AddCleared(newest, oldest);
  used_.Set(Room());
  shared_.budget.Give(used);
}

absl::Status Shard::CheckInvariants(Room* taken) {
  MutexLock lock(&mu_);
  Room sum;
  bool all_found = true;
  absl::Status status = order_.CheckInvariants([&](EntryRef ref) {
    mu_.AssertHeld();
    sum += RoomOf(ref);
    const EntryHeader& entry = At(ref);
    all_found = all_found && index_.Find(CellHashOf(ref), [&](EntryRef other) {
      return pool_.operations().same_key(At(other), entry);
    }) == ref;
  });
  if (!status.ok()) return status;
  if (!all_found) {
    return absl::InternalError(
        "the index has another entry for a key, or none");
  }
  int64_t uncounted = 0;
  for (EntryRef ref = newest_load_; ref != 0;) {
    ++uncounted;
    ref = At(ref).lru.older;
    if (ref == newest_load_) break;
  }
  if (uncounted != placeholders_ - failures_) {
    return absl::InternalError("there are other placeholders than are counted");
  }
  if (static_cast<int64_t>(index_.size()) != sum.entries + uncounted) {
    return absl::InternalError("the index has entries that no list has");
  }
  if (!(sum == used_.Get())) {
    return absl::InternalError("the charges do not add up to used_");
  }
  if (order_.IsAheadOf(clock_.NowNanos())) {
    return absl::InternalError("the wheel is ahead of the clock");
  }
  *taken += sum;
  *taken += credit_;
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
