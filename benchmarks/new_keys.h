// Hands out keys that are not in the cache, to any number of threads.
//
//   NewKeys keys(threads);
//   NewKeys::Taken taken = keys.Take(thread);
//   cache.Set(taken.key.view(), ...);  // taken.oldest is the victim, or gone.
//
// The keys form a ring of four times the capacity, made before the measurement.
// Threads take batches of the ring from a shared counter, so a key is reused
// only after about three times the capacity of other keys since its eviction,
// however unevenly the threads advance.

#ifndef WHEELCACHE_BENCHMARKS_NEW_KEYS_H_
#define WHEELCACHE_BENCHMARKS_NEW_KEYS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "wheelcache/benchmarks/workload.h"

namespace wheelcache::benchmarks {

class NewKeys {
 public:
  struct Taken {
    const Key& key;
    const Key& oldest;  // With one thread: taken kCapacity keys before.
  };

  explicit NewKeys(int threads) : threads_(threads) {
    ring_.reserve(kRing);
    for (size_t i = 0; i < kRing; ++i) ring_.push_back(MakeKey(i));
  }

  // The keys to fill the cache with before the first Take, oldest first.
  const Key& Initial(int64_t i) const {
    return ring_[kRing - kCapacity + static_cast<size_t>(i)];
  }

  Taken Take(int thread) {
    Batch& batch = threads_[thread].batch;
    if (batch.next == batch.end) batch = NextBatch();
    const size_t i = batch.next++;
    return {ring_[i],
            ring_[i < kCapacity ? i + kRing - kCapacity : i - kCapacity]};
  }

 private:
  static constexpr size_t kBatch = 4096;
  static constexpr size_t kRing = 1000 * kBatch;
  static_assert(kRing >= 4 * kCapacity);

  struct Batch {
    size_t next = 0;
    size_t end = 0;
  };
  struct alignas(64) Thread {
    Batch batch;
  };

  Batch NextBatch() {
    const size_t begin = next_batch_.fetch_add(1) * kBatch % kRing;
    return {begin, begin + kBatch};
  }

  std::vector<Key> ring_;
  std::vector<Thread> threads_;
  std::atomic<size_t> next_batch_{0};
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_NEW_KEYS_H_
