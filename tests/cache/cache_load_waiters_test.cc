// Callers that wait for a load of another: who inherits it, how long they wait,
// and what they are told.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;
using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Handle = StringCache::Handle;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result Cancelled() { return absl::CancelledError("no more"); }
Result NeverCalled() { return absl::InternalError("called"); }

// Callers that block, in an order that is known.
class CacheLoadWaitersTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  // A caller that asks for key 1 on a thread of its own, and blocks.
  class Waiter {
   public:
    Waiter(StringCache* cache, const LoadOptions& options,
           std::function<Result()> loader)
        : Waiter(cache, options, std::move(loader), nullptr) {}
    // Calls `at_sleep` when it next wakes.
    Waiter(StringCache* cache, const LoadOptions& options,
           std::function<Result()> loader, std::function<void()> at_sleep)
        : at_sleep_(std::move(at_sleep)),
          thread_([this, cache, options, loader = std::move(loader)] {
            At("load: before it blocks", [this] {
              if (at_sleep_) At("load: between sleep and lock", at_sleep_);
              blocks_.Notify();
            });
            result_ = cache->FindOrLoad(1, options, loader);
            testing::interruption = {};
          }) {
      blocks_.Wait();
    }
    ~Waiter() {
      if (thread_.joinable()) thread_.join();
    }

    std::string Text() {
      thread_.join();
      return result_.ok() ? std::string(**result_)
                          : std::string(absl::StatusCodeToString(
                                result_.status().code()));
    }

   private:
    std::function<void()> at_sleep_;
    Notification blocks_;
    absl::StatusOr<Handle> result_;
    std::thread thread_;  // The last.
  };

  LoadOptions Limit(absl::Duration wait) {
    LoadOptions options;
    options.wait = wait;
    return options;
  }

  std::unique_ptr<StringCache> cache_ = New<int, std::string>();
};

TEST_P(CacheLoadWaitersTest, LoadGoesToTheOneThatHasWaitedLongest) {
  for (const bool second_has_a_limit : {false, true}) {
    cache_->Del(1);
    std::vector<int> order;  // Of loaders, which run one after the other.
    auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
    const auto cancel = [&](int i) {
      return [&order, i] {
        order.push_back(i);
        return i < 3 ? Cancelled() : Value("third");
      };
    };
    const LoadOptions none;
    const LoadOptions limit = Limit(absl::Hours(1));
    Waiter first(cache_.get(), second_has_a_limit ? none : limit, cancel(1));
    Waiter second(cache_.get(), second_has_a_limit ? limit : none, cancel(2));
    Waiter third(cache_.get(), none, cancel(3));
    ticket = StringCache::Ticket();
    EXPECT_EQ(third.Text(), "third");
    EXPECT_EQ(first.Text(), "CANCELLED");
    EXPECT_EQ(second.Text(), "CANCELLED");
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(cache_->Get(1), "third");
  }
}

TEST_P(CacheLoadWaitersTest, CallbacksAreToldByTheHeir) {
  std::vector<std::string> told;
  const auto tell = [&](const absl::StatusOr<Handle>& result) {
    told.push_back(result.ok() ? std::string(**result) : "failed");
  };
  auto ticket = cache_->BeginLoad(1, {}, tell);
  EXPECT_FALSE(cache_->BeginLoad(1, {}, tell));
  Waiter waiter(cache_.get(), {}, [] { return Value("taken over"); });
  ticket = StringCache::Ticket();
  EXPECT_EQ(waiter.Text(), "taken over");
  EXPECT_EQ(told, std::vector<std::string>(2, "taken over"));
}

TEST_P(CacheLoadWaitersTest, HeirWhoseTimeIsUpLeadsAllTheSame) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  Waiter waiter(
      cache_.get(), Limit(absl::Seconds(1)), [] { return Value("heir"); },
      [&] { ticket = StringCache::Ticket(); });
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(waiter.Text(), "heir");
  EXPECT_EQ(cache_->Get(1), "heir");
}

TEST_P(CacheLoadWaitersTest, ResultThatComesAsTheTimeIsUpIsReturned) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  Waiter waiter(cache_.get(), Limit(absl::Seconds(1)), NeverCalled,
                [&] { ticket.Finish(Value("in time")); });
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(waiter.Text(), "in time");
}

