// What the shards of one cache have in common.
//
// Threads. Each part is constant or thread-safe by itself.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARED_STATE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARED_STATE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/advisor.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/eviction_links.h"
#include "wheelcache/cache/internal/engine/eviction_record.h"
#include "wheelcache/cache/internal/engine/tail_board.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/idle_ttl.h"
#include "wheelcache/cache/internal/entry/limbo.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

struct GhostMemory;
class WindowTarget;

// When each shard of a cache next has something to reclaim.
//
// A shard writes its own cell, under its lock, whenever its wheel's next
// wake-up changes; everybody reads without a lock, to learn whether a visit
// would find anything, and when the next one will.
//
// A lower bound of all cells stands next to them. While it lies in the future,
// nothing is due, and one load tells so. Once it has passed, the caller reads
// the cells, and raises it.
//
// Threads. Thread-safe; each cell has one writer at a time.
class DueBoard {
 public:
  explicit DueBoard(int shards) : due_nanos_(static_cast<size_t>(shards)) {
    for (Cell& cell : due_nanos_) {
      cell.store(Clock::kNever, std::memory_order_relaxed);
    }
  }

  int64_t Get(int shard) const {
    return due_nanos_[static_cast<size_t>(shard)].load(
        std::memory_order_relaxed);
  }
  void Set(int shard, int64_t nanos) {
    due_nanos_[static_cast<size_t>(shard)].store(nanos,
                                                 std::memory_order_seq_cst);
    LowerBoundTo(nanos);
  }

  // The earliest of all shards. O(shards).
  int64_t Earliest() const {
    int64_t earliest = Clock::kNever;
    for (const Cell& cell : due_nanos_) {
      earliest = std::min(earliest, cell.load(std::memory_order_seq_cst));
    }
    return earliest;
  }

  // Whether anything is due in any shard. O(1) as long as nothing is.
  bool AnyDue(int64_t now_nanos) {
    int64_t bound = bound_.load(std::memory_order_relaxed);
    if (bound > now_nanos) return false;
    const int64_t earliest = Earliest();
    if (earliest <= now_nanos) return true;
    Interleave("due board: between the look and the bound");
    if (bound_.compare_exchange_strong(bound, earliest,
                                       std::memory_order_seq_cst)) {
      LowerBoundTo(Earliest());
    }
    return false;
  }

 private:
  using Cell = std::atomic<int64_t>;

  void LowerBoundTo(int64_t nanos) {
    int64_t bound = bound_.load(std::memory_order_seq_cst);
    while (nanos < bound && !bound_.compare_exchange_weak(
                                bound, nanos, std::memory_order_seq_cst)) {
    }
  }

  // Both are hints for whom to visit; what decides stands under the lock of
  // the shard. Sequentially consistent where the bound must not be lost: who
  // raises it looks at the cells once more, and who changes a cell looks at the
  // bound after that, so that one of the two sees the other.
  //
  // Close together: Earliest reads them all.
  std::vector<Cell> due_nanos_;
  alignas(ABSL_CACHELINE_SIZE) std::atomic<int64_t> bound_{Clock::kNever};
};

// Where the slots of a shard's wheel lie.
using WheelSlots = BorrowedTimerSlots<EntryRef>;

// What a shard has in zero pages, so that it takes no memory before its use.
struct ShardPages {
  static constexpr size_t kRecord = WheelSlots::kBytes;
  static constexpr size_t kGenerations = kRecord + sizeof(EvictionRecord);
  static constexpr size_t kBytes = kGenerations + 448;

  std::byte* begin;

  void* slots() const { return begin; }
  EvictionRecord* eviction_record() const {
    return reinterpret_cast<EvictionRecord*>(begin + kRecord);
  }
  EvictionList::Generations* generations() const {
    return reinterpret_cast<EvictionList::Generations*>(begin + kGenerations);
  }
};
static_assert(ShardPages::kRecord % alignof(EvictionRecord) == 0);
static_assert(ShardPages::kBytes % alignof(EvictionRecord) == 0);
static_assert(sizeof(EvictionList::Generations) <=
              ShardPages::kBytes - ShardPages::kGenerations);

inline IdleTtl IdleTtlOf(const CacheOptions& options) {
  return IdleTtl(Clock::NanosAfter(0, options.idle_ttl));
}

// How many entries there are in a full cache; 0 where the bytes decide.
WHEELCACHE_EXPORT uint64_t ExpectedEntries(Room limits);

// How many entries limbo collects in a cache with these limits. A 16th of
// either, but not so few because of max_bytes, which may be a sum of weights,
// that epochs would end too often.
inline int64_t PatienceFor(Room limits) {
  constexpr int64_t kFew = 1024;
  const int64_t by_bytes = limits.bytes / Limbo::kBytesPerEntry / 16;
  return std::min(limits.entries / 16, std::max(by_bytes, kFew));
}

class WHEELCACHE_EXPORT SharedState {
 public:
  // What the engine knows of the entries.
  struct Entries {
    const EntryOperations* operations;
    Charges charges;
    bool has_listener;  // That is told of each entry that leaves.
  };

