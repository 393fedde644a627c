#include "wheelcache/cache/internal/memory/block_heap.h"

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "wheelcache/cache/internal/memory/page_release.h"

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
  // The rest has its size and links at its beginning.
  UseAgain(ref, ref + granules + std::min<uint32_t>(size - granules, 2));
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
  if (!chunks_.Extend(ref + granules)) return 0;
  if (!fits && carved_ != last) Give(carved_, last - carved_);
  carved_ = ref + granules;
  return ref;
}

void BlockHeap::Give(Ref ref, uint32_t granules) {
  Ref begin = ref;
  Ref end = ref + granules;
  chunks_.TouchBits(ref - 1, end);
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
  if (HasSurplus() || IsCondemned(ref)) {
    Release(ref, ref + granules, begin, end);
  }
}

void BlockHeap::Release(Ref given, Ref given_end, Ref begin, Ref end) {
  PageRelease release;
  const uint32_t first = FirstPage(begin);
  const uint32_t last = EndPage(end);
  if (given_end - given >= kLarge) {
    // The neighbours kept the pages of their links and sizes until now.
    ReleasePages(std::max(first, SystemPageBegin((given - 1) / kPage)),
                 std::min(last, SystemPageEnd((given_end + 1) / kPage)),
                 &release);
    return;
  }
  for (Ref region = given / kRegion * kRegion; region < given_end;
       region += kRegion) {
    if (begin > region || end < region + kRegion) continue;
    const uint32_t page = region / kPage;
    ReleasePages(std::max(first, page), std::min(last, page + kRegion / kPage),
                 &release);
  }
}

int BlockHeap::ReleasePages(uint32_t begin, uint32_t end,
                            PageRelease* release) {
  const uint32_t at_once = pages_at_once_;
  const auto is_resident = [&](uint32_t page) {
    return (chunks_.UnitOf(page * kPage).released >> page % 16 & 1) == 0;
  };
  begin = (begin + at_once - 1) / at_once * at_once;
  end = end / at_once * at_once;
  while (begin < end && !is_resident(begin)) begin += at_once;
  while (begin < end && !is_resident(end - 1)) end -= at_once;
  if (begin >= end) return 0;
  MarkReleased(begin, end);
  // One range, also for pages between that were released before: that costs
  // less than another range.
  chunks_.Release(begin, end, release);
  ++releases_;
  return 1;
}

void BlockHeap::MarkReleased(uint32_t begin, uint32_t end) {
  ForEachUnitOf(begin, end, [this](Chunks::Unit& unit, uint32_t mask) {
    const uint32_t more = mask & ~uint32_t{unit.released};
    released_ += uint64_t{kPage} * static_cast<uint64_t>(absl::popcount(more));
    unit.released = static_cast<uint16_t>(unit.released | mask);
  });
}

void BlockHeap::UsePagesAgain(uint32_t begin, uint32_t end) {
  // The system's own pages become resident as a whole.
  begin = SystemPageBegin(begin);
  end = SystemPageEnd(end - 1);
  ForEachUnitOf(begin, end, [this](Chunks::Unit& unit, uint32_t mask) {
    const uint32_t less = mask & unit.released;
    released_ -= uint64_t{kPage} * static_cast<uint64_t>(absl::popcount(less));
    unit.released = static_cast<uint16_t>(unit.released & ~mask);
  });
}

// Calls `visit(unit, mask)` for each unit with some of these pages.
template <typename Visit>
void BlockHeap::ForEachUnitOf(uint32_t begin, uint32_t end, Visit visit) {
  while (begin < end) {
    const uint32_t unit_end = std::min(begin / 16 * 16 + 16, end);
    visit(chunks_.UnitOf(begin * kPage), ((1u << (unit_end - begin)) - 1)
                                             << begin % 16);
    begin = unit_end;
  }
}

void BlockHeap::ReleaseLarge(int most_ranges) {
  PageRelease release;
  for (int bin = kBins - 1; bin >= BinOf(kLarge); --bin) {
    for (Ref ref = bins_[bin]; ref != 0; ref = Next(ref)) {
      if (most_ranges <= 0 || !HasSurplus()) return;
      most_ranges -=
          ReleasePages(FirstPage(ref), EndPage(ref + Size(ref)), &release);
    }
  }
}

bool BlockHeap::Condemn() {
  const bool all = std::exchange(round_required_, false);
  const Sparse sparse = all ? Sparse{0, ~uint32_t{0}} : FindSparse();
  idle_before_ = idle();
  uint32_t left = sparse.units_of_least;
  bool any = false;
  // Otherwise not the last unit, which is still being carved.
  const Ref end = all && !untouched() ? carved_ + kUnit - 1 : carved_;
  for (Ref unit = 0; unit + kUnit <= end; unit += kUnit) {
    const uint32_t step = IdleIn(chunks_.UnitOf(unit)) / kStep;
    if (step < sparse.least_step) continue;
    if (step == sparse.least_step) {
      if (left == 0) continue;
      --left;
    }
    CondemnUnit(unit);
    any = true;
  }
  if (!any) GiveUp();
  return any;
}

