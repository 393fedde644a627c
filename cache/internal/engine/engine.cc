#include "wheelcache/cache/internal/engine/engine.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/internal/engine/engine_call.h"
#include "wheelcache/cache/internal/engine/report_source.h"
#include "wheelcache/cache/types/weigh.h"

namespace wheelcache::internal {

Engine::Engine(CacheOptions options, const EntryOperations* operations,
               Charges charges, Tell tell)
    : options_(std::move(options)),
      weighs_(charges == Charges::kStored),
      tell_(std::move(tell)),
      default_ttl_nanos_(Clock::NanosAfter(0, options_.default_ttl)),
      clock_(*options_.clock),
      reclaim_delay_nanos_(Clock::NanosAfter(0, options_.reclaim_delay)),
      // It is up to the readers when a wait in limbo ends: asks now and then.
      limbo_delay_nanos_(Clock::NanosAfter(
          0, std::max(options_.reclaim_delay, absl::Milliseconds(10)))),
      most_resident_(MostResident(options_.max_bytes, weighs_)),
      shared_(options_, ShardCount(options_),
              {operations, charges, /*has_listener=*/tell_ != nullptr},
              sizeof(Shard)),
      shard_mask_(static_cast<uint32_t>(shared_.shards) - 1),
      shards_(shared_.tables.ahead(), shared_.shard_count(),
              [this](size_t i) {
                return Shard(&shared_, static_cast<int>(i), options_);
              }),
      logger_(options_, clock_.NowNanos()) {
  // First: this may throw, and the reaper would be left with what is no more.
  if (options_.registered) {
    reports_ =
        std::make_unique<ReportSource>(options_, [this] { return stats(); });
  }
  if (options_.reaper != nullptr) {
    reaper_status_ = options_.reaper->Register(&client_);
    options_.reaper->WakeAt(&client_, logger_.due_nanos());
  }
}

Engine::~Engine() = default;

void Engine::Close() {
  CheckCopy(shared_.copy);
  Stop();
  // First: a call that this waits for may wait for the owner.
  load_gates_->whole.Close();
  LimitsOwner* const owner = limits_.owner();
  if (owner != nullptr) owner->BeginEnd();
  // From here on only the end of their loads ends the waits.
  while (const auto wait = waits_.TakeLate(Clock::kNever)) {
    pool().UnpinOutside(wait->placeholder);
  }
  // While the cache is whole, for destructors of values may call it; and again
  // for what they have Set, or begun to load.
  do {
    Departures departures(&shared_);
    for (auto& shard : shards_) {
      shard.Lock();
      shard.TakeAllLocked(&departures);
      shard.Unlock();
    }
    departures.Dispose([](EntryRef, RemovalCause) {});
    shared_.limbo.DestroyAll();
  } while (!shared_.limbo.empty() ||
           std::any_of(shards_.begin(), shards_.end(),
                       [](const Shard& shard) { return !shard.empty(); }));
  if (owner != nullptr) owner->End();
}

void Engine::Stop() {
  load_gates_->refreshes.Close();
  if (options_.reaper != nullptr) options_.reaper->Unregister(&client_);
}

// Tells the listener of what was removed, and of what is removed within that,
// and retires it. A call within a notification of its cache leaves what it has
// removed to the call that notifies, which tells of it when the listener has
// returned. So notifications of a cache never nest on a thread, and a listener
// may go on removing entries without taking stack or memory.
//
// Caches are told apart, so that one may end within a notification of another:
// what a call has removed is told before it returns.
void Engine::Call::TellListener() {
  thread_local Call* innermost = nullptr;  // Of those that notify.
  if (departures.empty()) return;
  for (Call* call = innermost; call != nullptr; call = call->outer_) {
    if (&call->engine_ == &engine_) {
      call->departures.TakeOver(&departures);
      return;
    }
  }
  outer_ = std::exchange(innermost, this);
  while (!departures.empty()) {
    departures.Dispose([this](EntryRef ref, RemovalCause cause) {
      if (!engine_.tell_(engine_.pool().At(ref), cause)) {
        departures.counts.Add(Count::kListenerExceptions);
      }
    });
  }
  innermost = outer_;
}

// Adds the overhead to what the weigher says, and stores that with the entry.
// Returns false if no cache with these limits can hold it.
inline bool Engine::SetCharge(Shard::Write* write) const {
  const auto weight = static_cast<uint64_t>(write->room.bytes);
  const uint64_t overhead = weighs_ ? kEntryOverhead : 0;
  const uint64_t most =
      std::min(static_cast<uint64_t>(shared_.budget.limit().bytes),
               uint64_t{std::numeric_limits<uint32_t>::max()});
  if (most < overhead || weight > most - overhead) return false;
  if (!weighs_) return true;
  write->room.bytes = static_cast<int64_t>(weight + overhead);
  pool().SetCharge(write->ref, static_cast<uint32_t>(weight + overhead));
  return true;
}

inline Put Engine::StoreInShard(const Shard::Write& write) {
  Shard& home = ShardOf(write.hash);
  Call call(this, &home, write.now_nanos);
  for (;;) {
    switch (home.TryStore(write, &call.departures)) {
      case StoreOutcome::kStored:
        Interleave("store: after the lock");
        return Put::kStored;
      case StoreOutcome::kSuperseded:
        call.departures.counts.Add(Count::kSupersededLoads);
        return Put::kLost;
      case StoreOutcome::kLost:
        return Put::kLost;
      case StoreOutcome::kMoreToDo:
        break;
      case StoreOutcome::kCallIn:
        CallInCredits(&call.departures.claim);
        shared_.budget.EndCallIn();
        break;
      case StoreOutcome::kReclaimOthers:
        ReclaimAll(write.now_nanos, &call.departures);
        break;
      case StoreOutcome::kEvictOlder:
        ShardWithOldest(&home).Evict(&call.departures);
        break;
      case StoreOutcome::kEvictOthers:
        EvictFromOthers(home, &call.departures);
        break;
    }
    // The limit may have become lower than the entry.
    if (write.room.bytes > shared_.budget.limit().bytes) {
      call.departures.claim.GiveBack();
      return Refuse(write, RemovalCause::kReplaced);
    }
  }
}

Put Engine::Store(Shard::Write* write) {
  const bool lives = write->ttl_nanos > 0;
  if (!lives || !SetCharge(write)) {
    return Refuse(*write,
                  lives ? RemovalCause::kReplaced : RemovalCause::kDeleted);
  }
  write->now_nanos = clock_.NowNanos();
  pool().At(write->ref).SetCreated(CreationTimeAt(write->now_nanos));
  if (ABSL_PREDICT_FALSE(MemoryIsShort())) {
    // Nothing is evicted for a write that has lost.
    if (write->condition != nullptr &&
        !ShardOf(write->hash)
             .Holds(EntryKeyQuery(pool(), write->ref, write->hash),
                    write->condition->entry)) {
      return Put::kLost;
    }
    RelieveMemory(*write);
  }
  return StoreInShard(*write);
}

// Removes the value that would have been replaced.
Put Engine::Refuse(const Shard::Write& write, RemovalCause cause) {
  const bool is_failure = write.load == write.ref;
  if (!is_failure) CountEvent(Count::kRefused);
  const EntryKeyQuery key(pool(), write.ref, write.hash);
  if (write.condition != nullptr) {
    return RemoveIf(key, write.condition->entry, cause) ? Put::kRefused
                                                        : Put::kLost;
  }
  if (write.load == 0) Remove(key, cause);
  return Put::kRefused;
}

// Moves entries, in proportion to what the Set adds, or else evicts some. Where
// another thread is moving, evictions alone would free pieces that a large
// entry does not fit into: it would take fresh memory.
void Engine::RelieveMemory(const Shard::Write& write) {
  constexpr int64_t kBytesPerMove = 32;
  const auto most = shared_.maintenance_budget +
                    static_cast<uint64_t>(write.room.bytes / kBytesPerMove);
  // A reader that has lost its core holds back what was removed: lets it run.
  constexpr int kMostYields = 16;
  for (int i = 0; i < kMostYields && shared_.limbo.stalled(); ++i) {
    std::this_thread::yield();
    shared_.limbo.Flush();
  }
  uint64_t done = 0;
  while (done < most && MemoryIsShort()) {
    Call call(this);
    const uint64_t step = compactor_.StepAfterOthers(shared_.maintenance_budget,
                                                     &call.departures);
    if (step == 0) break;
    done += step;
  }
  // While a reader stalls, no eviction frees anything.
  if (MemoryIsShort() && !shared_.limbo.stalled()) EvictForMemory(write);
}

// Twice what the Set adds, so that the next ones find free memory. But never
// the whole cache: what is short may be what only others could give back.
void Engine::EvictForMemory(const Shard::Write& write) {
  if (used().bytes < limit().bytes / 4) return;
  Call call(this, &ShardOf(write.hash), write.now_nanos);
  ReclaimAll(write.now_nanos, &call.departures);
  int64_t left = 2 * write.room.bytes;
  while (left > 0) {
    const int64_t evicted =
        ShardWithOldest(/*but=*/nullptr).EvictBytes(left, &call.departures);
    if (evicted == 0) break;
    left -= evicted;
  }
}

void Engine::ReclaimAll(int64_t now_nanos, Departures* departures) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shared_.due.Get(static_cast<int>(i)) > now_nanos) continue;
    shards_[i].Reclaim(now_nanos, shared_.maintenance_budget, departures);
  }
}

