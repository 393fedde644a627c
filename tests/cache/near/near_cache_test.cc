// What near caches return, store and refuse; and legal uses of them that are
// not the usual ones: codecs that throw or call back, values of any type and
// size, forks, strange clocks.

#include "wheelcache/cache/near/near_cache.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/cache/near/near_environment.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

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

TEST(NearCacheStatsTest, AllIsZeroAtFirst) {
  NearCacheStats().ForEachMetric([](const Metric& metric) {
    EXPECT_EQ(metric.value, 0) << metric.name << " " << metric.label;
  });
  EXPECT_EQ(NearCacheStats().local_hit_ratio(), 0);
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
  options_.negative_ttl = absl::ZeroDuration();
  near = nullptr;
  near = New<std::string>();
  EXPECT_EQ(*near->Get("other"), std::nullopt);
  EXPECT_EQ(*near->Get("other"), std::nullopt);
  EXPECT_EQ(near->stats().fetched_absences, 2);
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

// Promise: A near cache is never staler than its bound
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

TEST_F(NearCacheTest, WhatDoesNotDecodeIsDataLossAndNotKept) {
  options_.local.name = "counts";
  options_.key_prefix = "n:";
  auto near = New<int32_t>();
  server_.Set("n:key", "seven");
  const auto result = near->Get("key");
  EXPECT_EQ(result.status(),
            absl::DataLossError("near cache \"counts\": a value does not "
                                "decode: must be an integer of 4 bytes; it has "
                                "5 bytes, of \"n:key\""));
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

TEST_F(NearCacheTest, KeysAreShownInOneLine) {
  auto near = New<int32_t>();
  const std::string key = "\nFATAL: forged" + std::string(1000, 'x');
  server_.Set(key, "seven");
  for (const absl::Status& status :
       {near->Get(key).status(), near->Set(key, 7, absl::ZeroDuration())}) {
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "\"\\nFATAL")) << status;
    EXPECT_LT(status.message().size(), 300);
  }
}

// Promise: One load per key
TEST_F(NearCacheTest, GetOrLoadLoadsWhatIsNowhereAndWritesIt) {
  auto near = New<std::string>();
  int loads = 0;
  const auto load = [&] { return absl::StrCat("value", ++loads); };
  EXPECT_EQ(*near->Get("key"), std::nullopt);  // Known to be absent.
  EXPECT_EQ(*near->GetOrLoad("key", load), "value1");
  EXPECT_EQ(server_.Get("key"), "value1");
  EXPECT_EQ(*near->GetOrLoad("key", load), "value1");
  EXPECT_EQ(*near->Get("key"), "value1");
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(near->stats().loads, 1);
  EXPECT_EQ(near->stats().writes, 1);
  server_.Set("key", "of another process");
  EXPECT_EQ(*near->GetOrLoad("key", load), "of another process");
}

// Promise: A near cache is never staler than its bound
TEST_F(NearCacheTest, WhatALoadHasWrittenIsSeenByTheNextGet) {
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), std::nullopt);
  store_.HoldMessages();
  EXPECT_EQ(*near->GetOrLoad("key", [] { return "value"; }), "value");
  EXPECT_EQ(*near->Get("key"), "value");
}

TEST_F(NearCacheTest, TheLoaderChoosesTheTtl) {
  auto near = New<std::string>();
  NearLoadOptions options;
  options.ttl = absl::Seconds(2);
  using Result = Loaded<std::string>;
  EXPECT_EQ(*near->GetOrLoad("a", options, [] { return "a"; }), "a");
  EXPECT_EQ(*near->GetOrLoad("b", options,
                             [] { return Result("b", absl::Seconds(1)); }),
            "b");
  EXPECT_EQ(*near->GetOrLoad("c", options,
                             [] { return Result("c", absl::ZeroDuration()); }),
            "c");
  EXPECT_EQ(server_.Get("c"), std::nullopt);
  RunFor(absl::Seconds(1));
  EXPECT_EQ(server_.Get("b"), std::nullopt);
  EXPECT_EQ(server_.Get("a"), "a");
  RunFor(absl::Seconds(1));
  EXPECT_EQ(server_.Get("a"), std::nullopt);
}

