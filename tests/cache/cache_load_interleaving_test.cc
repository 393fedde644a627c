// Loads and refreshes that something overtakes between any two of their steps.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache {
namespace {

using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Task = std::function<void()>;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result NeverCalled() { return absl::InternalError("called"); }

// A write that supersedes loads of key 1, and what it leaves there.
struct Overtaking {
  const char* name;
  void (*write)(StringCache&);
  std::optional<std::string> leaves;
};

std::vector<Overtaking> AllThatSupersede() {
  return {
      {"Set", [](StringCache& cache) { cache.Set(1, "set"); }, "set"},
      {"Del", [](StringCache& cache) { cache.Del(1); }, std::nullopt},
      {"Clear", [](StringCache& cache) { cache.Clear(); }, std::nullopt},
      {"refused Set",
       [](StringCache& cache) { cache.Set(1, "", absl::ZeroDuration()); },
       std::nullopt},
      {"Touch that deletes",
       [](StringCache& cache) { cache.Touch(1, absl::ZeroDuration()); },
       std::nullopt},
  };
}

class CacheLoadInterleavingTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  CacheLoadInterleavingTest() {
    options_.default_ttl = absl::Minutes(10);
    hooks_.reload = [this](int, std::string_view) -> Result {
      if (reload_) return reload_();
      return Value("loaded");
    };
  }

  std::unique_ptr<StringCache> NewCache() {
    return New<int, std::string>(hooks_);
  }

  StringCache::Hooks hooks_;
  std::function<Result()> reload_;
};

TEST_P(CacheLoadInterleavingTest, WritesSupersedeALoadBetweenAnyTwoSteps) {
  for (const Overtaking& overtaking : AllThatSupersede()) {
    for (const char* const point :
         {"in the loader", "store: between clock and lock",
          "store: after the lock"}) {
      SCOPED_TRACE(std::string(overtaking.name) + ", " + point);
      auto cache = NewCache();
      const auto overtake = [&] { overtaking.write(*cache); };
      const bool in_loader = std::string(point) == "in the loader";
      if (!in_loader) At(point, overtake);
      const auto loaded = cache->FindOrLoad(1, {}, [&] {
        if (in_loader) overtake();
        return Value("loaded");
      });
      EXPECT_EQ(loaded->value(), "loaded");
      EXPECT_EQ(cache->Get(1), overtaking.leaves);
      EXPECT_TRUE(cache->CheckInvariants().ok());
    }
  }
}

TEST_P(CacheLoadInterleavingTest, WriteBeforeALoadJoinsIsSeenByIt) {
  auto cache = NewCache();
  At("load: before it joins", [&] { cache->Set(1, "set"); });
  EXPECT_EQ(cache->FindOrLoad(1, {}, NeverCalled)->value(), "set");
  cache->Del(1);
  At("load: before it joins", [&] { cache->Del(1); });
  const auto load = [] { return Value("loaded"); };
  EXPECT_EQ(cache->FindOrLoad(1, {}, load)->value(), "loaded");
  EXPECT_EQ(cache->Get(1), "loaded");
}

// The load began because there was nothing, so that there is nothing to delete.
TEST_P(CacheLoadInterleavingTest, DelOfWhatExpiredBeforeALoadFindsNothing) {
  auto cache = NewCache();
  cache->Set(1, "old", absl::Seconds(1));
  StringCache::Ticket ticket;
  At("remove: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    ticket = cache->BeginLoad(1, {}, [](const auto&) {});
    EXPECT_TRUE(ticket);
  });
  EXPECT_FALSE(cache->Del(1));
  EXPECT_FALSE(ticket.Finish(Value("loaded")));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_P(CacheLoadInterleavingTest, WritesSupersedeATicketBetweenAnyTwoSteps) {
  for (const Overtaking& overtaking : AllThatSupersede()) {
    for (const char* const point :
         {"before Finish", "store: between clock and lock",
          "store: after the lock"}) {
      SCOPED_TRACE(std::string(overtaking.name) + ", " + point);
      auto cache = NewCache();
      std::string told;
      auto ticket = cache->BeginLoad(
          1, {}, [&](const auto& result) { told = std::string(**result); });
      const auto overtake = [&] { overtaking.write(*cache); };
      if (std::string(point) == "before Finish") {
        overtake();
      } else {
        At(point, overtake);
      }
      ticket.Finish(Value("loaded"));
      EXPECT_EQ(told, "loaded");
      EXPECT_EQ(cache->Get(1), overtaking.leaves);
    }
  }
}