void Engine::CallInCredits(Claim* claim) {
  for (auto& shard : shards_) shard.CallIn(claim);
}

// The shard whose last entry is longest unused: not `but`, if that is given.
Shard& Engine::ShardWithOldest(const Shard* but) const {
  const int skipped = but == nullptr ? -1 : but->number();
  int oldest = skipped == 0 ? 1 : 0;
  for (int i = 0; i < shared_.shards; ++i) {
    if (i != skipped && TailBoard::IsOlderBy(shared_.tails.Get(i),
                                             shared_.tails.Get(oldest), 0)) {
      oldest = i;
    }
  }
  return shards_[static_cast<size_t>(oldest)];
}

// Where `home` is empty and has no room. The victims come from the shards that
// follow it in turn.
void Engine::EvictFromOthers(const Shard& home, Departures* departures) {
  const size_t first = static_cast<size_t>(home.number()) + 1;
  for (size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[(first + i) & (shards_.size() - 1)];
    if (&shard != &home && shard.Evict(departures)) return;
  }
  // All that is left is in the claims of other Sets. Of two that wait for each
  // other's room, one has to give up its own.
  departures->claim.GiveBack();
  std::this_thread::yield();
}

EntryRef Engine::BeginLoad(const KeyQuery& key, const Shard::NewLoad& load) {
  absl::Cleanup unpin = [&] { pool().Unpin(load.placeholder); };
  Shard& shard = ShardOf(key.hash());
  Call call(this, &shard, clock_.NowNanos());
  const EntryRef found = shard.BeginLoad(key, load, &call.departures);
  if (found == load.placeholder) std::move(unpin).Cancel();
  return found;
}

