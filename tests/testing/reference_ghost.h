// The keys that were evicted lately, and from which list, for the reference
// simulator of the scan-resistant policy.
//
//   ReferenceGhost ghost(capacity);
//   ghost.Add(key, ReferenceGhost::kWindow);
//   ghost.Take(key);  // kWindow
//   ghost.Take(key);  // kNone: a match is removed.
//
// It remembers fingerprints of 16 bits, nine for ten entries of the cache, in
// buckets of eight that are overwritten in turn.
//
// Threads: thread-compatible.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_GHOST_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_GHOST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wheelcache::testing {

// A hash of a number: the finalizer of SplitMix64 (Steele, Lea and Flood,
// 2014).
inline uint64_t ReferenceHash(uint64_t key) {
  key += 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

class ReferenceGhost {
 public:
  enum From : uint8_t { kWindow, kMain, kNone };

  explicit ReferenceGhost(int64_t capacity)
      : buckets_(std::max<int64_t>(1, (capacity * 9 / 10 + 7) / 8)) {}

  void Add(uint64_t key, From from) {
    Bucket& bucket = BucketOf(key);
    Print& print = bucket.prints[bucket.next];
    bucket.next = (bucket.next + 1) % bucket.prints.size();
    if (print.from != kNone) --live_[print.from];
    print = {FingerprintOf(key), from};
    ++live_[from];
  }

  From Take(uint64_t key) {
    for (Print& print : BucketOf(key).prints) {
      if (print.from == kNone || print.value != FingerprintOf(key)) continue;
      const From from = print.from;
      print.from = kNone;
      --live_[from];
      return from;
    }
    return kNone;
  }

  // The fingerprints that were added with this flag and are still there.
  int64_t live(From from) const { return live_[from]; }

 private:
  struct Print {
    uint16_t value = 0;
    From from = kNone;
  };
  struct Bucket {
    std::array<Print, 8> prints;
    size_t next = 0;
  };

  static uint16_t FingerprintOf(uint64_t key) {
    return static_cast<uint16_t>(ReferenceHash(key) >> 48);
  }
  Bucket& BucketOf(uint64_t key) {
    return buckets_[(ReferenceHash(key) & 0xffffffff) % buckets_.size()];
  }

  std::vector<Bucket> buckets_;
  std::array<int64_t, 2> live_ = {};
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_GHOST_H_
