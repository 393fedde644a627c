// The hash index of a shard: maps hash and key to an entry's reference, and
// grows and shrinks incrementally.
//
// It has a table (cache/internal/index/index_table.h) to which all look-ups go,
// and while its size changes another one that will replace it. Keys and hashes
// are not stored: `match(ref)` tells whether the entry has the key, and
// `hash_of(ref)` where it belongs in the other table.
//
// Change of size. From a load of 7/8 on, or below 1/8, each Reserve copies a
// few buckets to a larger or smaller table: none has to wait until all are
// copied. Meanwhile look-ups use the old table, which has every entry; copied
// buckets are kept up to date in both. Then the new one is published in its
// place. Where the final size is known, steps of at most four times lead to a
// table of just that size.
//
// Threads. One thread at a time may change the index (the shard's lock). Find
// runs concurrently without a lock, in a ReadSection: a table is filled before
// it is published. A reader of the old one finds no entry that was added since;
// its look-up is then ordered before that.
//
// Cost. O(1) expected, except for the allocator: a table is allocated, zeroed,
// and freed as a whole. The load is at most 11/12; while the size changes,
// there are two tables.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_INDEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Index {
 public:
  using Ref = IndexTable::Ref;  // 0 is null.

  // An empty index, made for about `expected` entries; 0 if unknown. `memory`
  // provides its tables, and must outlive it.
  explicit Index(TableMemory* memory, size_t expected = 0);
  ~Index();

  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // The bytes of the full table of such an index, if it grows to that in one
  // step, not by doubling; or 0.
  static size_t TableBytesFor(size_t expected);

  size_t size() const { return size_; }

  // The reference with this hash for which `match(ref)` holds, or null.
  template <typename Match>
  Ref Find(Hash32 hash, Match&& match) const {
    return TableForReaders().Find(hash, match);
  }

  // As Find, in two parts: the home bucket, which nearly always decides it, and
  // only if *rest is not empty, FindBeyondHome with the same hash and an equal
  // `match`. The first is short enough to be inlined into a hot caller.
  class Rest;
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindAtHome(Hash32 hash, Rest* rest,
                                              Match&& match) const;
  template <typename Match>
  static Ref FindBeyondHome(Rest rest, Hash32 hash, Match&& match);

  // Prefetches the home bucket. Takes no lock, and needs no ReadSection: a
  // thread that is about to Set must not hold back what others remove.
  void Prefetch(Hash32 hash) const {
    IndexTable::Prefetch({begin_.load(std::memory_order_relaxed),
                          count_.load(std::memory_order_relaxed)},
                         hash);
  }

  // Reserves a cell for one more. `hash_of(ref)` returns the hash of any
  // reference in the index, and is called at most kMostCopied times. Throws
  // std::bad_alloc, or ends a program without exceptions, if there is no
  // memory; not if it is called again for the same.
  void Reserve(absl::FunctionRef<Hash32(Ref)> hash_of) {
    // Too small or too large: below shrinks_at_ the difference is huge.
    if (ABSL_PREDICT_FALSE(next_ != nullptr || size_ - shrinks_at_ >= range_)) {
      Resize(hash_of);
    }
  }

  // Whether the index has become too large. Where nothing is inserted, Reserve
  // may be called until this is false.
  bool IsSparse() const { return next_ != nullptr || size_ < shrinks_at_; }
  static constexpr size_t kMostCopied = 24;

  // Adds a reference. REQUIRES: no entry with the same key is in the index, and
  // Reserve was called since the last Insert.
  void Insert(Hash32 hash, Ref ref) {
    const size_t bucket = table().Insert(hash, ref);
    if (IsCopied(bucket)) next_->Insert(hash, ref);
    ++size_;
  }

  // Replaces `old` by `ref`, whose key has the same hash.
  // REQUIRES: `old` is in the index.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Replace(Hash32 hash, Ref old, Ref ref) {
    const size_t bucket = table().Replace(hash, old, ref);
    if (IsCopied(bucket)) next_->Replace(hash, old, ref);
  }

  // REQUIRES: `ref` is in the index.
  void Erase(Hash32 hash, Ref ref) {
    const size_t bucket = table().Erase(hash, ref);
    if (IsCopied(bucket)) next_->Erase(hash, ref);
    --size_;
  }

  // Whether `ref` is in the index.
  bool Holds(Hash32 hash, Ref ref) const {
    return TableForReaders().Holds(hash, ref);
  }

  // The buckets of the table; and calls `visit(ref)` for each reference in one
  // of them, which it may Replace.
  size_t buckets() const { return table().buckets(); }
  template <typename Visit>
  void ForEachIn(size_t bucket, Visit&& visit) const {
    table().ForEachIn(bucket, visit);
  }

  // For who goes through all references in the order of their hashes; see
  // IndexTable. Within one table none of them moves. The number of the table is
  // that of no other one of this index.
  uint64_t table_number() const { return table_number_; }
  size_t Home(Hash32 hash) const { return table().Home(hash); }
  uint64_t FirstHashOf(size_t bucket) const {
    return table().FirstHashOf(bucket);
  }
  template <typename Visit>
  bool VisitOnPath(Hash32 hash, IndexTable::Place* place, Visit&& visit) const {
    return table().VisitOnPath(hash, place, visit);
  }

  // Forgets every reference, and shrinks to one bucket.
  void Clear();

  // Changes the number of entries that it is made for; see the constructor. For
  // the tables that are yet to come.
  void Reserve(size_t expected);

  // Frees the old tables that no reader uses any more.
  void FreeOldTables();

 private:
  static constexpr size_t kCells = IndexTable::kCellsPerBucket;

  bool never_used() const { return &table() == &IndexTable::None(); }

  // Begins or continues a change of size.
  void Resize(absl::FunctionRef<Hash32(Ref)> hash_of);
  size_t BucketsOfNext() const;
  void DescribeTable();

  // Whether the next table has a copy of this bucket.
  bool IsCopied(size_t bucket) const {
    return ABSL_PREDICT_FALSE(next_ != nullptr) && bucket < copied_;
  }

  const IndexTable& TableForReaders() const {
    return *table_.load(std::memory_order_acquire);
  }
  // The table for the thread that changes the index.
  IndexTable& table() const { return *table_.load(std::memory_order_relaxed); }

  // Publishes a table, and retires the old one until no reader uses it.
  void PublishTable(IndexTable* table);

  struct OldTable {
    std::unique_ptr<IndexTable> table;
    Epoch epoch = 0;  // Ended when the table was unlinked.
  };

  TableMemory& memory_;
  // Exchanged with release and loaded with acquire: a reader of a table sees
  // what it was filled with. The lock holder's own loads are relaxed.
  std::atomic<IndexTable*> table_;
  // Its location, or that of an earlier one. Relaxed: to prefetch alone.
  std::atomic<const void*> begin_;
  std::atomic<size_t> count_;
  std::vector<OldTable> old_tables_;
  // On another cache line than what readers load.
  // While the size changes: the next table, with exactly the references in the
  // first copied_ buckets of table_.
  alignas(ABSL_CACHELINE_SIZE) std::unique_ptr<IndexTable> next_;
  size_t copied_ = 0;
  size_t size_ = 0;
  // The sizes that suit the table: from shrinks_at_ on, range_ of them.
  size_t shrinks_at_ = 0;
  size_t range_ = 0;
  size_t wanted_;  // Expected buckets when full; 0 if unknown.
  uint64_t table_number_ = 0;
};

// The table in which a look-up has begun: in another, the entry may be
// elsewhere.
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
