#include "wheelcache/tools/trace_replay/player.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "wheelcache/cache/options.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"

namespace wheelcache::replay {

absl::StatusOr<std::unique_ptr<TraceCache>> CreateTraceCache(
    const ReplayOptions& options, Clock* clock) {
  CacheOptions cache;
  cache.name = "trace_replay";
  cache.max_entries = options.max_entries;
  // No request fits into less, which Create refuses.
  cache.max_bytes = std::max(options.max_bytes, int64_t{kEntryOverhead});
  cache.policy = options.policy.policy;
  cache.advise = options.advise;
  cache.default_ttl = options.ttl;
  cache.jitter = options.jitter;
  cache.jitter_seed = 1;
  cache.shards = options.shards;
  cache.clock = clock;
  cache.reaper = nullptr;
  TraceCache::Hooks hooks;
  hooks.weigher = [](std::string_view, const TracedValue& value) {
    return value.key_size + value.value_size;
  };
  return TraceCache::Create(std::move(cache), std::move(hooks));
}

// Returns call(). Records the latency of one call in eight.
template <typename Call>
auto Player::Timed(load_testing::LatencyHistogram& nanos, Call call) {
  // At random: every eighth call could coincide with a pattern in the trace.
  // This is Marsaglia's xorshift generator (2003).
  sampler_ ^= sampler_ << 13;
  sampler_ ^= sampler_ >> 17;
  sampler_ ^= sampler_ << 5;
  if (sampler_ % 8 != 0) return call();
  const auto start = std::chrono::steady_clock::now();
  auto result = call();
  const std::chrono::nanoseconds elapsed =
      std::chrono::steady_clock::now() - start;
  nanos.Record(elapsed.count());
  return result;
}

void Player::Play(const Request& request) {
  ++counts_.requests;
  switch (request.operation) {
    case Operation::kGet:
    case Operation::kGets:
      return Read(request);
    case Operation::kSet:
      return Write(request);
    case Operation::kAdd:
      // Get, not Contains: memcached's add refreshes the recency of a present
      // key.
      if (!cache_.Get(request.key)) Write(request);
      return;
    case Operation::kReplace:
    case Operation::kCas:
      if (cache_.Contains(request.key)) Write(request);
      return;
    case Operation::kAppend:
    case Operation::kPrepend:
      return Grow(request, request.value_size);
    case Operation::kIncr:
    case Operation::kDecr:
      return Grow(request, 0);
    case Operation::kDelete:
      cache_.Del(request.key);
      return;
  }
}

void Player::Read(const Request& request) {
  if (Timed(counts_.get_nanos, [&] { return cache_.Get(request.key); })) {
    ++counts_.hits;
    return;
  }
  ++counts_.misses;
  if (read_through_) Write(request);
}

void Player::Write(const Request& request) {
  Set(request, {request.key_size, request.value_size},
      request.ttl_seconds == 0 ? default_ttl_
                               : absl::Seconds(request.ttl_seconds));
}

// Adds `bytes` to the size of a present value, which keeps its deadline.
void Player::Grow(const Request& request, uint64_t bytes) {
  std::optional<TracedValue> value = cache_.Peek(request.key);
  const std::optional<absl::Duration> ttl = cache_.TimeToLive(request.key);
  // Another player may evict the key between the two calls.
  if (!value || !ttl) return;
  value->value_size += bytes;
  Set(request, *value, *ttl);
}

void Player::Set(const Request& request, TracedValue value,
                 absl::Duration ttl) {
  Timed(counts_.set_nanos, [&] { return cache_.Set(request.key, value, ttl); });
  counts_.peak_entries = std::max(counts_.peak_entries, cache_.size());
  counts_.peak_bytes = std::max(counts_.peak_bytes, cache_.bytes());
}

}  // namespace wheelcache::replay
