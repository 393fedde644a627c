#include "wheelcache/tools/trace_replay/player.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {

absl::StatusOr<std::unique_ptr<TraceCache>> CreateTraceCache(
    const ReplayOptions& options, Clock* clock) {
  CacheOptions cache;
  cache.name = "trace_replay";
  cache.max_entries = options.max_entries;
  cache.max_bytes = options.max_bytes;
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

absl::StatusOr<int64_t> OverheadPerEntry(const ReplayOptions& options) {
  ReplayOptions unlimited = options;
  unlimited.max_entries = unlimited.max_bytes = kUnlimited;
  SimulatedClock clock;
  absl::StatusOr<std::unique_ptr<TraceCache>> cache =
      CreateTraceCache(unlimited, &clock);
  if (!cache.ok()) return cache.status();
  (*cache)->Set("", TracedValue());
  return (*cache)->bytes();
}

Player::Player(TraceCache& cache, const ReplayOptions& options)
    : cache_(cache),
      default_ttl_(options.ttl),
      read_through_(options.read_through) {}

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
      return Add(request);
    case Operation::kReplace:
    case Operation::kCas:
      return WriteIfPresent(request);
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

void Player::Add(const Request& request) {
  // Get, not Contains: memcached's add refreshes the recency of a present key.
  if (!cache_.Get(request.key)) Write(request);
}

void Player::WriteIfPresent(const Request& request) {
  if (cache_.Contains(request.key)) Write(request);
}

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
