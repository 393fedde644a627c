#include "wheelcache/cache/internal/engine/shard.h"

#include <utility>

#include "wheelcache/cache/internal/advice/reuse_sample.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/removal_order_impl.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {
namespace {

Recency::Order OrderOf(const SharedState& shared) {
  if (shared.scan_resistant) return Recency::Order::kTwoLists;
  return shared.shards == 1 ? Recency::Order::kExact : Recency::Order::kLazy;
}

}  // namespace

Shard::Shard(SharedState* shared, int number, const CacheOptions& options)
    : shared_(*shared),
      pool_(*shared->pool),
      clock_(*options.clock),
      eviction_record_(*shared->PagesOf(number).eviction_record()),
      number_(number),
      index_(&shared->tables, shared->expected_entries / shared->shard_count()),
      recency_(OrderOf(*shared), /*marks=*/shared->advisor.on()),
      jitter_(options, static_cast<uint32_t>(number)),
      order_({shared, &recency_, &uses_, &index_, number}, clock_.NowNanos()) {}

void Shard::RecordUseSlowly(const Found& found, Hash32 hash) {
  std::atomic<Stamp>& stamp = found.entry->stamp;
  const Stamp before = stamp.load(std::memory_order_relaxed);
  const Stamp now = recency_.Now(ListOf(*found.entry));
  if (IsMarked(before)) {
    // Again at once: the Advisor need not know.
    if (before == (now | kMark)) return;
    shared_.advisor.Read(hash, /*hit=*/true);
    if (pool_.idle().on()) {
      shared_.advisor.Extend(hash, found.entry->deadline());
    }
  }
  if (recency_.exact() && TryMoveToFront(found.ref, hash)) return;
  stamp.store(now | (before & kMark), std::memory_order_relaxed);
  uses_.Count(hash);
}

bool Shard::TryMoveToFront(EntryRef ref, Hash32 hash) {
  if (!mu_.TryLock()) return false;
  // It may have left meanwhile; its links then belong to the thread that
  // removed it.
  if (index_.Holds(hash, ref)) order_.MoveToFront(ref);
  mu_.Unlock();
  return true;
}

template <typename Query>
inline EntryRef Shard::FindLocked(const Query& key) const {
  const Hash32 hash = key.hash().for_index;
  const auto match = [&](EntryRef ref) { return key.Matches(At(ref)); };
  Index::Rest rest;
  const EntryRef ref = index_.FindAtHome(hash, &rest, match);
  return ABSL_PREDICT_TRUE(rest.empty())
             ? ref
             : Index::FindBeyondHome(rest, hash, match);
}

EntryRef Shard::FindLiveLocked(const KeyQuery& key, int64_t now_nanos) {
  const EntryRef ref = FindLocked(key);
  return ref != 0 && !order_.HasExpired(ref, now_nanos) ? ref : 0;
}

EntryRef Shard::FindAndPin(const KeyQuery& key, Use use) {
  MutexLock lock(&mu_);
  const int64_t now_nanos = clock_.NowNanos();
  const EntryRef ref = FindLiveLocked(key, now_nanos);
  if (ref == 0) return 0;
  if (use == Use::kCount) {
    order_.Use(ref);
    if (pool_.idle().on()) {
      // It cannot expire meanwhile, under the lock.
      int64_t deadline = At(ref).deadline();
      while (!pool_.TryExtend(&At(ref), &deadline, now_nanos)) {
      }
    }
  }
  pool_.Pin(ref);
  return ref;
}

void Shard::PrefetchForStore(Hash32 hash) const {
  PrefetchLinesToWrite(&mu_, std::make_index_sequence<kWriterLines>());
  PrefetchLinesToWrite(shared_.GenerationsOf(number_),
                       std::make_index_sequence<3>());
  index_.Prefetch(hash);
}

void Shard::PrefetchEntries(Hash32 hash) const {
  Index::Rest rest;
  index_.FindAtHome(hash, &rest, [this](EntryRef candidate) {
    // The header, in which a handle counts its pin, and the key.
    PrefetchLinesToWrite(&At(candidate), std::make_index_sequence<2>());
    return false;
  });
}

