// Sliding expiry: when an entry ends that is used, with CacheOptions::idle_ttl.
//
//   constexpr IdleTtl idle(/*nanos=*/60'000'000'000);
//   int64_t deadline = idle.DeadlineAfterUse(now, hard_deadline);
//   if (!idle.IsFresh(deadline, later)) ...  // A use is to extend it.
//
// The deadline of an entry, which every hit reads, is the earlier one of its
// hard deadline, which lies elsewhere, and of idle_ttl after its last use.
// Uses within a 16th of idle_ttl after the last extension do not extend it
// again, so that most hits write nothing. Deadlines may come that much early.
//
// Extension. An idle deadline is even: a hit may replace it by a later one,
// with a compare-and-swap and without a lock. An odd deadline is final. A hard
// one is final; and whoever finds that an idle deadline has passed, under the
// lock of the shard, makes it final, one nanosecond earlier, before anybody is
// told. A hit whose clock reading is older then fails to extend it, and is a
// miss.
//
// Touch changes the hard deadline under the lock, while a hit may be about to
// extend the other by the old one. It stores the new one first, reads the clock
// then, and replaces the deadline last; a hit reads the deadline, the clock,
// and then the hard deadline. So a hit with the old hard deadline has an older
// reading of the clock, and the deadline that it would replace is earlier than
// any idle one that Touch gives: its compare-and-swap fails.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_IDLE_TTL_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_IDLE_TTL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class IdleTtl {
 public:
  // At least a microsecond, or Clock::kNever for none.
  explicit constexpr IdleTtl(int64_t nanos) : nanos_(nanos) {}

  constexpr bool on() const { return nanos_ != Clock::kNever; }

  // What an entry takes for its hard deadline.
  constexpr size_t entry_bytes() const { return on() ? 8 : 0; }

  // How long before its deadline an entry is not extended again; 0 for none.
  constexpr int64_t fresh_nanos() const {
    return on() ? nanos_ - nanos_ / 16 : 0;
  }

  // Whether a use at this time leaves the deadline as it is. REQUIRES: on().
  constexpr bool IsFresh(int64_t deadline, int64_t now_nanos) const {
    return IsFinal(deadline) ||
           deadline >= Clock::NanosAfter(now_nanos, fresh_nanos());
  }

  // The deadline of an entry that is used at this time. It is finite, so that
  // all these entries are in the wheel, or the hard one. REQUIRES: on().
  constexpr int64_t DeadlineAfterUse(int64_t now_nanos,
                                     int64_t hard_deadline) const {
    const int64_t idle =
        std::min(Clock::NanosAfter(now_nanos, nanos_), Clock::kNever - 1) &
        ~int64_t{1};
    return hard_deadline <= idle ? Final(hard_deadline) : idle;
  }

  // When an entry was used that ends at this time for want of another use.
  // REQUIRES: on().
  constexpr int64_t UseBefore(int64_t deadline) const {
    constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
    return deadline < kFirst + nanos_ ? kFirst : deadline - nanos_;
  }

  static constexpr bool IsFinal(int64_t deadline) {
    return (deadline & 1) != 0;
  }
  // The last final one up to this deadline.
  static constexpr int64_t Final(int64_t deadline) {
    constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
    return (std::max(deadline, kFirst + 1) - 1) | 1;
  }

 private:
  int64_t nanos_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_IDLE_TTL_H_
