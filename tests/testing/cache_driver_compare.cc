// What is compared after each call.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_driver.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/cache_peer.h"

namespace wheelcache {

void CacheDriver::CompareLeft() {
  const auto to_string = [](const std::vector<CacheOracle::Left>& all) {
    std::vector<std::string> lines;
    for (const CacheOracle::Left& left : all) {
      lines.push_back(absl::StrCat(left.key, "=", left.value, " ",
                                   RemovalCauseName(left.cause)));
    }
    // The order is that of the causes first.
    std::sort(lines.begin(), lines.end());
    return absl::StrJoin(lines, ", ");
  };
  Compare("left", to_string(left_), to_string(oracle_.left));
  for (const CacheOracle::Left& left : oracle_.left) {
    ++removals_[static_cast<int>(left.cause)];
  }
}

void CacheDriver::CompareState() {
  for (int key = 0; key < kKeys; ++key) {
    const bool live = oracle_.Live(key);
    Compare("contains", cache_->Contains(key), live);
    Compare("peek", cache_->Peek(key).value_or(-1),
            live ? oracle_.entries[key].value : -1);
    Compare("ttl", cache_->TimeToLive(key).value_or(absl::ZeroDuration()),
            live ? TimeToLiveInOracle(key) : absl::ZeroDuration());
  }
  const CacheStats stats = cache_->stats();
  Compare("entries", stats.entries,
          static_cast<int64_t>(oracle_.entries.size()));
  Compare("bytes", stats.bytes, oracle_.bytes());
  Compare("hits", stats.hits, hits_);
  Compare("misses", stats.misses, misses_);
  Compare("sets", stats.sets, sets_);
  Compare("expirations", stats.expirations, removals_[0]);
  Compare("evictions", stats.evictions, removals_[1]);
  Compare("deletes", stats.deletes, removals_[2]);
  Compare("replaced", stats.replaced, removals_[3]);
  CompareAdvice(stats);
  const absl::Duration next = cache_->NextDeadline();
  const int told = std::exchange(earlier_deadlines_, 0);
  // A move begins there without a call of the cache.
  if (!setup_.has_reaper && call_.kind != CacheCall::kMove) {
    Compare("told of an earlier deadline", told, next < last_deadline_ ? 1 : 0);
  }
  last_deadline_ = next;
  for (const auto& [key, entry] : oracle_.entries) {
    // Never, too, if the last whole tick that the clock can show is earlier.
    const int64_t due = oracle_.ReclaimTime(entry);
    if (due == CacheOracle::kNever) continue;
    Compare("due in time", next <= absl::Nanoseconds(due), true);
  }
  // These cost more than all the rest.
  if (call_.kind != CacheCall::kMove && calls_ % 8 != 0) return;
  const absl::Status invariants = cache_->CheckInvariants();
  Compare("invariants", invariants.ToString(), absl::OkStatus().ToString());
  if (call_.kind != CacheCall::kMove && calls_ % 16 != 0) return;
  const absl::Status memory = testing::CheckMemory(cache_.get());
  Compare("memory", memory.ToString(), absl::OkStatus().ToString());
}

// So small a cache is sampled whole.
void CacheDriver::CompareAdvice(const CacheStats& stats) {
  Compare("advised", stats.advice.has_value(), setup_.advise);
  if (!stats.advice.has_value()) return;
  const CacheAdvice& advice = *stats.advice;
  Compare("misses by cause",
          advice.first_uses + advice.expired + advice.evicted + advice.deleted,
          misses_ - too_old_);
  const auto is_ratio = [](double ratio) { return ratio >= 0 && ratio <= 1; };
  Compare("advised hit ratios",
          is_ratio(advice.half) && is_ratio(advice.same) &&
              is_ratio(advice.twice) && is_ratio(advice.four_times),
          true);
}

void CacheDriver::CompareHandle(const CacheType::Handle& handle) {
  const CacheOracle::Entry& entry = oracle_.entries[call_.key];
  Compare("charge", handle.charge(), entry.charge);
  Compare("ttl of the handle", handle.TimeToLive(),
          TimeToLiveInOracle(call_.key));
  // In whole steps, and no further than they reach.
  constexpr int64_t kStep = 20'000'000;
  const auto step = [](int64_t nanos) {
    return nanos / kStep - (nanos % kStep < 0);
  };
  const int64_t age = step(oracle_.now) - step(entry.created);
  if (age > absl::Hours(24 * 460) / absl::Nanoseconds(kStep)) return;
  Compare("age", handle.Age(), age * absl::Nanoseconds(kStep));
}

absl::Duration CacheDriver::TimeToLiveInOracle(int key) {
  const int64_t deadline = oracle_.entries[key].deadline;
  return deadline == CacheOracle::kNever
             ? absl::InfiniteDuration()
             : absl::Nanoseconds(deadline - oracle_.now);
}

std::string CacheDriver::Text(absl::Duration d) {
  return absl::FormatDuration(d);
}

std::string CacheDriver::Text(std::optional<Value> value) {
  return value.has_value() ? absl::StrCat(*value) : "nothing";
}

std::string CacheDriver::Text(const std::string& text) { return text; }

std::string CacheDriver::Text(int64_t number) { return absl::StrCat(number); }

std::string CacheDriver::Text(const absl::StatusOr<Value>& result) {
  return result.ok() ? absl::StrCat(*result) : result.status().ToString();
}

std::string CacheDriver::Text(const absl::StatusOr<CacheType::Handle>& result) {
  return result.ok() ? absl::StrCat(**result) : result.status().ToString();
}

}  // namespace wheelcache
