// The sample of a cache's keys that Cache::Advise tells of, for many threads.
//
//   Advisor advisor(/*on=*/true, limits, &clock);
//   advisor.Read(hash, /*hit=*/true);
//
// Off, or without memory for the sample, each call is one comparison.
//
// Which keys are sampled is decided by a hash of the one that the index uses,
// so that each shard, bucket and tag has its part of them. The entries of
// sampled keys bear a mark, which takes a hit out of the path that is inlined;
// see Recency.
//
// Threads. Thread-safe. Its lock is the last: whoever holds a shard's may take
// it. A read never waits for it, and is left out if it is taken. Advise takes
// no lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ADVISOR_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ADVISOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class ReuseSample;
struct SampledEntry;

class WHEELCACHE_EXPORT Advisor {
 public:
  Advisor(bool on, Room limits, const Clock* clock);
  ~Advisor();
  Advisor(const Advisor&) = delete;
  Advisor& operator=(const Advisor&) = delete;

  bool on() const { return sample_ != nullptr; }

  // A key was read. Or it was there, but would have missed with any limits.
  void Read(Hash32 hash, bool hit) {
    if (ABSL_PREDICT_FALSE(on())) ReadIfSampled(hash, hit);
  }
  void Refuse(Hash32 hash) {
    if (ABSL_PREDICT_FALSE(on())) RefuseIfSampled(hash);
  }
  // A key was read, which has given it this deadline.
  void Extend(Hash32 hash, int64_t deadline_nanos) {
    if (ABSL_PREDICT_FALSE(on())) ExtendIfSampled(hash, deadline_nanos);
  }

  // Those that follow come under the lock of the key's shard, and so in their
  // order. `untold` is the shard's own count of insertions, beyond what the
  // sample knows: not each takes the cache line away from other shards.

  // Returns whether the key is sampled, so that its entry is to be marked.
  bool Store(Hash32 hash, const SampledEntry& stored, int64_t* untold) {
    return ABSL_PREDICT_FALSE(on()) && StoreIfSampled(hash, stored, untold);
  }
  void Remove(Hash32 hash, RemovalCause cause, int64_t* untold) {
    if (ABSL_PREDICT_FALSE(on())) RemoveIfSampled(hash, cause, untold);
  }
  void Touch(Hash32 hash, int64_t deadline_nanos) {
    if (ABSL_PREDICT_FALSE(on())) TouchIfSampled(hash, deadline_nanos);
  }
  void DeleteAll();

  // What the cache has counted.
  struct Reads {
    int64_t hits;
    int64_t misses;
  };
  // What is counted until now belongs to other limits.
  void SetLimits(Room limits, Reads until_now);
  // The same, for limits that change all the time: Advise goes on.
  void FollowLimits(Room limits);
  // Nothing if it is off.
  std::optional<CacheAdvice> Advise(Reads now) const;

  // Since the beginning, how many hits other limits would have had more, and
  // the misses that this is part of, as the sample tells them.
  struct MoreHits {
    double half = 0;
    double twice = 0;
    double four_times = 0;
    double misses = 0;
  };
  std::optional<MoreHits> more_hits() const;

 private:
  using Change = absl::FunctionRef<void(uint32_t key)>;

  // Calls `change` under the lock if the key is sampled; the second, only if
  // the lock is free.
  void RecordIfSampled(Hash32 hash, Change change);
  void TryRecordIfSampled(Hash32 hash, Change change);
  void ReadIfSampled(Hash32 hash, bool hit);
  void RefuseIfSampled(Hash32 hash);
  void ExtendIfSampled(Hash32 hash, int64_t deadline_nanos);
  void TouchIfSampled(Hash32 hash, int64_t deadline_nanos);
  bool StoreIfSampled(Hash32 hash, const SampledEntry& stored, int64_t* untold);
  void RemoveIfSampled(Hash32 hash, RemovalCause cause, int64_t* untold);
  void CountInsertion(int by, int64_t* untold);

  // Once a key is not sampled, it never is again until SetLimits.
  bool IsSampled(uint32_t key) const {
    return key < threshold_.load(std::memory_order_relaxed);
  }
  static uint32_t KeyOf(Hash32 hash) {
    constexpr uint64_t kOdd = 0xd1342543de82ef95;
    constexpr uint64_t kOther = 0x2545f4914f6cdd1d;
    return static_cast<uint32_t>(FoldedProduct(hash ^ kOdd, kOther) >> 32);
  }
  int64_t Now() const { return clock_.CoarseNowNanos(); }

  const Clock& clock_;

  // Null if it is off. Changed under mu_, except by CountInsertions.
  const std::unique_ptr<ReuseSample> sample_;

  // That of the sample; a hint for those without the lock.
  std::atomic<uint64_t> threshold_{0};

  // What was counted at the last SetLimits. Relaxed: numbers to look at.
  std::atomic<int64_t> hits_before_{0};
  std::atomic<int64_t> misses_before_{0};
  std::atomic<double> half_before_{0};
  std::atomic<double> twice_before_{0};
  std::atomic<double> four_times_before_{0};
  std::atomic<double> sampled_misses_before_{0};

  Mutex mu_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ADVISOR_H_