void BlockHeap::GiveUp() {
  constexpr uint64_t kFew = 1 << 17;  // 1 MiB.
  // What has become free since the round began, no round has tried to change.
  hopeless_ = std::min(idle(), idle_before_) + in_use() / 64 + kFew;
  hopeless_in_use_ = in_use();
}

// The sparsest units, until their idle memory would be enough, or a 32nd of all
// that is in use would have to move.
auto BlockHeap::FindSparse() const -> Sparse {
  std::array<uint32_t, kUnit / kStep + 1> units = {};
  for (Ref unit = 0; unit + kUnit <= carved_; unit += kUnit) {
    ++units[IdleIn(chunks_.UnitOf(unit)) / kStep];
  }
  const uint64_t enough = idle() - std::min(idle(), in_use() / 24);
  const uint64_t most = std::max<uint64_t>(in_use() / 32, 1 << 17);
  uint64_t gained = 0;
  uint64_t moved = 0;
  // A unit with less than a fifth of idle memory is not worth it: evictions and
  // deletions will make it sparser.
  for (uint32_t step = kUnit / kStep; step >= kUnit / kStep / 5; --step) {
    for (uint32_t i = 0; i < units[step]; ++i) {
      if (gained >= enough || moved >= most) return {step, i};
      const uint32_t gain = step * kStep;
      gained += gain;
      moved += kUnit - gain;
    }
  }
  return {kUnit / kStep / 5, units[kUnit / kStep / 5]};
}

uint32_t BlockHeap::IdleIn(const Chunks::Unit& unit) {
  const auto released = static_cast<uint32_t>(absl::popcount(unit.released));
  return unit.free - std::min<uint32_t>(unit.free, released * kPage);
}

void BlockHeap::CondemnUnit(Ref unit) {
  ForEachFreeIn(unit, [&](Ref ref, uint32_t granules) {
    if (granules > 1) Unlink(ref, granules);
  });
  chunks_.UnitOf(unit).condemned.store(true, std::memory_order_relaxed);
}

bool BlockHeap::Pardon(int most_ranges) {
  PageRelease release;
  for (Ref& unit = next_to_pardon_; unit < carved_; unit += kUnit) {
    if (!IsCondemned(unit)) continue;
    if (most_ranges <= 0) return false;
    chunks_.UnitOf(unit).condemned.store(false, std::memory_order_relaxed);
    if (const Ref end = EndOfFreeOver(unit); end != 0) {
      most_ranges -= ReleasePages(FirstPage(end - SizeBefore(end)),
                                  EndPage(end), &release);
    }
    ForEachFreeIn(unit, [&](Ref ref, uint32_t granules) {
      most_ranges -=
          ReleasePages(FirstPage(ref), EndPage(ref + granules), &release);
      if (granules > 1) Link(ref, granules);
    });
  }
  next_to_pardon_ = 0;
  hopeless_ = 0;
  hopeless_in_use_ = 0;
  if (idle() > idle_before_ - idle_before_ / 16) GiveUp();
  return true;
}

template <typename Visit>
void BlockHeap::ForEachFreeIn(Ref unit, Visit&& visit) const {
  const Ref end = std::min(unit + kUnit, carved_);
  Ref ref = NextEdge(std::max(unit, kFirstBlock), end);
  if (chunks_.UnitOf(unit).spanned) ref = NextEdge(ref + 1, end);
  while (ref < end) {
    const uint32_t granules = Size(ref);
    visit(ref, granules);
    ref = NextEdge(ref + granules, end);
  }
}

// The end of the free block that began before the unit and has pages in it that
// are resident, or 0.
auto BlockHeap::EndOfFreeOver(Ref unit) const -> Ref {
  constexpr uint16_t kAll = 0xffff;
  if (chunks_.UnitOf(unit).released == kAll) return 0;
  const Ref edge = NextEdge(std::max(unit, kFirstBlock), carved_);
  // It is the first edge of its unit.
  if (edge == carved_ || !chunks_.UnitOf(edge).spanned) return 0;
  return edge + 1;
}

auto BlockHeap::NextEdge(Ref from, Ref end) const -> Ref {
  for (Ref ref = from; ref < end; ref = (ref | 63) + 1) {
    const Chunks::Bit bit = chunks_.BitOf(ref);
    const uint64_t edges = bit.word & ~(bit.mask - 1);
    if (edges == 0) continue;
    const Ref edge = ref / 64 * 64 + static_cast<Ref>(absl::countr_zero(edges));
    return std::min(edge, end);
  }
  return end;
}

void BlockHeap::Insert(Ref ref, uint32_t granules) {
  free_granules_ += granules;
  chunks_.Store(ref, 0, granules);
  chunks_.Store(ref + granules - 1, 1, granules);
  MarkEdges(ref, granules);
  CountInUnits(ref, granules, /*free=*/true);
  if (granules > 1 && !IsCondemned(ref)) Link(ref, granules);
}

