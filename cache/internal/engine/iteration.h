// A walk through the live entries of a cache, a few at a time, while others
// change it.
//
//   Iteration iteration = engine.Iterate();
//   while (const EntryRef ref = iteration.Next()) {
//     ...  // No lock is held.
//     engine.pool().UnpinOutside(ref);
//   }
//
// Guarantees. An entry that is in the cache, and live, from the first call of
// Next to the last one is returned exactly once, any other at most once. An
// entry is live, and in the cache, when the few that it is returned with are
// taken. It comes pinned, and the pin is the caller's. Nothing counts as a use.
//
// Why this is so. A shard is walked in the order of its hashes: position_ says
// that all smaller ones are done. Since a larger hash never has an earlier home
// bucket, whatever the size of the table, each step takes the next few hashes
// from one home bucket; and an entry that comes later, or again under a smaller
// hash, is not looked at. A full bucket passes entries on, though, and these
// are nowhere near their home. So a first pass over the table collects the
// hashes of all entries that are not at home; no entry moves within a table, so
// whatever was passed on before and stays is found by them. When the walk comes
// to such a hash, it follows the path of buckets along which that is looked up,
// and takes the entries of exactly this hash. If the table is replaced, which
// its number tells, the hashes are collected again, and the walk goes on from
// position_.
//
// A path may be long, if very many keys have one hash, so that a step may end
// within it. The entries that it has taken from there stay pinned until the end
// of the path is reached: if the table is replaced meanwhile, the path begins
// anew, and skips them. A pinned entry keeps its reference.
//
// Threads. Thread-compatible. Each step takes the lock of one shard, looks at
// about as many entries as the maintenance budget says, at most a bucket's
// more, and runs no user code under it but the hash of keys. No epoch is open
// between the steps.
//
// Cost. Each entry is read twice, 4 bytes are kept for each that is not at
// home, and its hash is computed about three times. Each replacement of a
// shard's table within the walk through it adds one pass over the shard.
//
// Errors. Next throws std::bad_alloc if there is no memory.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ITERATION_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ITERATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Iteration {
 public:
  struct Rules {
    const Clock* clock;  // That says whether an entry is live.
    uint64_t budget;     // Entries to look at in one hold of a lock.
  };

  // All must outlive it.
  Iteration(EntryPool* pool, const ShardArray<Shard>* shards, Rules rules);
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;
  ~Iteration();

  // The next entry, or null.
  EntryRef Next() {
    while (next_in_batch_ == batch_.size()) {
      if (!TakeBatch()) return 0;
    }
    return batch_[next_in_batch_++];
  }

  // That of the entry that Next has returned last; see Shard::RankOf.
  uint32_t RankOf(EntryRef ref) const {
    return shards_[batch_shard_].RankOf(pool_.At(ref));
  }

 private:
  static constexpr uint64_t kHashes = uint64_t{1} << 32;

  bool TakeBatch();
  void BeginShard();
  void PrefetchEntries(const Index& index, size_t bucket) const;
  void Collect(const Index& index);
  void Take(const Index& index);
  uint64_t TakeFromHome(const Index& index);
  uint64_t TakeFromPath(const Index& index);
  void TakeIfLive(EntryRef ref);
  void RememberPath();
  void ForgetPath();
  Hash32 HashOf(EntryRef ref) const {
    return pool_.operations().hash(pool_.At(ref));
  }

  EntryPool& pool_;
  const ShardArray<Shard>& shards_;
  const Clock& clock_;
  const uint64_t budget_;

  // What was taken in one step, each with a pin.
  std::vector<EntryRef> batch_;
  size_t next_in_batch_ = 0;
  size_t batch_shard_ = 0;

  // Of the present shard.
  size_t shard_ = 0;
  uint64_t position_ = 0;
  int64_t now_nanos_ = 0;  // Of the present step.

  // The hashes of the entries of this table that are not at home, in their
  // order if all buckets were looked at.
  uint64_t table_ = 0;
  bool collected_ = false;
  size_t collected_buckets_ = 0;
  std::vector<Hash32> away_;
  size_t next_away_ = 0;

  // Within the path of the hash at position_: where it goes on, what the batch
  // has of it, and what earlier batches had, each with a pin.
  bool on_path_ = false;
  IndexTable::Place place_;
  size_t path_in_batch_ = 0;
  std::vector<EntryRef> taken_from_path_;  // Sorted.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ITERATION_H_
