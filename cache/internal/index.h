// The hash index of a shard: finds an entry's reference by hash and key.
//
// An array of buckets, each one cache line: twelve one-byte tags, twelve 32-bit
// references, and the numbers of entries that would have liked this bucket but
// went on to another one because it was full, counted apart for each of eight
// classes of hashes. A look-up compares the tags of the home bucket at once,
// asks the caller about the few references whose tag agrees, and goes on only
// if an entry of its class did. So a look-up, hit or miss, nearly always reads
// one line here, and one of the entry.
//
// What goes on tries a bucket that depends on all of its hash, and then those
// that follow that one: a full bucket fills others evenly, not its neighbours.
//
// Keys are not stored: `match(ref)` tells whether the entry is the one looked
// for. Hashes are not stored either: when the index grows it asks `hash_of`.
//
// Growth. From a load of 7/8 on, a larger array is filled, with two buckets of
// the smaller one for each entry that is added: nobody has to wait until all of
// them are copied. Meanwhile look-ups go on in the smaller array, which has
// every entry; what is copied is kept in both. Then the larger one is published
// in its place.
//
// Threads. One thread at a time may change the index (the shard's lock). Find
// runs beside it without a lock, in a ReadSection: an entry never moves within
// an array of buckets, its reference is written before its tag, and a larger
// array is filled before it is published. A reader of the smaller one meets no
// entry that was added since; its look-up then counts as made before that.
//
// Cost. O(1) expected, but for the allocator: an array is asked for, as zeros,
// and given back in one piece. About 64 / (12 * load) bytes an entry, with a
// load of at most 11/12, and of that of two arrays while the index grows.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_H_

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/numeric/bits.h"
#include "wheelcache/cache/internal/epoch.h"
#include "wheelcache/cache/internal/find_bytes.h"
#include "wheelcache/cache/internal/interleave.h"
#include "wheelcache/cache/internal/table_memory.h"
#include "wheelcache/wheel/internal/prefetch.h"

namespace wheelcache {
namespace internal {

// A look-up's hash. The home bucket comes from the high bits, the tag from the
// low ones.
using Hash32 = uint32_t;

class Index {
 public:
  using Ref = uint32_t;  // 0 is null.

  // An empty index, made for about `expected` entries; 0 for not known. Its
  // arrays come from `memory`, which must outlive it.
  explicit Index(TableMemory* memory, size_t expected = 0)
      : memory_(*memory),
        wanted_(BucketsFor(expected)),
        table_(new Table(&memory_, 1)) {}
  ~Index() { delete table_.load(std::memory_order_relaxed); }

  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // The bytes of the array of such an index when it is full, if it will get
  // there at once, and not by growing bit by bit; or 0.
  static size_t TableBytesFor(size_t expected) {
    const size_t buckets = BucketsFor(expected);
    return buckets == 0 ? 0 : Table::Bytes(buckets);
  }

  size_t size() const { return size_; }

  // The reference with this hash for which `match(ref)` holds, or null.
  template <typename Match>
  Ref Find(Hash32 hash, Match&& match) const {
    Ref found = 0;
    FindCell(*table_.load(std::memory_order_acquire), hash,
             Noting(&found, match));
    return found;
  }

  // As Find, in two parts: where a look-up begins, which nearly always decides
  // it, and only if *rest says so, FindInRest with the same hash and a `match`
  // that does the same. The first is short enough for a hot caller's line.
  class Rest;
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindAtHome(Hash32 hash, Rest* rest,
                                              Match&& match) const;
  template <typename Match>
  static Ref FindInRest(Rest rest, Hash32 hash, Match&& match);

  // Has the processor fetch the line where a look-up begins. Takes no lock, and
  // needs a ReadSection.
  void Prefetch(Hash32 hash) const {
    Table& table = *table_.load(std::memory_order_acquire);
    PrefetchLine(&table.bucket(table.Home(hash)));
  }

  // Makes sure that there is a place for one more. `hash_of(ref)` gives the
  // hash of any reference in the index, and is asked for no more than
  // kMostCopied. Throws std::bad_alloc, or ends a program without exceptions,
  // where there is no memory for one; not if it is called again for the same.
  template <typename HashOf>
  void Reserve(HashOf&& hash_of) {
    if (ABSL_PREDICT_FALSE(larger_ != nullptr || size_ >= table().grows_at())) {
      Grow(hash_of);
    }
  }
  static constexpr size_t kMostCopied = 24;