LimitedWaits::Id Engine::LimitWait(int64_t deadline_nanos,
                                   LimitedWaits::Wait wait) {
  pool().Pin(wait.placeholder);
  absl::Cleanup unpin = [&] { pool().UnpinOutside(wait.placeholder); };
  const LimitedWaits::Id id = waits_.Add(deadline_nanos, wait);
  std::move(unpin).Cancel();
  if (options_.reaper != nullptr) {
    options_.reaper->WakeAt(&client_, deadline_nanos);
  } else {
    TellEarlierDeadline(deadline_nanos);
  }
  return id;
}

void Engine::EndWait(LimitedWaits::Id wait) {
  const EntryRef placeholder = waits_.Remove(wait);
  if (placeholder != 0) pool().UnpinOutside(placeholder);
}

absl::Status Engine::NoLoader() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the cache \"", options_.name,
                   "\" has no Hooks::load, and the call names no loader"));
}

// Returns how many.
int64_t Engine::GiveUpLateWaits(int64_t now_nanos, int64_t budget) {
  int64_t done = 0;
  for (; done < budget; ++done) {
    const auto late = waits_.TakeLate(now_nanos);
    if (!late.has_value()) break;
    auto& load = static_cast<Load&>(*pool().LoadOf(late->placeholder));
    load.GiveUp(late->number, Load::WaitedTooLong());
    pool().UnpinOutside(late->placeholder);
  }
  return done;
}

void Engine::EndLoad(const Shard::EndedLoad& ended) {
  if (ended.remember_nanos > 0 && RememberFailure(ended)) return;
  Shard& shard = ShardOf(ended.of_key);
  Call call(this, &shard, clock_.NowNanos());
  shard.EndLoad(ended, &call.departures);
}

