#include "wheelcache/cache/internal/engine/shared_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/options.h"

namespace wheelcache::internal {

uint64_t ExpectedEntries(Room limits) {
  constexpr int64_t kMost = int64_t{1} << 32;  // That an arena can address.
  const bool known = limits.bytes == kUnlimited && limits.entries <= kMost;
  return known ? static_cast<uint64_t>(limits.entries) : 0;
}

SharedState::SharedState(const CacheOptions& options, int shards,
                         Entries entries, size_t shard_bytes)
    : shards(shards),
      has_listener(entries.has_listener),
      expected_entries(
          ExpectedEntries({options.max_entries, options.max_bytes})),
      tick_nanos(absl::ToInt64Nanoseconds(options.tick)),
      maintenance_budget(static_cast<uint64_t>(options.maintenance_budget)),
      writer_budget(options.reaper == nullptr
                        ? maintenance_budget
                        : std::min<uint64_t>(maintenance_budget, 8)),
      budget({options.max_entries, options.max_bytes}),
      due(shards),
      uses(shards),
      tables(shards, Index::TableBytesFor(expected_entries / shards),
             shards * (shard_bytes + ShardPages::kBytes)),
      own_pages(tables.ahead() == nullptr ? shards * ShardPages::kBytes : 0),
      shard_pages(tables.ahead() == nullptr
                      ? own_pages.begin()
                      : static_cast<std::byte*>(tables.ahead()) +
                            shards * shard_bytes),
      pool(
          new EntryPool(entries.operations, entries.charges, expected_entries)),
      limbo(pool.get(), PatienceFor(options.max_entries)) {}

}  // namespace wheelcache::internal
