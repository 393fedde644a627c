// The memory under an arena: 8-byte granules addressed by 32-bit references.
//
// Granules lie in chunks, each twice as large as all before it and one more
// first chunk, so that a few pointers address them all and an address is a
// count of leading zeros, one load and one addition. Nothing moves, and
// nothing is unmapped before the end.
//
// Huge pages are asked for where they take no more than what will be in use
// soon: beyond the first 8 MiB as far as the owner expects to need memory, and
// beyond 64 MiB everywhere.
//
// Beside its granules a chunk has one bit for each, for the use of who manages
// them. Fresh memory and bits are zero and cost nothing until they are touched.
//
// Threads. At is thread-safe for references that were handed over with some
// synchronization. The rest is thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_CHUNKS_H_
#define WHEELCACHE_CACHE_INTERNAL_CHUNKS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/numeric/bits.h"
#include "wheelcache/cache/internal/huge_pages.h"

namespace wheelcache {
namespace internal {

// A granule's number. 0 is null.
using GranuleRef = uint32_t;

class Chunks {
 public:
  using Ref = GranuleRef;

  static constexpr size_t kGranuleBytes = 8;

  // 15 chunks, of which the last ends 131072 references before the largest:
  // the top 2816 are the wheel's.
  static constexpr int kMaxChunks = 15;

  // The granules of a page, and of a huge one.
  static constexpr uint32_t kPage = (4 << 10) / kGranuleBytes;
  static constexpr uint32_t kHugePage = kHugePageBytes / kGranuleBytes;

  // Chunks that will be in use up to `expected_bytes`, as far as is known.
  explicit Chunks(uint64_t expected_bytes = 0)
      : expected_bytes_(expected_bytes) {}
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;
  ~Chunks();

  // The granule, aligned to 8.
  void* At(Ref ref) const {
    const uint32_t place = ref + kFirstChunk;
    // Relaxed is enough: whoever handed us the reference got it after the
    // chunk was there.
    return reinterpret_cast<void*>(
        bases_[ChunkOf(place)].granules.load(std::memory_order_relaxed) +
        uint64_t{place} * kGranuleBytes);
  }

  // The two 32-bit words of a granule that is in nobody's use. AddressSanitizer
  // takes free memory for poisoned, but not for these.
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
    const uint32_t place = ref + kFirstChunk;
    const uintptr_t word =
        bases_[ChunkOf(place)].bits + uintptr_t{place / 64} * 8;
    return {*reinterpret_cast<uint64_t*>(word), uint64_t{1} << (place % 64)};
  }

  // Maps one more chunk. Throws std::bad_alloc, or ends a program without
  // exceptions, if there is no memory or no number for it.
  void Add();

  int count() const { return count_; }
  // The references of a chunk.
  static Ref Begin(int chunk) { return (kFirstChunk << chunk) - kFirstChunk; }
  static Ref End(int chunk) { return Begin(chunk + 1); }

  // Gives the memory of granules in nobody's use back to the system. They read
  // as anything, and may be used again.
  // REQUIRES: both numbers are multiples of kPage.
  void Release(Ref ref, uint32_t granules);

  // Tells that the memory from `begin` to `end`, of one chunk, will be used for
  // the first time. REQUIRES: all of the chunk before that has been used.
  void BeginUse(Ref begin, Ref end) const;

 private:
  static constexpr int kFirstChunkBits = 18;
  static constexpr uint32_t kFirstChunk = 1 << (kFirstChunkBits - 1);  // 1 MiB.

  // The address that granule 0 or bit 0 would have, were it in this chunk. The
  // first is read without a lock. Relaxed: what handed the reference over, to
  // whoever asks for it, has handed over the address that was there before it.
  struct Bases {
    std::atomic<uintptr_t> granules{0};
    uintptr_t bits = 0;
  };

  // Of a place that is not 0, which none is.
  static uint32_t ChunkOf(uint32_t place) {
    // 31 - zeros, in the form that x86 need not compute.
    const auto zeros = static_cast<uint32_t>(absl::countl_zero(place | 1));
    return (31 ^ zeros) - (kFirstChunkBits - 1);
  }
  static size_t Bytes(int chunk) {
    return size_t{kFirstChunk} * kGranuleBytes << chunk;
  }
  static size_t BitBytes(int chunk) { return size_t{kFirstChunk} / 8 << chunk; }

  bool UsesHugePage(uint32_t page) const;

  const uint64_t expected_bytes_;
  std::array<Bases, kMaxChunks> bases_;
  int count_ = 0;
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_CHUNKS_H_
