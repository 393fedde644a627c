// The order in which keys were last used, with the rank of each: how many keys,
// and how much weight, were used later.
//
//   UseRanks ranks;
//   const uint32_t first = ranks.Push(/*slot=*/7, /*weight=*/100);
//   ranks.Push(/*slot=*/8, /*weight=*/50);
//   ranks.CountAbove(first);  // 1
//
// A key is known by its slot, a number that the owner chooses. Each use takes
// the next free place; what is set in the places above is what was used later.
// When no place is left, Pack moves all keys to the first places.
//
// Cost. CountAbove adds up some 20 counts. Pack is O(kPlaces), once in as many
// pushes as places were free after the last one.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_ADVICE_USE_RANKS_H_
#define WHEELCACHE_CACHE_INTERNAL_ADVICE_USE_RANKS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT UseRanks {
 public:
  static constexpr uint32_t kMostKeys = 4096;
  static constexpr uint32_t kPlaces = 2 * kMostKeys;

  using WeightOf = absl::FunctionRef<uint32_t(uint32_t slot)>;

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  uint64_t weight() const { return weight_; }

  // Whether Push has no place left.
  bool full() const { return next_ == kPlaces; }

  // Puts a key above all others, and returns its place.
  // REQUIRES: !full(), and there are fewer than kMostKeys.
  uint32_t Push(uint32_t slot, uint32_t weight);

  // Takes out the key at a place, which has this weight.
  void Remove(uint32_t place, uint32_t weight);

  // How many keys were used after the one at this place; and their weight.
  uint32_t CountAbove(uint32_t place) const;
  uint64_t WeightAbove(uint32_t place, WeightOf weight_of) const;

  // The slot of the key that was used longest ago. REQUIRES: !empty().
  uint32_t Oldest() const;

  // Moves all keys to the first places, in their order, and calls
  // `moved(slot, place)` for each.
  void Pack(absl::FunctionRef<void(uint32_t slot, uint32_t place)> moved,
            WeightOf weight_of);

  void Clear();

 private:
  static constexpr size_t kWords = kPlaces / 64;
  static constexpr size_t kWordsPerGroup = 8;
  static constexpr size_t kGroups = kWords / kWordsPerGroup;
  static_assert(kPlaces % (64 * kWordsPerGroup) == 0);

  // What is above the word or group; up to its end.
  struct Sum {
    uint64_t weight = 0;
    uint32_t count = 0;
  };

  std::array<uint64_t, kWords> taken_ = {};  // A bit for each place.
  std::array<Sum, kWords> words_ = {};
  std::array<Sum, kGroups> groups_ = {};
  std::array<uint16_t, kPlaces> slots_ = {};
  uint32_t next_ = 0;
  uint32_t size_ = 0;
  uint64_t weight_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ADVICE_USE_RANKS_H_