  // Adds a reference. REQUIRES: no entry with the same key is in the index, and
  // Reserve was called since the last Insert.
  void Insert(Hash32 hash, Ref ref) {
    const size_t bucket = table().Insert(hash, ref);
    if (IsCopied(bucket)) larger_->Insert(hash, ref);
    ++size_;
  }

  // Puts `ref` in the place of `old`, whose key has the same hash.
  // REQUIRES: `old` is in the index.
  void Replace(Hash32 hash, Ref old, Ref ref) {
    const size_t bucket = table().Replace(hash, old, ref);
    if (IsCopied(bucket)) larger_->Replace(hash, old, ref);
  }

  // REQUIRES: `ref` is in the index.
  void Erase(Hash32 hash, Ref ref) {
    const size_t bucket = table().Erase(hash, ref);
    if (IsCopied(bucket)) larger_->Erase(hash, ref);
    --size_;
  }

  // Whether `ref` is in the index.
  bool Holds(Hash32 hash, Ref ref) const {
    return CellOf(*table_.load(std::memory_order_acquire), hash, ref) !=
           nullptr;
  }

  // Forgets every reference, and the memory of a large index.
  void Clear() {
    Publish(std::make_unique<Table>(&memory_, 1));
    larger_.reset();
    size_ = 0;
  }

  // Frees the arrays that were grown out of, once nobody reads them.
  void FreeOldTables() {
    old_tables_.erase(std::remove_if(old_tables_.begin(), old_tables_.end(),
                                     [](const OldTable& old) {
                                       return NewestReaderUpTo(old.epoch) == 0;
                                     }),
                      old_tables_.end());
  }

 private:
  static constexpr int kCells = 12;
  static constexpr uint32_t kAllCells = (1 << kCells) - 1;

  // Two words hold the tags of cells 0 to 7, and of cells 8 to 11 below the
  // counts of the entries that passed on, four bits for each class. Tag 0 marks
  // a free cell. Made of zeros, not by a constructor: pages that nobody touched
  // take no memory.
  //
  // Cells are stored with release and loaded with acquire, so that who has a
  // reference sees the entry. Words likewise: who sees a tag sees the reference
  // that was written before it, or a later one. The count of those that passed
  // on is raised before such an entry is there, and lowered before it goes: who
  // reads zero may take the entry for one that is not there.
  struct alignas(ABSL_CACHELINE_SIZE) Bucket {
    std::atomic<uint64_t> words[2];
    std::atomic<Ref> cells[kCells];

    void SetTag(int cell, uint8_t tag);
    uint32_t PassedOn(Hash32 hash) const {
      return PassedOn(words[1].load(std::memory_order_relaxed), hash);
    }
    // Counts an entry that passes on, or no longer does. A count that was full
    // once stays so: it tells no more how many there are.
    void AddPassedOn(Hash32 hash);
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

  static uint8_t TagOf(Hash32 hash) {
    const auto tag = static_cast<uint8_t>(hash);
    return tag == 0 ? 1 : tag;
  }

  class Table {
   public:
    Table(TableMemory* memory, size_t buckets)
        : count_(buckets),
          memory_(*memory),
          block_(memory->Allocate(Bytes(buckets))) {
      const auto address = reinterpret_cast<uintptr_t>(block_);
      buckets_ = reinterpret_cast<Bucket*>((address + sizeof(Bucket) - 1) /
                                           sizeof(Bucket) * sizeof(Bucket));
    }
    ~Table() { memory_.Free(block_); }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    // One more than the buckets: the first begins where a line does.
    static size_t Bytes(size_t buckets) {
      return (buckets + 1) * sizeof(Bucket);
    }

    size_t buckets() const { return count_; }
    // The entries at which the index begins to grow.
    size_t grows_at() const { return count_ * kCells / 8 * 7; }
    Bucket& bucket(size_t i) { return buckets_[i]; }
    size_t Home(Hash32 hash) const { return (uint64_t{hash} * count_) >> 32; }
    // Where an entry with this hash goes from its home.
    size_t Other(Hash32 hash) const { return Home(hash * 0x9e3779b1); }

    // What Index does, and return the entry's bucket.
    size_t Insert(Hash32 hash, Ref ref);
    size_t Replace(Hash32 hash, Ref old, Ref ref);
    size_t Erase(Hash32 hash, Ref ref);

   private:
    const size_t count_;
    TableMemory& memory_;
    void* const block_;
    Bucket* buckets_;  // In block_, at a multiple of their size.
  };

  // The buckets that an entry with this hash may be in, one after the other,
  // each once.
  class Path {
   public:
    Path(Table& table, Hash32 hash)
        : table_(table), hash_(hash), home_(table.Home(hash)), bucket_(home_) {}