// Returns whether its placeholder is an entry now.
bool Engine::RememberFailure(const Shard::EndedLoad& ended) {
  Shard::Write write;
  write.ref = write.load = ended.placeholder;
  write.hash = ended.of_key;
  write.room.bytes = pool().Charge(write.ref);
  if (write.room.bytes > shared_.budget.limit().bytes) return false;
  write.ttl_nanos = ended.remember_nanos;
  write.now_nanos = clock_.NowNanos();
  pool().At(write.ref).SetCreated(CreationTimeAt(write.now_nanos));
  return StoreInShard(write) == Put::kStored;
}

void Engine::CountLoad(const Load& load, bool failed) const {
  // A load counts for a day at most, so that no sum overflows on a simulated
  // clock that jumps.
  constexpr uint64_t kMostNanos = uint64_t{24} * 3600 * 1'000'000'000;
  const int64_t begin = load.begin_nanos();
  const int64_t end = std::max(clock_.NowNanos(), begin);
  const uint64_t nanos = std::min(
      static_cast<uint64_t>(end) - static_cast<uint64_t>(begin), kMostNanos);
  Counters::Mine mine = shared_.counters.ForThisThread();
  mine.Add(Count::kLoads);
  if (failed) mine.Add(Count::kLoadErrors);
  mine.Add(Count::kLoadNanos, static_cast<int64_t>(nanos));
}

void Engine::RecordMiss(Hash32 hash, Use use) const {
  if (use == Use::kIgnore) return;
  CountMiss();
  shared_.advisor.Read(hash, /*hit=*/false);
}

void Engine::RecordMissForHit(Hash32 hash) const {
  shared_.counters.Add(Count::kHits, -1);
  RecordMiss(hash, Use::kCount);
}

void Engine::RecordRefusal(Hash32 hash) const {
  CountMiss();
  shared_.advisor.Refuse(hash);
}

bool Engine::RecordSureMiss(Hash32 hash, Use use) const {
  if ((on_miss_.load(std::memory_order_acquire) & kClearing) != 0) {
    return false;
  }
  RecordMiss(hash, use);
  return true;
}

bool Engine::Remove(const KeyQuery& key, RemovalCause cause) {
  Shard& shard = ShardOf(key.hash());
  Call call(this, &shard, clock_.NowNanos());
  return shard.Remove(key, cause, &call.departures);
}

bool Engine::RemoveIf(const KeyQuery& key, EntryRef expected,
                      RemovalCause cause) {
  Shard& shard = ShardOf(key.hash());
  Call call(this, &shard, clock_.NowNanos());
  return shard.RemoveIf(key, expected, cause, &call.departures);
}

EntryRef Engine::Take(const KeyQuery& key) {
  Shard& shard = ShardOf(key.hash());
  Call call(this, &shard, clock_.NowNanos());
  return shard.Take(key, &call.departures);
}

bool Engine::Touch(const KeyQuery& key, int64_t ttl_nanos) {
  Shard& shard = ShardOf(key.hash());
  const Call call(this, &shard, clock_.NowNanos());
  return shard.Touch(key, ttl_nanos);
}

void Engine::Clear() {
  Call call(this, &shards_[0], clock_.NowNanos());
  for (auto& shard : shards_) shard.Lock();
  on_miss_.fetch_or(kClearing, std::memory_order_release);
  for (auto& shard : shards_) shard.TakeAllLocked(&call.departures);
  shared_.advisor.DeleteAll();
  on_miss_.fetch_and(kAdvised, std::memory_order_release);
  for (auto& shard : shards_) shard.Unlock();
}

// At most the limits, although the shards are looked at one after the other.
Room Engine::used() const {
  Room used;
  for (const auto& shard : shards_) used += shard.used();
  const Room most = limit();
  return {std::clamp<int64_t>(used.entries, 0, most.entries),
          std::clamp<int64_t>(used.bytes, 0, most.bytes)};
}

// Where the coarse clock did not tell.
bool Engine::IsStillLive(const Shard::Found& found, Use use) const {
  const EntryPool& pool = *shared_.pool;
  int64_t deadline = found.entry->deadline();
  for (;;) {
    const int64_t now_nanos = clock_.NowNanos();
    if (deadline <= now_nanos) return false;
    if (use == Use::kIgnore || !pool.idle().on()) return true;
    if (pool.TryExtend(found.entry, &deadline, now_nanos)) return true;
  }
}

void Engine::SupersedeLoads() {
  for (auto& shard : shards_) shard.SupersedeLoads();
}

}  // namespace wheelcache::internal
