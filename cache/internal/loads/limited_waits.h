// The callers of BeginLoad that wait for a load no longer than a limit.
//
//   const auto id = waits.Add(deadline_nanos, {placeholder, number});
//   while (auto late = waits.TakeLate(now_nanos)) Tell(*late);
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_LIMITED_WAITS_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_LIMITED_WAITS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT LimitedWaits {
 public:
  using Id = std::pair<int64_t, uint64_t>;  // The end of the wait comes first.
  struct Wait {
    EntryRef placeholder;
    uint64_t number;  // Among those who wait for the load.
  };

  LimitedWaits() = default;
  LimitedWaits(const LimitedWaits&) = delete;
  LimitedWaits& operator=(const LimitedWaits&) = delete;

  // Adds one that ends then. May throw std::bad_alloc.
  Id Add(int64_t deadline_nanos, Wait wait);

  // Takes one out. Returns its placeholder, or null if it is gone already.
  EntryRef Remove(Id id);

  // Takes out one that ends now or has ended, if there is one.
  std::optional<Wait> TakeLate(int64_t now_nanos);

  // When the next one ends. Takes no lock.
  int64_t due_nanos() const { return due_.load(std::memory_order_seq_cst); }

 private:
  void UpdateDueLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<Id, Wait> waits_ ABSL_GUARDED_BY(mu_);
  std::atomic<int64_t> due_{Clock::kNever};  // Written under mu_.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_LIMITED_WAITS_H_