    size_t index() const { return bucket_; }
    Bucket& bucket() const { return table_.bucket(bucket_); }
    // Goes on. Returns whether any was left.
    bool Next() {
      bucket_ = steps_ == 0 ? table_.Other(hash_) : After(bucket_);
      if (bucket_ == home_) bucket_ = After(home_);
      return ++steps_ < table_.buckets();
    }

   private:
    size_t After(size_t i) const {
      return i + 1 == table_.buckets() ? 0 : i + 1;
    }

    Table& table_;
    const Hash32 hash_;
    const size_t home_;
    size_t bucket_;
    size_t steps_ = 0;
  };

  // The size that holds `expected` entries at a load of 9/11, which leaves room
  // for chance; up to 4 MiB. What is expected to be larger starts small.
  static size_t BucketsFor(size_t expected) {
    constexpr size_t kMostWanted = size_t{1} << 16;
    const size_t buckets = expected / (size_t{kCells} * 9) * 11;
    return buckets <= kMostWanted ? buckets : 0;
  }

  // The cell of a bucket with this hash for whose reference `match` holds. If
  // there is none, and others have passed on, says so.
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static std::atomic<Ref>* FindIn(Bucket& bucket,
                                                               Hash32 hash,
                                                               bool* goes_on,
                                                               Match&& match);

  template <typename Match>
  static std::atomic<Ref>* FindCell(Table& table, Hash32 hash, Match&& match);
  // As FindCell, after the bucket that `path` is at.
  template <typename Match>
  static std::atomic<Ref>* FindBeyond(Path path, Hash32 hash, Match&& match);

  // A match that notes its reference: loaded once, what was matched is what is
  // returned, whatever the cell comes to hold.
  template <typename Match>
  static auto Noting(Ref* found, Match& match) {
    return [found, &match](Ref ref) ABSL_ATTRIBUTE_ALWAYS_INLINE {
      if (!match(ref)) return false;
      *found = ref;
      return true;
    };
  }

  static std::atomic<Ref>* CellOf(Table& table, Hash32 hash, Ref ref) {
    return FindCell(table, hash, [ref](Ref other) { return other == ref; });
  }

  // Begins to grow, or goes on.
  template <typename HashOf>
  void Grow(HashOf&& hash_of);
  template <typename HashOf>
  void CopyBucket(Bucket& bucket, HashOf& hash_of);

  // Whether the larger array has what is in this bucket.
  bool IsCopied(size_t bucket) const {
    return ABSL_PREDICT_FALSE(larger_ != nullptr) && bucket < copied_;
  }

  // The array of whoever changes the index.
  Table& table() const { return *table_.load(std::memory_order_relaxed); }

  // Shows readers another array, and keeps theirs for as long as they need it.
  void Publish(std::unique_ptr<Table> table) {
    old_tables_.emplace_back();  // First: it may throw.
    old_tables_.back().table.reset(
        table_.exchange(table.release(), std::memory_order_acq_rel));
    Interleave("index: between the new table and the epoch's end");
    old_tables_.back().epoch = AdvanceEpoch();
    FreeOldTables();
  }

  struct OldTable {
    std::unique_ptr<Table> table;
    Epoch epoch = 0;  // Ended when the array was taken from the readers.
  };

