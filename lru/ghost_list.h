// Remembers which elements have left a cache lately, and which of two parts of
// it they left: two bytes for each.
//
//   std::vector<wheelcache::GhostList::Bucket> buckets(
//       wheelcache::GhostList::BucketsFor(900));
//   wheelcache::GhostList ghosts(buckets.data(), buckets.size());
//   ghosts.Add(hash, wheelcache::GhostList::kFirst);
//   ghosts.Take(hash);  // kFirst: it came back.
//   ghosts.Take(hash);  // kNone: a ghost is taken once.
//
// Structure. A hash table of buckets with eight fingerprints each, of which the
// latest pushes out the earliest.
//
// Guarantees. What was added is found, once, until eight others have come into
// its bucket. One of 4,000 elements that were not added is taken for another
// one.
//
// Cost. Every method is O(1) and touches one cache line. Nothing is allocated.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_LRU_GHOST_LIST_H_
#define WHEELCACHE_LRU_GHOST_LIST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

class GhostList {
 public:
  // The part of the cache that an element has left.
  enum Part { kFirst = 0, kSecond = 1, kNone = 2 };

  // Fingerprints, the latest first, and behind them 0 for none. The lowest bit
  // is the Part.
  struct alignas(16) Bucket {
    std::array<uint16_t, 8> words;
  };

  // The buckets for so many elements.
  static uint64_t BucketsFor(uint64_t elements) { return elements / 8 + 1; }

  // A list in zeroed buckets, at least one, which must outlive it.
  GhostList(Bucket* buckets, uint64_t count)
      : buckets_(buckets), most_(count), count_(count) {}

  GhostList(const GhostList&) = delete;
  GhostList& operator=(const GhostList&) = delete;

  // Sets the number of elements to remember. Forgets most if it has changed by
  // more than a quarter.
  void Fit(uint64_t elements) {
    const uint64_t needed = std::min(BucketsFor(elements), most_);
    if (needed * 4 > count_ * 5 || needed * 5 < count_ * 4) Resize(needed);
  }

  // Adds the element with this hash.
  void Add(uint32_t hash, Part left) {
    const Place place = PlaceOf(hash);
    std::array<uint16_t, 8>& words = place.bucket->words;
    if (words.back() != 0) Forget(words.back());
    std::copy_backward(words.begin(), words.end() - 1, words.end());
    words.front() = static_cast<uint16_t>(place.word | left);
    ++sizes_[left];
  }

  // Removes the element with this hash. Returns the part that it has left, or
  // kNone if it is not here.
  Part Take(uint32_t hash) {
    const Place place = PlaceOf(hash);
    std::array<uint16_t, 8>& words = place.bucket->words;
    const auto found =
        std::find_if(words.begin(), words.end(),
                     [&](uint16_t word) { return (word & ~1) == place.word; });
    if (found == words.end()) return kNone;
    const uint16_t word = *found;
    std::copy(found + 1, words.end(), found);
    words.back() = 0;
    Forget(word);
    return PartOf(word);
  }

  // How many elements that left this part are remembered.
  int64_t size(Part left) const { return sizes_[left]; }

  // The cache line that Add and Take will touch.
  const void* LineOf(uint32_t hash) const { return PlaceOf(hash).bucket; }

  // The buckets in use.
  uint64_t buckets() const { return count_; }

 private:
  // Where an element is remembered, and its fingerprint, without the Part and
  // never 0.
  struct Place {
    Bucket* bucket;
    uint16_t word;
  };
  Place PlaceOf(uint32_t hash) const {
    // Each half of the product depends on all bits of the hash. The upper one
    // chooses the bucket, the lower one is the fingerprint.
    const uint64_t product = (uint64_t{hash} + 1) * 0x9e3779b97f4a7c15;
    const uint64_t mixed = product ^ (product >> 32);
    const auto word = static_cast<uint16_t>(mixed & 0xfffe);
    return {&buckets_[((mixed >> 32) * count_) >> 32],
            std::max(word, uint16_t{2})};
  }
  static Part PartOf(uint16_t word) { return static_cast<Part>(word & 1); }

  // Not below zero: what was left in buckets out of use may come back.
  void Forget(uint16_t word) {
    int64_t& size = sizes_[PartOf(word)];
    size = std::max<int64_t>(size - 1, 0);
  }

  void Resize(uint64_t count) {
    for (int64_t& size : sizes_) {
      if (count < count_) {
        size =
            size * static_cast<int64_t>(count) / static_cast<int64_t>(count_);
      }
    }
    count_ = count;
  }

  Bucket* const buckets_;
  const uint64_t most_;
  uint64_t count_;  // In use.
  std::array<int64_t, 2> sizes_ = {};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_LRU_GHOST_LIST_H_
