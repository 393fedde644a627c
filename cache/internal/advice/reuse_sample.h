// Estimates what other limits would do for the hit ratio of a cache, from the
// accesses to a sample of its keys.
//
//   ReuseSample sample({/*entries=*/1000, /*bytes=*/kUnlimited}, now);
//   if (hash < sample.threshold()) sample.Read(hash, /*hit=*/false, now);
//   if (hash < sample.threshold()) sample.Store(hash, {charge, deadline}, now);
//   sample.more_hits(ReuseSample::kTwice);  // Than there were.
//
// A key is known by a hash of 32 bits, and sampled if that is below the
// threshold. Each sampled access stands for 1 / rate accesses.
//
// Model. A cache of a size holds a key if the keys used since its last use fit
// besides it. For each of four sizes the sample keeps the deadline that the
// value would have there: a read that would miss, at that size, stores a value
// with the TTL of the last one.
//
// Distances. By chance, the keys of a time have more or fewer than their part
// in the sample. So between two uses of a key the sample compares the
// insertions that the cache has counted with those that its own keys stand for,
// and adds the difference. Whatever comes for the first time, or again after an
// eviction, is counted by that; only the other keys used meanwhile are
// estimated. An insertion whose entry has expired or was deleted does not
// count, so that one key that is stored again and again does not stand for
// many.
//
// Sample size. It begins at the rate at which kSizes times the limits fit. When
// all slots are taken, it forgets removed keys, then keys that the largest size
// would have evicted; if neither gives room, it lowers the threshold by an
// eighth and forgets the keys above. So the rate follows what the cache is
// given, where bytes or nothing limits it, too.
//
// Errors. None: memory is allocated with the object.
//
// Cost. Less than 256 KiB. Each call is O(1), amortized: one in some 250 calls
// that add a key goes through all slots.
//
// Threads. Thread-compatible, except that any thread may read more_hits,
// sampled_misses and misses, and call CountInsertions, meanwhile.

#ifndef WHEELCACHE_CACHE_INTERNAL_ADVICE_REUSE_SAMPLE_H_
#define WHEELCACHE_CACHE_INTERNAL_ADVICE_REUSE_SAMPLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wheelcache/cache/internal/advice/use_ranks.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// An entry that is stored.
struct SampledEntry {
  uint32_t charge;
  int64_t deadline_nanos;  // Clock::kNever for none.
  bool replaces = false;   // An entry that the cache held.
};

class WHEELCACHE_EXPORT ReuseSample {
 public:
  // kUnlimited where there is none.
  struct Limits {
    int64_t entries;
    int64_t bytes;
  };

  // Sizes that hit ratios are estimated for: multiples of the limits.
  enum Size { kHalf, kSame, kTwice, kFourTimes };
  static constexpr size_t kSizes = 4;

  // Why a read missed: the key was not known to be stored; its value's time ran
  // out, it had to make room, or it was deleted.
  enum Cause { kFirstUse, kExpired, kEvicted, kDeleted };
  static constexpr size_t kCauses = 4;

  static constexpr uint32_t kMostKeys = UseRanks::kMostKeys;

  ReuseSample(Limits limits, int64_t now_nanos);
  ReuseSample(const ReuseSample&) = delete;
  ReuseSample& operator=(const ReuseSample&) = delete;

  // Hashes below are sampled, 2^32 for all. Calls with others may follow a
  // change, and do nothing.
  uint64_t threshold() const { return threshold_; }
  double rate() const { return RateOf(threshold_); }
  static double RateOf(uint64_t threshold) {
    return static_cast<double>(threshold) / kAllHashes;
  }

  // The key was read, or stored, given another deadline, or its entry deleted
  // or removed because it had expired. What follows for a key in its order in
  // time follows here in that order.
  void Read(uint32_t hash, bool hit, int64_t now_nanos);
  void Store(uint32_t hash, const SampledEntry& stored, int64_t now_nanos);
  void Delete(uint32_t hash);
  void Expire(uint32_t hash);
  void Touch(uint32_t hash, int64_t deadline_nanos, int64_t now_nanos);

  // A read missed that would have missed with any limits.
  void Refuse(uint32_t hash);

  // The cache has got so many entries more that replace none, sampled or not;
  // or if negative, so many were deleted or removed because they had expired.
  void CountInsertions(int64_t count) {
    insertions_.fetch_add(count, std::memory_order_relaxed);
  }

  // All keys were deleted.
  void DeleteAll();

  // The cache has other limits. The sample begins anew if it would hold less
  // than half of the keys that it could; but not where limits change all the
  // time, for it takes a while until it holds the keys of the cache again.
  void SetLimits(Limits limits);
  void FollowLimits(Limits limits);

