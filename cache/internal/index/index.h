// The hash index of a shard: finds an entry's reference by hash and key, and
// grows with the entries.
//
// All look-ups go to one table (cache/internal/index/index_table.h). While the
// index grows there is a larger one as well, which will take its place. Keys
// and hashes are not stored: `match(ref)` tells whether the entry is the one
// looked for, and `hash_of(ref)` where it belongs in the larger table.
//
// Growth. From a load of 7/8 on, a larger table is filled, with two buckets of
// the smaller one for each entry that is added: nobody has to wait until all of
// them are copied. Meanwhile look-ups go on in the smaller table, which has
// every entry; what is copied is kept in both. Then the larger one is published
// in its place.
//
// Threads. One thread at a time may change the index (the shard's lock). Find
// runs beside it without a lock, in a ReadSection: a larger table is filled
// before it is published. A reader of the smaller one meets no entry that was
// added since; its look-up then counts as made before that.
//
// Cost. O(1) expected, but for the allocator: a table is asked for, as zeros,
// and given back in one piece. The load is at most 11/12; while the index
// grows, there are two tables.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/memory/table_memory.h"

namespace wheelcache::internal {

class Index {
 public:
  using Ref = IndexTable::Ref;  // 0 is null.

  // An empty index, made for about `expected` entries; 0 for not known. Its
  // tables' arrays come from `memory`, which must outlive it.
  explicit Index(TableMemory* memory, size_t expected = 0);
  ~Index();

  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // The bytes of the table of such an index when it is full, if it will get
  // there at once, and not by growing bit by bit; or 0.
  static size_t TableBytesFor(size_t expected);

  size_t size() const { return size_; }

  // The reference with this hash for which `match(ref)` holds, or null.
  template <typename Match>
  Ref Find(Hash32 hash, Match&& match) const {
    return TableForReaders().Find(hash, match);
  }

  // As Find, in two parts: where a look-up begins, which nearly always decides
  // it, and only if *rest says so, FindBeyondHome with the same hash and a
  // `match` that does the same. The first is short enough for a hot caller's
  // line.
  class Rest;
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindAtHome(Hash32 hash, Rest* rest,
                                              Match&& match) const;
  template <typename Match>
  static Ref FindBeyondHome(Rest rest, Hash32 hash, Match&& match);

  // Has the processor fetch the line where a look-up begins. Takes no lock, and
  // needs a ReadSection.
  void Prefetch(Hash32 hash) const { TableForReaders().Prefetch(hash); }

  // Makes sure that there is a place for one more. `hash_of(ref)` gives the
  // hash of any reference in the index, and is asked for no more than
  // kMostCopied. Throws std::bad_alloc, or ends a program without exceptions,
  // where there is no memory for one; not if it is called again for the same.
  void Reserve(absl::FunctionRef<Hash32(Ref)> hash_of) {
    if (ABSL_PREDICT_FALSE(larger_ != nullptr || size_ >= GrowsAt(table()))) {
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
    return TableForReaders().Holds(hash, ref);
  }

  // Forgets every reference, and the memory of a large index.
  void Clear();

  // Frees the tables that were grown out of, once nobody reads them.
  void FreeOldTables();

 private:
  static constexpr size_t kCells = IndexTable::kCellsPerBucket;

  // The entries at which the index begins to grow out of a table.
  static size_t GrowsAt(const IndexTable& table) {
    return table.buckets() * kCells / 8 * 7;
  }

  // Begins to grow, or goes on.
  void Grow(absl::FunctionRef<Hash32(Ref)> hash_of);

  // Whether the larger table has what is in this bucket.
  bool IsCopied(size_t bucket) const {
    return ABSL_PREDICT_FALSE(larger_ != nullptr) && bucket < copied_;
  }

  const IndexTable& TableForReaders() const {
    return *table_.load(std::memory_order_acquire);
  }
  // The table of whoever changes the index.
  IndexTable& table() const { return *table_.load(std::memory_order_relaxed); }

  // Shows readers another table, and keeps theirs for as long as they need it.
  void PublishTable(std::unique_ptr<IndexTable> table);

  struct OldTable {
    std::unique_ptr<IndexTable> table;
    Epoch epoch = 0;  // Ended when the table was taken from the readers.
  };

  TableMemory& memory_;
  const size_t wanted_;  // Buckets in the end, as far as is known.
  // Exchanged with release and loaded with acquire: who has a table sees what
  // it was filled with. The lock holder's own loads are relaxed.
  std::atomic<IndexTable*> table_;
  std::vector<OldTable> old_tables_;
  // While the index grows: the table that is to come, which has exactly what is
  // in the first copied_ buckets of table_.
  std::unique_ptr<IndexTable> larger_;
  // Away from what readers look at.
  alignas(ABSL_CACHELINE_SIZE) size_t copied_ = 0;
  size_t size_ = 0;
};

// The table in which a look-up has begun. An entry may be elsewhere in another.
class Index::Rest {
 public:
  bool empty() const { return table_ == nullptr; }

 private:
  friend class Index;

  const IndexTable* table_ = nullptr;
};

template <typename Match>
inline Index::Ref Index::FindAtHome(Hash32 hash, Rest* rest,
                                    Match&& match) const {
  const IndexTable& table = TableForReaders();
  bool goes_on = false;
  const Ref found = table.FindAtHome(hash, &goes_on, match);
  if (ABSL_PREDICT_FALSE(goes_on)) rest->table_ = &table;
  return found;
}

template <typename Match>
Index::Ref Index::FindBeyondHome(Rest rest, Hash32 hash, Match&& match) {
  return rest.table_->FindBeyondHome(hash, match);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_H_
