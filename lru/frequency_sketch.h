// Estimates how often each of many elements occurred lately, in 8 bytes an
// element.
//
//   std::vector<wheelcache::FrequencySketch::Block> blocks(
//       wheelcache::FrequencySketch::BlocksFor(1'000));
//   wheelcache::FrequencySketch sketch(blocks.data(), blocks.size());
//   sketch.Fit(1'000);       // The elements whose frequencies matter.
//   sketch.Increment(hash);  // Of an element that occurs.
//   uint32_t frequency = sketch.Frequency(hash);
//
// Structure. A count-min sketch (Cormode and Muthukrishnan, 2005) of 4-bit
// counters. An element has four counters in one cache line, and its frequency
// is the least of them, up to 15. After ten increments for each element all
// counters are halved, a line with each increment, so that what was frequent
// long ago is forgotten.
//
// Guarantees. A frequency is never less than the increments since the last
// halving, up to 15. It may be more, where elements share all four counters
// with others.
//
// Cost. Every method is O(1) and touches one cache line; Increment touches a
// second one, in sequence, while counters are halved. Nothing is allocated.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_LRU_FREQUENCY_SKETCH_H_
#define WHEELCACHE_LRU_FREQUENCY_SKETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/numeric/bits.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

class FrequencySketch {
 public:
  // A cache line: four groups of 32 counters, two words each.
  struct alignas(64) Block {
    uint64_t words[8];
  };

  static constexpr uint32_t kMostFrequency = 15;

  // The blocks of a sketch for so many elements: a power of two.
  static uint64_t BlocksFor(uint64_t elements) {
    constexpr uint64_t kElementsPerBlock = 8;
    const uint64_t blocks =
        (elements + kElementsPerBlock - 1) / kElementsPerBlock;
    return absl::bit_ceil(std::max<uint64_t>(blocks, 1));
  }

  // A sketch in zeroed blocks, which must outlive it.
  // REQUIRES: their number is a power of two, at most 2^32.
  FrequencySketch(Block* blocks, uint64_t count)
      : blocks_(blocks), most_(count), count_(count) {}

  FrequencySketch(const FrequencySketch&) = delete;
  FrequencySketch& operator=(const FrequencySketch&) = delete;

  // Sets the number of elements whose frequencies matter. Uses as few of the
  // blocks as those need; some frequencies are forgotten where that changes.
  void Fit(uint64_t elements) {
    elements_ = std::max<uint64_t>(elements, 1);
    const uint64_t needed = std::min(BlocksFor(elements_), most_);
    // Not for a number that goes back and forth about a power of two.
    if (needed > count_ || needed < count_ / 2) Resize(needed);
  }

  // Adds an occurrence of the element with this hash.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Increment(uint32_t hash) {
    const Place place = PlaceOf(hash);
    IncrementOne(CounterOf(place, 0));
    IncrementOne(CounterOf(place, 1));
    IncrementOne(CounterOf(place, 2));
    IncrementOne(CounterOf(place, 3));
    ForgetKept(place.block);
    if (++increments_ >= 10 * elements_) {
      increments_ = 0;
      to_halve_ = count_;
    }
    if (to_halve_ > 0) Halve(&blocks_[--to_halve_]);
  }

  // As Frequency, of an element that is asked for many times in a row: its
  // frequency is kept until its cache line changes.
  uint32_t KeepFrequency(uint32_t hash) {
    if (kept_.block == nullptr || kept_.hash != hash) {
      kept_ = {PlaceOf(hash).block, hash, Frequency(hash)};
    }
    return kept_.frequency;
  }

  // How often the element with this hash occurred, and has not been forgotten.
  uint32_t Frequency(uint32_t hash) const {
    const Place place = PlaceOf(hash);
    const uint32_t a = LesserOf(CounterOf(place, 0), CounterOf(place, 1));
    const uint32_t b = LesserOf(CounterOf(place, 2), CounterOf(place, 3));
    return a < b ? a : b;
  }

  // As Frequency, if that is more than `most`. Otherwise some number from the
  // frequency to `most`; mostly at less cost.
  uint32_t FrequencyBeyond(uint32_t most, uint32_t hash) const {
    const Place place = PlaceOf(hash);
    const uint32_t a = LesserOf(CounterOf(place, 0), CounterOf(place, 1));
    if (ABSL_PREDICT_TRUE(a <= most)) return a;
    const uint32_t b = LesserOf(CounterOf(place, 2), CounterOf(place, 3));
    return a < b ? a : b;
  }

  // The cache line that both will touch.
  const void* LineOf(uint32_t hash) const { return PlaceOf(hash).block; }

  // The blocks in use.
  uint64_t blocks() const { return count_; }

 private:
  static constexpr uint32_t kGroupBits = 5;  // Of the number of a counter.

  struct Place {
    Block* block;
    uint64_t bits;  // kGroupBits for each group.
  };
  struct Counter {
    uint64_t* word;
    int shift;
  };

  Place PlaceOf(uint32_t hash) const {
    // Each half of the product has what the other lacks.
    const uint64_t product = (uint64_t{hash} + 1) * 0x9e3779b97f4a7c15;
    const uint64_t mixed = product ^ (product >> 32);
    return {&blocks_[(mixed >> 32) & (count_ - 1)], mixed};
  }

  static Counter CounterOf(Place place, uint32_t group) {
    const uint64_t number = place.bits >> (kGroupBits * group);
    return {&place.block->words[uint64_t{2} * group + (number >> 4 & 1)],
            static_cast<int>(number * 4 % 64)};
  }

  static uint32_t Count(Counter counter) {
    return static_cast<uint32_t>(*counter.word >> counter.shift) &
           kMostFrequency;
  }
  // By value: std::min would put both into memory.
  static uint32_t LesserOf(Counter one, Counter other) {
    const uint32_t a = Count(one);
    const uint32_t b = Count(other);
    return a < b ? a : b;
  }
  // Rotates the counter to the lowest bits, where it is incremented unless that
  // would make it zero.
  static void IncrementOne(Counter counter) {
    const uint64_t rotated = absl::rotr(*counter.word, counter.shift);
    const uint64_t more = rotated + 1;
    *counter.word = absl::rotl((more & kMostFrequency) != 0 ? more : rotated,
                               counter.shift);
  }

  void ForgetKept(const Block* changed) {
    if (changed == kept_.block) kept_.block = nullptr;
  }

  void Halve(Block* block) {
    ForgetKept(block);
    constexpr uint64_t kThreeBits = 0x7777777777777777;
    for (uint64_t& word : block->words) word = (word >> 1) & kThreeBits;
  }

  void Resize(uint64_t count) {
    count_ = count;
    to_halve_ = std::min(to_halve_, count);
    increments_ = 0;
    kept_.block = nullptr;
  }

  Block* const blocks_;
  const uint64_t most_;
  uint64_t count_;  // In use: a power of two.
  uint64_t elements_ = 1;
  uint64_t increments_ = 0;  // Since the last halving began.
  uint64_t to_halve_ = 0;    // The blocks before this one.
  // What KeepFrequency returned last; of no block if that has changed.
  struct {
    const Block* block;
    uint32_t hash;
    uint32_t frequency;
  } kept_ = {};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_LRU_FREQUENCY_SKETCH_H_
