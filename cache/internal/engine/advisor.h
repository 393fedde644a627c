// The sample of a cache's keys that Cache::Advise tells of, for many threads.
//
//   if (shared.advisor != nullptr) shared.advisor->Read(hash, /*hit=*/true);
//
// Which keys are sampled is decided by a hash of the one that the index uses,
// so that each shard, bucket and tag has its part of them. The entries of
// sampled keys bear a mark, which takes a hit out of the way that is inlined;
// see Recency.
//
// Threads. Thread-safe. Its lock is the last: whoever holds a shard's may take
// it. A read never waits for it, and is left out if it is taken. Advise takes
// no lock.
//
// fork(). The child goes on with the sample, unless another thread was at it.
//
// Errors. None. Without memory for it there is no advisor.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ADVISOR_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ADVISOR_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/advice/reuse_sample.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Advisor {
 public:
  // Null if there is no memory for it.
  static std::unique_ptr<Advisor> Make(Room limits, const Clock* clock);

  Advisor(Room limits, const Clock* clock);
  Advisor(const Advisor&) = delete;
  Advisor& operator=(const Advisor&) = delete;

  // Whether the key with this hash is sampled. Once not, never again until
  // SetLimits.
  bool Samples(Hash32 hash) const { return IsSampled(Mix(hash)); }

  // Of a key that is sampled; of others, nothing happens. Stores, deletions and
  // touches come under the lock of the key's shard, and so in their order.
  void Read(Hash32 hash, bool hit);
  void Refuse(Hash32 hash);
  void Store(Hash32 hash, ReuseSample::Stored stored);
  void Delete(Hash32 hash);
  void Expire(Hash32 hash);
  void Touch(Hash32 hash, int64_t deadline_nanos);
  void DeleteAll();

  // See ReuseSample. Of all keys. Whoever counts tells so many at a time, so
  // that not each takes the cache line away from other threads.
  void CountInsertions(int64_t count) { sample_.CountInsertions(count); }
  static constexpr int64_t kStride = 16;

  // What the cache has counted.
  struct Reads {
    int64_t hits;
    int64_t misses;
  };
  // What is counted until now belongs to other limits.
  void SetLimits(Room limits, Reads until_now);
  CacheAdvice Advise(Reads now) const;

  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  void AfterForkInChild() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockInChild(); }

 private:
  bool IsSampled(uint32_t mixed) const {
    return mixed < threshold_.load(std::memory_order_relaxed);
  }
  static uint32_t Mix(Hash32 hash) {
    constexpr uint64_t kOdd = 0xd1342543de82ef95;
    constexpr uint64_t kOther = 0x2545f4914f6cdd1d;
    return static_cast<uint32_t>(FoldedProduct(hash ^ kOdd, kOther) >> 32);
  }
  void ShowThreshold() {
    threshold_.store(sample_.threshold(), std::memory_order_relaxed);
  }

  const Clock& clock_;

  // That of the sample; a hint for those without the lock.
  std::atomic<uint64_t> threshold_;

  // What was counted at the last SetLimits. Relaxed: numbers to look at.
  std::atomic<int64_t> hits_before_{0};
  std::atomic<int64_t> misses_before_{0};

  Mutex mu_;
  ReuseSample sample_;  // Changed under mu_, except by CountInsertions.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ADVISOR_H_
