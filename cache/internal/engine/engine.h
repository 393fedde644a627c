// The engine of a cache: what Cache does, whatever the types of key and value.
//
// It owns the shards and what they share. A write goes to the shard of its key;
// where that alone cannot make room, the engine reclaims and evicts in others.
// What a call removes, the engine tells the listener of and retires, when no
// lock is held. It also serves the reaper, counts and logs.
//
// Entries are made, and hits are read, by Cache, which knows the types.
//
// Threads. Thread-safe. Errors. As cache/cache.h says.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/compactor.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/iteration.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/engine/stats_logger.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/limited_waits.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/conditional.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache::internal {

class ReportSource;

class WHEELCACHE_EXPORT Engine {
 public:
  // Tells the user's listener of an entry that has left. Returns whether it
  // came back without an exception. Empty where there is no listener. On one
  // thread it is not called within itself.
  using Tell = std::function<bool(const EntryHeader&, RemovalCause)>;

  // REQUIRES: the options are valid.
  Engine(CacheOptions options, const EntryOperations* operations,
         Charges charges, Tell tell);
  // REQUIRES: Close() has returned.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const CacheOptions& options() const { return options_; }
  const absl::Status& reaper_status() const { return reaper_status_; }
  int64_t default_ttl_nanos() const { return default_ttl_nanos_; }
  Clock& clock() const { return clock_; }
  EntryPool& pool() const { return *shared_.pool; }

  // What is in the cache. O(shards).
  Room used() const;

  // The copy of the library that has made the cache.
  const LibraryCopy* copy() const { return shared_.copy; }

  // For reads without a lock.

  Shard& ShardOf(KeyHash hash) const {
    return shards_[hash.for_shard & shard_mask_];
  }