  // How many hits more a cache of this size would have had, with the limits
  // that it had at the time; less than zero for fewer.
  double more_hits(Size size) const { return more_hits_[size].Get(); }

  // The misses, as the sample tells them: what more_hits are part of.
  double sampled_misses() const { return sampled_misses_.Get(); }

  // The misses by their cause, since the beginning.
  double misses(Cause cause) const { return misses_[cause].Get(); }

  // The sampled keys.
  uint32_t keys() const { return keys_; }

 private:
  static constexpr double kAllHashes = 4294967296.0;
  static constexpr uint16_t kNone = 0xFFFF;
  static constexpr size_t kBuckets = 2048;

  // With one writer. Relaxed: a number to look at.
  class Sum {
   public:
    double Get() const { return value_.load(std::memory_order_relaxed); }
    void Add(double value) { Set(Get() + value); }
    void Set(double value) { value_.store(value, std::memory_order_relaxed); }

   private:
    std::atomic<double> value_{0};
  };

  // A time, in steps of 17 ms, since the beginning. 0 for a value that is not
  // there.
  using Tick = uint32_t;
  static constexpr Tick kNever = 0xFFFFFFFF;

  static constexpr uint32_t kSlotBits = (1 << 13) - 1;

  struct Key {
    uint32_t hash;
    uint32_t charge;
    Tick ttl;       // From storing, or touching, to the deadline.
    float surplus;  // Surplus() at its last use.
    std::array<Tick, kSizes> deadlines;
    uint16_t place;      // In ranks_; kNone if it was removed.
    uint16_t next : 13;  // In its bucket, or of the free ones; 0 for none.
    uint16_t awaits_load : 1;  // A read has missed since it was stored.
    uint16_t deleted : 1;
    uint16_t used : 1;  // Whether this slot is a key's.

    void SetNext(uint32_t slot) { next = slot & kSlotBits; }
  };
  static_assert(sizeof(Key) == 36);
  static_assert(kMostKeys <= kSlotBits);

  Tick TickOf(int64_t nanos) const;
  uint32_t WeightOf(uint32_t slot) const { return slots_[slot].charge; }
  uint16_t& BucketOf(uint32_t hash) { return buckets_[hash % kBuckets]; }

  // Slots have numbers from 1 on.
  uint32_t Find(uint32_t hash) const;
  uint32_t Add(uint32_t hash);
  void Forget(uint32_t slot);
  void PutInFront(uint32_t slot);
  void Remove(uint32_t slot);  // From ranks_.
  void Renew(Key* key, Tick deadline, Tick now);
  void RecordMiss(Key* key, Tick now);

  // By how many the insertions exceed those that the sampled ones stand for.
  double Surplus() const {
    return static_cast<double>(insertions_.load(std::memory_order_relaxed)) -
           sampled_insertions_;
  }
  // What the sample has missed since the last use of a key, in sampled keys.
  double MissedSince(const Key& key) const {
    return weight_ == 1 ? 0 : (Surplus() - key.surplus) * rate();
  }

  bool HasRoom() const { return free_ != 0; }
  void MakeRoom();
  uint32_t ForgetRemoved();
  uint32_t ForgetOldest();
  void LowerThreshold();
  void SetThreshold(uint64_t threshold);
  void RemoveExpired(Tick now);
  void Restart();

  // The part of the keys to sample under these limits, as a threshold.
  static uint64_t ThresholdFor(const Limits& limits);

  // Whether each size would still hold a key with so many above it, by a quick
  // look; and which would.
  bool AllHold(const Key& key, double above, Tick now) const;
  std::array<bool, kSizes> Holders(const Key& key, double above, Tick now);
  double NextFraction();

  Limits limits_;
  const uint64_t begin_nanos_;
  uint64_t threshold_ = 0;
  double weight_ = 1;  // What an access stands for.
  // What fits into the sample of a cache of each size.
  std::array<double, kSizes> entries_ = {};
  std::array<double, kSizes> bytes_ = {};

  // Relaxed: a few that come too late change nothing.
  std::atomic<int64_t> insertions_{0};
  double sampled_insertions_ = 0;  // Each with the weight of its time.

  double fraction_ = 0;
  std::array<Sum, kSizes> more_hits_;
  Sum sampled_misses_;
  std::array<Sum, kCauses> misses_;

  uint32_t keys_ = 0;
  uint32_t free_ = 0;
  uint32_t hand_ = 1;  // Where RemoveExpired looks next.
  UseRanks ranks_;
  std::array<uint16_t, kBuckets> buckets_ = {};
  std::array<Key, kMostKeys + 1> slots_;
};
static_assert(sizeof(ReuseSample) <= 256 << 10);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ADVICE_REUSE_SAMPLE_H_
