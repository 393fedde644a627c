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
// Next to its granules a chunk has one bit for each, for the owner's use. Fresh
// memory and bits are zero and cost nothing until they are touched.
//
// Threads. At is thread-safe for references that were handed over with some
// synchronization. The others are thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_CHUNKS_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_CHUNKS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

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

  // Makes all granules before `end` usable. Throws std::bad_alloc, or ends a
  // program without exceptions, if there is no memory or no reference for them.
  void Extend(Ref end) {
    while (usable_ < end) ExtendByHugePage();
  }

  // Gives the memory of free granules back to the system. They remain usable,
  // with unspecified content.
  // REQUIRES: both numbers are multiples of a page's granules.
  void Release(Ref ref, uint32_t granules);

 private:
  static constexpr size_t kChunkBytes = size_t{kChunk} * kGranuleBytes;
  static constexpr size_t kBitBytes = kChunk / 8;

  void ExtendByHugePage();
  void AddChunk();
  bool WantsHugePage(Ref begin) const;

  const uint64_t expected_bytes_;
  Ref usable_ = 0;  // A multiple of kHugePage.

  // The chunks that are mapped, and of each the address that granule 0 would
  // have, were it in there. Here and not elsewhere: every look at an entry
  // loads one of these, and must not wait for their address.
  uint32_t count_ = 0;
  std::array<uintptr_t, kMaxChunks> bases_ = {};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_CHUNKS_H_
