// Hands out keys that have never been in the cache, to any number of threads.
//
//   NewKeys keys(threads);
//   NewKeys::Taken taken = keys.Take(thread);
//   cache.Set(taken.key.view(), ...);  // taken.oldest is the victim, or gone.
//
// The keys form a ring of four times the capacity, made before the measurement.
// Threads take batches of the ring from a shared counter, and a batch gets
// other keys each time: a policy that is not LRU may keep an entry for ever,
// and a key that comes again may be known.

#ifndef WHEELCACHE_BENCHMARKS_NEW_KEYS_H_
#define WHEELCACHE_BENCHMARKS_NEW_KEYS_H_

#include <array>
#include <atomic>
#include <cassert>
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
  static constexpr size_t kRing = (kMeasures ? 1000 : 10) * kBatch;
  static_assert(kRing >= 4 * kCapacity);
  static constexpr size_t kMarks = 4;  // Digits that a round changes.

  struct Batch {
    size_t next = 0;
    size_t end = 0;
  };
  struct alignas(64) Thread {
    Batch batch;
  };

  Batch NextBatch() {
    const size_t batch = next_batch_.fetch_add(1);
    const size_t begin = batch * kBatch % kRing;
    Renew(begin, batch * kBatch / kRing);
    return {begin, begin + kBatch};
  }

  // Gives the batch other keys than in all earlier rounds.
  void Renew(size_t begin, size_t round) {
    assert(round + 1 < size_t{1} << (2 * kMarks));
    std::array<char, kMarks> changes;
    for (size_t i = 0; i < kMarks; ++i) {
      changes[i] = static_cast<char>(Mark(round, i) ^ Mark(round + 1, i));
    }
    for (size_t k = begin; k < begin + kBatch; ++k) {
      char* const last = ring_[k].bytes.data() + Key::kBytes - kMarks;
      for (size_t i = 0; i < kMarks; ++i) {
        last[i] = static_cast<char>(last[i] ^ changes[i]);
      }
    }
  }

  // Two bits of the number of a round, as bits 4 and 7 of a hexadecimal digit:
  // whichever are changed, different digits stay different.
  static unsigned Mark(size_t round, size_t i) {
    const auto bits = static_cast<unsigned>(round >> (2 * i));
    return (bits & 1) << 4 | (bits & 2) << 6;
  }

  std::vector<Key> ring_;
  std::vector<Thread> threads_;
  std::atomic<size_t> next_batch_{0};
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_NEW_KEYS_H_
