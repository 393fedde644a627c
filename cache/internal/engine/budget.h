// The two limits of a cache, and what is used of them.
//
//   Claim claim(&budget);
//   while (!claim.Cover({1, charge})) claim.Add(Evict());
//   claim.Spend({1, charge});  // The entry lives in the cache from here on.
//
// Room is taken before an entry becomes visible and comes back after the entry
// has gone, so that at no instant more is used than the limits allow. There is
// one Budget for all shards: nothing is split beforehand, and an entry of
// nearly the whole limit finds its place.
//
// The limits may change. Budget counts the room that is free, not what is used:
// then a limit is lowered by taking room for good, and holds at every instant.
//
// Threads. Budget is thread-safe and lock-free; Raise and Lower are for one
// thread at a time. A Claim belongs to one thread.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/types/options.h"
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

class Budget {
 public:
  explicit Budget(Room limit) : limit_(limit), free_(limit) {}

  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // The present limits.
  Room limit() const {
    return {limit_.entries.load(std::memory_order_acquire),
            limit_.bytes.load(std::memory_order_acquire)};
  }

  // What is claimed or in use. Never more than the limit.
  Room used() const {
    return {Used(limit_.entries, free_.entries),
            Used(limit_.bytes, free_.bytes)};
  }

  // The same, but 0 of what `limit`, a result of limit(), leaves unlimited:
  // cheaper than reading both.
  Room used_of(Room limit) const {
    return {
        limit.entries == kUnlimited ? 0 : Used(limit_.entries, free_.entries),
        limit.bytes == kUnlimited ? 0 : Used(limit_.bytes, free_.bytes)};
  }

  // Whether there is room for another entry like those that are there. A hint.
  bool HasRoom() const {
    const Room limit = limit_.Get();
    const Room free = free_.Get();
    return free.entries > 0 &&
           free.bytes >= (limit.bytes - free.bytes) /
                             std::max<int64_t>(limit.entries - free.entries, 1);
  }

  // Takes all of `room` or, where a limit forbids it, nothing.
  bool TryTake(Room room) {
    if (!TryTake(free_.entries, room.entries)) return false;
    if (TryTake(free_.bytes, room.bytes)) return true;
    Add(free_.entries, room.entries);
    return false;
  }

  // Takes what is free of `room`. Returns what it took.
  Room TakeUpTo(Room room) {
    return {TakeUpTo(free_.entries, room.entries),
            TakeUpTo(free_.bytes, room.bytes)};
  }

  void Give(Room room) {
    Add(free_.entries, room.entries);
    Add(free_.bytes, room.bytes);
  }

  // Change the limits; one thread at a time may do so.
  void Raise(Room room) {
    Raise(&limit_.entries, &free_.entries, room.entries);
    Raise(&limit_.bytes, &free_.bytes, room.bytes);
  }
  // REQUIRES: the caller has taken `room`, and will not give it back.
  void Lower(Room room) {
    Lower(&limit_.entries, room.entries);
    Lower(&limit_.bytes, room.bytes);
  }

 private:
  using Number = std::atomic<int64_t>;

  struct Numbers {
    explicit Numbers(Room room) : entries(room.entries), bytes(room.bytes) {}
    Room Get() const {
      return {entries.load(std::memory_order_relaxed),
              bytes.load(std::memory_order_relaxed)};
    }
    Number entries;
    Number bytes;
  };

  // Of a limit and the room that was free under it. A limit is raised before
  // its room is free, and lowered after that was taken: what is read under one
  // limit may be too large by a claim, and is never too small.
  static int64_t Used(const Number& limit, const Number& free) {
    int64_t most = limit.load(std::memory_order_acquire);
    for (;;) {
      const int64_t used = most - free.load(std::memory_order_acquire);
      const int64_t again = limit.load(std::memory_order_acquire);
      if (again == most) return used;
      most = again;
    }
  }

  static void Add(Number& free, int64_t amount) {
    if (amount != 0) free.fetch_add(amount, std::memory_order_release);
  }

  static bool TryTake(Number& free, int64_t amount) {
    if (amount == 0) return true;
    int64_t now = free.load(std::memory_order_relaxed);
    do {
      if (now < amount) return false;
    } while (!free.compare_exchange_weak(now, now - amount,
                                         std::memory_order_acquire,
                                         std::memory_order_relaxed));
    return true;
  }

