#include "wheelcache/cache/near/near_cache.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/fake_store.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/cache/near/near_environment.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NearCacheTest : public NearEnvironment {};

TEST_F(NearCacheTest, MissIsFetchedOnceAndThenLocal) {
  auto near = New<std::string>();
  server_.Set("key", "value");
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(fetches(), 1);
  const NearCacheStats stats = near->stats();
  EXPECT_EQ(stats.local_hits, 1);
  EXPECT_EQ(stats.fetched_hits, 1);
  EXPECT_EQ(stats.reads(), 2);
  EXPECT_EQ(stats.local_hit_ratio(), 0.5);
}

TEST_F(NearCacheTest, AbsenceIsRememberedForItsTtlAndUntilTheKeyIsSet) {
  options_.negative_ttl = absl::Seconds(2);
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(fetches(), 1);
  RunFor(absl::Seconds(2));
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
  server_.Set("key", "value");
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(near->stats().local_absences, 1);
  EXPECT_EQ(near->stats().fetched_absences, 2);
}

TEST_F(NearCacheTest, AbsenceIsNotKeptWithANegativeTtlOfZero) {
  options_.negative_ttl = absl::ZeroDuration();
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearCacheTest, EmptyStringIsAValue) {
  auto near = New<std::string>();
  EXPECT_TRUE(near->Set("key", "").ok());
  EXPECT_EQ(*near->Get("key"), "");
  EXPECT_EQ(*near->Get("key"), "");
  EXPECT_EQ(*near->Get(""), std::nullopt);
  EXPECT_EQ(near->stats().local_hits, 1);
}

TEST_F(NearCacheTest, ForeignWritesAreSeenOnceTheyAreTold) {
  auto near = New<std::string>();
  server_.Set("key", "1");
  EXPECT_EQ(*near->Get("key"), "1");
  server_.Set("key", "2");
  EXPECT_EQ(*near->Get("key"), "2");
  server_.Del("key");
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  server_.Set("key", "3");
  EXPECT_EQ(*near->Get("key"), "3");
  server_.FlushAll();
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(near->stats().flushes, 1);
  EXPECT_EQ(near->stats().invalidations, 4);
  EXPECT_EQ(near->stats().useful_invalidations, 3);
}

TEST_F(NearCacheTest, WritesOfOneProcessAreSeenInAnother) {
  auto here = New<std::string>();
  auto there = NewElsewhere<std::string>();
  EXPECT_TRUE(here->Set("key", "1").ok());
  EXPECT_EQ(*there->Get("key"), "1");
  EXPECT_EQ(*here->Get("key"), "1");
  EXPECT_TRUE(there->Set("key", "2").ok());
  EXPECT_EQ(*here->Get("key"), "2");
  EXPECT_TRUE(*here->Del("key"));
  EXPECT_FALSE(*here->Del("key"));
  EXPECT_EQ(*there->Get("key"), std::nullopt);
}

TEST_F(NearCacheTest, LocalTtlIsTheRemoteOneAtMost) {
  auto near = New<std::string>();
  store_.HoldMessages();  // Expiry alone, without the message of it.
  store_.ReleaseMessages();
  server_.Set("key", "value", absl::Seconds(1));
  RunFor(absl::Milliseconds(400));
  EXPECT_EQ(*near->Get("key"), "value");
  store_.HoldMessages();
  clock_.Advance(absl::Milliseconds(599));
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(fetches(), 1);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearCacheTest, LocalTtlCountsFromSending) {
  auto near = New<std::string>();
  server_.Set("key", "value", absl::Seconds(1));
  Once(Step::kExecuted, [&] { clock_.Advance(absl::Milliseconds(300)); });
  EXPECT_EQ(*near->Get("key"), "value");
  store_.HoldMessages();
  clock_.Advance(absl::Milliseconds(699));
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(fetches(), 1);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(*near->Get("key"), std::nullopt);
}

