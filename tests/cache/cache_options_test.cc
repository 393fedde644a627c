// What options are refused, and with which words.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Creates a cache with the default options after `change`, and expects an error
// that names the field, the value and the rule.
void ExpectRefused(const std::function<void(CacheOptions&)>& change,
                   const std::string& field, const std::string& value,
                   const std::string& rule) {
  CacheOptions options;
  options.name = "sessions";
  change(options);
  const absl::Status status = Cache<int, int>::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"sessions\""),
                    HasSubstr(field + " is " + value), HasSubstr(rule)));
}

void ExpectAccepted(const std::function<void(CacheOptions&)>& change) {
  CacheOptions options;
  options.reaper = nullptr;
  change(options);
  const auto cache = Cache<int, int>::Create(options);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_TRUE((*cache)->CheckInvariants().ok());
}

TEST(CacheOptionsTest, DefaultsAreValid) {
  EXPECT_TRUE(internal::Validate({}, /*has_reload=*/false).ok());
}

TEST(CacheOptionsTest, DefaultsAreThoseOfTheHeader) {
  const CacheOptions options;
  EXPECT_EQ(kUnlimited, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(options.name, "cache");
  EXPECT_EQ(options.max_entries, kUnlimited);
  EXPECT_EQ(options.max_bytes, kUnlimited);
  EXPECT_EQ(options.default_ttl, absl::InfiniteDuration());
  EXPECT_EQ(options.jitter, 0.05);
  EXPECT_EQ(options.jitter_mode, JitterMode::kAround);
  EXPECT_EQ(options.jitter_seed, std::nullopt);
  EXPECT_EQ(options.policy, EvictionPolicy::kLru);
  EXPECT_EQ(options.refresh_after, absl::InfiniteDuration());
  EXPECT_EQ(options.refresh_at, 1);
  EXPECT_EQ(options.retry_after, absl::Seconds(1));
  EXPECT_EQ(options.max_refreshes, 16);
  EXPECT_FALSE(options.advise);
  EXPECT_EQ(options.shards, 0);
  EXPECT_EQ(options.tick, absl::Milliseconds(1));
  EXPECT_EQ(options.reclaim_delay, absl::Milliseconds(100));
  EXPECT_EQ(options.maintenance_budget, 64);
  EXPECT_EQ(options.clock, &Clock::Monotonic());
  EXPECT_EQ(options.reaper, &Reaper::Shared());
  EXPECT_FALSE(options.stats_log);
}

TEST(CacheOptionsTest, LimitsAreAtLeastOne) {
  for (const int64_t limit : {int64_t{0}, int64_t{-1}}) {
    const std::string value = std::to_string(limit);
    ExpectRefused([&](auto& o) { o.max_entries = limit; }, "max_entries", value,
                  "at least 1");
    ExpectRefused([&](auto& o) { o.max_bytes = limit; }, "max_bytes", value,
                  "at least 1");
  }
  ExpectAccepted([](auto& o) { o.max_entries = o.max_bytes = 1; });
  ExpectAccepted([](auto& o) { o.max_entries = o.max_bytes = kUnlimited; });
}

TEST(CacheOptionsTest, DefaultTtlIsMoreThanZero) {
  ExpectRefused([](auto& o) { o.default_ttl = absl::ZeroDuration(); },
                "default_ttl", "0", "more than zero");
  ExpectRefused([](auto& o) { o.default_ttl = absl::Seconds(-5); },
                "default_ttl", "-5s", "more than zero");
  ExpectAccepted([](auto& o) { o.default_ttl = absl::Nanoseconds(1); });
}

TEST(CacheOptionsTest, JitterIsAFraction) {
  ExpectRefused([](auto& o) { o.jitter = -0.1; }, "jitter", "-0.1", "0 to 1");
  ExpectRefused([](auto& o) { o.jitter = 1.1; }, "jitter", "1.1", "0 to 1");
  ExpectRefused([](auto& o) { o.jitter = std::nan(""); }, "jitter", "nan",
                "0 to 1");
  ExpectAccepted([](auto& o) { o.jitter = 0; });
  ExpectAccepted([](auto& o) { o.jitter = 1; });
}

TEST(CacheOptionsTest, ShardsAreAPowerOfTwo) {
  for (const int shards : {-1, 3, 6, 257, 512}) {
    ExpectRefused([&](auto& o) { o.shards = shards; }, "shards",
                  std::to_string(shards), "power of two up to 256");
  }
  for (const int shards : {0, 1, 2, 256}) {
    ExpectAccepted([&](auto& o) { o.shards = shards; });
  }
}

TEST(CacheOptionsTest, TickIsMoreThanZero) {
  ExpectRefused([](auto& o) { o.tick = absl::ZeroDuration(); }, "tick", "0",
                "from 1ns");
  ExpectRefused([](auto& o) { o.tick = absl::Seconds(-1); }, "tick", "-1s",
                "from 1ns");
  ExpectRefused([](auto& o) { o.tick = absl::InfiniteDuration(); }, "tick",
                "inf", "24h");
  ExpectAccepted([](auto& o) { o.tick = absl::Nanoseconds(1); });
  ExpectAccepted([](auto& o) { o.tick = absl::Hours(24); });
}

TEST(CacheOptionsTest, ReclaimDelayIsNotNegative) {
  ExpectRefused([](auto& o) { o.reclaim_delay = absl::Milliseconds(-1); },
                "reclaim_delay", "-1ms", "not be negative");
  ExpectAccepted([](auto& o) { o.reclaim_delay = absl::ZeroDuration(); });
  ExpectAccepted([](auto& o) { o.reclaim_delay = absl::InfiniteDuration(); });
}

TEST(CacheOptionsTest, MaintenanceBudgetIsAtLeastOne) {
  ExpectRefused([](auto& o) { o.maintenance_budget = 0; }, "maintenance_budget",
                "0", "at least 1");
  ExpectAccepted([](auto& o) { o.maintenance_budget = 1; });
  ExpectAccepted([](auto& o) {
    o.maintenance_budget = std::numeric_limits<int64_t>::max();
  });
}

TEST(CacheOptionsTest, ClockIsNotNull) {
  ExpectRefused([](auto& o) { o.clock = nullptr; }, "clock", "null",
                "must be a clock");
}

TEST(CacheOptionsTest, ReaperRunsOnTheCachesClock) {
  SimulatedClock clock;
  ExpectRefused([&](auto& o) { o.clock = &clock; }, "reaper",
                "on another clock", "RunMaintenance()");
  Reaper reaper(clock);
  ExpectRefused([&](auto& o) { o.reaper = &reaper; }, "reaper",
                "on another clock", "RunMaintenance()");
  ExpectAccepted([&](auto& o) {
    o.clock = &clock;
    o.reaper = &reaper;
  });
}

TEST(CacheOptionsTest, SmallCachesGetOneShardAndLargeOnesMany) {
  CacheOptions options;
  options.max_entries = 4096;
  EXPECT_EQ(internal::ShardCount(options), 1);
  options.max_entries = 100'000;
  EXPECT_EQ(internal::ShardCount(options), 16);
  options.max_entries = 1'000'000'000;
  EXPECT_EQ(internal::ShardCount(options), 64);
  options.max_bytes = 1 << 20;
  EXPECT_EQ(internal::ShardCount(options), 1);
  options.shards = 256;
  EXPECT_EQ(internal::ShardCount(options), 256);
}

}  // namespace
}  // namespace wheelcache
