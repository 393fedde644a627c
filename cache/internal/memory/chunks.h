// The memory of an arena: 8-byte granules addressed by 32-bit references.
//
// Granules lie in chunks of 256 MiB, so that an address is a shift, one load
// and one addition. Nothing moves, and nothing is unmapped before the end. A
// chunk is reserved when its first granule comes into use, and made usable a
// huge page at a time: the rest is a reservation of addresses alone.
//
// Huge pages are requested where they take no more than what will be in use
// soon: up to the owner's expectation, if that is 8 MiB or more; and from 32
// MiB on, where that is clearly exceeded.
//
// Next to its granules a chunk has one bit for each, and a Unit for each 64
// KiB, for the owner's use. All of it is zero and costs nothing until it is
// touched.
//
// Threads. At and UnitOf are thread-safe for references that were handed over
// with some synchronization. The others are thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_CHUNKS_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_CHUNKS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/attributes.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class PageRelease;

// A granule's number. 0 is null.
using GranuleRef = uint32_t;

class WHEELCACHE_EXPORT Chunks {
 public:
  using Ref = GranuleRef;

  static constexpr size_t kGranuleBytes = 8;

  // The granules of a huge page, and of a chunk.
  static constexpr uint32_t kHugePage = kHugePageBytes / kGranuleBytes;
  static constexpr int kChunkBits = 25;
  static constexpr uint32_t kChunk = uint32_t{1} << kChunkBits;

  // The granules of a unit, and of one of its 16 pages.
  static constexpr uint32_t kUnit = 1 << 13;
  static constexpr uint32_t kPage = kUnit / 16;

  // One less than 32 bits address: the largest references belong to the wheel,
  // which checks that they do.
  static constexpr uint32_t kMaxChunks = (uint32_t{1} << (32 - kChunkBits)) - 1;
  static constexpr Ref kLastRef = kMaxChunks * kChunk - 1;

  // Chunks whose first `expected_bytes` will probably come into use.
  explicit Chunks(uint64_t expected_bytes = 0)
      : expected_bytes_(expected_bytes) {}
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;
  ~Chunks();

  // The granule, aligned to 8.
  void* At(Ref ref) const {
    // No atomic: the synchronization that handed the reference over handed over
    // this address, too.
    return reinterpret_cast<void*>(bases_[ref >> kChunkBits] +
                                   uint64_t{ref} * kGranuleBytes);
  }

  // The two 32-bit words of a free granule, which is poisoned for
  // AddressSanitizer, but not for these.
  ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS
  uint32_t Load(Ref ref, int word) const {
    return static_cast<const uint32_t*>(At(ref))[word];
  }
  ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS
  void Store(Ref ref, int word, uint32_t value) const {
    static_cast<uint32_t*>(At(ref))[word] = value;
  }

  // The bit of a granule: `mask` of `word`.
  struct Bit {
    uint64_t& word;
    const uint64_t mask;
  };
  Bit BitOf(Ref ref) const {
    auto* const bits =
        static_cast<std::byte*>(At(ref / kChunk * kChunk)) + kChunkBytes;
    const uint32_t granule = ref % kChunk;
    return {reinterpret_cast<uint64_t*>(bits)[granule / 64],
            uint64_t{1} << (granule % 64)};
  }

  // What the owner notes about a unit.
  struct Unit {
    uint16_t free;      // Granules of free blocks that begin or end here.
    uint16_t released;  // A bit for each page that was released.
    bool spanned;       // Whether a free block that began before ends here.
    bool small_pages;   // Whether its huge page was split; of the first unit.
    bool bits_touched;  // Whether the page of its bits was; of the first unit.
    // Relaxed: read without the owner's lock, as a hint.
    std::atomic<bool> condemned;
  };
  Unit& UnitOf(Ref ref) const {
    auto* const units = static_cast<std::byte*>(At(ref / kChunk * kChunk)) +
                        kChunkBytes + kBitBytes;
    return reinterpret_cast<Unit*>(units)[ref % kChunk / kUnit];
  }

  // Makes all granules before `end` usable. Returns false if there is no memory
  // or no reference for them.
  bool Extend(Ref end) {
    while (usable_ < end) {
      if (!ExtendByHugePage()) return false;
    }
    return true;
  }

  // Makes the pages of the bits from `begin` to `last` resident, before they
  // are read and then written. Otherwise the first read would map the system's
  // page of zeros, and the first write would replace it, which interrupts all
  // threads.
  void TouchBits(Ref begin, Ref last) const {
    for (Ref page = begin / kBitsPage; page <= last / kBitsPage; ++page) {
      if (!UnitOf(page * kBitsPage).bits_touched) TouchPage(page * kBitsPage);
    }
  }

  // Adds free pages to those that go back to the system with `release`. They
  // remain usable, with unspecified content. `begin` and `end` count pages.
  // REQUIRES: both are multiples of PagesAtOnce().
  void Release(uint32_t begin, uint32_t end, PageRelease* release);

  // The pages that the system keeps together: 1 where its own have 4 KiB.
  static uint32_t PagesAtOnce();

 private:
  static constexpr size_t kChunkBytes = size_t{kChunk} * kGranuleBytes;
  static constexpr size_t kBitBytes = kChunk / 8;
  static constexpr size_t kUnitBytes = kChunk / kUnit * sizeof(Unit);
  static constexpr size_t kNoteBytes = kBitBytes + kUnitBytes;

  // The granules that have their bits in one page of 4 KiB.
  static constexpr uint32_t kBitsPage = 4096 * 8;

  void TouchPage(Ref first) const;
  bool ExtendByHugePage();
  bool AddChunk();
  bool WantsHugePage(Ref begin) const;

  const uint64_t expected_bytes_;
  Ref usable_ = 0;  // A multiple of kHugePage.

  std::vector<Pages> chunks_;

  // Of each chunk, the address that granule 0 would have, were it in there.
  // Here and not elsewhere: every look at an entry loads one of these, and must
  // not wait for their address.
  std::array<uintptr_t, kMaxChunks> bases_ = {};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_CHUNKS_H_
