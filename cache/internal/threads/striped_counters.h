// Striped event counters: no contention, and no atomic read-modify-write on a
// thread's own stripe.
//
//   enum class Count { kHits, kMisses, kEnd };
//   StripedCounters<Count> counters;
//   counters.Add(Count::kHits);
//   EXPECT_EQ(counters.Sum(Count::kHits), 1);
//
// The counts lie in stripes of their own cache lines. Each of the first 255
// threads has a stripe to itself, which is made when it first counts; all other
// threads share one. A sum reads all stripes.
//
// Threads. Thread-safe. A sum that is taken while other threads count is not of
// one instant.
//
// Errors. None: a thread for whose stripe there is no memory uses the shared
// one.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_STRIPED_COUNTERS_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_STRIPED_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_record.h"

namespace wheelcache::internal {

// Count is an enum class of what is counted, from 0 to kEnd.
template <typename Count>
class StripedCounters {
 public:
  StripedCounters() = default;
  ~StripedCounters();

  StripedCounters(const StripedCounters&) = delete;
  StripedCounters& operator=(const StripedCounters&) = delete;

  // The calling thread's stripe, for those who count more than one event.
  class Mine;
  Mine ForThisThread() { return ForThread(this_thread.index); }

  // The same, given the index of the calling thread, or kSharedThreadIndex if
  // it has none yet.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Mine ForThread(size_t thread);

  // As Mine::Add.
  int64_t Add(Count what, int64_t times = 1) {
    return ForThisThread().Add(what, times);
  }

  int64_t Sum(Count what) const;

 private:
  // The threads with the lowest indices, and those that follow. Room for the
  // latter is made when one of them counts: few caches have so many.
  static constexpr size_t kFew = 31;
  static constexpr size_t kMore = 224;

  // Relaxed: numbers to look at. A thread that takes over another's index sees
  // its counts; see ThreadIndex().
  struct alignas(ABSL_CACHELINE_SIZE) Stripe {
    std::atomic<int64_t>& operator[](Count what) {
      return counts[static_cast<size_t>(what)];
    }
    int64_t Get(Count what) const {
      return counts[static_cast<size_t>(what)].load(std::memory_order_relaxed);
    }
    std::array<std::atomic<int64_t>, static_cast<size_t>(Count::kEnd)> counts =
        {};
  };

  // Stored with release and, to sum, loaded with acquire: a sum sees the zeros
  // that a stripe begins with.
  template <size_t Threads>
  using Stripes = std::array<std::atomic<Stripe*>, Threads>;

  // The stripe of a thread, if it has none yet or is not one of the few; null
  // if it is to use the shared one.
  ABSL_ATTRIBUTE_NOINLINE Stripe* FindOrMakeOwn(size_t thread);
  Stripes<kMore>* FindOrMakeMore();

  template <typename Function>
  void ForEachOwn(Function&& function) const {
    const Stripes<kMore>* const more = more_.load(std::memory_order_acquire);
    for (const auto& own : few_) function(own.load(std::memory_order_acquire));
    if (more == nullptr) return;
    for (const auto& own : *more) function(own.load(std::memory_order_acquire));
  }

  ABSL_ATTRIBUTE_NOINLINE int64_t AddShared(Count what, int64_t times) {
    return times + shared_[what].fetch_add(times, std::memory_order_relaxed);
  }

  Stripes<kFew> few_ = {};
  std::atomic<Stripes<kMore>*> more_{nullptr};
  Stripe shared_;
};

template <typename Count>
class StripedCounters<Count>::Mine {
 public:
  // Counts an event, or several, and returns what the count of the stripe has
  // become. Inlined into each hit.
  ABSL_ATTRIBUTE_ALWAYS_INLINE int64_t Add(Count what, int64_t times = 1) {
    if (ABSL_PREDICT_FALSE(own_ == nullptr)) {
      return counters_.AddShared(what, times);
    }
    // The only writer: nothing can come between load and store.
    std::atomic<int64_t>& count = (*own_)[what];
    const int64_t sum = count.load(std::memory_order_relaxed) + times;
    count.store(sum, std::memory_order_relaxed);
    return sum;
  }

 private:
  friend class StripedCounters;
  Mine(StripedCounters* counters, Stripe* own)
      : counters_(*counters), own_(own) {}

  StripedCounters& counters_;
  Stripe* const own_;  // Null: the shared one.
};

template <typename Count>
StripedCounters<Count>::~StripedCounters() {
  ForEachOwn([](Stripe* stripe) { delete stripe; });
  delete more_.load(std::memory_order_relaxed);
}

template <typename Count>
inline typename StripedCounters<Count>::Mine StripedCounters<Count>::ForThread(
    size_t thread) {
  if (ABSL_PREDICT_TRUE(thread < kFew)) {
    // Relaxed: each stripe is made by the one thread that has the index, or by
    // one that had it before.
    Stripe* const own = few_[thread].load(std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(own != nullptr)) return Mine(this, own);
  }
  return Mine(this, FindOrMakeOwn(thread));
}

template <typename Count>
typename StripedCounters<Count>::Stripe* StripedCounters<Count>::FindOrMakeOwn(
    size_t thread) {
  if (thread == kSharedThreadIndex) thread = ThreadIndex();
  std::atomic<Stripe*>* own = nullptr;
  if (thread < kFew) {
    own = &few_[thread];
  } else if (thread < kFew + kMore) {
    if (Stripes<kMore>* const more = FindOrMakeMore()) {
      own = &(*more)[thread - kFew];
    }
  }
  if (own == nullptr) return nullptr;
  // Of this thread, or of one that had the index before.
  Stripe* stripe = own->load(std::memory_order_relaxed);
  if (stripe == nullptr) {
    stripe = new (std::nothrow) Stripe;
    own->store(stripe, std::memory_order_release);
  }
  return stripe;
}

// Returns the stripes of further threads, or null if there is no memory.
template <typename Count>
auto StripedCounters<Count>::FindOrMakeMore() -> Stripes<kMore>* {
  Stripes<kMore>* more = more_.load(std::memory_order_acquire);
  if (more != nullptr) return more;
  auto* const made = new (std::nothrow) Stripes<kMore>();
  if (made == nullptr) return nullptr;
  if (more_.compare_exchange_strong(more, made, std::memory_order_acq_rel)) {
    return made;
  }
  delete made;  // Another thread has made them meanwhile.
  return more;
}

template <typename Count>
int64_t StripedCounters<Count>::Sum(Count what) const {
  int64_t sum = shared_.Get(what);
  ForEachOwn([&](const Stripe* stripe) {
    if (stripe != nullptr) sum += stripe->Get(what);
  });
  return sum;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_STRIPED_COUNTERS_H_