TEST_P(CacheLoadWaitersTest, WhoHasWaitedTooLongIsNoHeir) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  Waiter first(cache_.get(), Limit(absl::Hours(1)),
               [] { return Value("first"); });
  Waiter brief(cache_.get(), Limit(absl::Seconds(1)), NeverCalled);
  Waiter last(cache_.get(), {}, [] { return Value("last"); });
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(brief.Text(), "DEADLINE_EXCEEDED");
  ticket = StringCache::Ticket();
  EXPECT_EQ(first.Text(), "first");
  EXPECT_EQ(last.Text(), "first");
}

TEST_P(CacheLoadWaitersTest, LoadWhoseLastWaiterHasGoneEndsAsCancelled) {
  std::string told;
  auto ticket = cache_->BeginLoad(1, {}, [&](const auto& result) {
    told = std::string(absl::StatusCodeToString(result.status().code()));
  });
  Waiter brief(cache_.get(), Limit(absl::Seconds(1)), NeverCalled);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(brief.Text(), "DEADLINE_EXCEEDED");
  ticket = StringCache::Ticket();
  EXPECT_EQ(told, "CANCELLED");
  EXPECT_EQ(cache_->FindOrLoad(1, {}, [] { return Value("next"); })->value(),
            "next");
}

TEST_P(CacheLoadWaitersTest, HeirOfASupersededLoadDoesNotStore) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  Waiter waiter(cache_.get(), {}, [] { return Value("too old"); });
  cache_->Del(1);
  ticket = StringCache::Ticket();
  EXPECT_EQ(waiter.Text(), "too old");
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_P(CacheLoadWaitersTest, HeirThatAsksForItsOwnKeyIsRefused) {
  for (const absl::Duration wait :
       {absl::InfiniteDuration(), absl::Duration(absl::Hours(1))}) {
    cache_->Del(1);
    auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
    Waiter waiter(cache_.get(), Limit(wait), [&] {
      return Value(std::string(absl::StatusCodeToString(
          cache_->FindOrLoad(1, {}, NeverCalled).status().code())));
    });
    ticket = StringCache::Ticket();
    EXPECT_EQ(waiter.Text(), "FAILED_PRECONDITION");
  }
}

// Before the heir has taken it up, the load has no leader: the one that gave it
// up may wait for it.
TEST_P(CacheLoadWaitersTest, WhoeverGaveUpALoadMayWaitForItsHeir) {
  Notification heir_blocks;
  Notification leader_waits;
  std::thread heir;
  const auto cancelled = cache_->FindOrLoad(1, {}, [&] {
    heir = std::thread([&] {
      At("load: before it blocks", [&] {
        At("load: after the wait", [&] { leader_waits.Wait(); });
        heir_blocks.Notify();
      });
      EXPECT_TRUE(cache_->FindOrLoad(1, {}, [] { return Value("heir"); }).ok());
    });
    heir_blocks.Wait();
    return Cancelled();
  });
  EXPECT_TRUE(absl::IsCancelled(cancelled.status()));
  At("load: among the waits",
     [&] { At("load: before it blocks", [&] { leader_waits.Notify(); }); });
  // If it is refused, the heir goes on all the same.
  const auto result = cache_->FindOrLoad(1, {}, NeverCalled);
  leader_waits.Notify();
  heir.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->value(), "heir");
}

// A wait with a limit ends, whoever waits for whom.
TEST_P(CacheLoadWaitersTest, WaitWithALimitClosesNoCycle) {
  Notification second_loads;
  Notification first_waits;
  std::thread second([&] {
    const auto got = cache_->FindOrLoad(2, {}, [&] {
      second_loads.Notify();
      first_waits.Wait();
      At("load: before it blocks", [&] {
        // Under the lock of that load alone.
        clock_.Advance(absl::Seconds(1));
      });
      return Value(std::string(**cache_->FindOrLoad(1, {}, NeverCalled)));
    });
    EXPECT_EQ(got->value(), "first");
  });
  const auto got = cache_->FindOrLoad(1, {}, [&] {
    second_loads.Wait();
    At("load: before it blocks", [&] { first_waits.Notify(); });
    const auto late =
        cache_->FindOrLoad(2, Limit(absl::Seconds(1)), NeverCalled);
    EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
    return Value("first");
  });
  EXPECT_EQ(got->value(), "first");
  second.join();
}

