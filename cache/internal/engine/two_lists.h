// The order of eviction with EvictionPolicy::kScanResistant: a window for new
// entries, and a main list for those that have proved worth it
// (docs/policy.md).
//
// An entry whose key was evicted lately enters the main list, any other one the
// window. From the window's tail goes what was not used since it came; what was
// used moves to the main list, whose tail makes room for it. While the cache
// has room, what the window has too much moves there anyway. Which list an
// entry is in, a bit of its header says.
//
// The size of the window follows the keys that come back after they were
// evicted. If they had left the window, it was too small; if they had left the
// main list, it was too large. A GhostList remembers them, and the WindowTarget
// follows.
//
// How much of the shard a list takes is the larger of its parts of the entries
// and of the bytes that fit.
//
// Invariant: an entry of the order is in one of the lists, that of its bit.
//
// Cost. A Set of a new key touches a cache line of the ghosts, and so does an
// eviction. The memory of the ghosts is 1.8 bytes an entry that fits. Nothing
// is allocated.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TWO_LISTS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TWO_LISTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/eviction_links.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/window_target.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/lru/generational_list.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

// Zeroed memory for the ghosts of one shard.
struct GhostMemory {
  // The bytes for a shard of so many entries: whole cache lines.
  static size_t BytesFor(uint64_t entries) {
    constexpr uint64_t kPerLine =
        ABSL_CACHELINE_SIZE / sizeof(GhostList::Bucket);
    const uint64_t buckets = GhostList::BucketsFor(GhostsFor(entries));
    return (buckets + kPerLine - 1) / kPerLine * ABSL_CACHELINE_SIZE;
  }
  // How many keys that were evicted from so many entries are remembered.
  static uint64_t GhostsFor(uint64_t entries) { return entries * 9 / 10; }

  std::byte* begin;
  uint64_t entries;
};

class WHEELCACHE_EXPORT TwoLists {
 public:
  // What is known of the shard and its cache.
  struct Owner {
    EntryPool* pool;
    Recency* recency;
    const Budget* budget;
    WindowTarget* target;  // That of all shards.
    GhostMemory ghosts;
    Room share;  // As SetShare.
  };

  explicit TwoLists(const Owner& owner);

  TwoLists(const TwoLists&) = delete;
  TwoLists& operator=(const TwoLists&) = delete;

  bool empty() const { return window_.empty() && main_.empty(); }

  // The entry that came last, and the tails of the window and the main list.
  EntryRef front() const { return window_.front(); }
  std::array<EntryRef, 2> backs() const {
    return {window_.back(), main_.back()};
  }

  // Prefetches what a Set of a new key with this hash touches besides entries,
  // and its eviction.
  void PrefetchGhosts(Hash32 hash) const {
    PrefetchLineToWrite(ghosts_.LineOf(hash));
  }

  // Adds an entry as the most recently used: to the list of the entry that it
  // replaces, which is still in the order. It takes so much room.
  void Add(const Added& added, const Room& room);

  // Takes out an entry with this charge; the second, as evicted, with the hash
  // of its key.
  void Remove(EntryRef ref, int64_t charge);
  void RemoveVictim(EntryRef ref, Hash32 hash, int64_t charge);

  // Puts a copy of an entry in its place.
  void Substitute(EntryRef old, EntryRef copy);

  // Makes an entry the most recently used of its list.
  void MoveToFront(EntryRef ref);

  // Returns the entry to evict, but never `keep`, or null. It makes room for
  // `incoming`: the entry of a new key, unless `keep` is to be replaced.
  // Decrements *budget for each entry that has to be moved; also returns null
  // if it must move one and *budget is 0.
  EntryRef FindVictim(EntryRef keep, const Room& incoming, uint64_t* budget);

  // What shards compare: how much of the cache they hold. Of two tails of one
  // shard, neither tells how long the cache keeps an entry.
  Standing standing() const;

  // Changes the room that the shard is expected to have.
  void SetShare(Room share);

  // Takes out all entries at once. The `older` links still lead from the first
  // returned one to the second.
  std::pair<EntryRef, EntryRef> TakeAll();

  // For tests: finds the first broken invariant, and calls `visit(ref)` for
  // each entry. O(entries).
  absl::Status CheckInvariants(absl::FunctionRef<absl::Status(EntryRef)> visit);

 private:
  using Window = GenerationalList<EvictionLinks, 1>;

  EntryHeader& At(EntryRef ref) const { return pool_.At(ref); }

  bool TakeGhost(Hash32 hash);
  void MoveToMain(EntryRef ref);
  void FillMain(EntryRef newest);

  Room total() const;
  double PartOf(Room room) const;
  void MeasurePart();
  double EntriesThatFit() const;
  bool WindowIsOver(Room incoming) const;
  bool MainHasRoomFor(Room room) const;
  template <typename List>
  absl::Status CheckList(List* list, ListId id,
                         absl::FunctionRef<absl::Status(EntryRef)> visit);

  EntryPool& pool_;
  const Budget& budget_;
  const uint64_t most_entries_;  // That the ghosts have memory for.
  WindowTarget& target_;
  GhostList ghosts_;
  Window::Generations window_generations_ = {};
  EvictionList::Generations main_generations_ = {};
  Window window_;
  EvictionList main_;
  std::array<Room, 2> sizes_ = {};  // By ListId.
  uint32_t sets_ = 0;
  // Of what fits, the part that one entry or byte is; 0 if unlimited.
  double part_of_entry_ = 0;
  double part_of_byte_ = 0;
  // Entries for which the part was found last, if the bytes are unlimited.
  struct {
    int64_t used;
    int64_t limit;
    int64_t of_shard;
  } measured_ = {};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TWO_LISTS_H_
