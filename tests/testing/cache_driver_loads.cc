// Loads, by the cache and by its oracle.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_driver.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/load_oracle.h"

namespace wheelcache {

void CacheDriver::Load() {
  using Found = LoadOracle::Found;
  const int key = call_.key;
  const bool hits = oracle_.Live(key);
  const Found found = loads_.Find(key);
  if (!hits && found == Found::kLoad) return;  // It would wait for ever.
  int loads = 0;
  const auto loader = [&]() -> absl::StatusOr<Value> {
    ++loads;
    if (call_.kind == CacheCall::kLoadError) return Error();
    return NewValue();
  };
  const absl::StatusOr<Value> got = UsesDefaultTtl()
                                        ? cache_->GetOrLoad(key, loader)
                                        : cache_->GetOrLoad(key, Ttl(), loader);
  const std::optional<Value> hit = ReadAndRefreshInOracle();
  const bool has_to_load = !hit && found == Found::kNothing;
  Compare("loads", loads, has_to_load ? 1 : 0);
  if (!hit && (!has_to_load || call_.kind == CacheCall::kLoadError)) {
    Compare("status", Text(got), Error().ToString());
  } else {
    Compare("value", got.value_or(-1), hit.value_or(NewValue()));
  }
  if (!has_to_load) return;
  const int load = loads_.Begin({key});
  EndInOracle(load, got.ok() ? Outcome::kValue : Outcome::kError, TtlNanos());
}

void CacheDriver::FindOrLoad() {
  using Found = LoadOracle::Found;
  const int key = call_.key;
  const Outcome outcome =
      call_.kind == CacheCall::kFindOrLoadError       ? Outcome::kError
      : call_.kind == CacheCall::kFindOrLoadCancelled ? Outcome::kCancelled
                                                      : Outcome::kValue;
  const bool is_overtaken = call_.kind == CacheCall::kFindOrLoadOvertaken;
  int loads = 0;
  const auto loader = [&]() -> absl::StatusOr<Loaded<Value>> {
    ++loads;
    if (is_overtaken) cache_->Del(key);
    if (outcome == Outcome::kError) return Error();
    if (outcome == Outcome::kCancelled) return Cancelled();
    return NewLoaded();
  };
  load_ = loader;
  const bool by_hook =
      setup_.refreshes != CacheSetup::kNone && call_.weight % 3 == 0;
  const auto got = by_hook ? cache_->FindOrLoad(key, Options())
                           : cache_->FindOrLoad(key, Options(), loader);
  load_ = nullptr;
  const Found found = loads_.Find(key);
  const std::optional<Value> hit = ReadAndRefreshInOracle();
  Compare("loads", loads, !hit && found == Found::kNothing ? 1 : 0);
  if (hit) {
    Compare("value", Text(got), absl::StrCat(*hit));
  } else if (found == Found::kFailure) {
    Compare("value", Text(got), Error().ToString());
  } else if (found == Found::kLoad) {
    Compare("status", absl::IsDeadlineExceeded(got.status()), true);
  } else {
    const int load = loads_.Begin({key, false, ErrorTtlNanos()});
    if (is_overtaken) {
      oracle_.Del(key);
      loads_.Supersede(key);
    }
    const bool stored = EndInOracle(load, outcome, call_.nanos);
    Compare("value", Text(got), TextOf(outcome));
    if (stored) {
      CompareHandle(*got);
    } else if (got.ok()) {
      Compare("ends", got->TimeToLive() <= absl::ZeroDuration(), true);
    }
  }
}

void CacheDriver::FindOrLoadMany() {
  const std::vector<int> keys = SomeKeys();
  std::vector<int> asked;
  const auto results = cache_->FindOrLoadMany(
      keys, Options(), [&](absl::Span<const size_t> missing) {
        std::vector<absl::StatusOr<Loaded<Value>>> loaded;
        for (const size_t i : missing) {
          asked.push_back(static_cast<int>(i));
          // Odd keys fail.
          if (keys[i] % 2 != 0) {
            loaded.emplace_back(Error());
          } else {
            loaded.emplace_back(NewLoaded());
          }
        }
        return loaded;
      });
  std::vector<std::string> expected(keys.size());
  std::vector<int> led;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = loads_.Find(keys[i]);
    if (const auto hit = ReadYoungInOracle(keys[i])) {
      expected[i] = absl::StrCat(*hit);
    } else if (found == LoadOracle::Found::kFailure) {
      expected[i] = Error().ToString();
    } else if (found == LoadOracle::Found::kNothing) {
      loads_.Begin({keys[i], false, ErrorTtlNanos()});
      led.push_back(static_cast<int>(i));
    } else {
      // That of this batch has ended by the time that it looks.
      for (const int j : led) {
        if (keys[j] == keys[i]) expected[i] = "as before";
      }
    }
  }
  for (const int i : led) {
    const bool fails = keys[i] % 2 != 0;
    EndInOracle(loads_.CurrentOf(keys[i]),
                fails ? Outcome::kError : Outcome::kValue, call_.nanos);
    expected[i] = TextOf(fails ? Outcome::kError : Outcome::kValue);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (expected[i] == "as before") expected[i] = expected[i - 3];
    if (expected[i].empty()) {
      Compare("waits", absl::IsDeadlineExceeded(results[i].status()), true);
    } else {
      Compare("one of many", Text(results[i]), expected[i]);
    }
  }
  Compare("asked", absl::StrJoin(asked, " "), absl::StrJoin(led, " "));
}

