// Remembers which elements have left a cache lately, and which of two parts of
// it they left: a fingerprint of four bytes for each.
//
//   std::vector<wheelcache::GhostList::Bucket> buckets(
//       wheelcache::GhostList::BucketsFor(250));
//   wheelcache::GhostList ghosts(buckets.data(), buckets.size());
//   ghosts.Add(hash, wheelcache::GhostList::kFirst);
//   ghosts.Take(hash);  // kFirst: it came back.
//   ghosts.Take(hash);  // kNone: a ghost is taken once.
//
// Structure. A hash table of buckets with eight fingerprints each, of which the
// latest pushes out the earliest.
//
// Guarantees. What was added is found, once, until eight others have come into
// its bucket. One element is taken for another with a chance of about the
// number of ghosts in 2^32.
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
#include <cstring>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

class GhostList {
 public:
  // The part of the cache that an element has left.
  enum Part { kFirst = 0, kSecond = 1, kNone = 2 };

  // Fingerprints, the latest first, and behind them 0 for none. The lowest bit
  // is the Part.
  struct alignas(32) Bucket {
    std::array<uint32_t, 8> words;
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
    std::array<uint32_t, 8>& words = BucketOf(hash)->words;
    if (words[7] != 0) Forget(words[7]);
    // In two halves, which compilers move without a call or a loop.
    std::memmove(&words[4], &words[3], 4 * sizeof(words[0]));
    std::memmove(&words[1], &words[0], 4 * sizeof(words[0]));
    words[0] = WordOf(hash) | static_cast<uint32_t>(left);
    ++sizes_[left];
  }

  // Whether the element with this hash is here. Cheaper than Take, for callers
  // that mostly ask for elements that are not.
  bool Has(uint32_t hash) const {
    const uint32_t sought = WordOf(hash);
    uint32_t found = 0;  // Without branches: all words are compared at once.
    for (const uint32_t word : BucketOf(hash)->words) {
      found |= (word & ~uint32_t{1}) == sought ? ~uint32_t{0} : 0;
    }
    return found != 0;
  }

  // Removes the element with this hash. Returns the part that it has left, or
  // kNone if it is not here.
  Part Take(uint32_t hash) {
    std::array<uint32_t, 8>& words = BucketOf(hash)->words;
    const uint32_t sought = WordOf(hash);
    const auto found = std::find_if(
        words.begin(), words.end(),
        [sought](uint32_t word) { return (word & ~uint32_t{1}) == sought; });
    if (found == words.end()) return kNone;
    const uint32_t word = *found;
    std::copy(found + 1, words.end(), found);
    words.back() = 0;
    Forget(word);
    return PartOf(word);
  }

  // How many elements that left this part are remembered.
  int64_t size(Part left) const { return sizes_[left]; }

  // The cache line that Add and Take will touch.
  const void* LineOf(uint32_t hash) const { return BucketOf(hash); }

  // The buckets in use.
  uint64_t buckets() const { return count_; }

 private:
  // Never 0.
  static uint32_t WordOf(uint32_t hash) {
    return std::max(hash & ~uint32_t{1}, uint32_t{2});
  }
  static Part PartOf(uint32_t word) { return static_cast<Part>(word & 1); }

  Bucket* BucketOf(uint32_t hash) const {
    // The low half depends on all bits of the hash, and does not follow their
    // order.
    const auto mixed =
        static_cast<uint32_t>((uint64_t{hash} * 0x9e3779b97f4a7c15) >> 29);
    return &buckets_[(uint64_t{mixed} * count_) >> 32];
  }

  // Not below zero: what was left in buckets out of use may come back.
  void Forget(uint32_t word) {
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
