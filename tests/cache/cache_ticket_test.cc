// BeginLoad: loads without a blocked thread.

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
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

namespace wheelcache {
namespace {

using StringCache = Cache<int, std::string>;
using Value = Loaded<std::string>;
using Handle = StringCache::Handle;
using Ticket = StringCache::Ticket;

class CacheTicketTest : public CacheEnvironment {
 protected:
  CacheTicketTest() { Renew(); }

  void Renew() { cache_ = New<int, std::string>(); }

  // Begins a load of a key, whose result goes to told_.
  Ticket Begin(int key, const LoadOptions& options = {}) {
    return cache_->BeginLoad(
        key, options, [this](const absl::StatusOr<Handle>& result) {
          told_.push_back(result.ok() ? std::string(**result)
                                      : result.status().ToString());
        });
  }
  std::vector<std::string> Told() { return std::exchange(told_, {}); }

  std::unique_ptr<StringCache> cache_;
  std::vector<std::string> told_;
};

using Strings = std::vector<std::string>;

TEST_F(CacheTicketTest, HitIsToldAtOnce) {
  cache_->Set(1, "set");
  EXPECT_FALSE(Begin(1));
  EXPECT_EQ(Told(), Strings{"set"});
}

TEST_F(CacheTicketTest, FirstCallerGetsTheTicketAndAllAreToldAtTheEnd) {
  Ticket ticket = Begin(1);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket.key(), 1);
  EXPECT_FALSE(Begin(1));
  EXPECT_EQ(Told(), Strings{});
  EXPECT_TRUE(ticket.Finish(Value{"one"}));
  EXPECT_FALSE(ticket);
  EXPECT_EQ(Told(), (Strings{"one", "one"}));
  EXPECT_EQ(cache_->Get(1), "one");
}

TEST_F(CacheTicketTest, DroppedTicketCancelsTheLoad) {
  Ticket ticket = Begin(1);
  EXPECT_FALSE(Begin(1));
  ticket = Ticket();
  EXPECT_EQ(Told(), Strings(2, "CANCELLED: the load was given up"));
  EXPECT_TRUE(Begin(1));
}

TEST_F(CacheTicketTest, CallbackMayBeginAnotherLoadOfTheKey) {
  Ticket second;
  Ticket first = cache_->BeginLoad(1, {}, [&](const auto& result) {
    EXPECT_TRUE(absl::IsCancelled(result.status()));
    second = Begin(1);
  });
  first = Ticket();
  ASSERT_TRUE(second);
  EXPECT_TRUE(second.Finish(Value{"second"}));
  EXPECT_EQ(Told(), Strings{"second"});
}

TEST_F(CacheTicketTest, DelBetweenTicketAndFinishSupersedes) {
  Ticket ticket = Begin(1);
  cache_->Del(1);
  Ticket later = Begin(1);
  ASSERT_TRUE(later);
  EXPECT_FALSE(ticket.Finish(Value{"old"}));
  EXPECT_EQ(Told(), Strings{"old"});
  EXPECT_EQ(cache_->Get(1), std::nullopt);
  EXPECT_TRUE(later.Finish(Value{"new"}));
  EXPECT_EQ(cache_->Get(1), "new");
}

// Otherwise those who join the later load would be told of the failure.
TEST_F(CacheTicketTest, FailureOfASupersededTicketLeavesItsSuccessorAlone) {
  LoadOptions options;
  options.error_ttl = absl::Hours(1);
  Ticket ticket = Begin(1, options);
  cache_->Del(1);
  Ticket later = Begin(1);
  ASSERT_TRUE(later);
  EXPECT_FALSE(ticket.Finish(absl::UnavailableError("down")));
  EXPECT_EQ(Told(), Strings{"UNAVAILABLE: down"});
  EXPECT_FALSE(Begin(1));
  EXPECT_EQ(Told(), Strings{});
  EXPECT_TRUE(later.Finish(Value{"new"}));
  EXPECT_EQ(Told(), (Strings{"new", "new"}));
}

TEST_F(CacheTicketTest, TicketMayBeFinishedAfterTheEndOfTheCache) {
  Ticket ticket = Begin(1);
  Ticket failing = Begin(2);
  Ticket dropped = Begin(3);
  cache_ = nullptr;
  EXPECT_FALSE(ticket.Finish(Value{"late"}));
  EXPECT_FALSE(failing.Finish(absl::NotFoundError("gone")));
  dropped = Ticket();
  EXPECT_EQ(Told(), (Strings{"late", "NOT_FOUND: gone",
                             "CANCELLED: the load was given up"}));
}

TEST_F(CacheTicketTest, HandleOfALateTicketOutlivesAll) {
  std::optional<Handle> handle;
  Ticket ticket = cache_->BeginLoad(1, {}, [&](const auto& result) {
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->value(), std::string(1000, 'x'));
  });
  cache_ = nullptr;
  EXPECT_FALSE(ticket.Finish(Value{std::string(1000, 'x')}));
}

TEST_F(CacheTicketTest, CallbackMayDestroyTheCache) {
  Ticket ticket = cache_->BeginLoad(1, {}, [this](const auto& result) {
    cache_ = nullptr;
    EXPECT_EQ(result->value(), "last");
  });
  EXPECT_TRUE(ticket.Finish(Value{"last"}));
  EXPECT_EQ(cache_, nullptr);
}

TEST_F(CacheTicketTest, WhatACallbackThrowsGoesNoFurther) {
  const auto throws = [](const auto&) { throw std::runtime_error("lost"); };
  Ticket ticket = cache_->BeginLoad(1, {}, throws);
  EXPECT_FALSE(cache_->BeginLoad(1, {}, throws));
  EXPECT_FALSE(Begin(1));
  EXPECT_TRUE(ticket.Finish(Value{"one"}));
  EXPECT_EQ(Told(), Strings{"one"});
  EXPECT_FALSE(cache_->BeginLoad(1, {}, throws));  // A hit.
}

TEST_F(CacheTicketTest, WaitOfZeroIsToldThatAnotherLoads) {
  const Ticket ticket = Begin(1);
  LoadOptions options;
  options.wait = absl::ZeroDuration();
  EXPECT_FALSE(Begin(1, options));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(Told()[0].substr(0, 17), "DEADLINE_EXCEEDED");
}

TEST_F(CacheTicketTest, RememberedFailureIsToldAtOnce) {
  LoadOptions options;
  options.error_ttl = absl::Seconds(1);
  Ticket ticket = Begin(1, options);
  EXPECT_FALSE(ticket.Finish(absl::UnavailableError("down")));
  EXPECT_FALSE(Begin(1));
  EXPECT_EQ(Told(), Strings(2, "UNAVAILABLE: down"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Begin(1));
}

TEST_F(CacheTicketTest, FinishOnAnotherThreadWakesWhoIsBlocked) {
  Ticket ticket = Begin(1);
  std::thread finisher([&] { EXPECT_TRUE(ticket.Finish(Value{"one"})); });
  const auto result = cache_->FindOrLoad(
      1, {}, []() -> absl::StatusOr<Value> { return Value{"other"}; });
  finisher.join();
  EXPECT_EQ(result->value(), "one");
}

}  // namespace
}  // namespace wheelcache
