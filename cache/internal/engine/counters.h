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
#include "wheelcache/cache/internal/threads/thread_index.h"

namespace wheelcache::internal {

enum class Count {
  kHits,
  kMisses,
  kStamped,  // Hits that gave an entry a new stamp.
  kSets,
  kExpired,  // From here on in the order of RemovalCause.
  kEvicted,
  kDeleted,
  kReplaced,
  kListenerExceptions,
};

class Counters {
 public:
  Counters() = default;
  ~Counters();

  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Adds 1, and returns what the count of the thread's stripe has become.
  int64_t Add(Count what) {
    const size_t thread = ThreadIndex();
    if (ABSL_PREDICT_FALSE(thread >= kOwnStripes)) return AddShared(what);
    // Relaxed: each stripe is made by the one thread that has the index, or by
    // one that had it before.
    Stripe* const stripe = own_[thread].load(std::memory_order_relaxed);
    if (ABSL_PREDICT_FALSE(stripe == nullptr)) return AddFirst(thread, what);
    // The only writer: nothing can come between load and store.
    std::atomic<int64_t>& count = stripe->counts[static_cast<size_t>(what)];
    const int64_t sum = count.load(std::memory_order_relaxed) + 1;
    count.store(sum, std::memory_order_relaxed);
    return sum;
  }

  int64_t Sum(Count what) const;

 private:
  static constexpr size_t kOwnStripes = 31;
  static constexpr size_t kCounts =
      static_cast<size_t>(Count::kListenerExceptions) + 1;

  // Relaxed: numbers to look at. A thread that takes over another's index sees
  // its counts; see ThreadIndex().
  struct alignas(ABSL_CACHELINE_SIZE) Stripe {
    std::array<std::atomic<int64_t>, kCounts> counts = {};
  };

  ABSL_ATTRIBUTE_NOINLINE int64_t AddShared(Count what);
  ABSL_ATTRIBUTE_NOINLINE int64_t AddFirst(size_t thread, Count what);

  // Stored with release and, to sum, loaded with acquire: a sum sees the zeros
  // that a stripe begins with.
  std::array<std::atomic<Stripe*>, kOwnStripes> own_ = {};
  Stripe shared_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
