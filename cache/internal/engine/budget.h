// The two limits of a cache, and what is taken of them.
//
//   Claim claim(&budget);
//   while (!claim.Cover({1, charge})) claim.Add(Evict());
//   claim.Spend({1, charge});  // The entry lives in the cache from here on.
//
// Room is taken before an entry becomes visible and comes back after the entry
// has gone, so that at no instant more is used than the limits allow. No limit
// is split among the shards: an entry of nearly the whole one finds its place.
//
// Credits. If each Set took its room here, all cores would write to one cache
// line. So each of several shards keeps some room: what it takes ahead, what
// removals leave, and the bytes that a Set frees and does not need. Of a limit,
// all shards together keep at most a 64th. A Set that finds no room calls the
// credits in before anything is evicted. From then on room is short: no shard
// takes ahead, and what removals leave comes back at once. Only bytes that a
// Set leaves stay with its shard, a 256th of the limit in all; another shard
// gets them when it evicts there. When a 32nd of the limit is free, there are
// credits again.
//
// The limits may change. A limit is lowered by taking room for good: then it
// holds at every instant.
//
// Threads. Budget is thread-safe and lock-free; Raise and Lower are for one
// thread at a time. A Claim belongs to one thread.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/numeric/bits.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

// A number of entries, and of accounted bytes.
struct Room {
  int64_t entries = 0;
  int64_t bytes = 0;

  Room& operator+=(Room other) {
    entries += other.entries;
    bytes += other.bytes;
    return *this;
  }
  Room& operator-=(Room other) {
    entries -= other.entries;
    bytes -= other.bytes;
    return *this;
  }
  bool operator==(Room other) const {
    return entries == other.entries && bytes == other.bytes;
  }
};

// A Room that one thread at a time changes, and any may read. Relaxed: a number
// to show. What decides is in the Budget.
class AtomicRoom {
 public:
  Room Get() const {
    return {entries_.load(std::memory_order_relaxed),
            bytes_.load(std::memory_order_relaxed)};
  }
  void Set(Room room) {
    entries_.store(room.entries, std::memory_order_relaxed);
    bytes_.store(room.bytes, std::memory_order_relaxed);
  }
  void Add(Room room) {
    room += Get();
    Set(room);
  }

 private:
  std::atomic<int64_t> entries_{0};
  std::atomic<int64_t> bytes_{0};
};

// One limit, and the room that is free under it. Thread-safe.
class WHEELCACHE_EXPORT Quota {
 public:
  // Of a cache with so many shards, a power of two. Counts the free room in
  // *free, which must outlive it.
  Quota(int64_t limit, int shards, std::atomic<int64_t>* free)
      : limit_(limit), credit_shift_(CreditShift(shards)), free_(*free) {
    free->store(limit, std::memory_order_relaxed);
  }

  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  int64_t limit() const { return limit_.load(std::memory_order_acquire); }

  // What is not free, never more than the limit. If room is taken meanwhile,
  // it may be too large by that.
  int64_t taken() const;

  // Whether no Set has found too little since a 32nd was free. A hint.
  bool ample() const {
    return state_.load(std::memory_order_relaxed) == State::kAmple;
  }

  // The most that a shard may keep as its credit: 0 where room is short. And
  // the most that a Set may leave there even then.
  int64_t most_credit() const { return ample() ? Share() : 0; }
  int64_t most_rest() const { return Share() / 4; }

  // Whether so much seems to be free.
  bool Has(int64_t amount) const {
    return free_.load(std::memory_order_relaxed) >= amount;
  }

  // Takes at least `least` and, if there is as much, up to `most`; or nothing.
  // Returns how much.
  int64_t Take(int64_t least, int64_t most);
  void Give(int64_t amount);

  // To be called by a Set that finds too little. If it returns true, all
  // credits are to be called in before anything is evicted, and then EndCallIn
  // to be called.
  bool BeginCallIn();
  void EndCallIn() {
    State calling = State::kCalling;
    state_.compare_exchange_strong(calling, State::kShort,
                                   std::memory_order_relaxed);
  }

  // As those of Budget.
  void Raise(int64_t amount);
  void Lower(int64_t amount) {
    limit_.store(limit_.load(std::memory_order_relaxed) - amount,
                 std::memory_order_release);
  }

 private:
  enum class State : uint8_t {
    kAmple,    // Shards may have credits.
    kCalling,  // They may not have new ones. Who evicts calls in the old ones.
    kShort,    // They have none, but for what Sets leave.
  };

  // By how much a limit is shifted to become the most credit of a shard. One
  // that is alone needs none.
  static int CreditShift(int shards) {
    if (shards == 1) return 63;
    return static_cast<int>(
        absl::bit_width(static_cast<uint32_t>(shards) * 64 - 1));
  }

