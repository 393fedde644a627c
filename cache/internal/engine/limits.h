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

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_LIMITS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_LIMITS_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

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

  // Around fork(): keep the lock usable in the child, where the calls that
  // shrink are gone, and the limits stay what they have become until the next.
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  void AfterForkInChild() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockInChild(); }

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

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_LIMITS_H_