  // `shard_bytes` is what one shard takes, without its ShardPages.
  SharedState(const CacheOptions& options, int number_of_shards,
              Entries entries, size_t shard_bytes);

  ~SharedState();

  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  // The part of these limits that a shard is expected to have; kUnlimited of
  // what is unlimited.
  Room ShareOf(Room limits) const;

  // Where parts of the shards lie; the last, in a scan-resistant cache.
  ShardPages PagesOf(int shard) const {
    return {shard_pages_ + static_cast<size_t>(shard) * ShardPages::kBytes};
  }
  EvictionList::Generations* GenerationsOf(int shard) const {
    return own_generations_ != nullptr ? own_generations_.get()
                                       : PagesOf(shard).generations();
  }
  GhostMemory GhostMemoryOf(int shard) const;

  const int shards;  // A power of two.
  size_t shard_count() const { return static_cast<size_t>(shards); }
  const bool has_listener;
  const bool scan_resistant;        // By CacheOptions::policy.
  const uint64_t expected_entries;  // By the limits at first.
  const int64_t tick_nanos;
  const uint64_t maintenance_budget;

  // What a Set reclaims although it has room. All that a call may where writers
  // alone reclaim; else about what the one timer that it adds will take, with
  // its cascades: more would show in its latency.
  const uint64_t writer_budget;
  Budget budget;
  DueBoard due;
  TailBoard tails;

  // Of the shards' indexes. In a large cache, ahead of them, the shards and
  // then their ShardPages; a small one has pages for those alone.
  TableMemory tables;

 private:
  const Pages own_pages_;
  std::byte* const shard_pages_;

  // Of the only list of a shard, if it has one. Where there is one shard, on
  // the heap: a page for them would show in a small cache.
  const std::unique_ptr<EvictionList::Generations> own_generations_;

  // Of a scan-resistant cache, for each shard the same. Sized by the limits at
  // first; its pages take memory when they are used.
  const uint64_t ghost_entries_;  // Of a shard.
  const Pages ghost_pages_;

 public:  // Again: private members at the end would take 64 bytes more.
  const std::unique_ptr<WindowTarget> window_target;  // If scan-resistant.

  // The copy of the library that has made the cache. Readers need it, too.
  const LibraryCopy* const copy = &kThisCopy;

  // Ends with the last handle, after the cache and its limbo.
  const std::unique_ptr<EntryPool, AbandonPool> pool;
  Limbo limbo;

  Advisor advisor;  // On with CacheOptions::advise.

  Counters counters;
};

// The shards of a cache, one behind the other.
//
// A Set looks at several lines of its shard, which is another one each time: a
// few pages for all of them are found faster than some for each. Many shards
// have pages of their own: malloc may round so large a block up, and hundreds
// of caches may each take no more than they need.
template <typename Shard>
class ShardArray {
 public:
  // The memory that so many shards take.
  static constexpr size_t Bytes(size_t count) { return count * sizeof(Shard); }

  // Fills itself with what `make(i)` returns for each i from 0 on. Lies in
  // `memory`, which must outlive it, or in its own where that is null. Throws
  // what `make` throws, or std::bad_alloc.
  template <typename Make>
  ShardArray(void* memory, size_t count, Make make)
      : ShardArray(memory, memory == nullptr ? count : 0) {
    for (; size_ < count; ++size_) ::new (end()) Shard(make(size_));
  }
  ~ShardArray() {
    while (size_ > 0) begin_[--size_].~Shard();
    if (own_ > 0) Free(begin_, own_);
  }

  ShardArray(const ShardArray&) = delete;
  ShardArray& operator=(const ShardArray&) = delete;

  size_t size() const { return size_; }
  Shard& operator[](size_t i) const { return begin_[i]; }
  Shard* begin() const { return begin_; }
  Shard* end() const { return begin_ + size_; }

 private:
  // From this size on: the rest of the last page is little.
  static constexpr size_t kMapped = 32 << 10;

  // Delegated to, so that the destructor runs if `make` throws.
  ShardArray(void* memory, size_t own)
      : own_(own),
        begin_(static_cast<Shard*>(own > 0 ? Allocate(own) : memory)) {}

  static void* Allocate(size_t count) {
    const size_t bytes = Bytes(count);
    if (bytes < kMapped) {
      return ::operator new (bytes, std::align_val_t{alignof(Shard)});
    }
    void* const pages = Pages::Map(bytes, Pages::Kind::kAtOnce).Release();
    AddLeakRoot(pages, bytes);
    return pages;
  }
  static void Free(void* memory, size_t count) {
    const size_t bytes = Bytes(count);
    if (bytes < kMapped) {
      ::operator delete (memory, std::align_val_t{alignof(Shard)});
      return;
    }
    RemoveLeakRoot(memory, bytes);
    Pages::Adopt(memory, bytes);  // Ends at once.
  }

  const size_t own_;  // How many shards there is own memory for.
  Shard* const begin_;
  size_t size_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARED_STATE_H_
