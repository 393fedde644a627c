// A hash table of fixed size, which maps hash and key to an entry's reference.
// cache/internal/index/index.h, which owns it, replaces it by a larger one.
//
// An array of buckets, each one cache line: twelve one-byte tags, twelve 32-bit
// references, and for each of eight classes of hashes the count of entries that
// passed on to another bucket because this one was full, its overflow count. A
// look-up compares all tags of its home bucket at once, calls `match` for the
// few references whose tag agrees, and goes on only if an entry of its class
// did. So a look-up, hit or miss, nearly always reads one cache line here; a
// hit reads the entry besides.
//
// An overflowing entry tries a second bucket, chosen by its whole hash, and
// then those that follow: a full bucket fills others evenly, not its
// neighbours.
//
// Keys are not stored: `match(ref)` tells whether the entry has the key. Hashes
// are not stored either.
//
// Threads. One thread at a time may change the table. Look-ups run concurrently
// without a lock, in a ReadSection: an entry never moves, and its reference is
// written after its tag, and shows the entry to all readers at once.
//
// Errors. A Hash that gives another value for a key than before, so that an
// entry is not where it must be, ends the program with a message: the entry
// could never be removed.
//
// Cost. O(1) expected, up to a load of 11/12: 64 / (12 * load) bytes per entry.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_TABLE_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_TABLE_H_

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/numeric/bits.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/prefetch.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace wheelcache::internal {

// FindBytes without instructions of certain CPUs.
inline uint32_t FindBytesInWords(uint64_t low, uint64_t high, uint8_t byte) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kLows = 0x7f * kOnes;
  const auto find = [byte](uint64_t word) {
    const uint64_t differ = word ^ (kOnes * byte);
    // The top bit of each byte that is zero, without a carry between bytes.
    const uint64_t zeros = ~(((differ & kLows) + kLows) | differ | kLows);
    // The eight top bits, gathered.
    return static_cast<uint32_t>((zeros >> 7) * 0x0102040810204080 >> 56);
  };
  return find(low) | find(high) << 8;
}

// Returns a bit for each byte of `low` and, above these, of `high` that is
// `byte`: bit 0 for the lowest byte of `low`.
inline uint32_t FindBytes(uint64_t low, uint64_t high, uint8_t byte) {
#ifdef __SSE2__
  const __m128i all =
      _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(all, wanted)));
#else
  return FindBytesInWords(low, high, byte);
#endif
}

class IndexTable {
 public:
  using Ref = uint32_t;  // 0 is null.

  static constexpr int kCellsPerBucket = 12;

  // An empty table. `memory` provides its array, and must outlive it. Throws
  // std::bad_alloc, or ends a program without exceptions, if there is none.
  IndexTable(TableMemory* memory, size_t buckets)
      : count_(buckets),
        memory_(memory),
        block_(memory->Allocate(Bytes(buckets))) {
    const auto address = reinterpret_cast<uintptr_t>(block_);
    buckets_ = reinterpret_cast<Bucket*>((address + sizeof(Bucket) - 1) /
                                         sizeof(Bucket) * sizeof(Bucket));
  }
  ~IndexTable() {
    if (block_ != nullptr) memory_->Free(block_, Bytes(count_));
  }

  // The table of an index that has never had an entry: nothing is inserted.
  static IndexTable& None();

  IndexTable(const IndexTable&) = delete;
  IndexTable& operator=(const IndexTable&) = delete;

  // One bucket more than asked for: the first begins at a cache line.
  static size_t Bytes(size_t buckets) { return (buckets + 1) * sizeof(Bucket); }

  size_t buckets() const { return count_; }

  // The reference with this hash for which `match(ref)` holds, or null.
  template <typename Match>
  Ref Find(Hash32 hash, Match&& match) const {
    Ref found = 0;
    FindCell(hash, Noting(&found, match));
    return found;
  }

  // As Find, in two parts: the home bucket, which nearly always decides it, and
  // only if *goes_on was set, all others. The first is short enough to be
  // inlined into a hot caller.
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindAtHome(Hash32 hash, bool* goes_on,
                                              Match&& match) const;
  template <typename Match>
  Ref FindBeyondHome(Hash32 hash, Match&& match) const {
    Ref found = 0;
    FindCellBeyond(Path(*this, hash), hash, Noting(&found, match));
    return found;
  }

