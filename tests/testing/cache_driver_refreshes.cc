// Refreshes, by the cache and by its oracle.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_driver.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/load_oracle.h"

namespace wheelcache {
auto CacheDriver::ReloadOutcome() const -> Outcome {
  return call_.weight % 7 == 3   ? Outcome::kError
         : call_.weight % 7 == 5 ? Outcome::kCancelled
                                 : Outcome::kValue;
}

auto CacheDriver::Reload() -> absl::StatusOr<Loaded<Value>> {
  ++reloads_;
  switch (ReloadOutcome()) {
    case Outcome::kError:
      return Error();
    case Outcome::kCancelled:
      return Cancelled();
    case Outcome::kValue:
      break;
  }
  return Loaded<Value>{NewValue()};
}

bool CacheDriver::IsStaleInOracle(int key) {
  const CacheOracle::Entry& entry = oracle_.entries[key];
  const int64_t now = clock_.CoarseNowNanos();
  const int64_t age = AgeAt(now, entry.created);
  if (age >= RefreshAfterNanos()) return true;
  if (entry.hard_deadline == CacheOracle::kNever) return false;
  const double left =
      static_cast<double>(entry.hard_deadline) - static_cast<double>(now);
  const auto past = static_cast<double>(age);
  return past >= kRefreshAt * (past + left);
}

auto CacheDriver::ReadAndRefreshInOracle() -> std::optional<Value> {
  const int key = call_.key;
  const std::optional<Value> hit = ReadYoungInOracle(key);
  if (!hit || setup_.refreshes == CacheSetup::kNone) return hit;
  if (!IsStaleInOracle(key)) return hit;
  if (!loads_.MayRefresh(key, kMostRefreshes)) return hit;
  const Value old = *hit;
  return BeginRefreshInOracle(key) == Outcome::kValue ? NewValue() : old;
}

auto CacheDriver::BeginRefreshInOracle(int key) -> Outcome {
  if (is_stopped_) return Outcome::kError;
  LoadOracle::Load refresh{key, /*queued=*/true};
  refresh.refreshes = true;
  refresh.old_value = oracle_.entries.at(key).value;
  const int load = loads_.Begin(refresh);
  if (setup_.refreshes == CacheSetup::kByReaders) return RunInOracle(load);
  tasks_of_oracle_.push_back(load);
  return Outcome::kError;
}

auto CacheDriver::RunInOracle(int load) -> Outcome {
  const LoadOracle::Load refresh = loads_.loads.at(load);
  if (is_stopped_ || !loads_.IsCurrent(load)) {
    loads_.EndLoad(load, {false, false, 0, RetryAfterNanos()});
    return Outcome::kError;
  }
  ++reloads_by_oracle_;
  Compare("reloaded key", reloaded_key_, refresh.key);
  if (setup_.refreshes == CacheSetup::kByReaders) {
    Compare("reloaded value", reloaded_value_, refresh.old_value);
  }
  const Outcome outcome = ReloadOutcome();
  EndInOracle(load, outcome, DefaultTtlNanos());
  return outcome;
}

void CacheDriver::Refresh() {
  const int key = call_.key;
  const bool began = call_.weight % 2 == 0 ? cache_->Refresh(key)
                                           : cache_->RefreshMany({key}) == 1;
  const bool may = setup_.refreshes != CacheSetup::kNone && oracle_.Live(key) &&
                   loads_.MayRefreshAtOnce(key, kMostRefreshes);
  const size_t tasks = tasks_of_oracle_.size();
  if (may) BeginRefreshInOracle(key);
  Compare("began", began,
          reloads_by_oracle_ > 0 || tasks_of_oracle_.size() > tasks);
}

void CacheDriver::RunOrDropTask() {
  if (tasks_.empty() || tasks_of_oracle_.empty()) return;
  const bool runs = call_.kind == CacheCall::kRunTask;
  if (runs) tasks_.front()();
  tasks_.pop_front();
  const int load = tasks_of_oracle_.front();
  tasks_of_oracle_.pop_front();
  if (runs) {
    RunInOracle(load);
    return;
  }
  loads_.EndLoad(load, {false, false, 0, RetryAfterNanos()});
}

}  // namespace wheelcache