TEST_F(NearCacheTest, NothingIsKeptLongerThanMaxLocalTtl) {
  options_.max_local_ttl = absl::Seconds(5);
  auto near = New<std::string>();
  server_.Set("for ever", "value");
  server_.Set("an hour", "value", absl::Hours(1));
  EXPECT_TRUE(near->Get("for ever").ok());
  EXPECT_TRUE(near->Get("an hour").ok());
  RunFor(absl::Seconds(5));
  EXPECT_TRUE(near->Get("for ever").ok());
  EXPECT_TRUE(near->Get("an hour").ok());
  EXPECT_EQ(fetches(), 4);
}

TEST_F(NearCacheTest, JitterShortensTheLocalTtlOnly) {
  options_.local.jitter = 1;
  options_.max_local_ttl = absl::Seconds(1);
  auto near = New<std::string>();
  for (int i = 0; i < 100; ++i) {
    server_.Set(std::to_string(i), "value");
    EXPECT_TRUE(near->Get(std::to_string(i)).ok());
  }
  RunFor(absl::Seconds(1));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(near->Get(std::to_string(i)).ok());
  }
  EXPECT_EQ(fetches(), 200);
}

TEST_F(NearCacheTest, KeysHaveThePrefixInTheStore) {
  options_.key_prefix = "user:";
  auto near = New<std::string>();
  server_.Set("user:alice", "1");
  EXPECT_EQ(*near->Get("alice"), "1");
  server_.Set("user:alice", "2");
  EXPECT_EQ(*near->Get("alice"), "2");
  server_.Set("alice", "3");
  EXPECT_EQ(*near->Get("alice"), "2");
  EXPECT_TRUE(near->Set("bob", "4").ok());
  EXPECT_EQ(server_.Get("user:bob"), "4");
  EXPECT_EQ(*near->GetMany({"bob"})[0], "4");
  EXPECT_TRUE(*near->Del("bob"));
  EXPECT_EQ(server_.Get("user:bob"), std::nullopt);
}

TEST_F(NearCacheTest, NumbersAndMessagesHaveCodecs) {
  auto near = New<int64_t>();
  EXPECT_TRUE(near->Set("key", -7).ok());
  EXPECT_EQ(server_.Get("key"), "-7");
  EXPECT_EQ(*near->Get("key"), -7);
  EXPECT_EQ(*near->Get("key"), -7);
  EXPECT_EQ(fetches(), 1);
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearCacheTest, WhatDoesNotDecodeIsDataLossAndNotKept) {
  options_.local.name = "counts";
  options_.key_prefix = "n:";
  auto near = New<int64_t>();
  server_.Set("n:key", "seven");
  const auto result = near->Get("key");
  EXPECT_EQ(result.status(),
            absl::DataLossError("near cache \"counts\": the value of \"n:key\","
                                " of 5 bytes, does not decode: must be an "
                                "integer of 8 bytes"));
  EXPECT_TRUE(absl::IsDataLoss(near->Get("key").status()));
  EXPECT_EQ(fetches(), 2);
  EXPECT_EQ(near->stats().undecodable, 2);
  server_.Set("n:good", "7");
  const auto many = near->GetMany({"key", "good"});
  EXPECT_TRUE(absl::IsDataLoss(many[0].status()));
  EXPECT_EQ(*many[1], 7);
}

TEST_F(NearCacheTest, GetFreshSeesWhatTheStoreHasNotToldYet) {
  auto near = New<std::string>();
  server_.Set("key", "1");
  EXPECT_EQ(*near->Get("key"), "1");
  store_.HoldMessages();
  server_.Set("key", "2");
  EXPECT_EQ(*near->Get("key"), "1");
  EXPECT_EQ(*near->GetFresh("key"), "2");
  EXPECT_EQ(*near->Get("key"), "2");  // Never back.
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearCacheTest, GetManyFetchesWhatIsMissingAtOnce) {
  auto near = New<std::string>();
  server_.Set("a", "1");
  server_.Set("b", "2");
  EXPECT_EQ(*near->Get("a"), "1");
  const auto results = near->GetMany({"b", "a", "b", "c", "a"});
  std::vector<std::optional<std::string>> values;
  for (const auto& result : results) values.push_back(*result);
  EXPECT_THAT(values, ElementsAre("2", "1", "2", std::nullopt, "1"));
  EXPECT_EQ(fetches(), 2);
  EXPECT_TRUE(near->GetMany({}).empty());
  EXPECT_EQ(near->GetMany({"a", "b", "c"}).size(), 3);
  EXPECT_EQ(fetches(), 2);
  EXPECT_EQ(near->stats().reads(), 1 + 3 + 3);
}