  // Whether `ref` is in the table.
  bool Holds(Hash32 hash, Ref ref) const {
    return CellOf(hash, ref) != nullptr;
  }

  // Where the buckets lie, to prefetch one without a look at the table.
  struct Location {
    const void* begin;
    size_t count;
  };
  Location location() const { return {buckets_, count_}; }

  // Prefetches the home bucket in a table that may be gone: that does no harm.
  static void Prefetch(Location table, Hash32 hash) {
    PrefetchLine(static_cast<const char*>(table.begin) +
                 Home(hash, table.count) * sizeof(Bucket));
  }

  // Calls `visit(ref)` for each reference in a bucket.
  template <typename Visit>
  void ForEachIn(size_t bucket, Visit&& visit) const {
    for (const std::atomic<Ref>& cell : buckets_[bucket].cells) {
      const Ref ref = cell.load(std::memory_order_relaxed);
      if (ref != 0) visit(ref);
    }
  }

  // The home bucket of a hash. Larger hashes have no smaller one.
  size_t Home(Hash32 hash) const { return Home(hash, count_); }
  // The least hash of which it is the home; of buckets() that is 2^32.
  uint64_t FirstHashOf(size_t bucket) const {
    return ((uint64_t{bucket} << 32) + count_ - 1) / count_;
  }

  // One of the buckets in which an entry with some hash may be; at first its
  // home.
  struct Place {
    size_t steps = 0;
    size_t bucket = 0;  // Valid after the first step.
  };

  // Calls `visit(ref)` for each reference in the bucket at *place that may have
  // the hash, and advances *place. Returns whether any may be in a later one.
  template <typename Visit>
  bool VisitOnPath(Hash32 hash, Place* place, Visit&& visit) const;

  // Each of these returns the bucket that it changed.

  // Adds a reference.
  // REQUIRES: a cell is free, and no entry with the same key is in the table.
  size_t Insert(Hash32 hash, Ref ref);
  // Replaces `old` by `ref`, whose key has the same hash.
  // REQUIRES: `old` is in the table.
  size_t Replace(Hash32 hash, Ref old, Ref ref);
  // REQUIRES: `ref` is in the table.
  size_t Erase(Hash32 hash, Ref ref);

 private:
  static constexpr uint32_t kAllCells = (1 << kCellsPerBucket) - 1;

  // Two words hold the tags of cells 0 to 7, and of cells 8 to 11 below the
  // overflow counts, four bits for each class. Tag 0 marks a free cell. Zeroed
  // memory, not constructed: untouched pages take no memory.
  //
  // Cells are stored with release and loaded with acquire, so that a reader of
  // a reference sees the entry, and its tag from then on. A reader may have
  // seen the tag of an earlier entry in that cell. If what is there now has the
  // key it looks for, that is the key's new entry or a placeholder. Words are
  // stored with release and loaded with acquire, too. The overflow count is
  // raised before such an entry is there, and lowered before it is erased: a
  // reader of zero may take the entry for absent.
  struct alignas(ABSL_CACHELINE_SIZE) Bucket {
    std::atomic<uint64_t> words[2];
    std::atomic<Ref> cells[kCellsPerBucket];

    void SetTag(int cell, uint8_t tag);
    uint32_t PassedOn(Hash32 hash) const {
      return PassedOn(words[1].load(std::memory_order_relaxed), hash);
    }
    // Counts an entry that passes on, or no longer does. A count saturates for
    // good: how many there are is then unknown.
    void AddPassedOn(Hash32 hash);
    // REQUIRES: such an entry is in another bucket.
    void RemovePassedOn(Hash32 hash);
    // The cells with this tag, a bit for each; 0 for the free ones.
    uint32_t CellsWith(uint8_t tag) const {
      return FindBytes(words[0].load(std::memory_order_relaxed),
                       words[1].load(std::memory_order_relaxed), tag) &
             kAllCells;
    }

    static constexpr uint32_t kFullCount = 15;
    static int ShiftOf(Hash32 hash) {
      return 32 + static_cast<int>(hash >> 8 & 7) * 4;
    }
    static uint32_t PassedOn(uint64_t word, Hash32 hash) {
      return word >> ShiftOf(hash) & kFullCount;
    }
  };

  // None.
  constexpr explicit IndexTable(Bucket* zeros)
      : count_(1), memory_(nullptr), block_(nullptr), buckets_(zeros) {}

