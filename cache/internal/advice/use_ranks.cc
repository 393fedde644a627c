#include "wheelcache/cache/internal/advice/use_ranks.h"

#include <cassert>

#include "absl/numeric/bits.h"

namespace wheelcache::internal {

uint32_t UseRanks::Push(uint32_t slot, uint32_t weight) {
  assert(!full() && size_ < kMostKeys);
  const uint32_t place = next_++;
  slots_[place] = static_cast<uint16_t>(slot);
  const size_t word = place / 64;
  taken_[word] |= uint64_t{1} << (place % 64);
  for (Sum* sum : {&words_[word], &groups_[word / kWordsPerGroup]}) {
    ++sum->count;
    sum->weight += weight;
  }
  ++size_;
  weight_ += weight;
  return place;
}

void UseRanks::Remove(uint32_t place, uint32_t weight) {
  const size_t word = place / 64;
  assert((taken_[word] >> (place % 64) & 1) != 0);
  taken_[word] &= ~(uint64_t{1} << (place % 64));
  for (Sum* sum : {&words_[word], &groups_[word / kWordsPerGroup]}) {
    --sum->count;
    sum->weight -= weight;
  }
  --size_;
  weight_ -= weight;
}

uint32_t UseRanks::CountAbove(uint32_t place) const {
  const size_t word = place / 64;
  const size_t group = word / kWordsPerGroup;
  // In two steps: a shift by 64 is undefined.
  auto count =
      static_cast<uint32_t>(absl::popcount(taken_[word] >> (place % 64) >> 1));
  for (size_t i = word + 1; i < (group + 1) * kWordsPerGroup; ++i) {
    count += words_[i].count;
  }
  for (size_t i = group + 1; i < kGroups; ++i) count += groups_[i].count;
  return count;
}

uint64_t UseRanks::WeightAbove(uint32_t place, WeightOf weight_of) const {
  const size_t word = place / 64;
  const size_t group = word / kWordsPerGroup;
  uint64_t weight = 0;
  const uint64_t above = taken_[word] >> (place % 64) >> 1;
  for (uint64_t bits = above; bits != 0; bits &= bits - 1) {
    const uint32_t at =
        place + 1 + static_cast<uint32_t>(absl::countr_zero(bits));
    weight += weight_of(slots_[at]);
  }
  for (size_t i = word + 1; i < (group + 1) * kWordsPerGroup; ++i) {
    weight += words_[i].weight;
  }
  for (size_t i = group + 1; i < kGroups; ++i) weight += groups_[i].weight;
  return weight;
}

uint32_t UseRanks::Oldest() const {
  assert(!empty());
  size_t word = 0;
  while (taken_[word] == 0) ++word;
  return slots_[word * 64 +
                static_cast<size_t>(absl::countr_zero(taken_[word]))];
}

void UseRanks::Pack(
    absl::FunctionRef<void(uint32_t slot, uint32_t place)> moved,
    WeightOf weight_of) {
  uint32_t keys = 0;
  for (size_t word = 0; word < kWords; ++word) {
    for (uint64_t bits = taken_[word]; bits != 0; bits &= bits - 1) {
      slots_[keys++] =
          slots_[word * 64 + static_cast<size_t>(absl::countr_zero(bits))];
    }
  }
  Clear();
  for (uint32_t i = 0; i < keys; ++i) {
    const uint32_t slot = slots_[i];
    moved(slot, Push(slot, weight_of(slot)));
  }
}

void UseRanks::Clear() {
  taken_.fill(0);
  words_.fill({});
  groups_.fill({});
  next_ = 0;
  size_ = 0;
  weight_ = 0;
}

}  // namespace wheelcache::internal