TEST_F(NearCacheTest, LoadsThatFailWriteNothing) {
  auto near = New<int64_t>();
  for (const absl::Duration lock : {absl::ZeroDuration(), absl::Hours(1)}) {
    NearLoadOptions options;
    options.load_lock = lock;
    const auto none = near->GetOrLoad("key", options, [] {
      return absl::StatusOr<int64_t>(absl::NotFoundError("no such user"));
    });
    EXPECT_EQ(none.status(), absl::NotFoundError("no such user"));
    EXPECT_EQ(server_.Get("key"), std::nullopt);
    // The next one does not wait for a lock.
    EXPECT_EQ(*near->GetOrLoad("key", options, [] { return 7; }), 7);
    EXPECT_TRUE(*near->Del("key"));
  }
  EXPECT_EQ(near->stats().failed_loads, 2);
  server_.Set("key", "not a number");
  EXPECT_TRUE(
      absl::IsDataLoss(near->GetOrLoad("key", [] { return 8; }).status()));
  NearLoadOptions wrong;
  wrong.load_lock = absl::InfiniteDuration();
  EXPECT_EQ(near->GetOrLoad("other", wrong, [] { return 9; }).status(),
            absl::InvalidArgumentError("NearLoadOptions: load_lock is inf, "
                                       "must be zero or more, and finite"));
}

TEST_F(NearCacheTest, AWriteDuringALoadBeatsIt) {
  for (const absl::Duration lock : {absl::ZeroDuration(), absl::Hours(1)}) {
    auto near = New<std::string>();
    auto elsewhere = NewElsewhere<std::string>();
    NearLoadOptions options;
    options.load_lock = lock;
    const auto load_during = [&](const std::function<void()>& write) {
      const auto loaded = near->GetOrLoad("key", options, [&] {
        write();
        return "loaded before";
      });
      EXPECT_EQ(*loaded, "loaded before");
      return near->Get("key")->value_or("(absent)");
    };
    EXPECT_EQ(load_during([&] { near->Del("key").IgnoreError(); }), "(absent)");
    EXPECT_EQ(load_during([&] {
                EXPECT_TRUE(near->Set("key", "newer").ok());
                EXPECT_TRUE(*elsewhere->Del("key"));
              }),
              "(absent)");
    EXPECT_EQ(
        load_during([&] {
          EXPECT_TRUE(near->Set("key", "newer", absl::Milliseconds(1)).ok());
          RunFor(absl::Milliseconds(2));  // Gone.
        }),
        "(absent)");
    EXPECT_EQ(load_during([&] { server_.Set("key", "newer"); }), "newer");
    EXPECT_TRUE(*near->Del("key"));
    if (lock == absl::ZeroDuration()) continue;
    EXPECT_EQ(load_during([&] { EXPECT_FALSE(*elsewhere->Del("key")); }),
              "(absent)");
  }
}

// Promise: One load per key
TEST_F(NearCacheTest, NobodyJoinsALoadThatAWriteHasBeaten) {
  auto near = New<std::string>();
  const std::vector<std::function<void()>> writes = {
      [&] { near->Del("key").IgnoreError(); },
      [&] {
        server_.Set("key", "newer");
        server_.Del("key");
      },
      [&] { server_.FlushAll(); },
      [&] {
        store_.Disconnect();
        server_.Set("key", "newer");  // Nobody is told.
        server_.Del("key");
      }};
  for (const std::function<void()>& write : writes) {
    const auto loaded = near->GetOrLoad("key", [&] {
      write();
      EXPECT_EQ(*near->GetOrLoad("key", [] { return "loaded after"; }),
                "loaded after");
      return "loaded before";
    });
    EXPECT_EQ(*loaded, "loaded before");
    EXPECT_EQ(*near->Get("key"), "loaded after");
    EXPECT_TRUE(*near->Del("key"));
  }
}

// Promise: One load per key
TEST_F(NearCacheTest, NobodyJoinsALoadOfBeforeTheSession) {
  auto near = New<std::string>();
  store_.Disconnect();
  const auto loaded = near->GetOrLoad("key", [&] {
    server_.Set("key", "newer");  // Nobody is told.
    server_.Del("key");
    RunFor(absl::Seconds(1));
    EXPECT_EQ(near->stats().sessions, 2);
    EXPECT_EQ(*near->GetOrLoad("key", [] { return "loaded after"; }),
              "loaded after");
    return "loaded before";
  });
  EXPECT_EQ(*loaded, "loaded before");
}