// Of two waits for the same key, the second in the place of a load that was
// given up, each has what the one before has left.
TEST_P(CacheLoadWaitersTest, BatchWaitsNoLongerThanItsLimitInAll) {
  auto first = cache_->BeginLoad(1, {}, [](const auto&) {});
  auto second = cache_->BeginLoad(2, {}, [](const auto&) {});
  StringCache::Ticket next_second;
  Notification blocks;
  Notification blocks_again;
  const std::vector<int> keys = {3, 1, 2};
  std::vector<absl::StatusCode> codes;
  std::thread batch([&] {
    At("load: before it blocks", [&] {
      At("load: before it blocks", [&] { blocks_again.Notify(); });
      blocks.Notify();
    });
    const auto results = cache_->FindOrLoadMany(
        keys, Limit(absl::Seconds(1)), [&](absl::Span<const size_t> missing) {
          second = StringCache::Ticket();
          next_second = cache_->BeginLoad(2, {}, [](const auto&) {});
          return std::vector<Result>(missing.size(), Value("own"));
        });
    for (const auto& result : results) codes.push_back(result.status().code());
  });
  blocks.Wait();
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Milliseconds(600));
  EXPECT_TRUE(first.Finish(Value("first")));
  blocks_again.Wait();
  clock_.WaitUntilAsleep();
  clock_.Advance(absl::Milliseconds(400));
  batch.join();
  EXPECT_EQ(codes, (std::vector<absl::StatusCode>{
                       absl::StatusCode::kOk, absl::StatusCode::kOk,
                       absl::StatusCode::kDeadlineExceeded}));
}

TEST_P(CacheLoadWaitersTest, WaitOfZeroIsNoCycleEither) {
  const auto got = cache_->FindOrLoad(1, {}, [&] {
    const auto own =
        cache_->FindOrLoad(1, Limit(absl::ZeroDuration()), NeverCalled);
    EXPECT_TRUE(absl::IsDeadlineExceeded(own.status())) << own.status();
    return Value("one");
  });
  EXPECT_EQ(got->value(), "one");
}

TEST_P(CacheLoadWaitersTest, HeirThatThrowsFailsThoseBehindIt) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  std::atomic<bool> caught{false};
  Notification blocks;
  std::thread heir([&] {
    At("load: before it blocks", [&] { blocks.Notify(); });
    try {
      (void)cache_->FindOrLoad(
          1, {}, []() -> Result { throw std::runtime_error("lost"); });
    } catch (const std::runtime_error&) {
      caught = true;
    }
  });
  blocks.Wait();
  Waiter behind(cache_.get(), {}, NeverCalled);
  ticket = StringCache::Ticket();
  EXPECT_EQ(behind.Text(), "UNKNOWN");
  heir.join();
  EXPECT_TRUE(caught.load());
}

// A load that has ended as cancelled, and is not yet out of the way.
TEST_P(CacheLoadWaitersTest, CancelledLoadKeepsNobodyFromLoading) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  std::string loaded;
  std::string told;
  At("load: cancelled", [&] {
    loaded = std::string(
        **cache_->FindOrLoad(1, {}, [] { return Value("loaded"); }));
    EXPECT_FALSE(cache_->BeginLoad(
        1, {}, [&](const auto& result) { told = std::string(**result); }));
  });
  ticket = StringCache::Ticket();
  EXPECT_EQ(loaded, "loaded");
  EXPECT_EQ(told, "loaded");
  EXPECT_EQ(cache_->Get(1), "loaded");
}

TEST_P(CacheLoadWaitersTest, TicketMayBeBegunWhereACancelledOneIsInTheWay) {
  auto first = cache_->BeginLoad(1, {}, [](const auto&) {});
  StringCache::Ticket second;
  At("load: cancelled",
     [&] { second = cache_->BeginLoad(1, {}, [](const auto&) {}); });
  first = StringCache::Ticket();
  ASSERT_TRUE(second);
  EXPECT_TRUE(second.Finish(Value("second")));
}

TEST_P(CacheLoadWaitersTest, EndOfTheCacheWaitsForAFinishThatStores) {
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  std::atomic<bool> ends{false};
  std::atomic<bool> ended{false};
  std::thread destroyer;
  At("store: between clock and lock", [&] {
    destroyer = std::thread([&] {
      ends = true;
      cache_.reset();
      ended = true;
    });
    while (!ends) std::this_thread::yield();
    for (int i = 0; i < 300; ++i) std::this_thread::yield();
    EXPECT_FALSE(ended.load());
  });
  ticket.Finish(Value("last"));
  destroyer.join();
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheLoadWaitersTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