  static uint8_t TagOf(Hash32 hash) {
    const auto tag = static_cast<uint8_t>(hash);
    return tag == 0 ? 1 : tag;
  }

  // The buckets that an entry with this hash may be in, one after the other,
  // each once.
  class Path {
   public:
    Path(const IndexTable& table, Hash32 hash)
        : table_(table), hash_(hash), home_(table.Home(hash)), bucket_(home_) {}
    // Goes on at a place that it had come to before.
    Path(const IndexTable& table, Hash32 hash, Place place)
        : Path(table, hash) {
      if (place.steps == 0) return;
      bucket_ = place.bucket;
      steps_ = place.steps;
    }

    Place place() const { return {steps_, bucket_}; }
    size_t index() const { return bucket_; }
    Bucket& bucket() const { return table_.buckets_[bucket_]; }
    // Advances. Returns whether a bucket was left.
    bool Next() {
      bucket_ = steps_ == 0 ? table_.Other(hash_) : After(bucket_);
      if (bucket_ == home_) bucket_ = After(home_);
      return ++steps_ < table_.count_;
    }

   private:
    size_t After(size_t i) const { return i + 1 == table_.count_ ? 0 : i + 1; }

    const IndexTable& table_;
    const Hash32 hash_;
    const size_t home_;
    size_t bucket_;
    size_t steps_ = 0;
  };

  static size_t Home(Hash32 hash, size_t count) {
    return (uint64_t{hash} * count) >> 32;
  }
  // The second bucket for an entry with this hash.
  size_t Other(Hash32 hash) const { return Home(hash * 0x9e3779b1); }

  // The cell of a bucket with this hash for whose reference `match` holds. If
  // there is none, sets *goes_on to whether entries of its class have passed
  // on.
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static std::atomic<Ref>* FindIn(Bucket& bucket,
                                                               Hash32 hash,
                                                               bool* goes_on,
                                                               Match&& match);

  template <typename Match>
  std::atomic<Ref>* FindCell(Hash32 hash, Match&& match) const;
  // As FindCell, in the buckets of `path` after its present one.
  template <typename Match>
  static std::atomic<Ref>* FindCellBeyond(Path path, Hash32 hash,
                                          Match&& match);

  // A match that stores its reference: the cell, which may change, is not
  // loaded again for the result.
  template <typename Match>
  static auto Noting(Ref* found, Match& match) {
    return [found, &match](Ref ref) ABSL_ATTRIBUTE_ALWAYS_INLINE {
      if (!match(ref)) return false;
      *found = ref;
      return true;
    };
  }

  // For an entry that is in none of the buckets of its hash.
  [[noreturn]] ABSL_ATTRIBUTE_NOINLINE static void EndForChangedHash() {
    std::fputs("wheelcache: Hash gave another value for a key than before\n",
               stderr);
    std::abort();
  }

  std::atomic<Ref>* CellOf(Hash32 hash, Ref ref) const {
    return FindCell(hash, [ref](Ref other) { return other == ref; });
  }

  const size_t count_;
  TableMemory* const memory_;
  void* const block_;
  Bucket* buckets_;  // In block_, at a multiple of their size.
};

template <typename Match>
inline IndexTable::Ref IndexTable::FindAtHome(Hash32 hash, bool* goes_on,
                                              Match&& match) const {
  Ref found = 0;
  FindIn(buckets_[Home(hash)], hash, goes_on, Noting(&found, match));
  return found;
}

template <typename Match>
inline std::atomic<IndexTable::Ref>* IndexTable::FindIn(Bucket& bucket,
                                                        Hash32 hash,
                                                        bool* goes_on,
                                                        Match&& match) {
  const uint64_t low = bucket.words[0].load(std::memory_order_acquire);
  const uint64_t high = bucket.words[1].load(std::memory_order_acquire);
  uint32_t candidates = FindBytes(low, high, TagOf(hash)) & kAllCells;
  for (; candidates != 0; candidates &= candidates - 1) {
    std::atomic<Ref>& cell = bucket.cells[absl::countr_zero(candidates)];
    Interleave("index: between tag and cell");
    const Ref ref = cell.load(std::memory_order_acquire);
    if (ref != 0 && match(ref)) return &cell;
  }
  *goes_on = Bucket::PassedOn(high, hash) != 0;
  return nullptr;
}

