// What the shards of one cache have in common.
//
// Threads. Each part is constant or thread-safe by itself.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARED_STATE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARED_STATE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/due_board.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/limbo.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/cache/options.h"

namespace wheelcache {
namespace internal {

template <typename Key, typename Value>
struct SharedState {
  // `shard_bytes` is what all shards together take.
  SharedState(const CacheOptions& options, int shards, Charges charges,
              bool has_listener, size_t shard_bytes)
      : shards(shards),
        has_listener(has_listener),
        expected_entries(ExpectedEntries(options)),
        tick_nanos(absl::ToInt64Nanoseconds(options.tick)),
        maintenance_budget(static_cast<uint64_t>(options.maintenance_budget)),
        writer_budget(options.reaper == nullptr
                          ? maintenance_budget
                          : std::min<uint64_t>(maintenance_budget, 8)),
        budget({options.max_entries, options.max_bytes}),
        due(shards),
        uses(shards),
        tables(shards, Index::TableBytesFor(expected_entries / shards),
               shard_bytes),
        pool(new EntryPool<Key, Value>(charges, expected_entries)),
        limbo(pool.get(), options.max_entries / 16) {}

  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  // How many entries there are in a full cache; 0 where the bytes decide.
  static uint64_t ExpectedEntries(const CacheOptions& options) {
    constexpr int64_t kMost = int64_t{1} << 32;  // That an arena can address.
    const bool known =
        options.max_bytes == kUnlimited && options.max_entries <= kMost;
    return known ? static_cast<uint64_t>(options.max_entries) : 0;
  }

  const int shards;         // A power of two.
  const bool has_listener;  // That is told of each entry that leaves.
  const uint64_t expected_entries;
  const int64_t tick_nanos;
  const uint64_t maintenance_budget;

  // What a Set reclaims though it has room. All that a call may where writers
  // alone reclaim; else more than the one timer that it adds, and far less than
  // would show in its latency.
  const uint64_t writer_budget;
  Budget budget;
  DueBoard due;
  UseClock uses;
  TableMemory tables;  // Of the shards' indexes; ahead of them, the shards.

  // Set while a Clear empties one shard after the other, all of them locked;
  // then readers take the lock, too, and see all or nothing of it. Who sees a
  // shard that is empty already has seen this before, as the new index was
  // published after it; and who sees this reset, acquiring, sees all shards
  // empty. Beside `pool`, which readers need as well.
  std::atomic<bool> clearing{false};

  // Ends with the last handle, after the cache and its limbo.
  struct AbandonPool {
    void operator()(EntryPool<Key, Value>* pool) const { pool->Abandon(); }
  };
  const std::unique_ptr<EntryPool<Key, Value>, AbandonPool> pool;
  Limbo<Key, Value> limbo;
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARED_STATE_H_
