// Reads the fuzzer's bytes as the options of a cache. They are refused exactly
// if they break a rule, with an error that names the field that does; and what
// is not refused makes a cache that works, however odd the numbers are.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using FuzzedCache = Cache<uint64_t, std::string>;

// Of an empty string: 40 bytes of header, 9 of key and value in a block of
// whole words, and 12 of the index.
constexpr int64_t kLeastCharge = 68;

void Require(bool condition, absl::string_view rule,
             const absl::Status& status) {
  if (condition) return;
  std::cerr << rule << ": " << status << std::endl;
  std::abort();
}

// Small numbers of either sign, the ends of the range, and all between.
int64_t IntFrom(Tape& tape) {
  switch (tape.Below(4)) {
    case 0:
      return static_cast<int64_t>(tape.Below(256)) - 3;
    case 1:
      return kUnlimited - static_cast<int64_t>(tape.Below(2));
    case 2:
      return -static_cast<int64_t>(tape.Number() >> 1);
    default:
      return static_cast<int64_t>(tape.Number() >> 1);
  }
}

absl::Duration DurationFrom(Tape& tape) {
  switch (tape.Below(5)) {
    case 0:
      return absl::InfiniteDuration();
    case 1:
      return -absl::InfiniteDuration();
    case 2:
      return absl::Seconds(IntFrom(tape));
    case 3:
      return absl::Nanoseconds(1) / 4 * static_cast<int64_t>(tape.Below(8));
    default:
      return absl::Nanoseconds(IntFrom(tape));
  }
}

double FractionFrom(Tape& tape) {
  if (tape.Below(2) == 0) return static_cast<double>(tape.Below(256)) / 250;
  const uint64_t bits = tape.Number();
  double any;
  std::memcpy(&any, &bits, sizeof(any));
  return any;
}

// Now and then one that there is not.
EvictionPolicy PolicyFrom(Tape& tape) {
  return static_cast<EvictionPolicy>(tape.Below(9) % 3);
}

// Each field keeps its default in half of the cases: otherwise hardly any
// options would break no rule.
CacheOptions OptionsFrom(Tape& tape) {
  CacheOptions options;
  if (tape.OneIn(2)) options.name.assign(tape.Below(64), '"');
  if (tape.OneIn(2)) options.max_entries = IntFrom(tape);
  if (tape.OneIn(2)) options.max_bytes = IntFrom(tape);
  if (tape.OneIn(2)) options.policy = PolicyFrom(tape);
  if (tape.OneIn(2)) options.default_ttl = DurationFrom(tape);
  if (tape.OneIn(2)) options.jitter = FractionFrom(tape);
  if (tape.OneIn(2)) options.jitter_mode = JitterMode::kShorten;
  if (tape.OneIn(2)) options.jitter_seed = tape.Number();
  if (tape.OneIn(2)) options.shards = 1 << tape.Below(9);
  if (tape.OneIn(4)) options.shards = static_cast<int>(IntFrom(tape));
  if (tape.OneIn(2)) options.tick = DurationFrom(tape);
  if (tape.OneIn(2)) options.reclaim_delay = DurationFrom(tape);
  if (tape.OneIn(2)) options.maintenance_budget = IntFrom(tape);
  if (tape.OneIn(2)) options.stats_log = [](absl::string_view) {};
  if (tape.OneIn(2)) options.idle_ttl = DurationFrom(tape);
  return options;
}

// Of its smallest entry, with the deadline that an idle TTL takes.
int64_t LeastCharge(const CacheOptions& options) {
  const bool idles = Clock::NanosAfter(0, options.idle_ttl) != Clock::kNever;
  return kLeastCharge + (idles ? 8 : 0);
}

bool IsPowerOfTwoUpTo256(int64_t number) {
  for (int64_t power = 1; power <= 256; power *= 2) {
    if (number == power) return true;
  }
  return false;
}

