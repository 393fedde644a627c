// Striped event counters: no contention, and no atomic read-modify-write on a
// thread's own stripe.
//
// The counts lie in stripes of their own cache lines. A thread with a small
// index has a stripe to itself, which is made when it first counts; all other
// threads share one. A sum reads all stripes.
//
// Threads. Thread-safe. A sum that is taken while other threads count is not of
// one instant.
//
// Errors. None: a thread for whose stripe there is no memory uses the shared
// one.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

enum class Count {
  kHits,
  kMisses,
  kStamped,  // Hits that gave an entry a new stamp.
  kSets,
  kExpired,  // From here on in the order of RemovalCause.
  kEvicted,  // Unused: EvictionRecord counts evictions.
  kDeleted,
  kReplaced,
  kListenerExceptions,
  kRefused,
  kLoads,
  kLoadErrors,
  kSupersededLoads,
  kLoadNanos,
  kLoadWaits,
  kStaleHits,
  kRefreshes,
  kEnd,  // No count.
};

class WHEELCACHE_EXPORT Counters {
 public:
  Counters() = default;
  ~Counters();

  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // The calling thread's stripe, for those who count more than one event.
  class Mine;
  Mine ForThisThread();

  // The same, given the index of the calling thread, or kSharedThreadIndex if
  // it has none yet.
  Mine ForThread(size_t thread);

  // As Mine::Add, for one event.
  int64_t Add(Count what);

  int64_t Sum(Count what) const;

 private:
  static constexpr size_t kOwnStripes = 31;
  static constexpr size_t kCounts = static_cast<size_t>(Count::kEnd);

  // Relaxed: numbers to look at. A thread that takes over another's index sees
  // its counts; see ThreadIndex().
  struct alignas(ABSL_CACHELINE_SIZE) Stripe {
    std::array<std::atomic<int64_t>, kCounts> counts = {};
  };

  // The stripe of a thread that has none yet; null if it is to use the shared
  // one.
  ABSL_ATTRIBUTE_NOINLINE Stripe* MakeOwn(size_t thread);

  ABSL_ATTRIBUTE_NOINLINE int64_t AddShared(Count what, int64_t times);

  // Stored with release and, to sum, loaded with acquire: a sum sees the zeros
  // that a stripe begins with.
  std::array<std::atomic<Stripe*>, kOwnStripes> own_ = {};
  Stripe shared_;
};

class Counters::Mine {
 public:
  // Counts an event, or several, and returns what the count of the stripe has
  // become.
  int64_t Add(Count what, int64_t times = 1) {
    if (ABSL_PREDICT_FALSE(own_ == nullptr)) {
      return counters_.AddShared(what, times);
    }
    // The only writer: nothing can come between load and store.
    std::atomic<int64_t>& count = own_->counts[static_cast<size_t>(what)];
    const int64_t sum = count.load(std::memory_order_relaxed) + times;
    count.store(sum, std::memory_order_relaxed);
    return sum;
  }

 private:
  friend class Counters;
  Mine(Counters* counters, Stripe* own) : counters_(*counters), own_(own) {}

  Counters& counters_;
  Stripe* const own_;  // Null: the shared one.
};

inline Counters::Mine Counters::ForThread(size_t thread) {
  if (ABSL_PREDICT_TRUE(thread < kOwnStripes)) {
    // Relaxed: each stripe is made by the one thread that has the index, or by
    // one that had it before.
    Stripe* const own = own_[thread].load(std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(own != nullptr)) return Mine(this, own);
  }
  return Mine(this, MakeOwn(thread));
}

inline Counters::Mine Counters::ForThisThread() {
  return ForThread(this_thread.index);
}

inline int64_t Counters::Add(Count what) { return ForThisThread().Add(what); }

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