template <typename Match>
inline std::atomic<IndexTable::Ref>* IndexTable::FindCell(Hash32 hash,
                                                          Match&& match) const {
  const Path path(*this, hash);
  bool goes_on = false;
  std::atomic<Ref>* const cell = FindIn(path.bucket(), hash, &goes_on, match);
  return goes_on ? FindCellBeyond(path, hash, match) : cell;
}

template <typename Match>
std::atomic<IndexTable::Ref>* IndexTable::FindCellBeyond(Path path, Hash32 hash,
                                                         Match&& match) {
  bool goes_on = true;
  while (goes_on && path.Next()) {
    goes_on = false;
    std::atomic<Ref>* const cell = FindIn(path.bucket(), hash, &goes_on, match);
    if (cell != nullptr) return cell;
  }
  return nullptr;
}

template <typename Visit>
bool IndexTable::VisitOnPath(Hash32 hash, Place* place, Visit&& visit) const {
  Path path(*this, hash, *place);
  Bucket& bucket = path.bucket();
  uint32_t candidates = bucket.CellsWith(TagOf(hash));
  for (; candidates != 0; candidates &= candidates - 1) {
    visit(bucket.cells[absl::countr_zero(candidates)].load(
        std::memory_order_relaxed));
  }
  const bool goes_on = bucket.PassedOn(hash) != 0 && path.Next();
  *place = path.place();
  return goes_on;
}

inline size_t IndexTable::Insert(Hash32 hash, Ref ref) {
  for (Path path(*this, hash);; path.Next()) {
    Bucket& bucket = path.bucket();
    if (const uint32_t free = bucket.CellsWith(0); free != 0) {
      const int cell = absl::countr_zero(free);
      // Not the reference first: a reader that has seen an older tag of the key
      // in this cell would find it before others do.
      bucket.SetTag(cell, TagOf(hash));
      Interleave("index: between tag and cell of a new entry");
      bucket.cells[cell].store(ref, std::memory_order_release);
      return path.index();
    }
    bucket.AddPassedOn(hash);
  }
}

inline size_t IndexTable::Replace(Hash32 hash, Ref old, Ref ref) {
  std::atomic<Ref>* const cell = CellOf(hash, old);
  if (ABSL_PREDICT_FALSE(cell == nullptr)) EndForChangedHash();
  cell->store(ref, std::memory_order_release);
  return (reinterpret_cast<uintptr_t>(cell) -
          reinterpret_cast<uintptr_t>(buckets_)) /
         sizeof(Bucket);
}

inline size_t IndexTable::Erase(Hash32 hash, Ref ref) {
  Path path(*this, hash);
  do {
    Bucket& bucket = path.bucket();
    uint32_t candidates = bucket.CellsWith(TagOf(hash));
    for (; candidates != 0; candidates &= candidates - 1) {
      const int cell = absl::countr_zero(candidates);
      if (bucket.cells[cell].load(std::memory_order_relaxed) != ref) continue;
      bucket.SetTag(cell, 0);
      Interleave("index: between the tag's end and the cell's");
      bucket.cells[cell].store(0, std::memory_order_release);
      return path.index();
    }
    if (bucket.PassedOn(hash) == 0) break;
    bucket.RemovePassedOn(hash);
  } while (path.Next());
  EndForChangedHash();
}

inline void IndexTable::Bucket::SetTag(int cell, uint8_t tag) {
  std::atomic<uint64_t>& word = words[cell / 8];
  const int shift = cell % 8 * 8;
  const uint64_t rest =
      word.load(std::memory_order_relaxed) & ~(uint64_t{0xff} << shift);
  word.store(rest | uint64_t{tag} << shift, std::memory_order_release);
}

inline void IndexTable::Bucket::AddPassedOn(Hash32 hash) {
  const uint64_t word = words[1].load(std::memory_order_relaxed);
  if (PassedOn(word, hash) == kFullCount) return;
  words[1].store(word + (uint64_t{1} << ShiftOf(hash)),
                 std::memory_order_release);
}

inline void IndexTable::Bucket::RemovePassedOn(Hash32 hash) {
  const uint64_t word = words[1].load(std::memory_order_relaxed);
  assert(PassedOn(word, hash) > 0);
  if (PassedOn(word, hash) == kFullCount) return;
  words[1].store(word - (uint64_t{1} << ShiftOf(hash)),
                 std::memory_order_release);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_TABLE_H_