void BlockHeap::Remove(Ref ref, uint32_t granules) {
  free_granules_ -= granules;
  ClearEdges(ref, granules);
  CountInUnits(ref, granules, /*free=*/false);
  if (granules > 1 && !IsCondemned(ref)) Unlink(ref, granules);
}

void BlockHeap::CountInUnits(Ref ref, uint32_t granules, bool free) {
  const auto count = [free](Chunks::Unit& unit, uint32_t amount) {
    unit.free =
        static_cast<uint16_t>(free ? unit.free + amount : unit.free - amount);
  };
  const Ref last = ref + granules - 1;
  Chunks::Unit& first_unit = chunks_.UnitOf(ref);
  if (ref / kUnit == last / kUnit) {
    count(first_unit, granules);
    return;
  }
  Chunks::Unit& last_unit = chunks_.UnitOf(last);
  count(first_unit, kUnit - ref % kUnit);
  count(last_unit, last % kUnit + 1);
  last_unit.spanned = free;
}

void BlockHeap::Link(Ref ref, uint32_t granules) {
  const auto bin = static_cast<size_t>(BinOf(granules));
  const Ref next = bins_[bin];
  SetNext(ref, next);
  SetPrevious(ref, 0);
  if (next != 0) SetPrevious(next, ref);
  bins_[bin] = ref;
  occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void BlockHeap::Unlink(Ref ref, uint32_t granules) {
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
  if (auto status = CheckBins(); !status.ok()) return status;
  return untouched() ? absl::OkStatus() : CheckUnits();
}

absl::Status BlockHeap::CheckBins() const {
  for (int bin = 0; bin < kBins; ++bin) {
    const uint64_t word = occupied_[static_cast<size_t>(bin / 64)];
    const bool occupied = (word >> (bin % 64) & 1) != 0;
    if (occupied != (bins_[bin] != 0)) {
      return absl::InternalError("a bin is wrongly marked as occupied, or not");
    }
    Ref previous = 0;
    for (Ref ref = bins_[bin]; ref != 0; previous = ref, ref = Next(ref)) {
      const uint32_t size = Size(ref);
      if (BinOf(size) != bin || SizeBefore(ref + size) != size) {
        return absl::InternalError("a free block has lost its size");
      }
      if (Previous(ref) != previous) {
        return absl::InternalError("a free block has lost its list");
      }
      if (IsCondemned(ref)) {
        return absl::InternalError("a condemned block is in a bin");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status BlockHeap::CheckUnits() const {
  uint64_t free = 0;
  uint64_t marked = 0;  // As released.
  uint64_t released = 0;
  uint64_t binned = 0;
  Ref last_end = 0;  // Of the free block before.
  std::vector<uint32_t> counts(carved_ / kUnit + 2);
  std::vector<bool> spanned(counts.size());
  absl::Status status;
  for (Ref unit = 0; unit < carved_; unit += kUnit) {
    marked +=
        uint64_t{kPage} *
        static_cast<uint64_t>(absl::popcount(chunks_.UnitOf(unit).released));
    ForEachFreeIn(unit, [&](Ref ref, uint32_t granules) {
      const Ref end = ref + granules;
      if (!IsEdge(ref) || !IsEdge(end - 1)) {
        status = absl::InternalError("a free block is not marked");
      }
      if (ref == last_end) {
        status = absl::InternalError("two free neighbours are two blocks");
      }
      last_end = end;
      free += granules;
      if (granules > 1 && !IsCondemned(ref)) binned += granules;
      const Ref last_unit = (end - 1) / kUnit;
      if (last_unit == unit / kUnit) {
        counts[last_unit] += granules;
      } else {
        counts[unit / kUnit] += unit + kUnit - ref;
        counts[last_unit] += end - last_unit * kUnit;
        spanned[last_unit] = true;
      }
      for (uint32_t p = FirstPage(ref); p < EndPage(end); ++p) {
        const bool is = chunks_.UnitOf(p * kPage).released >> p % 16 & 1;
        if (is) released += kPage;
      }
    });
    if (!status.ok()) return status;
  }
  if (free != free_granules_) {
    return absl::InternalError("more or less is free than was counted");
  }
  if (marked != released) {
    return absl::InternalError("a page was released that is not free");
  }
  if (marked != released_) {
    return absl::InternalError("more or less is released than was counted");
  }
  for (Ref unit = 0; unit < carved_; unit += kUnit) {
    if (chunks_.UnitOf(unit).free != counts[unit / kUnit] ||
        chunks_.UnitOf(unit).spanned != spanned[unit / kUnit]) {
      return absl::InternalError("a unit has lost count of its free blocks");
    }
  }
  for (int bin = 0; bin < kBins; ++bin) {
    for (Ref ref = bins_[bin]; ref != 0; ref = Next(ref)) binned -= Size(ref);
  }
  if (binned != 0) {
    return absl::InternalError("a free block is in no bin");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