TEST_F(NearCacheTest, LoadsGoOnWhileTheStoreIsDown) {
  auto near = New<std::string>();
  for (const absl::Duration lock : {absl::ZeroDuration(), absl::Hours(1)}) {
    NearLoadOptions options;
    options.load_lock = lock;
    store_.set_reachable(false);
    const int before = fetches();
    EXPECT_EQ(*near->GetOrLoad("key", options, [] { return "value"; }),
              "value");
    EXPECT_EQ(fetches() - before, 1);  // It does not wait for it again.
    store_.set_reachable(true);
    EXPECT_EQ(server_.Get("key"), std::nullopt);
    // The store fails between the look-up and the write.
    EXPECT_EQ(*near->GetOrLoad("key", options,
                               [&] {
                                 server_.Stop();
                                 return "value";
                               }),
              "value");
    server_.Continue();
    EXPECT_EQ(server_.Get("key"), "value");  // As after any timeout.
    server_.Del("key");
  }
}

TEST_F(NearCacheTest, ALoadThatTakesLongerThanItsLockIsNotWritten) {
  auto near = New<std::string>();
  NearLoadOptions options;
  options.load_lock = absl::Seconds(1);
  EXPECT_EQ(*near->GetOrLoad("key", options,
                             [&] {
                               RunFor(absl::Seconds(1));
                               return "late";
                             }),
            "late");
  EXPECT_EQ(server_.Get("key"), std::nullopt);
}

TEST_F(NearCacheTest, WhoeverDoesNotWaitForALockLoadsWithoutWriting) {
  auto near = New<std::string>();
  auto elsewhere = NewElsewhere<std::string>();
  NearLoadOptions options;
  options.load_lock = absl::Seconds(1);
  NearLoadOptions impatient = options;
  impatient.wait = absl::ZeroDuration();
  EXPECT_EQ(*near->GetOrLoad("key", options,
                             [&] {
                               EXPECT_EQ(*elsewhere->GetOrLoad(
                                             "key", impatient,
                                             [] { return "of the other"; }),
                                         "of the other");
                               EXPECT_EQ(server_.Get("key"), std::nullopt);
                               return "value";
                             }),
            "value");
  EXPECT_EQ(*elsewhere->Get("key"), "value");
}

TEST_F(NearCacheTest, BeginGetIsAGetThatDoesNotWait) {
  auto near = New<std::string>();
  server_.Set("key", "value");
  const auto get = [&](absl::string_view key) {
    std::optional<NearCache<std::string>::Result> got;
    near->BeginGet(key, [&](auto result) { got = std::move(result); });
    return got;
  };
  EXPECT_EQ(**get("key"), "value");
  EXPECT_EQ(**get("key"), "value");
  EXPECT_EQ(**get("none"), std::nullopt);
  EXPECT_EQ(near->stats().local_hits, 1);
  EXPECT_EQ(near->stats().fetched_hits, 1);
  EXPECT_EQ(near->stats().fetched_absences, 1);
  store_.set_reachable(false);
  near->Del("key").status().IgnoreError();
  EXPECT_TRUE(absl::IsUnavailable(get("key")->status()));
  EXPECT_EQ(near->stats().failed_reads, 1);
}

// One Get leads, others join, and the write of another process comes between.
TEST_F(NearCacheTest, BeginGetJoinsAndIsSuperseded) {
  auto near = New<std::string>();
  server_.Set("key", "old");
  std::vector<std::string> got;
  const auto begin = [&] {
    near->BeginGet("key", [&](auto result) { got.push_back(**result); });
  };
  Once(Step::kExecuted, [&] {
    begin();
    EXPECT_TRUE(got.empty());
    server_.Set("key", "new");
    begin();
    EXPECT_EQ(got, std::vector<std::string>({"new"}));
  });
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(got, std::vector<std::string>({"new", "old"}));
  EXPECT_EQ(*near->Get("key"), "new");
}

TEST_F(NearCacheTest, ManyKeysAreWrittenAtOnceAndTheLastOfEqualOnesCounts) {
  auto near = New<std::string>();
  const auto set = near->SetMany({{"a", "1", absl::Seconds(1)},
                                  {"b", "2", absl::ZeroDuration()},
                                  {"c", "3"},
                                  {"c", "4"}});
  ASSERT_EQ(set.size(), 4);
  EXPECT_TRUE(set[0].ok());
  EXPECT_TRUE(absl::IsInvalidArgument(set[1]));
  EXPECT_TRUE(set[2].ok());
  EXPECT_TRUE(set[3].ok());
  EXPECT_EQ(server_.Get("a"), "1");
  EXPECT_EQ(server_.Get("b"), std::nullopt);
  EXPECT_EQ(server_.Get("c"), "4");
  EXPECT_EQ(near->stats().writes, 3);
  EXPECT_EQ(near->stats().failed_writes, 1);
  EXPECT_EQ(*near->Get("c"), "4");
  const auto deleted = near->DelMany({"c", "none", "c"});
  ASSERT_EQ(deleted.size(), 3);
  EXPECT_EQ(*deleted[0], true);
  EXPECT_EQ(*deleted[1], false);
  EXPECT_EQ(*deleted[2], true);
  EXPECT_EQ(*near->Get("c"), std::nullopt);
  EXPECT_TRUE(near->SetMany({}).empty());
  EXPECT_TRUE(near->DelMany({}).empty());
}

