#include "wheelcache/cache/internal/memory/block_heap.h"

#include <cassert>

#include "absl/numeric/bits.h"

namespace wheelcache::internal {

// Above the exact bins: the highest bit and the five below it.
int BlockHeap::BinOf(uint32_t granules) {
  if (granules < kExactBins) return static_cast<int>(granules);
  const int width = static_cast<int>(absl::bit_width(granules));
  const int step = static_cast<int>(granules >> (width - 6)) % kBinsPerDoubling;
  return static_cast<int>(kExactBins) + (width - 7) * kBinsPerDoubling + step;
}

auto BlockHeap::Take(uint32_t granules) -> Ref {
  assert(granules >= 2 && granules <= kMaxBlock);
  const Ref ref = FindFit(granules);
  if (ref == 0) return 0;
  const uint32_t size = Size(ref);
  Remove(ref, size);
  if (size > granules) Insert(ref + granules, size - granules);
  return ref;
}

auto BlockHeap::FindFit(uint32_t granules) const -> Ref {
  const int bin = BinOf(granules);
  Ref ref = bins_[bin];
  for (int looks = 0; ref != 0 && looks < kLooks; ++looks) {
    if (Size(ref) >= granules) return ref;
    ref = Next(ref);
  }
  const int larger = FirstBin(bin + 1);
  return larger == kBins ? 0 : bins_[larger];
}

int BlockHeap::FirstBin(int from) const {
  size_t word = static_cast<size_t>(from) / 64;
  if (word == occupied_.size()) return kBins;
  uint64_t bits = occupied_[word] & (~uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == occupied_.size()) return kBins;
    bits = occupied_[word];
  }
  return static_cast<int>(word) * 64 + absl::countr_zero(bits);
}

auto BlockHeap::Carve(uint32_t granules) -> Ref {
  assert(granules >= 2 && granules <= kMaxBlock);
  // Blocks lie in one chunk. The last granule of a chunk stays unused, so that
  // blocks of different chunks are not coalesced.
  const Ref last = carved_ | (Chunks::kChunk - 1);
  const bool fits = last - carved_ >= granules;
  const Ref ref = fits ? carved_ : last + 1;
  chunks_.Extend(ref + granules);
  if (!fits && sizes_ == Sizes::kMany && carved_ != last) {
    Give(carved_, last - carved_);
  }
  carved_ = ref + granules;
  return ref;
}

void BlockHeap::Give(Ref ref, uint32_t granules) {
  if (sizes_ == Sizes::kOne) {
    Insert(ref, granules);
    return;
  }
  Ref begin = ref;
  Ref end = ref + granules;
  if (IsEdge(ref - 1)) {
    begin -= SizeBefore(ref);
    Remove(begin, ref - begin);
  }
  if (IsEdge(end)) {
    const uint32_t behind = Size(end);
    Remove(end, behind);
    end += behind;
  }
  Insert(begin, end - begin);
  if (HasMuchFree()) Release(ref, ref + granules, begin, end);
}

// Keeps both ends of the free block, which hold its size and links.
void BlockHeap::Release(Ref given, Ref given_end, Ref begin, Ref end) {
  for (Ref unit = given / kMaxBlock * kMaxBlock; unit < given_end;
       unit += kMaxBlock) {
    if (begin + 2 <= unit && unit + kMaxBlock < end) {
      chunks_.Release(unit, kMaxBlock);
    }
  }
}

void BlockHeap::Insert(Ref ref, uint32_t granules) {
  free_granules_ += granules;
  chunks_.Store(ref, 0, granules);
  chunks_.Store(ref + granules - 1, 1, granules);
  if (sizes_ == Sizes::kMany) MarkEdges(ref, granules);
  if (granules == 1) return;
  const auto bin = static_cast<size_t>(BinOf(granules));
  const Ref next = bins_[bin];
  SetNext(ref, next);
  SetPrevious(ref, 0);
  if (next != 0) SetPrevious(next, ref);
  bins_[bin] = ref;
  occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void BlockHeap::Remove(Ref ref, uint32_t granules) {
  free_granules_ -= granules;
  if (sizes_ == Sizes::kMany) ClearEdges(ref, granules);
  if (granules == 1) return;
  const Ref next = Next(ref);
  const Ref previous = Previous(ref);
  if (next != 0) SetPrevious(next, previous);
  if (previous != 0) {
    SetNext(previous, next);
    return;
  }
  const auto bin = static_cast<size_t>(BinOf(granules));
  bins_[bin] = next;
  if (next == 0) occupied_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

void BlockHeap::MarkEdges(Ref ref, uint32_t granules) {
  const Chunks::Bit first = chunks_.BitOf(ref);
  first.word |= first.mask;
  const Chunks::Bit last = chunks_.BitOf(ref + granules - 1);
  last.word |= last.mask;
}

void BlockHeap::ClearEdges(Ref ref, uint32_t granules) {
  const Chunks::Bit first = chunks_.BitOf(ref);
  first.word &= ~first.mask;
  const Chunks::Bit last = chunks_.BitOf(ref + granules - 1);
  last.word &= ~last.mask;
}

absl::Status BlockHeap::CheckInvariants() const {
  uint64_t binned = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    const bool occupied = (occupied_[bin / 64] >> (bin % 64) & 1) != 0;
    if (occupied != (bins_[bin] != 0)) {
      return absl::InternalError("a bin is wrongly marked as occupied, or not");
    }
    Ref previous = 0;
    for (Ref ref = bins_[bin]; ref != 0; previous = ref, ref = Next(ref)) {
      const uint32_t size = Size(ref);
      binned += size;
      if (BinOf(size) != bin || SizeBefore(ref + size) != size) {
        return absl::InternalError("a free block has lost its size");
      }
      if (Previous(ref) != previous) {
        return absl::InternalError("a free block has lost its list");
      }
      if (sizes_ == Sizes::kOne) continue;
      if (!IsEdge(ref) || !IsEdge(ref + size - 1)) {
        return absl::InternalError("a free block is not marked");
      }
      if (IsEdge(ref - 1) || IsEdge(ref + size)) {
        return absl::InternalError("two free neighbours are two blocks");
      }
    }
  }
  if (binned > free_granules_) {
    return absl::InternalError("more is in the bins than is free");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