  // Whether the entry has not expired; a use that counts extends its life, if
  // there is an idle TTL. Inlined into each hit, which has no register to keep
  // the entry in while the clock is read: docs/decisions.md.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool IsLive(const Shard::Found& found,
                                           Use use) const {
    const int64_t deadline = found.entry->deadline();
    if (deadline == Clock::kNever) return true;
    Interleave("read: between deadline and clock");
    return coarse_clock_.IsFarBefore(deadline) || IsStillLive(found, use);
  }

  // Whether a miss without a lock is sure, and only to be counted. If it is
  // not, a Clear has emptied the shard and may not have emptied the others yet;
  // or the cache is advised.
  bool MissIsSure() const {
    return ABSL_PREDICT_TRUE(on_miss_.load(std::memory_order_acquire) == 0);
  }
  // Whether only the latter. If so, notes the miss.
  ABSL_ATTRIBUTE_NOINLINE bool RecordSureMiss(Hash32 hash, Use use) const;

  // Counts a miss, which is sure, unless the use is not to count.
  ABSL_ATTRIBUTE_NOINLINE void RecordMiss(Hash32 hash, Use use) const;
  // A miss that was counted as a hit: its entry was moved, and then removed.
  void RecordMissForHit(Hash32 hash) const;
  // A miss with any limits, of a key that is here.
  void RecordRefusal(Hash32 hash) const;
  void CountMiss() const { CountEvent(Count::kMisses); }
  void CountEvent(Count what) const { shared_.counters.Add(what); }

  // Counts a load that ends now, and how long it took.
  void CountLoad(const Load& load, bool failed) const;

  // Counts a hit of the thread with this record.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void CountHit(const ThreadRecord& reader) const {
    shared_.counters.ForThread(reader.index).Add(Count::kHits);
  }

  // Writes.

  // Stores a new entry, of which the bytes of `room` are what the weigher says
  // or, without one, the memory that it takes. If it is not stored, its pin is
  // still the caller's. What comes from a load that was superseded has lost.
  Put Store(Shard::Write* write);

  // Removes the entry of the key. Returns whether it was live.
  bool Remove(const KeyQuery& key, RemovalCause cause);

  // See Shard::RemoveIf and Shard::Take.
  bool RemoveIf(const KeyQuery& key, EntryRef expected, RemovalCause cause);
  EntryRef Take(const KeyQuery& key);

  // Gives the live entry of the key a new TTL, more than zero, and makes it the
  // most recently used. Returns whether there is one.
  bool Touch(const KeyQuery& key, int64_t ttl_nanos);

  void Clear() ABSL_NO_THREAD_SAFETY_ANALYSIS;  // Of a number of locks.

  // For those who lead loads.

  const std::shared_ptr<LoadGates>& load_gates() const { return load_gates_; }

  // See Shard::BeginLoad. Takes over the pin in any case.
  EntryRef BeginLoad(const KeyQuery& key, const Shard::NewLoad& load);

  // Has maintenance give up a wait for a load at that time. For a placeholder
  // that the caller has pinned. The second, for one that has been told.
  LimitedWaits::Id LimitWait(int64_t deadline_nanos, LimitedWaits::Wait wait);
  void EndWait(LimitedWaits::Id wait);
  absl::Status NoLoader() const;

  // A load has ended that was not stored.
  void EndLoad(const Shard::EndedLoad& ended);

  // For ForEach and EraseIf.

  // The live entries of the cache; see iteration.h.
  Iteration Iterate() const {
    return Iteration(shared_.pool.get(), &shards_,
                     {&clock_, shared_.maintenance_budget});
  }
  // Supersedes all loads in flight.
  void SupersedeLoads();

  // Changes the limits, and returns when they hold, unless another call has
  // changed them since; or returns InvalidArgument.
  // FailedPrecondition if another owns the bytes, and they would change.
  absl::Status SetLimits(int64_t entries, int64_t bytes);
  Room limit() const { return shared_.budget.limit(); }

  // Has the limit of bytes an owner, unless it has one. An owner may change it,
  // as often as it wants, and look at what other limits would do.
  bool BeginOwner(LimitsOwner* owner) { return limits_.BeginOwner(owner); }
  void EndOwner() { limits_.EndOwner(); }
  void SetBytes(int64_t bytes);
  std::optional<Advisor::MoreHits> more_hits() const;

  // Of a scan-resistant cache, the part of it that the window may take: what it
  // has learned. 0 of another.
  double window_part() const;
  void SetWindowPart(double part);

  // Upkeep.

  CacheStats stats() const;
  std::optional<CacheAdvice> Advise() const;
  int64_t RunMaintenance(int64_t budget);
  absl::Duration NextDeadline() const;
  void Stop();
  absl::Status CheckInvariants();

  // Stops, and removes all entries. Destructors of values may call the cache
  // until this returns.
  void Close();

 private:
  using Shards = ShardArray<Shard>;

  // The reaper's view of the cache.
  class Client final : public Reaper::Client {
   public:
    explicit Client(Engine* engine) : engine_(*engine) {}
    int64_t RunDue(int64_t now_nanos) override {
      return engine_.RunDue(now_nanos);
    }

   private:
    Engine& engine_;
  };

  class Call;  // In engine_call.h.

  ABSL_ATTRIBUTE_NOINLINE bool IsStillLive(const Shard::Found& found,
                                           Use use) const;
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool SetCharge(Shard::Write* write) const;
  ABSL_ATTRIBUTE_ALWAYS_INLINE Put StoreInShard(const Shard::Write& write);
  ABSL_ATTRIBUTE_NOINLINE Put Refuse(const Shard::Write& write,
                                     RemovalCause cause);
  int64_t GiveUpLateWaits(int64_t now_nanos, int64_t budget);
  void FlushLimbo(int64_t now_nanos);
  bool RememberFailure(const Shard::EndedLoad& ended);
  void ReclaimAll(int64_t now_nanos, Departures* departures);
  void CallInCredits(Claim* claim);
  void EvictFromOthers(const Shard& home, Departures* departures);

  // The resident memory of what is in the cache, and around it.
  int64_t ResidentBytes() const {
    return shared_.pool->resident_bytes() + shared_.tables.allocated_bytes();
  }
  // Whether that is clearly more than the limit. What only handles keep does
  // not count.
  bool MemoryIsShort() const {
    return ResidentBytes() - shared_.pool->orphan_bytes() >
           most_resident_.load(std::memory_order_relaxed);
  }
  // What a cache may keep resident before it evicts for that. Normally, moving
  // entries keeps it below. Without a limit if `max_bytes` is no memory, but
  // what a weigher says.
  static int64_t MostResident(int64_t max_bytes, bool weighs);
  void RelieveMemory(const Shard::Write& write);
  void EvictForMemory(const Shard::Write& write);
  Shard& ShardWithOldest(const Shard* but) const;

  void ReachLimits();
  bool LowerLimits(bool* began);
  void GiveMemoryBack();
  void FollowLimits();

  int64_t RunDue(int64_t now_nanos);
  int64_t LimboDue(int64_t now_nanos) const;
  int64_t NextFlush() const;
  void TellEarlierDeadline(int64_t due_nanos);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void WakeReaperFor(const Shard& shard,
                                                  int64_t now_nanos);

  const CacheOptions options_;
  const bool weighs_;
  const Tell tell_;
  const int64_t default_ttl_nanos_;
  Clock& clock_;
  // With an idle TTL, a hit has to look closer at a deadline that is not fresh.
  const CoarseClock coarse_clock_{clock_, IdleTtlOf(options_).fresh_nanos()};
  const int64_t reclaim_delay_nanos_;
  const int64_t limbo_delay_nanos_;

  // Follows max_bytes. Relaxed: a number to compare with.
  std::atomic<int64_t> most_resident_;

  // When RunMaintenance is to look at limbo again. Relaxed: a hint.
  std::atomic<int64_t> next_flush_nanos_{clock_.NowNanos()};

  // What NextDeadline has told last, with on_earlier_deadline: kNever while it
  // looks, kAnyTime if nobody is to be told of an earlier one.
  static constexpr int64_t kAnyTime = std::numeric_limits<int64_t>::min();
  mutable std::atomic<int64_t> told_nanos_{kAnyTime};

  mutable SharedState shared_;
  const uint32_t shard_mask_;

  // What a miss without the lock has to do besides being counted; 0 for
  // nothing. kClearing is set while a Clear empties one shard after the other,
  // all of them locked; then readers take the lock, too, and see all or nothing
  // of it. A reader that sees a shard that is empty already sees this set, as
  // the new index was published after it; and one that sees this reset,
  // acquiring, sees all shards empty. Next to what readers need as well.
  static constexpr uint8_t kClearing = 1;
  static constexpr uint8_t kAdvised = 2;  // From the beginning, or never.
  std::atomic<uint8_t> on_miss_{shared_.advisor.on() ? kAdvised : uint8_t{0}};

  Shards shards_;  // As many as a power of two.
  Limits limits_{&shared_.budget};
  Compactor compactor_{shared_.pool.get(), &shared_.limbo, &shards_};
  StatsLogger logger_;

  LimitedWaits waits_;
  const std::shared_ptr<LoadGates> load_gates_ = std::make_shared<LoadGates>();

  Client client_{this};
  absl::Status reaper_status_;

  // The last, to be the first to end: those who look at all caches need the
  // whole of this one.
  std::unique_ptr<ReportSource> reports_;  // If reports show the cache.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_H_