TEST_F(NearCacheTest, TtlOfZeroOrLessIsRefused) {
  auto near = New<std::string>();
  server_.Set("key", "old");
  EXPECT_EQ(near->Set("key", "new", absl::ZeroDuration()),
            absl::InvalidArgumentError(
                "near cache \"near\": the ttl of a Set must be more than zero; "
                "it is 0, of \"key\""));
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(near->stats().failed_writes, 1);
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

TEST_F(NearCacheTest, AnyBytesAreAValueAndAKey) {
  auto near = New<std::string>();
  const std::string key("k\0\n\xff", 4);
  for (const std::string& value :
       {std::string("\0\r\n\xff", 4), std::string()}) {
    EXPECT_TRUE(near->Set(key, value).ok());
    EXPECT_EQ(*near->Get(key), value);
    EXPECT_EQ(*near->Get(key), value);
  }
  EXPECT_EQ(near->stats().local_hits, 2);
  EXPECT_EQ(*near->Get(""), std::nullopt);
}

TEST_F(NearCacheTest, NumbersKeepTheirRange) {
  auto near = New<uint64_t>();
  EXPECT_TRUE(near->Set("key", std::numeric_limits<uint64_t>::max()).ok());
  EXPECT_EQ(server_.Get("key"), "18446744073709551615");
  EXPECT_EQ(*near->Get("key"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*near->Get("key"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(*near->Get("absent"), std::nullopt);
  EXPECT_EQ(fetches(), 2);
  for (const absl::string_view bad : {"-1", ""}) {
    server_.Set("key", bad);
    EXPECT_TRUE(absl::IsDataLoss(near->Get("key").status()));
  }
}

TEST_F(NearCacheTest, OptionsThatBreakARuleAreNamed) {
  struct Case {
    std::function<void(NearCacheOptions*)> breaks;
    absl::string_view error;
  };
  using O = NearCacheOptions;
  const Case cases[] = {
      {[](O* o) { o->local.jitter_mode = JitterMode::kAround; },
       "NearCacheOptions of \"near\": local.jitter_mode is kAround, must be "
       "kShorten, so that no value lives longer here than in the store"},
      {[](O* o) { o->local.clock = &Clock::Monotonic(); },
       "local.clock is not the clock of the store"},
      {[](O* o) { o->local.max_entries = 0; },
       "max_entries is 0, must be at least 1"},
      {[](O* o) { o->max_staleness = absl::Milliseconds(9); },
       "max_staleness is 9ms, must be from 10ms"},
      {[](O* o) { o->max_staleness = absl::InfiniteDuration(); },
       "max_staleness is inf, must be"},
      {[](O* o) { o->command_timeout = absl::Nanoseconds(3'000'000'001); },
       "command_timeout is 3.000000001s, must be more than zero and at most "
       "max_staleness, which is 3s"},
      {[](O* o) { o->command_timeout = absl::ZeroDuration(); },
       "command_timeout is 0, must be more than"},
      {[](O* o) { o->max_local_ttl = absl::ZeroDuration(); },
       "max_local_ttl is 0, must be more than zero"},
      {[](O* o) { o->negative_ttl = -absl::Seconds(1); },
       "negative_ttl is -1s, must not be negative"},
  };
  for (const Case& each : cases) {
    NearCacheOptions options = options_;
    each.breaks(&options);
    const auto near = NearCache<std::string>::Create(options, &store_);
    EXPECT_TRUE(absl::IsInvalidArgument(near.status()));
    EXPECT_THAT(near.status().message(), HasSubstr(each.error));
  }
}

// Uses that are not the usual ones.

struct ThrowingCodec {
  std::string Encode(const std::string& value) const {
    if (value == "throw") throw std::runtime_error("cannot be encoded");
    return value;
  }
  absl::StatusOr<std::string> Decode(absl::string_view bytes) const {
    if (bytes == "bad") throw std::runtime_error("cannot be decoded");
    return std::string(bytes);
  }
};
TEST_F(NearCacheTest, CodecThatThrowsLeavesNoKeyStuck) {
  auto near = New<std::string, ThrowingCodec>();
  server_.Set("key", "bad");
  EXPECT_THROW((void)near->Get("key"), std::runtime_error);
  EXPECT_THROW((void)near->GetMany({"other", "key"}), std::runtime_error);
  EXPECT_THROW((void)near->Set("key", "throw"), std::runtime_error);
  server_.Set("key", "good");
  EXPECT_EQ(*near->Get("key"), "good");
  EXPECT_EQ(*near->Get("other"), std::nullopt);
}

// Reads another key of the same near cache while it decodes.
struct CallingCodec {
  std::string Encode(const std::string& value) const { return value; }
  absl::StatusOr<std::string> Decode(absl::string_view bytes) const {
    if (bytes != "see other") return std::string(bytes);
    const auto other = (*near)->Get("other");
    if (!other.ok()) return other.status();
    return other->value_or("");
  }
  NearCache<std::string, CallingCodec>** near;
};
TEST_F(NearCacheTest, CodecMayReadTheNearCache) {
  NearCache<std::string, CallingCodec>* self = nullptr;
  auto near = New<std::string, CallingCodec>({&self});
  self = near.get();
  server_.Set("key", "see other");
  server_.Set("other", "found");
  EXPECT_EQ(*near->Get("key"), "found");
}

// A type with the interface of a protocol buffer.
struct Message {
  bool SerializeToString(std::string* bytes) const {
    *bytes = "m" + text;
    return true;
  }
  bool ParseFromString(const std::string& bytes) {
    if (bytes.empty() || bytes[0] != 'm') return false;
    text = bytes.substr(1);
    return true;
  }
  std::string text;
};
TEST_F(NearCacheTest, MessagesNeedNoCodec) {
  auto near = New<Message>();
  EXPECT_TRUE(near->Set("key", Message{"hello"}).ok());
  EXPECT_EQ((**near->Get("key")).text, "hello");
  server_.Set("key", "?");
  EXPECT_TRUE(absl::IsDataLoss(near->Get("key").status()));
}

TEST_F(NearCacheTest, ValueThatIsTooLargeForTheLocalTierIsFetchedEachTime) {
  options_.local.max_bytes = 100'000;
  auto near = New<std::string>();
  const std::string large(200'000, 'x');
  EXPECT_TRUE(near->Set("key", large).ok());
  EXPECT_EQ(*near->Get("key"), large);
  EXPECT_EQ(*near->Get("key"), large);
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearCacheTest, ClocksMayStartAnywhere) {
  for (const absl::Duration start :
       {-absl::Hours(24 * 365 * 200), absl::Hours(24 * 365 * 200)}) {
    SimulatedClock clock(start);
    FakeServer server(&clock);
    FakeStore store(&server);
    options_.local.clock = &clock;
    auto near = *NearCache<std::string>::Create(options_, &store);
    server.Set("key", "old", absl::Seconds(10));
    EXPECT_EQ(*near->Get("key"), "old");
    EXPECT_EQ(*near->Get("key"), "old");
    EXPECT_EQ(near->stats().local_hits, 1);
    store.LoseMessages();
    server.Set("key", "new");
    clock.Advance(options_.max_staleness);
    EXPECT_EQ(*near->Get("key"), "new");
  }
}

// A value whose end calls the near cache that it was in, also on the thread
// that tells of a write.
struct Caller {
  explicit Caller(std::function<void()>* call) : call(call) {}
  ~Caller() {
    if (*call) (*call)();
  }
  std::function<void()>* call;
};
struct CallerCodec {
  std::string Encode(const std::shared_ptr<Caller>&) const { return "x"; }
  absl::StatusOr<std::shared_ptr<Caller>> Decode(absl::string_view) const {
    return std::make_shared<Caller>(call);
  }
  std::function<void()>* call;
};
TEST_F(NearCacheTest, DestructorsOfValuesMayCallTheNearCacheAndTheServer) {
  std::function<void()> call;
  int calls = 0;
  {
    auto near = New<std::shared_ptr<Caller>, CallerCodec>({&call});
    call = [&] {
      if (++calls > 3) return;
      (void)near->Get("other");
      server_.Set("key", "again");
      (void)near->stats();
    };
    server_.Set("key", "x");
    EXPECT_TRUE(near->Get("key").ok());
    server_.Set("key", "y");
    EXPECT_TRUE(near->Get("key").ok());
    RunFor(absl::Seconds(1));
    EXPECT_GT(calls, 0);
    calls = 100;
  }
  call = nullptr;
}

}  // namespace
}  // namespace wheelcache