StoreOutcome Shard::TryStore(const Write& write, Departures* departures) {
  EntryHeader& entry = At(write.ref);
  const EntryKeyQuery key(pool_, write.ref, write.hash);
  Interleave("store: between clock and lock");
  MutexLock lock(&mu_);
  if (ABSL_PREDICT_FALSE(write.load != 0)) {
    if (write.load == write.ref) return RememberLocked(write, departures);
    if (!IsCurrentLocked(write.load, write.hash.for_index)) {
      return StoreOutcome::kSuperseded;
    }
  }
  if (entry.deadline() == Clock::kNever) {  // Not drawn by a call before.
    pool_.SetDeadline(&entry, DeadlineLocked(write.now_nanos, write.ttl_nanos),
                      write.now_nanos);
  }
  order_.PrefetchNew(write.hash.for_index);
  departures->AddUnlinked(order_.UnlinkReplacedForSet(write.ref));
  Step step{write, departures, shared_.maintenance_budget, write.room};
  step.budget -=
      ReclaimLocked(write.now_nanos, shared_.writer_budget, departures);
  step.old = FindLocked(key);
  int64_t now_nanos = write.now_nanos;
  if (ABSL_PREDICT_FALSE(write.condition != nullptr)) {
    now_nanos = clock_.NowNanos();
    if (!MeetsConditionLocked(write, step.old, now_nanos)) {
      return StoreOutcome::kLost;
    }
  }
  if (step.old != 0) order_.PrefetchRemoval(step.old);
  if (step.old != 0 && order_.HasExpired(step.old, now_nanos)) {
    RemoveLocked(std::exchange(step.old, 0), RemovalCause::kExpired,
                 departures);
  }
  if (step.old != 0) {
    const Footprint footprint = pool_.FootprintOf(step.old);
    step.old_charge = pool_.Charge(step.old, footprint);
    step.need -= Room{1, step.old_charge};
    step.old_is_plain = pool_.IsPlain(footprint, RemovalOrder::kMostDeferred);
  } else {
    ReserveCellLocked();  // The last that may throw: nothing has left yet.
  }
  const StoreOutcome outcome = MakeRoomLocked(&step);
  if (outcome != StoreOutcome::kStored) return outcome;
  departures->claim.Spend(step.need);
  Interleave("store: between claim and link");
  SupersedeLocked(key, departures);
  used_.Add(step.need);
  LinkLocked(step);
  KeepRestLocked(&departures->claim);
  departures->counts.Add(Count::kSets);
  return StoreOutcome::kStored;
}

bool Shard::MeetsConditionLocked(const Write& write, EntryRef old,
                                 int64_t now_nanos) {
  const Condition& condition = *write.condition;
  const bool live = old != 0 && !order_.HasExpired(old, now_nanos);
  if ((live ? old : 0) != condition.entry) return false;
  if (condition.keeps_deadline) {
    // In each call: it may have been touched since the last one.
    pool_.SetDeadline(&At(write.ref), pool_.HardDeadlineOf(At(old)), now_nanos);
  }
  return true;
}

// Removes what is expired, and then what is least recently used but for the
// entry that is replaced, until the claim covers the need.
inline StoreOutcome Shard::MakeRoomLocked(Step* step) {
  const int64_t now_nanos = step->write.now_nanos;
  Claim& claim = step->departures->claim;
  while (!claim.Cover(step->need, &credit_)) {
    if (step->budget == 0) return StoreOutcome::kMoreToDo;
    if (claim.calls_in()) return StoreOutcome::kCallIn;
    if (order_.due_nanos() <= now_nanos) {
      step->budget -= ReclaimLocked(now_nanos, step->budget, step->departures);
      continue;
    }
    if (shared_.due.AnyDue(now_nanos)) return StoreOutcome::kReclaimOthers;
    const EntryRef victim =
        order_.FindVictim(step->old, step->write.room, &step->budget);
    if (step->budget == 0) continue;
    if (victim == 0) return StoreOutcome::kEvictOthers;
    if (order_.AnotherShardHasOlder()) return StoreOutcome::kEvictOlder;
    EvictLocked(victim, {now_nanos, At(step->write.ref).created()},
                step->departures);
    --step->budget;
  }
  return StoreOutcome::kStored;
}

// A failure becomes an entry: its placeholder takes room, and enters the order.
StoreOutcome Shard::RememberLocked(const Write& write, Departures* departures) {
  const Hash32 hash = write.hash.for_index;
  if (!IsCurrentLocked(write.ref, hash)) return StoreOutcome::kLost;
  departures->AddUnlinked(order_.UnlinkReplaced());
  Step step{write, departures, shared_.maintenance_budget, write.room};
  step.budget -=
      ReclaimLocked(write.now_nanos, shared_.writer_budget, departures);
  const StoreOutcome outcome = MakeRoomLocked(&step);
  if (outcome != StoreOutcome::kStored) return outcome;
  departures->claim.Spend(step.need);
  KeepRestLocked(&departures->claim);
  used_.Add(step.need);
  LeaveRingLocked(write.ref);
  ++failures_;
  LoadAt(write.ref).in_shard.state = Load::InShard::kFailure;
  At(write.ref).deadline_nanos.store(
      Clock::NanosAfter(write.now_nanos, write.ttl_nanos),
      std::memory_order_relaxed);
  order_.Add({write.ref, hash, /*old=*/0}, write.room);
  return StoreOutcome::kStored;
}

// Puts the new entry in index and order, in the place of the old one if any.
inline void Shard::LinkLocked(const Step& step) {
  const auto [ref, old] = std::pair(step.write.ref, step.old);
  const Hash32 hash = step.write.hash.for_index;
  if (old == 0) {
    index_.Insert(hash, ref);
  } else {
    index_.Replace(hash, old, ref);
  }
  Interleave("store: between index and list");
  order_.Add({ref, hash, old}, step.write.room);
  const SampledEntry stored = {static_cast<uint32_t>(step.write.room.bytes),
                               At(ref).deadline(), /*replaces=*/old != 0};
  if (shared_.advisor.Store(hash, stored, &untold_)) {
    order_.Mark(ref);
  }
  if (old == 0) return;
  step.departures->CountRemoved(RemovalCause::kReplaced);
  if (order_.Replace(old, step.old_charge, step.old_is_plain)) {
    step.departures->Add(old, RemovalCause::kReplaced);
  }
}