  // A 64th of the limit, by the number of shards; 0 of one that is alone.
  int64_t Share() const {
    return limit_.load(std::memory_order_relaxed) >> credit_shift_;
  }

  // By how much is free now.
  void EndShortage(int64_t free);

  // Read by each Set. The limit is for who shows it: what keeps it is free_.
  std::atomic<int64_t> limit_;
  std::atomic<State> state_{State::kAmple};  // Relaxed: see BeginCallIn.
  const int credit_shift_;

  // The limit is kept by the read-modify-writes of this one number: whoever
  // lowers it takes room as a Set does, and keeps it, so that no Set has to
  // look at the limit. Given back with release and taken with acquire, so that
  // an entry whose room was another's is not seen before that one has gone.
  std::atomic<int64_t>& free_;
};

class Budget {
 public:
  Budget(Room limit, int shards)
      : entries_(limit.entries, shards, &free_.entries),
        bytes_(limit.bytes, shards, &free_.bytes) {}

  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // The present limits.
  Room limit() const { return {entries_.limit(), bytes_.limit()}; }

  // What entries, claims and credits have.
  Room taken() const { return {entries_.taken(), bytes_.taken()}; }

  // Whether a Set will probably find room. A hint.
  bool ample() const { return entries_.ample() && bytes_.ample(); }

  // The most that a shard may keep as its credit; the second, after a Set.
  Room most_credit() const {
    return {entries_.most_credit(), bytes_.most_credit()};
  }
  Room most_rest() const {
    return {entries_.most_credit(),
            std::max(bytes_.most_credit(), bytes_.most_rest())};
  }

  // Whether so much seems to be free.
  bool Has(Room room) const {
    return entries_.Has(room.entries) && bytes_.Has(room.bytes);
  }

  // Takes of each of the two at least `least`, up to `most`, or nothing.
  // Returns what it took.
  Room Take(Room least, Room most) {
    return {entries_.Take(least.entries, most.entries),
            bytes_.Take(least.bytes, most.bytes)};
  }
  void Give(Room room) {
    entries_.Give(room.entries);
    bytes_.Give(room.bytes);
  }

  // What of `room` seems not to be free; 0 of a limit under which all is.
  Room LackOf(Room room) const {
    return {entries_.Has(room.entries) ? 0 : room.entries,
            bytes_.Has(room.bytes) ? 0 : room.bytes};
  }

  // So much is lacking. Returns whether the credits of all shards are to be
  // called in before anything is evicted for that, and EndCallIn be called.
  bool BeginCallIn(Room lacking) {
    const bool entries = lacking.entries > 0 && entries_.BeginCallIn();
    const bool bytes = lacking.bytes > 0 && bytes_.BeginCallIn();
    return entries || bytes;
  }
  void EndCallIn() {
    entries_.EndCallIn();
    bytes_.EndCallIn();
  }

  // Change the limits; one thread at a time may do so.
  void Raise(Room room) {
    entries_.Raise(room.entries);
    bytes_.Raise(room.bytes);
  }
  // REQUIRES: the caller has taken `room`, and will not give it back.
  void Lower(Room room) {
    entries_.Lower(room.entries);
    bytes_.Lower(room.bytes);
  }

 private:
  // Few write here, and each Set reads the rest.
  struct alignas(ABSL_CACHELINE_SIZE) {
    std::atomic<int64_t> entries;
    std::atomic<int64_t> bytes;
  } free_;
  Quota entries_;
  Quota bytes_;
};

inline int64_t Quota::taken() const {
  // A limit is raised before its room is free, and lowered after that was
  // taken: what is read under one limit may be too large by a claim, and is
  // never too small.
  int64_t most = limit();
  for (;;) {
    const int64_t taken = most - free_.load(std::memory_order_acquire);
    const int64_t again = limit();
    if (again == most) return taken;
    most = again;
  }
}

inline int64_t Quota::Take(int64_t least, int64_t most) {
  if (most <= 0) return 0;
  int64_t now = free_.load(std::memory_order_relaxed);
  int64_t taken;
  do {
    taken = std::min(now, most);
    if (taken < least || taken <= 0) return 0;
  } while (!free_.compare_exchange_weak(
      now, now - taken, std::memory_order_acquire, std::memory_order_relaxed));
  EndShortage(now - taken);
  return taken;
}

inline void Quota::Give(int64_t amount) {
  if (amount == 0) return;
  EndShortage(free_.fetch_add(amount, std::memory_order_release) + amount);
}

inline void Quota::EndShortage(int64_t free) {
  if (ABSL_PREDICT_FALSE(!ample()) && free > limit() / 32) {
    state_.store(State::kAmple, std::memory_order_relaxed);
  }
}

