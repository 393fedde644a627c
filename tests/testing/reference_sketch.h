// Approximate counts of keys, for the reference simulator of the scan-resistant
// policy: a counting sketch of 4-bit counters that ages.
//
//   ReferenceSketch sketch(capacity);
//   sketch.Increment(key);
//   int count = sketch.Count(key);  // From 0 to 15.
//
// A key has four counters in one block of 128, which are 64 bytes; its count is
// the least of them. After ten increments for each entry of the capacity, all
// counters are halved.
//
// Threads: thread-compatible.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_SKETCH_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_SKETCH_H_

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

class ReferenceSketch {
 public:
  // For a cache of so many entries: 8 bytes each, up to a power of two.
  explicit ReferenceSketch(int64_t capacity) : period_(10 * capacity) {
    while (static_cast<int64_t>(blocks_) * 64 < 8 * capacity) blocks_ *= 2;
    counters_.resize(blocks_ * kCounters);
  }

  int Count(uint64_t key) const {
    int count = kMost;
    for (const size_t place : PlacesOf(key)) {
      count = std::min<int>(count, counters_[place]);
    }
    return count;
  }

  void Increment(uint64_t key) {
    for (const size_t place : PlacesOf(key)) {
      if (counters_[place] < kMost) ++counters_[place];
    }
    if (++increments_ < period_) return;
    increments_ = 0;
    for (uint8_t& counter : counters_) counter /= 2;
  }

 private:
  static constexpr size_t kCounters = 128;  // Of a block.
  static constexpr int kMost = 15;

  // One in each quarter of the key's block.
  std::array<size_t, 4> PlacesOf(uint64_t key) const {
    const uint64_t hash = ReferenceHash(key);
    const uint64_t within = ReferenceHash(hash);
    const size_t block = (hash >> 32) & (blocks_ - 1);
    std::array<size_t, 4> places;
    for (size_t i = 0; i < 4; ++i) {
      places[i] = block * kCounters + 32 * i + ((within >> (8 * i)) & 31);
    }
    return places;
  }

  const int64_t period_;
  size_t blocks_ = 1;
  std::vector<uint8_t> counters_;
  int64_t increments_ = 0;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_SKETCH_H_