  static int64_t TakeUpTo(Number& free, int64_t amount) {
    int64_t now = free.load(std::memory_order_relaxed);
    int64_t taken;
    do {
      taken = std::min(now, amount);
      if (taken <= 0) return 0;
    } while (!free.compare_exchange_weak(now, now - taken,
                                         std::memory_order_acquire,
                                         std::memory_order_relaxed));
    return taken;
  }

  static void Raise(Number* limit, Number* free, int64_t amount) {
    limit->store(limit->load(std::memory_order_relaxed) + amount,
                 std::memory_order_release);
    Interleave("budget: between the limit and its room");
    Add(*free, amount);
  }
  static void Lower(Number* limit, int64_t amount) {
    limit->store(limit->load(std::memory_order_relaxed) - amount,
                 std::memory_order_release);
  }

  // For who shows them: what keeps the limits is free_ alone.
  Numbers limit_;

  // Each limit is kept by the read-modify-writes of one number, the room that
  // is left: whoever lowers the limit takes room as a Set does, and keeps it,
  // so that no Set has to look at the limit. Given back with release and taken
  // with acquire, so that an entry whose room was another's is not seen before
  // that one has gone.
  alignas(ABSL_CACHELINE_SIZE) Numbers free_;
};

// Room that one call has taken from the budget, or from the entries it removed,
// and not used yet. What is left is to be given back in the end.
class Claim {
 public:
  explicit Claim(Budget* budget) : budget_(*budget) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // Whether the claim is at least `need`, topped up from the budget if the
  // budget has what is missing.
  bool Cover(Room need) {
    need_ = need;
    const Room missing = {std::max<int64_t>(need.entries - held_.entries, 0),
                          std::max<int64_t>(need.bytes - held_.bytes, 0)};
    if (!budget_.TryTake(missing)) return false;
    held_ += missing;
    return true;
  }

  // What Cover was asked for last.
  Room need() const { return need_; }

  // Tops the claim up to `most`, as far as the budget has room.
  void CoverUpTo(Room most) {
    held_ +=
        budget_.TakeUpTo({std::max<int64_t>(most.entries - held_.entries, 0),
                          std::max<int64_t>(most.bytes - held_.bytes, 0)});
  }

  // Takes up to `most` from the claim and from the limits of the budget; see
  // Budget::Lower. Returns how much.
  Room LowerLimits(Room most) {
    const Room room = {std::min(held_.entries, most.entries),
                       std::min(held_.bytes, most.bytes)};
    budget_.Lower(room);
    held_ -= room;
    return room;
  }

  // Keeps the room of an entry that was removed.
  void Add(Room room) { held_ += room; }

  // Hands `room` over to an entry; parts of it may be negative.
  // REQUIRES: Cover(room) was true.
  void Spend(Room room) { held_ -= room; }

  void GiveBack() {
    budget_.Give(held_);
    held_ = Room();
  }

 private:
  Budget& budget_;
  Room held_;
  Room need_;
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
class Limits {
 public:
  explicit Limits(Budget* budget)
      : budget_(*budget), target_(budget->limit()) {}
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

  // Raises each limit that is lower than its target, and leaves the others for
  // Approach.
  void SetTarget(Room target) {
    MutexLock lock(&mu_);
    target_ = target;
    const Room excess = ExcessLocked();
    budget_.Raise({std::max<int64_t>(-excess.entries, 0),
                   std::max<int64_t>(-excess.bytes, 0)});
  }

  // Lowers the limits by what is free and what the claim holds, at most to the
  // target. Returns how far they still are from it.
  Room Approach(Claim* claim) {
    MutexLock lock(&mu_);
    Room excess = ExcessLocked();
    claim->CoverUpTo(excess);
    excess -= claim->LowerLimits(excess);
    return excess;
  }

  // Calls `follow(limits)` with the present ones, one call at a time, so that
  // what is derived from them is in the end that of the last.
  template <typename Function>
  void Follow(Function&& follow) {
    MutexLock lock(&mu_);
    follow(budget_.limit());
  }

 private:
  // Not negative but within SetTarget.
  Room ExcessLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Room excess = budget_.limit();
    excess -= target_;
    return excess;
  }

  Budget& budget_;
  Mutex mu_;
  Room target_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_
