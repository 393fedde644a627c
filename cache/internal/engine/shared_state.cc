#include "wheelcache/cache/internal/engine/shared_state.h"

#include "absl/time/time.h"
#include "wheelcache/cache/internal/engine/two_lists.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/types/weigh.h"

namespace wheelcache::internal {

uint64_t ExpectedEntries(Room limits) {
  constexpr int64_t kMost = int64_t{1} << 32;  // That an arena can address.
  const bool known = limits.bytes == kUnlimited && limits.entries <= kMost;
  return known ? static_cast<uint64_t>(limits.entries) : 0;
}

namespace {

// How many entries a scan-resistant cache may come to hold. With fewer than
// these, SetLimits may raise the limits.
uint64_t MostEntries(const CacheOptions& options,
                     const SharedState::Entries& entries) {
  constexpr int64_t kIfUnlimited = int64_t{1} << 20;
  constexpr int64_t kMost = int64_t{1} << 27;
  const uint64_t least_charge =
      EntryPool::LeastCharge({entries.operations->least_bytes, 0},
                             entries.charges, IdleTtlOf(options));
  int64_t most = options.max_entries;
  if (options.max_bytes != kUnlimited) {
    const auto charge = static_cast<int64_t>(least_charge);
    most = std::min(most, options.max_bytes / charge);
  }
  if (most == kUnlimited) most = kIfUnlimited;
  return static_cast<uint64_t>(std::min(most, kMost));
}

// Even with an idle TTL: a deadline that becomes final is a nanosecond earlier,
// and must not be so by a tick, for the wheel.
int64_t TickNanos(const CacheOptions& options) {
  const int64_t nanos = absl::ToInt64Nanoseconds(options.tick);
  return IdleTtlOf(options).on() ? nanos + nanos % 2 : nanos;
}

}  // namespace

Room SharedState::ShareOf(Room limits) const {
  const auto share = [this](int64_t limit) {
    return limit == kUnlimited ? limit : limit / shards;
  };
  return {share(limits.entries), share(limits.bytes)};
}

SharedState::SharedState(const CacheOptions& options, int number_of_shards,
                         Entries entries, size_t shard_bytes)
    : shards(number_of_shards),
      has_listener(entries.has_listener),
      scan_resistant(options.policy == EvictionPolicy::kScanResistant),
      expected_entries(
          ExpectedEntries({options.max_entries, options.max_bytes})),
      tick_nanos(TickNanos(options)),
      maintenance_budget(static_cast<uint64_t>(options.maintenance_budget)),
      writer_budget(options.reaper == nullptr
                        ? maintenance_budget
                        : std::min<uint64_t>(maintenance_budget, 4)),
      budget({options.max_entries, options.max_bytes}, shards),
      due(shards),
      tails(shards),
      tables(shard_count(),
             Index::TableBytesFor(expected_entries / shard_count()),
             shard_count() * (shard_bytes + ShardPages::kBytes)),
      own_pages_(Pages::Map(
          tables.ahead() == nullptr ? shard_count() * ShardPages::kBytes : 0)),
      shard_pages_(tables.ahead() == nullptr
                       ? own_pages_.begin()
                       : tables.ahead() + shard_count() * shard_bytes),
      own_generations_(shards == 1
                           ? std::make_unique<EvictionList::Generations>()
                           : nullptr),
      ghost_entries_(scan_resistant
                         ? MostEntries(options, entries) / shard_count() + 1
                         : 0),
      ghost_pages_(Pages::Map(
          scan_resistant ? shard_count() * GhostMemory::BytesFor(ghost_entries_)
                         : 0,
          // Where all of it will be used.
          expected_entries > 0 ? Pages::Kind::kHuge : Pages::Kind::kSmall)),
      window_target(scan_resistant ? std::make_unique<WindowTarget>(shards)
                                   : nullptr),
      pool(new EntryPool(entries.operations, entries.charges, expected_entries,
                         IdleTtlOf(options))),
      limbo(pool.get(), PatienceFor({options.max_entries, options.max_bytes})),
      advisor(options.advise, {options.max_entries, options.max_bytes},
              options.clock) {}

SharedState::~SharedState() = default;

GhostMemory SharedState::GhostMemoryOf(int shard) const {
  return {ghost_pages_.begin() + static_cast<size_t>(shard) *
                                     GhostMemory::BytesFor(ghost_entries_),
          ghost_entries_};
}

}  // namespace wheelcache::internal