void Shard::RemoveEntryLocked(EntryRef ref, RemovalCause cause,
                              Departures* departures) {
  const Hash32 hash = order_.HashOf(ref);
  shared_.advisor.Remove(hash, cause, &untold_);
  index_.Erase(hash, ref);
  Interleave("remove: between index and list");
  const Room room = RoomOf(ref);
  used_.Add({-room.entries, -room.bytes});
  departures->claim.Add(room);
  if (cause == RemovalCause::kEvicted) {
    order_.RemoveVictim(ref, hash, room.bytes);
    eviction_record_.AddBytes(room.bytes);  // EvictLocked has counted it.
  } else {
    order_.Remove(ref, room.bytes);
    departures->CountRemoved(cause);
  }
  departures->Add(ref, cause);
}

bool Shard::Remove(const KeyQuery& key, RemovalCause cause,
                   Departures* departures) {
  Interleave("remove: before the lock");
  MutexLock lock(&mu_);
  SupersedeLocked(key, departures);
  const EntryRef ref = FindLocked(key);
  if (ref == 0) return false;
  // Not by a reading from before: a load that it supersedes may have begun
  // since, as the value had expired.
  const bool live = !order_.HasExpired(ref, clock_.NowNanos());
  RemoveLocked(ref, live ? cause : RemovalCause::kExpired, departures);
  KeepCreditLocked(&departures->claim);
  ShrinkIndexLocked(Index::kMostCopied);
  return live;
}

bool Shard::Holds(const KeyQuery& key, EntryRef expected) {
  MutexLock lock(&mu_);
  return FindLiveLocked(key, clock_.NowNanos()) == expected;
}

bool Shard::RemoveIf(const KeyQuery& key, EntryRef expected, RemovalCause cause,
                     Departures* departures) {
  Interleave("remove if: before the lock");
  MutexLock lock(&mu_);
  const EntryRef live = FindLiveLocked(key, clock_.NowNanos());
  if (live != expected) return false;
  if (live == 0) return true;
  SupersedeLocked(key, departures);
  RemoveLocked(live, cause, departures);
  KeepCreditLocked(&departures->claim);
  ShrinkIndexLocked(Index::kMostCopied);
  return true;
}

EntryRef Shard::Take(const KeyQuery& key, Departures* departures) {
  Interleave("take: before the lock");
  MutexLock lock(&mu_);
  SupersedeLocked(key, departures);
  const EntryRef live = FindLiveLocked(key, clock_.NowNanos());
  departures->counts.Add(live != 0 ? Count::kHits : Count::kMisses);
  shared_.advisor.Read(key.hash().for_index, /*hit=*/live != 0);
  if (live == 0) return 0;
  pool_.Pin(live);
  RemoveLocked(live, RemovalCause::kDeleted, departures);
  KeepCreditLocked(&departures->claim);
  ShrinkIndexLocked(Index::kMostCopied);
  return live;
}

bool Shard::Touch(const KeyQuery& key, int64_t ttl_nanos) {
  Interleave("touch: before the lock");
  MutexLock lock(&mu_);
  // Not before: what others see expire while this thread waits for the lock
  // must not come back to life.
  const int64_t now_nanos = clock_.NowNanos();
  Interleave("touch: between clock and deadline");
  const EntryRef ref = FindLiveLocked(key, now_nanos);
  if (ref == 0) return false;
  order_.Use(ref);
  const int64_t deadline = DeadlineLocked(now_nanos, ttl_nanos);
  if (!order_.SetDeadline(ref, deadline, clock_)) return false;
  shared_.advisor.Touch(key.hash().for_index, At(ref).deadline());
  return true;
}

uint32_t Shard::RankOf(const EntryHeader& entry) const {
  const bool in_main = entry.in_main();
  const uint32_t now = recency_.Now(in_main ? kMain : kWindow) / kStampStep;
  const Stamp stamp = entry.stamp.load(std::memory_order_relaxed);
  // Numbers wrap around, and a stamp may be ahead by now.
  const uint32_t passed = (now - stamp / kStampStep) & (kMainRank - 1);
  const uint32_t rank = passed < kMainRank / 2 ? passed : 0;
  return in_main ? rank + kMainRank : rank;
}

// The end of a TTL that begins now, varied by the jitter, saturated to kNever.
int64_t Shard::DeadlineLocked(int64_t now_nanos, int64_t ttl_nanos) {
  if (ttl_nanos == Clock::kNever) return Clock::kNever;
  return Clock::NanosAfter(now_nanos, jitter_.Vary(ttl_nanos));
}

}  // namespace wheelcache::internal
