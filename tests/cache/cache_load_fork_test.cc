// Loads, tickets and refreshes that are in flight at a fork(): what the child
// finds of them.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::HoldsInChild;
using testing::Notification;
using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Task = std::function<void()>;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result NeverCalled() { return absl::InternalError("called"); }

class CacheLoadForkTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  CacheLoadForkTest() {
    hooks_.reload = [this](int, std::string_view) -> Result {
      return reload_ ? reload_() : Value("new");
    };
  }

  std::unique_ptr<StringCache> NewCache() {
    return New<int, std::string>(hooks_);
  }
  // Whether key 1 may be loaded, and a value is stored.
  static bool CanLoad(StringCache& cache) {
    cache.Del(1);
    const auto loaded = cache.FindOrLoad(1, {}, [] { return Value("next"); });
    return loaded.ok() && **loaded == "next" && cache.Get(1) == "next" &&
           cache.CheckInvariants().ok();
  }

  StringCache::Hooks hooks_;
  std::function<Result()> reload_;
};

TEST_P(CacheLoadForkTest, LoadOfAnotherThreadIsForgotten) {
  auto cache = NewCache();
  Notification runs;
  Notification may_end;
  std::thread other([&] {
    (void)cache->FindOrLoad(1, {}, [&] {
      runs.Notify();
      may_end.Wait();
      return Value("loaded");
    });
  });
  runs.Wait();
  EXPECT_TRUE(HoldsInChild([&] {
    const auto loaded =
        cache->FindOrLoad(1, {}, [] { return Value("the child's"); });
    return loaded.ok() && **loaded == "the child's" && CanLoad(*cache);
  }));
  may_end.Notify();
  other.join();
  EXPECT_EQ(cache->Get(1), "loaded");
}

TEST_P(CacheLoadForkTest, LoaderThatForksEndsInBoth) {
  auto cache = NewCache();
  std::atomic<pid_t> child{-1};
  const auto loaded = cache->FindOrLoad(1, {}, [&] {
    child = fork();
    if (child == 0) testing::EndInAMinute();
    return Value("loaded");
  });
  if (child == 0) {
    // Whoever joined it in the parent is not here, and it is not stored.
    const bool well = loaded.ok() && **loaded == "loaded" &&
                      cache->Get(1) == std::nullopt && CanLoad(*cache);
    _exit(well ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
  EXPECT_EQ(cache->Get(1), "loaded");
}

TEST_P(CacheLoadForkTest, TicketMayBeFinishedInTheChild) {
  auto cache = NewCache();
  std::string told;
  auto ticket = cache->BeginLoad(
      1, {}, [&](const auto& result) { told = std::string(**result); });
  EXPECT_TRUE(HoldsInChild([&] {
    const bool stored = ticket.Finish(Value("the child's"));
    return !stored && told == "the child's" && CanLoad(*cache);
  }));
  EXPECT_TRUE(ticket.Finish(Value("the parent's")));
  EXPECT_EQ(told, "the parent's");
}

// The load may go to a thread that waits; in the child there is none.
TEST_P(CacheLoadForkTest, TicketThatIsDroppedInTheChildHasNoHeir) {
  for (const bool is_superseded : {false, true}) {
    auto cache = NewCache();
    std::string told;
    auto ticket = cache->BeginLoad(1, {}, [&](const auto& result) {
      told = result.ok() ? std::string(**result) : "failed";
    });
    Notification blocks;
    std::thread waiter([&] {
      At("load: before it blocks", [&] { blocks.Notify(); });
      EXPECT_TRUE(cache->FindOrLoad(1, {}, [] { return Value("heir"); }).ok());
    });
    blocks.Wait();
    (void)cache->Contains(1);
    // It has the lock of the load until it sleeps.
    ASSERT_FALSE(cache->BeginLoad(1, {}, [](const auto&) {}));
    if (is_superseded) cache->Del(1);
    EXPECT_TRUE(HoldsInChild([&] {
      ticket = StringCache::Ticket();
      return told == "failed" && CanLoad(*cache);
    })) << is_superseded;
    ticket = StringCache::Ticket();
    waiter.join();
    EXPECT_EQ(told, "heir");
  }
}

TEST_P(CacheLoadForkTest, RefreshOfAnotherThreadIsForgotten) {
  options_.max_refreshes = 1;
  auto cache = NewCache();
  cache->Set(1, "old");
  Notification runs;
  Notification may_end;
  reload_ = [&] {
    runs.Notify();
    may_end.Wait();
    return Value("the parent's");
  };
  std::thread other([&] { EXPECT_TRUE(cache->Refresh(1)); });
  runs.Wait();
  EXPECT_TRUE(HoldsInChild([&] {
    reload_ = nullptr;
    const bool refreshed = cache->Refresh(1) && cache->Get(1) == "new";
    cache->Stop();  // Waits for nobody.
    return refreshed && CanLoad(*cache);
  }));
  may_end.Notify();
  other.join();
  EXPECT_EQ(cache->Get(1), "the parent's");
}

TEST_P(CacheLoadForkTest, ReloadThatForksEndsInBoth) {
  options_.max_refreshes = 1;
  auto cache = NewCache();
  cache->Set(1, "old");
  pid_t child = -1;
  reload_ = [&] {
    child = fork();
    if (child == 0) testing::EndInAMinute();
    return Value("new");
  };
  (void)cache->Refresh(1);
  reload_ = nullptr;
  if (child == 0) {
    const bool old = cache->Get(1) == "old";
    const bool refreshed = cache->Refresh(1) && cache->Get(1) == "new";
    cache->Stop();
    _exit(old && refreshed && CanLoad(*cache) ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
  EXPECT_EQ(cache->Get(1), "new");
  EXPECT_TRUE(cache->Refresh(1));
}

TEST_P(CacheLoadForkTest, QueuedRefreshDoesNothingInTheChild) {
  options_.max_refreshes = 1;
  std::vector<Task> tasks;
  hooks_.executor = [&](Task task) { tasks.push_back(std::move(task)); };
  auto cache = NewCache();
  cache->Set(1, "old");
  EXPECT_TRUE(cache->Refresh(1));
  for (const bool runs : {false, true}) {
    EXPECT_TRUE(HoldsInChild([&] {
      if (runs) tasks[0]();
      tasks.clear();
      if (cache->Get(1) != "old" || !cache->Refresh(1)) return false;
      tasks[0]();
      tasks.clear();
      return cache->Get(1) == "new" && cache->Refresh(1);
    }));
  }
  tasks[0]();
  EXPECT_EQ(cache->Get(1), "new");
}

TEST_P(CacheLoadForkTest, FailuresAreForgottenInTheChild) {
  auto cache = NewCache();
  LoadOptions options;
  options.error_ttl = absl::InfiniteDuration();
  (void)cache->FindOrLoad(1, options, NeverCalled);
  EXPECT_TRUE(HoldsInChild([&] { return CanLoad(*cache); }));
  EXPECT_EQ(cache->FindOrLoad(1, {}, [] { return Value("no"); }).status(),
            NeverCalled().status());
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadForkTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