// The field that breaks its rule, as the comments of CacheOptions state them;
// of several the first, in the order in which they are checked: limits, expiry,
// engine. Empty if none does.
std::string BrokenField(const CacheOptions& options) {
  if (options.max_entries <= 0) return "max_entries";
  if (options.max_bytes < LeastCharge(options)) return "max_bytes";
  if (!(options.default_ttl > absl::ZeroDuration())) return "default_ttl";
  if (options.idle_ttl < absl::Nanoseconds(1'000)) return "idle_ttl";
  const bool jitter_is_fraction = options.jitter >= 0 && options.jitter <= 1;
  if (!jitter_is_fraction) return "jitter";
  if (options.tick < absl::Nanoseconds(1)) return "tick";
  if (options.tick > absl::Hours(24)) return "tick";
  if (options.reclaim_delay < absl::ZeroDuration()) return "reclaim_delay";
  if (options.policy != EvictionPolicy::kLru &&
      options.policy != EvictionPolicy::kScanResistant) {
    return "policy";
  }
  if (options.shards != 0 && !IsPowerOfTwoUpTo256(options.shards)) {
    return "shards";
  }
  if (options.maintenance_budget <= 0) return "maintenance_budget";
  if (options.clock == nullptr) return "clock";
  if (options.reaper == nullptr) return "";
  return &options.reaper->clock() == options.clock ? "" : "reaper";
}

void Use(FuzzedCache* cache, SimulatedClock* clock, Tape& tape) {
  for (uint64_t key = 0; key < 20; ++key) {
    const bool stored = cache->Set(key, std::string(key, 'v'));
    const std::optional<std::string> value = cache->Get(key);
    Require(stored || !value.has_value(), "what was not stored is not there",
            absl::OkStatus());
    Require(!value.has_value() || value->size() == key, "a value is its key's",
            absl::OkStatus());
    Require(cache->size() <= cache->options().max_entries &&
                cache->bytes() <= cache->options().max_bytes,
            "limits hold", absl::OkStatus());
    if (tape.OneIn(2)) clock->Advance(DurationFrom(tape));
    if (tape.OneIn(4)) cache->RunMaintenance();
  }
  cache->Stop();
  const absl::Status valid = cache->CheckInvariants();
  Require(valid.ok(), "the cache is valid", valid);
}

void Run(Tape tape) {
  SimulatedClock clock(
      tape.OneIn(2)
          ? absl::Nanoseconds(static_cast<int64_t>(tape.Number() >> 1))
          : absl::ZeroDuration(),
      absl::Nanoseconds(static_cast<int64_t>(tape.Below(3))));
  Reaper reaper(clock);
  CacheOptions options = OptionsFrom(tape);
  if (!tape.OneIn(16)) options.clock = &clock;
  if (tape.OneIn(16)) options.clock = nullptr;
  if (!tape.OneIn(8)) options.reaper = tape.OneIn(4) ? &reaper : nullptr;
  const std::string broken = BrokenField(options);
  const absl::Status status =
      internal::Validate(options, /*has_reload=*/false, LeastCharge(options));
  Require(status.ok() == broken.empty(),
          absl::StrCat("the rule of '", broken, "'"), status);
  // A cache on the real clock and its thread would not repeat.
  if (status.ok() && options.clock != &clock) return;
  auto cache = FuzzedCache::Create(options);
  Require(cache.status() == status, "Create says the same", cache.status());
  if (status.ok()) {
    Use(cache->get(), &clock, tape);
  } else {
    Require(status.code() == absl::StatusCode::kInvalidArgument &&
                absl::StrContains(status.message(),
                                  absl::StrCat(": ", broken, " is ")) &&
                absl::StrContains(status.message(), "must "),
            "the error names field, value and rule", status);
  }
}

}  // namespace
}  // namespace wheelcache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wheelcache::Run(wheelcache::Tape(absl::Span<const uint8_t>(data, size)));
  return 0;
}