  TableMemory& memory_;
  const size_t wanted_;  // Buckets in the end, as far as is known.
  // Exchanged with release and loaded with acquire: who has an array sees what
  // it was filled with. The lock holder's own loads are relaxed.
  std::atomic<Table*> table_;
  std::vector<OldTable> old_tables_;
  // While the index grows: the array that is to come, which has exactly what is
  // in the first copied_ buckets of table_.
  std::unique_ptr<Table> larger_;
  // Away from what readers look at.
  alignas(ABSL_CACHELINE_SIZE) size_t copied_ = 0;
  size_t size_ = 0;
};

template <typename Match>
inline std::atomic<Index::Ref>* Index::FindIn(Bucket& bucket, Hash32 hash,
                                              bool* goes_on, Match&& match) {
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
inline std::atomic<Index::Ref>* Index::FindCell(Table& table, Hash32 hash,
                                                Match&& match) {
  Path path(table, hash);
  bool goes_on = false;
  std::atomic<Ref>* const cell = FindIn(path.bucket(), hash, &goes_on, match);
  return goes_on ? FindBeyond(path, hash, match) : cell;
}

template <typename Match>
std::atomic<Index::Ref>* Index::FindBeyond(Path path, Hash32 hash,
                                           Match&& match) {
  bool goes_on = true;
  while (goes_on && path.Next()) {
    goes_on = false;
    std::atomic<Ref>* const cell = FindIn(path.bucket(), hash, &goes_on, match);
    if (cell != nullptr) return cell;
  }
  return nullptr;
}

// The array in which a look-up has begun. An entry may be elsewhere in another.
class Index::Rest {
 public:
  bool empty() const { return table_ == nullptr; }

 private:
  friend class Index;

  Table* table_ = nullptr;
};

template <typename Match>
inline Index::Ref Index::FindAtHome(Hash32 hash, Rest* rest,
                                    Match&& match) const {
  Table& table = *table_.load(std::memory_order_acquire);
  Ref found = 0;
  bool goes_on = false;
  FindIn(table.bucket(table.Home(hash)), hash, &goes_on, Noting(&found, match));
  if (ABSL_PREDICT_FALSE(goes_on)) rest->table_ = &table;
  return found;
}

template <typename Match>
Index::Ref Index::FindInRest(Rest rest, Hash32 hash, Match&& match) {
  Ref found = 0;
  FindBeyond(Path(*rest.table_, hash), hash, Noting(&found, match));
  return found;
}

template <typename HashOf>
void Index::Grow(HashOf&& hash_of) {
  Table& small = table();
  if (larger_ == nullptr) {
    // A cache of a few entries, whatever its limit, keeps to a few lines.
    constexpr size_t kFew = 8;
    const size_t twice = small.buckets() * 2;
    auto larger = std::make_unique<Table>(
        &memory_, small.buckets() < kFew ? twice : std::max(twice, wanted_));
    old_tables_.reserve(old_tables_.size() + 1);  // What is left cannot fail.
    larger_ = std::move(larger);
    copied_ = 0;
  }
  for (size_t i = 0; i < kMostCopied / kCells; ++i) {
    if (copied_ == small.buckets()) break;
    CopyBucket(small.bucket(copied_), hash_of);
    ++copied_;
  }
  if (copied_ == small.buckets()) Publish(std::move(larger_));
}

template <typename HashOf>
void Index::CopyBucket(Bucket& bucket, HashOf& hash_of) {
  for (const std::atomic<Ref>& cell : bucket.cells) {
    const Ref ref = cell.load(std::memory_order_relaxed);
    if (ref != 0) larger_->Insert(hash_of(ref), ref);
  }
}

inline void Index::Bucket::SetTag(int cell, uint8_t tag) {
  std::atomic<uint64_t>& word = words[cell / 8];
  const int shift = cell % 8 * 8;
  const uint64_t rest =
      word.load(std::memory_order_relaxed) & ~(uint64_t{0xff} << shift);
  word.store(rest | uint64_t{tag} << shift, std::memory_order_release);
}

inline void Index::Bucket::AddPassedOn(Hash32 hash) {
  const uint64_t word = words[1].load(std::memory_order_relaxed);
  if (PassedOn(word, hash) == kFullCount) return;
  words[1].store(word + (uint64_t{1} << ShiftOf(hash)),
                 std::memory_order_release);
}

inline void Index::Bucket::RemovePassedOn(Hash32 hash) {
  const uint64_t word = words[1].load(std::memory_order_relaxed);
  assert(PassedOn(word, hash) > 0);
  if (PassedOn(word, hash) == kFullCount) return;
  words[1].store(word - (uint64_t{1} << ShiftOf(hash)),
                 std::memory_order_release);
}

inline size_t Index::Table::Insert(Hash32 hash, Ref ref) {
  for (Path path(*this, hash);; path.Next()) {
    Bucket& bucket = path.bucket();
    if (const uint32_t free = bucket.CellsWith(0); free != 0) {
      const int cell = absl::countr_zero(free);
      bucket.cells[cell].store(ref, std::memory_order_release);
      bucket.SetTag(cell, TagOf(hash));
      return path.index();
    }
    bucket.AddPassedOn(hash);
  }
}

inline size_t Index::Table::Replace(Hash32 hash, Ref old, Ref ref) {
  std::atomic<Ref>* const cell = CellOf(*this, hash, old);
  assert(cell != nullptr);
  cell->store(ref, std::memory_order_release);
  return (reinterpret_cast<uintptr_t>(cell) -
          reinterpret_cast<uintptr_t>(buckets_)) /
         sizeof(Bucket);
}

inline size_t Index::Table::Erase(Hash32 hash, Ref ref) {
  for (Path path(*this, hash);; path.Next()) {
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
    bucket.RemovePassedOn(hash);
  }
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_H_