TEST_F(NearCacheTest, TtlOfZeroOrLessIsRefused) {
  auto near = New<std::string>();
  server_.Set("key", "old");
  EXPECT_EQ(near->Set("key", "new", absl::ZeroDuration()),
            absl::InvalidArgumentError(
                "Set of \"key\" in near cache \"near\": ttl is 0, must be more "
                "than zero"));
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(near->stats().failed_writes, 1);
}

TEST_F(NearCacheTest, DefaultsAreThoseOfTheHeader) {
  const NearCacheOptions options;
  EXPECT_EQ(options.local.name, "near");
  EXPECT_EQ(options.local.jitter_mode, JitterMode::kShorten);
  EXPECT_EQ(options.local.max_entries, kUnlimited);
  EXPECT_EQ(options.key_prefix, "");
  EXPECT_EQ(options.max_staleness, absl::Seconds(3));
  EXPECT_EQ(options.command_timeout, absl::Milliseconds(500));
  EXPECT_EQ(options.max_local_ttl, absl::Minutes(10));
  EXPECT_EQ(options.negative_ttl, absl::Seconds(30));
  EXPECT_FALSE(options.stale_if_error);
}

TEST_F(NearCacheTest, OptionsThatBreakARuleAreNamed) {
  const auto error = [&] {
    return std::string(
        NearCache<std::string>::Create(options_, &store_).status().message());
  };
  const NearCacheOptions good = options_;
  options_.local.jitter_mode = JitterMode::kAround;
  EXPECT_EQ(
      error(),
      "NearCacheOptions of \"near\": local.jitter_mode is kAround, must "
      "be kShorten, so that no value lives longer here than in the store");
  options_ = good;
  options_.local.clock = &Clock::Monotonic();
  EXPECT_THAT(error(), HasSubstr("local.clock is not the clock of the store"));
  options_ = good;
  options_.local.max_entries = 0;
  EXPECT_THAT(error(), HasSubstr("max_entries is 0, must be at least 1"));
  options_ = good;
  options_.max_staleness = absl::Milliseconds(9);
  EXPECT_THAT(error(), HasSubstr("max_staleness is 9ms, must be from 10ms"));
  options_.max_staleness = absl::InfiniteDuration();
  EXPECT_THAT(error(), HasSubstr("max_staleness is inf, must be"));
  options_ = good;
  options_.command_timeout = options_.max_staleness + absl::Nanoseconds(1);
  EXPECT_THAT(error(), HasSubstr("command_timeout is 3.000000001s, must be "
                                 "more than zero and at most max_staleness, "
                                 "which is 3s"));
  options_.command_timeout = absl::ZeroDuration();
  EXPECT_THAT(error(), HasSubstr("command_timeout is 0, must be more than"));
  options_ = good;
  options_.max_local_ttl = absl::ZeroDuration();
  EXPECT_THAT(error(), HasSubstr("max_local_ttl is 0, must be more than zero"));
  options_ = good;
  options_.negative_ttl = -absl::Seconds(1);
  EXPECT_THAT(error(), HasSubstr("negative_ttl is -1s, must not be negative"));
}

TEST_F(NearCacheTest, OverlappingPrefixesAreRefused) {
  options_.key_prefix = "user:";
  auto near = New<std::string>();
  for (const absl::string_view prefix : {"user:", "user:a", "us", ""}) {
    options_.key_prefix = std::string(prefix);
    EXPECT_THAT(
        NearCache<std::string>::Create(options_, &store_).status().message(),
        HasSubstr("overlaps with \"user:\""))
        << prefix;
  }
  options_.key_prefix = "item:";
  auto items = New<std::string>();
  near.reset();
  options_.key_prefix = "user:";
  EXPECT_TRUE(NearCache<std::string>::Create(options_, &store_).ok());
}

}  // namespace
}  // namespace wheelcache