void CacheDriver::Begin() {
  using Found = LoadOracle::Found;
  if (tickets_[call_.weight % kTickets].ticket) DropTicket();
  const int key = call_.key;
  LoadOptions options = Options();
  options.wait = absl::InfiniteDuration();
  Ticket& mine = tickets_[call_.weight % kTickets];
  mine.ticket = cache_->BeginLoad(key, options, [this](const auto& result) {
    told_.push_back(Text(result));
  });
  const Found found = loads_.Find(key);
  const std::optional<Value> hit = ReadAndRefreshInOracle();
  Compare("has a ticket", static_cast<bool>(mine.ticket),
          !hit && found == Found::kNothing);
  if (hit) {
    told_by_oracle_.push_back(absl::StrCat(*hit));
  } else if (found == Found::kFailure) {
    told_by_oracle_.push_back(Error().ToString());
  } else if (found == Found::kLoad) {
    ++loads_.loads.at(loads_.CurrentOf(key)).callbacks;
  } else {
    mine.load = loads_.Begin({key, false, ErrorTtlNanos(), 1});
  }
}

void CacheDriver::Finish() {
  Ticket& mine = tickets_[call_.weight % kTickets];
  if (!mine.ticket) return;
  const bool fails = call_.kind == CacheCall::kFinishError;
  using Result = absl::StatusOr<Loaded<Value>>;
  const bool stored = mine.ticket.Finish(
      fails ? Result(Error()) : Loaded<Value>{NewValue(), Ttl()});
  Compare("stored", stored,
          EndInOracle(mine.load, fails ? Outcome::kError : Outcome::kValue,
                      call_.nanos));
}

void CacheDriver::DropTicket() {
  Ticket& mine = tickets_[call_.weight % kTickets];
  if (!mine.ticket) return;
  mine.ticket = CacheType::Ticket();
  EndInOracle(mine.load, Outcome::kCancelled, 0);
}

bool CacheDriver::EndInOracle(int load, Outcome outcome, int64_t ttl) {
  const int key = loads_.loads.at(load).key;
  const bool stores = outcome == Outcome::kValue && loads_.IsCurrent(load) &&
                      ttl > 0 && Charge() <= oracle_.max_bytes();
  // What it makes of a failure comes before the end.
  const int told = loads_.EndLoad(
      load, {outcome == Outcome::kError, stores,
             static_cast<int64_t>(kEntryOverhead), RetryAfterNanos()});
  const std::string result =
      outcome == Outcome::kValue   ? absl::StrCat(NewValue())
      : outcome == Outcome::kError ? Error().ToString()
                                   : GivenUp().ToString();
  told_by_oracle_.insert(told_by_oracle_.end(), told, result);
  if (stores) SetInOracle(key, ttl);
  return stores;
}

absl::Status CacheDriver::GivenUp() const {
  return call_.kind == CacheCall::kFindOrLoadCancelled
             ? Cancelled()
             : absl::CancelledError("the load was given up");
}

std::string CacheDriver::TextOf(Outcome outcome) const {
  return outcome == Outcome::kValue   ? absl::StrCat(NewValue())
         : outcome == Outcome::kError ? Error().ToString()
                                      : Cancelled().ToString();
}

LoadOptions CacheDriver::Options() const {
  LoadOptions options;
  if (call_.max_age != CacheOracle::kNever) {
    options.max_age = absl::Nanoseconds(call_.max_age);
  }
  // Whatever else it may be waiting for, this thread would have to end.
  options.wait = absl::ZeroDuration();
  if (setup_.evicts_oldest()) options.error_ttl = Ttl();
  if (call_.weight % 2 == 0) options.ttl = Ttl();
  return options;
}

auto CacheDriver::NewLoaded() const -> Loaded<Value> {
  Loaded<Value> loaded{NewValue()};
  if (call_.weight % 2 != 0) loaded.ttl = Ttl();
  return loaded;
}

int64_t CacheDriver::AgeAt(int64_t now, int64_t created) {
  constexpr int64_t kStep = 20'000'000;
  constexpr int64_t kSteps = int64_t{1} << 31;
  const auto step = [](int64_t nanos) {
    return nanos / kStep - (nanos % kStep < 0);
  };
  const int64_t steps =
      ((step(now) - step(created)) % kSteps + kSteps) % kSteps;
  return steps < kSteps / 16 * 15 ? steps * kStep : 0;
}

bool CacheDriver::IsYoungInOracle(int key) {
  return oracle_.Live(key) &&
         AgeAt(oracle_.now, oracle_.entries[key].created) <= call_.max_age;
}

auto CacheDriver::ReadYoungInOracle(int key) -> std::optional<Value> {
  if (IsYoungInOracle(key)) return ReadInOracle(key);
  ++misses_;
  if (oracle_.Live(key)) ++too_old_;
  return std::nullopt;
}

}  // namespace wheelcache