TEST_P(CacheLoadInterleavingTest, WritesSupersedeARefreshBetweenAnyTwoSteps) {
  for (const Overtaking& overtaking : AllThatSupersede()) {
    for (const char* const point :
         {"refresh: between claim and queue", "refresh: before it starts",
          "refresh: before reload", "refresh: after reload",
          "store: between clock and lock", "store: after the lock"}) {
      SCOPED_TRACE(std::string(overtaking.name) + ", " + point);
      auto cache = NewCache();
      cache->Set(1, "old");
      At(point, [&] { overtaking.write(*cache); });
      cache->Refresh(1);
      EXPECT_EQ(cache->Get(1), overtaking.leaves);
      EXPECT_TRUE(cache->CheckInvariants().ok());
      // Nothing is left behind that keeps the key from being refreshed.
      cache->Set(1, "next");
      EXPECT_TRUE(cache->Refresh(1));
      EXPECT_EQ(cache->Get(1), "loaded");
    }
  }
}

TEST_P(CacheLoadInterleavingTest, ExpiryAndEvictionLetARefreshGoOn) {
  options_.max_entries = 1;
  for (const char* const point :
       {"refresh: before it starts", "refresh: before reload",
        "refresh: after reload", "store: between clock and lock"}) {
    for (const bool expires : {false, true}) {
      SCOPED_TRACE(point);
      auto cache = NewCache();
      cache->Set(1, "old", absl::Seconds(1));
      At(point, [&] {
        if (expires) {
          clock_.Advance(absl::Seconds(1));
        } else {
          cache->Set(2, "other");
        }
      });
      EXPECT_TRUE(cache->Refresh(1));
      EXPECT_EQ(cache->Get(1), "loaded");
    }
  }
}

// The value is another one, though it has the same key and lives.
TEST_P(CacheLoadInterleavingTest, ValueSetAfterTheClaimIsNotRefreshed) {
  auto cache = NewCache();
  int reloads = 0;
  reload_ = [&] {
    ++reloads;
    return Value("loaded");
  };
  cache->Set(1, "old");
  At("refresh: between claim and queue", [&] { cache->Set(1, "set"); });
  EXPECT_FALSE(cache->Refresh(1));
  EXPECT_EQ(reloads, 0);
}

TEST_P(CacheLoadInterleavingTest, RefreshThatALoadHasOvertakenDoesNotBegin) {
  auto cache = NewCache();
  cache->Set(1, "old", absl::Seconds(1));
  reload_ = NeverCalled;
  At("refresh: before it starts", [&] {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(cache->FindOrLoad(1, {}, [] { return Value("loaded"); })->value(),
              "loaded");
  });
  EXPECT_FALSE(cache->Refresh(1));
  EXPECT_EQ(cache->Get(1), "loaded");
}

TEST_P(CacheLoadInterleavingTest, RefreshThatStopOvertakesDoesNotBegin) {
  for (const char* const point :
       {"refresh: between claim and queue", "refresh: before it starts"}) {
    auto cache = NewCache();
    cache->Set(1, "old");
    reload_ = NeverCalled;
    At(point, [&] { cache->Stop(); });
    EXPECT_FALSE(cache->Refresh(1)) << point;
    EXPECT_EQ(cache->Get(1), "old");
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadInterleavingTest,
                         testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
