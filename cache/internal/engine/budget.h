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
// Threads. Budget is thread-safe and lock-free. A Claim belongs to one thread.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"

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
  explicit Budget(Room limit) : limit_(limit) {}

  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  Room limit() const { return limit_; }

  // What is claimed or in use. Never more than the limit.
  Room used() const {
    return {entries_.load(std::memory_order_relaxed),
            bytes_.load(std::memory_order_relaxed)};
  }

  // Whether there is room for another entry like those that are there.
  bool HasRoom() const {
    const Room now = used();
    return now.entries < limit_.entries &&
           now.bytes <=
               limit_.bytes - now.bytes / std::max<int64_t>(now.entries, 1);
  }

  // Takes all of `room` or, where a limit forbids it, nothing.
  bool TryTake(Room room) {
    if (!TryAdd(entries_, room.entries, limit_.entries)) return false;
    if (TryAdd(bytes_, room.bytes, limit_.bytes)) return true;
    Add(entries_, -room.entries);
    return false;
  }

  // In the child of fork(): makes `room` all that is used. The claims of other
  // threads, which are gone, would never come back.
  void ResetAfterFork(Room room) {
    entries_.store(room.entries, std::memory_order_relaxed);
    bytes_.store(room.bytes, std::memory_order_relaxed);
  }

  void Give(Room room) {
    Add(entries_, -room.entries);
    Add(bytes_, -room.bytes);
  }

 private:
  static void Add(std::atomic<int64_t>& used, int64_t amount) {
    if (amount != 0) used.fetch_add(amount, std::memory_order_release);
  }

  static bool TryAdd(std::atomic<int64_t>& used, int64_t amount,
                     int64_t limit) {
    if (amount == 0) return true;
    int64_t now = used.load(std::memory_order_relaxed);
    do {
      if (now > limit - amount) return false;
    } while (!used.compare_exchange_weak(now, now + amount,
                                         std::memory_order_acquire,
                                         std::memory_order_relaxed));
    return true;
  }

  const Room limit_;

  // Each limit is kept by the read-modify-writes of one number. Given back with
  // release and taken with acquire, so that an entry whose room was another's
  // is not seen before that one has gone.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<int64_t> entries_{0};
  std::atomic<int64_t> bytes_{0};
};

// Room that one Set has taken from the budget, or from the entries it removed,
// and not used yet. What is left goes back in the end.
class Claim {
 public:
  explicit Claim(Budget* budget) : budget_(*budget) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() { GiveBack(); }

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

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_BUDGET_H_