// Room that one call has taken from the budget, or from the entries it removed,
// and not used yet. What is left is to be given back in the end.
class WHEELCACHE_EXPORT Claim {
 public:
  explicit Claim(Budget* budget) : budget_(*budget) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // Whether the claim is at least `need`, topped up from the budget if the
  // budget has what is missing.
  bool Cover(Room need) {
    need_ = need;
    if (IsCovered()) return true;
    const Room least = missing();
    if (!budget_.Has(least)) return false;
    held_ += budget_.Take(least, least);
    return IsCovered();
  }

  // The same, but first from the credit of a shard, and with as much more from
  // the budget as a shard may keep. If that is not enough, calls_in() tells
  // whether the credits of all shards are to be called in, and EndCallIn be
  // called, before anything is removed for the need.
  bool Cover(Room need, Room* credit) {
    need_ = need;
    return IsCovered() || TakeFrom(credit);
  }
  bool calls_in() const { return calls_in_; }

  // What Cover was asked for last.
  Room need() const { return need_; }

  // Tops the claim up to `most`, as far as the budget has room.
  void CoverUpTo(Room most);

  // Takes up to `most` from the claim and from the limits of the budget; see
  // Budget::Lower. Returns how much.
  Room LowerLimits(Room most);

  // Keeps the room of an entry that was removed, or a credit that was called
  // in.
  void Add(Room room) { held_ += room; }

  // Hands `room` over to an entry; parts of it may be negative.
  // REQUIRES: Cover(room) was true.
  void Spend(Room room) { held_ -= room; }

  // Adds what is left over to a credit, up to `most` in all. Where there is
  // more, the credit becomes half of that: most of what comes next needs no
  // other room.
  void LeaveTo(Room* credit, Room most);

  // Takes a credit over.
  void CallIn(Room* credit) { held_ += std::exchange(*credit, Room()); }

  // Whether nothing is left over.
  bool empty() const { return held_ == Room(); }

  void GiveBack() {
    budget_.Give(held_);
    held_ = Room();
  }

 private:
  bool IsCovered() const {
    return held_.entries >= need_.entries && held_.bytes >= need_.bytes;
  }
  Room missing() const {
    return {std::max<int64_t>(need_.entries - held_.entries, 0),
            std::max<int64_t>(need_.bytes - held_.bytes, 0)};
  }

  // Out of line, to keep short what many Sets find, that the entry which they
  // replace leaves what they need.
  bool TakeFrom(Room* credit);

  Budget& budget_;
  Room held_;
  Room need_;
  bool calls_in_ = false;
};

// Sets the limit of bytes of a cache in the place of the user: a MemoryShare.
class LimitsOwner {
 public:
  // The cache ends. Returns when no call of the owner is in it any more.
  virtual void BeginEnd() = 0;
  // What was in the cache is gone.
  virtual void End() = 0;

 protected:
  ~LimitsOwner() = default;
};

// The limits of a cache on their way to others.
//
//   limits.SetTarget({1, 200});  // What grows has grown.
//   Claim claim(&budget);
//   while (!(limits.Approach(&claim) == Room())) claim.Add(Evict());
//
// A limit that falls follows the use down. Whoever lowers it takes room, what
// is free or what removed entries leave, and keeps it: so at every instant the
// present limit holds, and a Set that comes meanwhile finds no less room than
// it would have found before.
//
// There is one target, that of the last call. Two calls that shrink help each
// other to reach it, and a call that grows ends the shrinking of others.
//
// Threads. Thread-safe. Its lock comes before those of the shards.
class WHEELCACHE_EXPORT Limits {
 public:
  explicit Limits(Budget* budget)
      : budget_(*budget), target_(budget->limit()) {}
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

  // Raises each limit that is lower than its target, and leaves the others for
  // Approach. Returns false, and does nothing, where another than the owner of
  // the bytes would change those.
  bool SetTarget(Room target);

  // The same for the bytes alone, by their owner.
  void SetBytes(int64_t bytes);

  // Null for none.
  LimitsOwner* owner() const;
  bool BeginOwner(LimitsOwner* owner);
  void EndOwner();

  // Lowers the limits by what is free and what the claim holds, at most to the
  // target. Returns how far they still are from it.
  Room Approach(Claim* claim);

  // Calls `follow(limits)` with the present ones, one call at a time, so that
  // what is derived from them is in the end that of the last.
  template <typename Function>
  void Follow(Function&& follow) {
    MutexLock lock(&mu_);
    follow(budget_.limit());
  }

 private:
  void SetTargetLocked(Room target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Not negative but within SetTargetLocked.
  Room ExcessLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Budget& budget_;
  mutable Mutex mu_;
  Room target_ ABSL_GUARDED_BY(mu_);
  LimitsOwner* owner_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_
