// The calls that load: who runs the loader, what is stored, what callers are
// told, and what may be called in the middle. For callers that meet see
// cache_load_race_test.cc, for refreshes cache_refresh_test.cc.

#include <any>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Handle = StringCache::Handle;
using Ticket = StringCache::Ticket;
using Strings = std::vector<std::string>;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result One() { return Value("one"); }
Result Down() { return absl::UnavailableError("down"); }
Result NeverCalled() { return absl::InternalError("called"); }

LoadOptions WithErrorTtl(absl::Duration ttl) {
  LoadOptions options;
  options.error_ttl = ttl;
  return options;
}
LoadOptions WithWait(absl::Duration wait) {
  LoadOptions options;
  options.wait = wait;
  return options;
}

class CacheLoadTest : public CacheEnvironment {
 protected:
  CacheLoadTest() { Renew(); }

  // A cache with options_ as they are now.
  void Renew() { cache_ = New<int, std::string>(); }

  // Begins a load of a key, whose result goes to told_.
  Ticket Begin(int key, const LoadOptions& options = {}) {
    return cache_->BeginLoad(
        key, options, [this](const absl::StatusOr<Handle>& result) {
          told_.push_back(result.ok() ? std::string(**result)
                                      : result.status().ToString());
        });
  }
  Strings Told() { return std::exchange(told_, {}); }

  std::unique_ptr<StringCache> cache_;
  Strings told_;
};

using CacheFindOrLoadTest = CacheLoadTest;

TEST_F(CacheFindOrLoadTest, MissLoadsStoresAndPins) {
  const absl::StatusOr<Handle> loaded = cache_->FindOrLoad(1, {}, One);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->value(), "one");
  EXPECT_EQ(loaded->key(), 1);
  EXPECT_EQ(cache_->Get(1), "one");
  EXPECT_EQ(cache_->FindOrLoad(1, {}, NeverCalled)->value(), "one");
  EXPECT_EQ(cache_->stats().hits, 2);
  EXPECT_EQ(cache_->stats().misses, 1);
}

TEST_F(CacheFindOrLoadTest, HookLoadsForTheCallsThatNameNoLoader) {
  Cache<std::string, std::string>::Hooks hooks;
  std::string loaded;
  hooks.load = [&](std::string_view key) -> absl::StatusOr<std::string> {
    loaded = key;
    if (key == "none") return absl::NotFoundError("none");
    if (key == "thrown") throw std::runtime_error("thrown");
    return "of " + loaded;
  };
  const auto cache = New<std::string, std::string>(hooks);
  EXPECT_EQ(cache->FindOrLoad("a")->value(), "of a");
  EXPECT_EQ(std::exchange(loaded, ""), "a");
  EXPECT_EQ(*cache->GetOrLoad(std::string_view("a")), "of a");
  EXPECT_EQ(loaded, "");
  EXPECT_EQ(*cache->GetOrLoad("b"), "of b");
  EXPECT_EQ(cache->FindOrLoad("none", WithErrorTtl(absl::Seconds(1))).status(),
            absl::NotFoundError("none"));
  loaded = "";
  EXPECT_TRUE(absl::IsNotFound(cache->GetOrLoad("none").status()));
  EXPECT_EQ(loaded, "");
  EXPECT_THROW((void)cache->FindOrLoad("thrown"), std::runtime_error);
  EXPECT_EQ(cache->stats().loads, 4);
}

TEST_F(CacheFindOrLoadTest, WithoutLoaderAndHookTheCallIsRefused) {
  const absl::Status refused = absl::FailedPreconditionError(
      "the cache \"cache\" has no Hooks::load, and the call names no loader");
  EXPECT_EQ(cache_->FindOrLoad(1).status(), refused);
  // Not only where it would be missed.
  cache_->Set(1, "one");
  EXPECT_EQ(cache_->FindOrLoad(1).status(), refused);
  EXPECT_EQ(cache_->GetOrLoad(1).status(), refused);
}

// A Value, a Loaded<Value> and a StatusOr of either, in the place of one
// another; and what converts to a Value.
TEST_F(CacheFindOrLoadTest, LoadersReturnWhatConvertsToAResult) {
  const std::string text = "text";
  StringCache::Hooks hooks;
  int key = 0;
  const auto check = [&](const auto& loader) {
    const auto cache = New<int, std::string>(hooks);
    EXPECT_EQ(cache->FindOrLoad(++key)->value(), text);
    EXPECT_EQ(*cache->GetOrLoad(++key), text);
    EXPECT_EQ(cache->FindOrLoad(++key, {}, loader)->value(), text);
    EXPECT_EQ(*cache->GetOrLoad(++key, loader), text);
    EXPECT_EQ(*cache->GetOrLoad(++key, absl::Seconds(1), loader), text);
    EXPECT_TRUE(cache->BeginLoad(++key, {}, [](auto) {}).Finish(loader()));
    EXPECT_EQ(cache->Get(key), text);
  };
  const auto check_all = [&](auto loader) {
    hooks.load = [=](int) { return loader(); };
    check(loader);
  };
  check_all([&] { return text; });
  check_all([&] { return absl::StatusOr<std::string>(text); });
  check_all([&] { return Loaded<std::string>{text, absl::Minutes(1)}; });
  check_all([&] { return StringCache::LoadResult(text); });
  check_all([] { return "text"; });
  check_all([] { return absl::StatusOr<const char*>("text"); });

  Cache<int, std::any>::Hooks any;
  any.load = [](int) { return absl::StatusOr<std::any>(std::any(5)); };
  const auto of_any = New<int, std::any>(any);
  EXPECT_EQ(std::any_cast<int>(**of_any->FindOrLoad(1)), 5);
  Cache<int, std::unique_ptr<int>>::Hooks pointers;
  pointers.load = [](int number) { return std::make_unique<int>(number); };
  const auto cache = New<int, std::unique_ptr<int>>(pointers);
  EXPECT_EQ(*cache->FindOrLoad(1)->value(), 1);
  using Optionals = Cache<int, std::optional<int>>;
  Optionals::Hooks absent;
  absent.load = [](int) -> Loaded<std::optional<int>> {
    return {std::nullopt, absl::Seconds(5)};
  };
  EXPECT_FALSE((*Optionals::Create({}, absent))->GetOrLoad(1)->has_value());
}

TEST_F(CacheFindOrLoadTest, TtlIsThatOfTheLoaderThenOfTheCallThenTheDefault) {
  options_.default_ttl = absl::Minutes(5);
  Renew();
  LoadOptions options;
  EXPECT_EQ(cache_->FindOrLoad(1, options, One)->TimeToLive(),
            absl::Minutes(5));
  options.ttl = absl::Minutes(3);
  EXPECT_EQ(cache_->FindOrLoad(2, options, One)->TimeToLive(),
            absl::Minutes(3));
  const auto brief = [] {
    return Result(Loaded<std::string>{"brief", absl::Seconds(1)});
  };
  EXPECT_EQ(cache_->FindOrLoad(3, options, brief)->TimeToLive(),
            absl::Seconds(1));
}

TEST_F(CacheFindOrLoadTest, ValueWithoutALifeIsReturnedAndNotStored) {
  for (const absl::Duration ttl :
       {absl::ZeroDuration(), absl::Seconds(-1), -absl::InfiniteDuration()}) {
    clock_.Advance(absl::Hours(1));
    const absl::StatusOr<Handle> handle = cache_->FindOrLoad(1, {}, [&] {
      return Result(Loaded<std::string>{"gone", ttl});
    });
    EXPECT_EQ(handle->value(), "gone");
    EXPECT_LE(handle->TimeToLive(), absl::ZeroDuration());
    EXPECT_EQ(handle->Age(), absl::ZeroDuration());
    EXPECT_EQ(cache_->size(), 0);
  }
}

TEST_F(CacheFindOrLoadTest, ValueThatWasNotStoredHasNoCharge) {
  StringCache::Hooks hooks;
  hooks.weigher = [](int, std::string_view) { return uint64_t{100}; };
  auto cache = New<int, std::string>(hooks);
  // Where another entry has lain.
  cache->Set(1, "one");
  EXPECT_GT(cache->Find(1).charge(), 0);
  cache->Del(1);
  cache->RunMaintenance();
  const auto brief = cache->FindOrLoad(1, {}, [] {
    return Result(Loaded<std::string>{"one", absl::ZeroDuration()});
  });
  EXPECT_EQ(brief->charge(), 0);
}

TEST_F(CacheFindOrLoadTest, ValueThatWasNotStoredHasNoTimeLeft) {
  options_.idle_ttl = absl::Hours(1);
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  cache->Del(1);
  cache->RunMaintenance();
  const auto brief = cache->FindOrLoad(1, {}, [] {
    return Result(Loaded<std::string>{"one", absl::ZeroDuration()});
  });
  EXPECT_LE(brief->TimeToLive(), absl::ZeroDuration());
  EXPECT_LE(brief->HardTimeToLive(), absl::ZeroDuration());
}

TEST_F(CacheFindOrLoadTest, ResultOutlivesTheCache) {
  const absl::StatusOr<Handle> stored = cache_->FindOrLoad(1, {}, One);
  const absl::StatusOr<Handle> superseded = cache_->FindOrLoad(2, {}, [&] {
    cache_->Del(2);
    return One();
  });
  EXPECT_EQ(cache_->size(), 1);
  cache_ = nullptr;
  EXPECT_EQ(stored->value(), "one");
  EXPECT_EQ(superseded->value(), "one");
}

// Promise: One load per key
TEST_F(CacheFindOrLoadTest, FailureIsRememberedForItsTime) {
  EXPECT_EQ(
      cache_->FindOrLoad(1, WithErrorTtl(absl::Seconds(1)), Down).status(),
      Down().status());
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_EQ(cache_->FindOrLoad(1, {}, NeverCalled).status(), Down().status());
  EXPECT_EQ(
      cache_->GetOrLoad(1, [] { return absl::StatusOr<std::string>("called"); })
          .status(),
      Down().status());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(cache_->FindOrLoad(1, {}, One)->value(), "one");
}

TEST_F(CacheFindOrLoadTest, WritesForgetAFailure) {
  const LoadOptions options = WithErrorTtl(absl::InfiniteDuration());
  const std::function<void()> writes[] = {
      [&] { EXPECT_FALSE(cache_->Del(1)); },
      [&] { cache_->Clear(); },
      [&] {
        cache_->Set(1, "set");
        cache_->Del(1);
      },
  };
  for (const auto& write : writes) {
    EXPECT_FALSE(cache_->FindOrLoad(1, options, Down).ok());
    EXPECT_FALSE(cache_->FindOrLoad(1, options, One).ok());
    write();
    EXPECT_TRUE(cache_->FindOrLoad(1, options, One).ok());
    cache_->Del(1);
  }
}

// A failure is an entry, of which nobody is told.
TEST_F(CacheFindOrLoadTest, FailuresCountAsEntriesThatAreNotShown) {
  options_.max_entries = 3;
  options_.shards = 1;
  StringCache::Hooks hooks;
  int told = 0;
  hooks.on_removal = [&](int, std::string_view, RemovalCause) { ++told; };
  cache_ = New<int, std::string>(hooks);
  const LoadOptions options = WithErrorTtl(absl::Seconds(1));
  for (int key = 0; key < 5; ++key) {
    EXPECT_FALSE(cache_->FindOrLoad(key, options, Down).ok());
  }
  EXPECT_EQ(cache_->size(), 3);
  EXPECT_GT(cache_->bytes(), 0);
  EXPECT_TRUE(cache_->ForEach([](const Handle&) { return false; }));
  EXPECT_FALSE(cache_->Contains(4));
  // Those that came first were evicted.
  for (int key = 2; key < 5; ++key) {
    EXPECT_EQ(cache_->FindOrLoad(key, {}, One).status(), Down().status());
  }
  EXPECT_TRUE(cache_->FindOrLoad(1, {}, One).ok());
  EXPECT_FALSE(cache_->FindOrLoad(3, {}, One).ok());
  EXPECT_TRUE(cache_->FindOrLoad(2, {}, One).ok());
  clock_.Advance(absl::Seconds(2));
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->size(), 2);
  EXPECT_TRUE(cache_->CheckInvariants().ok());
  cache_->Clear();
  EXPECT_EQ(told, 2);
  EXPECT_EQ(cache_->stats().evictions, 0);
  EXPECT_EQ(cache_->stats().expirations, 0);
  EXPECT_EQ(cache_->stats().deletes, 2);
}

TEST_F(CacheFindOrLoadTest, ClearTellsNobodyOfFailuresAndLoads) {
  StringCache::Hooks hooks;
  std::vector<int> told;
  hooks.on_removal = [&](int key, std::string_view, RemovalCause) {
    told.push_back(key);
    // Within the notification, so that another call has its entries told.
    if (key == 1) cache_->Clear();
  };
  cache_ = New<int, std::string>(hooks);
  const LoadOptions options = WithErrorTtl(absl::Hours(1));
  cache_->Set(1, "one");
  EXPECT_FALSE(cache_->FindOrLoad(2, options, Down).ok());
  Ticket ticket = Begin(3);
  cache_->Del(1);
  EXPECT_EQ(told, std::vector<int>{1});
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(cache_->stats().deletes, 1);
  EXPECT_FALSE(ticket.Finish(One()));
}

TEST_F(CacheFindOrLoadTest, EraseIfForgetsFailures) {
  EXPECT_FALSE(cache_->FindOrLoad(1, WithErrorTtl(absl::Hours(1)), Down).ok());
  EXPECT_EQ(cache_->EraseIf([](const Handle&) { return true; }), 0);
  EXPECT_TRUE(cache_->FindOrLoad(1, {}, One).ok());
  EXPECT_EQ(cache_->size(), 1);
}

// Promise: One load per key
TEST_F(CacheFindOrLoadTest, ValueThatIsTooOldIsLoadedAnew) {
  cache_->Set(1, "old");
  clock_.Advance(absl::Seconds(10));
  LoadOptions options;
  options.max_age = absl::Seconds(10);
  EXPECT_EQ(cache_->FindOrLoad(1, options, NeverCalled)->value(), "old");
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_EQ(cache_->FindOrLoad(1, options, Down).status(), Down().status());
  EXPECT_EQ(cache_->Get(1), "old");
  EXPECT_EQ(cache_->FindOrLoad(1, options, One)->value(), "one");
  EXPECT_EQ(cache_->Get(1), "one");
}

TEST_F(CacheFindOrLoadTest, WaitOfZeroNeverWaits) {
  const LoadOptions options = WithWait(absl::ZeroDuration());
  Ticket ticket = Begin(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      cache_->FindOrLoad(1, options, NeverCalled).status()));
  EXPECT_FALSE(Begin(1, options));
  EXPECT_EQ(Told()[0].substr(0, 17), "DEADLINE_EXCEEDED");
  EXPECT_TRUE(ticket.Finish(One()));
  EXPECT_EQ(cache_->FindOrLoad(1, options, NeverCalled)->value(), "one");
}

// What may be called while key 1 is loaded, and what the key has in the end.
struct Meanwhile {
  const char* name;
  std::function<void(StringCache&)> call;
  std::optional<std::string> leaves;
};

class SupersedeTest : public CacheLoadTest {
 protected:
  void ExpectValuesAfterLoadsDuring(const std::vector<Meanwhile>& calls) {
    options_.shards = 1;
    options_.max_bytes = 10'000;
    for (const Meanwhile& meanwhile : calls) {
      SCOPED_TRACE(meanwhile.name);
      Renew();
      cache_->Set(1, "old");
      old_ = cache_->Find(1);
      cache_->Del(1);
      const auto loaded = cache_->GetOrLoad(1, [&] {
        meanwhile.call(*cache_);
        return absl::StatusOr<std::string>("loaded");
      });
      EXPECT_EQ(*loaded, "loaded");
      EXPECT_EQ(cache_->Get(1), meanwhile.leaves);
    }
  }

  static inline const auto kNone = absl::ZeroDuration();
  const std::string large_ = std::string(20'000, 'x');
  Handle old_;
};

// Promise: One load per key
TEST_F(SupersedeTest, WritesBeatAnOlderLoad) {
  using Decision = StringCache::Decision;
  ExpectValuesAfterLoadsDuring({
      {"Set", [](auto& cache) { cache.Set(1, "mine"); }, "mine"},
      {"Del", [](auto& cache) { EXPECT_FALSE(cache.Del(1)); }, {}},
      {"Set and Del",
       [](auto& cache) {
         cache.Set(1, "mine");
         cache.Del(1);
       },
       {}},
      {"Clear", [](auto& cache) { cache.Clear(); }, {}},
      {"Set without a life", [](auto& cache) { cache.Set(1, "", kNone); }, {}},
      {"Set without room", [&](auto& cache) { cache.Set(1, large_); }, {}},
      {"Touch that deletes", [](auto& cache) { cache.Touch(1, kNone); }, {}},
      {"SetIf", [](auto& cache) { cache.SetIf(1, {}, "mine"); }, "mine"},
      {"SetIf and DelIf",
       [](auto& cache) {
         cache.SetIf(1, {}, "mine");
         cache.DelIf(1, cache.Find(1));
       },
       {}},
      {"Take", [](auto& cache) { EXPECT_FALSE(cache.Take(1)); }, {}},
      {"Update",
       [](auto& cache) {
         cache.Update(1, [](const Handle&) { return Decision::Set("mine"); });
       },
       "mine"},
  });
}

// Promise: Conditional writes
TEST_F(SupersedeTest, CallsThatChangeNothingLeaveALoadAlone) {
  using Decision = StringCache::Decision;
  ExpectValuesAfterLoadsDuring({
      {"changes of another key",
       [](auto& cache) {
         cache.Set(2, "other");
         cache.Del(2);
       },
       "loaded"},
      {"Get", [](auto& cache) { (void)cache.Get(1); }, "loaded"},
      {"Touch", [](auto& cache) { cache.Touch(1, absl::Hours(1)); }, "loaded"},
      {"SetIf that loses",
       [&](auto& cache) {
         EXPECT_EQ(cache.SetIf(1, old_, "mine"), Put::kLost);
         EXPECT_EQ(cache.SetIf(1, old_, large_), Put::kLost);
       },
       "loaded"},
      {"SetIf that is refused",
       [&](auto& cache) {
         EXPECT_EQ(cache.SetIf(1, {}, large_), Put::kRefused);
       },
       "loaded"},
      {"DelIf that loses",
       [&](auto& cache) {
         EXPECT_FALSE(cache.DelIf(1, old_));
         EXPECT_FALSE(cache.DelIf(1, {}));
       },
       "loaded"},
      {"Update that changes nothing",
       [](auto& cache) {
         cache.Update(1, [](const Handle&) { return Decision::Keep(); });
         cache.Update(1, [](const Handle&) { return Decision::Delete(); });
       },
       "loaded"},
  });
}

TEST_F(SupersedeTest, EndOfASupersededLoadLeavesItsSuccessorAlone) {
  Ticket later;
  const auto older = cache_->FindOrLoad(1, {}, [&] {
    cache_->Del(1);
    later = Begin(1);
    return Value("old");
  });
  EXPECT_EQ(older->value(), "old");
  EXPECT_EQ(cache_->Get(1), std::nullopt);
  EXPECT_TRUE(later.Finish(Value("new")));
  EXPECT_EQ(Told(), Strings{"new"});
  EXPECT_EQ(cache_->Get(1), "new");
}

// Otherwise those who join the later load would be told of the failure.
TEST_F(SupersedeTest, FailureOfASupersededTicketLeavesItsSuccessorAlone) {
  Ticket ticket = Begin(1, WithErrorTtl(absl::Hours(1)));
  cache_->Del(1);
  Ticket later = Begin(1);
  ASSERT_TRUE(later);
  EXPECT_FALSE(ticket.Finish(Down()));
  EXPECT_EQ(Told(), Strings{"UNAVAILABLE: down"});
  EXPECT_FALSE(Begin(1));
  EXPECT_EQ(Told(), Strings{});
  EXPECT_TRUE(later.Finish(Value("new")));
  EXPECT_EQ(Told(), (Strings{"new", "new"}));
}

using CacheTicketTest = CacheLoadTest;

TEST_F(CacheTicketTest, FirstCallerGetsTheTicketAndAllAreToldAtTheEnd) {
  Ticket ticket = Begin(1);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket.key(), 1);
  EXPECT_FALSE(Begin(1));
  EXPECT_EQ(Told(), Strings{});
  EXPECT_TRUE(ticket.Finish(One()));
  EXPECT_FALSE(ticket);
  EXPECT_EQ(Told(), (Strings{"one", "one"}));
  EXPECT_EQ(cache_->Get(1), "one");
}

// Promise: One load per key
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
  EXPECT_TRUE(second.Finish(Value("second")));
  EXPECT_EQ(Told(), Strings{"second"});
}

// Promise: Orderly in tests, fork and shutdown
TEST_F(CacheTicketTest, TicketMayBeFinishedAfterTheEndOfTheCache) {
  Ticket ticket = Begin(1);
  Ticket failing = Begin(2);
  Ticket dropped = Begin(3);
  cache_ = nullptr;
  EXPECT_FALSE(ticket.Finish(Value("late")));
  EXPECT_FALSE(failing.Finish(Down()));
  dropped = Ticket();
  EXPECT_EQ(Told(), (Strings{"late", "UNAVAILABLE: down",
                             "CANCELLED: the load was given up"}));
}

TEST_F(CacheTicketTest, CallbackMayDestroyTheCache) {
  Ticket ticket = cache_->BeginLoad(1, {}, [this](const auto& result) {
    cache_ = nullptr;
    EXPECT_EQ(result->value(), "last");
  });
  EXPECT_TRUE(ticket.Finish(Value("last")));
  EXPECT_EQ(cache_, nullptr);
}

TEST_F(CacheTicketTest, CallbackMayDestroyTheTicketThatCallsIt) {
  auto ticket = std::make_unique<Ticket>();
  const auto destroy = [&](const absl::StatusOr<Handle>&) { ticket = nullptr; };
  *ticket = cache_->BeginLoad(1, {}, destroy);
  EXPECT_TRUE(ticket->Finish(One()));
  EXPECT_EQ(ticket, nullptr);
  ticket = std::make_unique<Ticket>(cache_->BeginLoad(2, {}, destroy));
  (void)ticket->Finish(absl::CancelledError("no more"));
  EXPECT_EQ(ticket, nullptr);
}

TEST_F(CacheTicketTest, WhatACallbackThrowsGoesNoFurther) {
  const auto throws = [](const auto&) { throw std::runtime_error("lost"); };
  Ticket ticket = cache_->BeginLoad(1, {}, throws);
  EXPECT_FALSE(cache_->BeginLoad(1, {}, throws));
  EXPECT_FALSE(Begin(1));
  EXPECT_TRUE(ticket.Finish(One()));
  EXPECT_EQ(Told(), Strings{"one"});
  EXPECT_FALSE(cache_->BeginLoad(1, {}, throws));  // A hit.
}

TEST_F(CacheTicketTest, TicketsMayBeKeptInAVectorAndMovedOntoThemselves) {
  std::vector<Ticket> tickets;
  for (int key = 0; key < 100; ++key) tickets.push_back(Begin(key));
  tickets.erase(tickets.begin(), tickets.begin() + 50);
  EXPECT_EQ(Told().size(), 50U);
  for (Ticket& ticket : tickets) {
    Ticket& same = ticket;
    ticket = std::move(same);
    EXPECT_TRUE(ticket.Finish(One()));
  }
  EXPECT_EQ(cache_->size(), 50);
}

class CacheLoadManyTest : public CacheEnvironment {
 protected:
  using IntCache = Cache<int, int>;
  using Ints = std::vector<int>;
  using Results = std::vector<absl::StatusOr<Loaded<int>>>;

  // Loads ten times each key, and records for which positions it was asked.
  auto TenTimes(const Ints& keys) {
    return [this, &keys](absl::Span<const size_t> missing) {
      asked_.emplace_back(missing.begin(), missing.end());
      return LoadTenTimes(keys, missing);
    };
  }
  static Results LoadTenTimes(const Ints& keys,
                              absl::Span<const size_t> missing) {
    Results results;
    for (const size_t i : missing) {
      results.emplace_back(Loaded<int>{keys[i] * 10});
    }
    return results;
  }
  // What the cache gives for the keys, -1 for an error.
  template <typename Loader>
  Ints Values(const Ints& keys, Loader&& loader) {
    Ints values;
    for (const auto& result : cache_->FindOrLoadMany(keys, {}, loader)) {
      values.push_back(result.ok() ? **result : -1);
    }
    return values;
  }

  std::unique_ptr<IntCache> cache_ = New<int, int>();
  std::vector<std::vector<size_t>> asked_;
};

TEST_F(CacheLoadManyTest, LoaderIsCalledOnceForWhatIsMissing) {
  cache_->Set(2, 22);
  const Ints keys = {1, 2, 3, 1};
  EXPECT_EQ(Values(keys, TenTimes(keys)), (Ints{10, 22, 30, 10}));
  EXPECT_EQ(Values(keys, TenTimes(keys)), (Ints{10, 22, 30, 10}));
  EXPECT_EQ(Values({}, TenTimes(keys)), Ints{});
  EXPECT_EQ(asked_, (std::vector<std::vector<size_t>>{{0, 2}}));
}

TEST_F(CacheLoadManyTest, BatchMayBeLargerThanTheCache) {
  options_.max_entries = 2;
  cache_ = New<int, int>();
  const Ints keys = {1, 2, 3, 4, 5};
  EXPECT_EQ(Values(keys, TenTimes(keys)), (Ints{10, 20, 30, 40, 50}));
  EXPECT_EQ(cache_->size(), 2);
}

TEST_F(CacheLoadManyTest, WrongNumberOfResultsIsAnErrorForAll) {
  const Ints keys = {1, 2};
  const auto results =
      cache_->FindOrLoadMany(keys, {}, [&](const auto& missing) {
        return LoadTenTimes(keys, missing.subspan(1));
      });
  for (const auto& result : results) {
    EXPECT_EQ(result.status(),
              absl::InternalError("the loader returned 1 results for 2 keys"));
  }
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(Values(keys, TenTimes(keys)), (Ints{10, 20}));
}

// The batch takes over a load of its own that it has cancelled.
TEST_F(CacheLoadManyTest, KeyThatIsLoadedLaterIsCountedAsWell) {
  const auto results =
      cache_->FindOrLoadMany({1, 1}, {}, [](absl::Span<const size_t> missing) {
        Results one;
        if (missing[0] == 0) one.emplace_back(absl::CancelledError("later"));
        return one;
      });
  EXPECT_TRUE(absl::IsCancelled(results[0].status()));
  EXPECT_EQ(results[1].status(),
            absl::InternalError("the loader returned 0 results for 1 keys"));
  EXPECT_EQ(Values({1}, TenTimes({1})), Ints{10});
}

TEST_F(CacheLoadManyTest, KeyThatAnotherGivesUpIsLoadedAlone) {
  auto other = cache_->BeginLoad(2, {}, [](const auto&) {});
  const Ints keys = {1, 2};
  const auto load = TenTimes(keys);
  EXPECT_EQ(Values(keys,
                   [&](absl::Span<const size_t> missing) {
                     other = IntCache::Ticket();
                     return load(missing);
                   }),
            (Ints{10, 20}));
  EXPECT_EQ(asked_, (std::vector<std::vector<size_t>>{{0}, {1}}));
}

TEST_F(CacheLoadManyTest, LoaderThatThrowsFailsAllWhoWait) {
  std::vector<absl::StatusCode> told;
  const auto tell = [&](const auto& result) {
    told.push_back(result.status().code());
  };
  const Ints keys = {1, 2};
  EXPECT_THROW((void)cache_->FindOrLoadMany(
                   keys, WithErrorTtl(absl::Hours(1)),
                   [&](absl::Span<const size_t>) -> Results {
                     EXPECT_FALSE(cache_->BeginLoad(1, {}, tell));
                     EXPECT_FALSE(cache_->BeginLoad(2, {}, tell));
                     throw std::runtime_error("lost");
                   }),
               std::runtime_error);
  EXPECT_EQ(told, std::vector<absl::StatusCode>(2, absl::StatusCode::kUnknown));
  // What was thrown is not remembered.
  EXPECT_EQ(Values(keys, TenTimes(keys)), (Ints{10, 20}));
}

// Promise: One load per key
// With loads open, no thread may wait for the other.
TEST_F(CacheLoadManyTest, BatchesInOppositeOrdersDoNotBlockEachOther) {
  Ints up;
  for (int key = 0; key < 50; ++key) up.push_back(key);
  const Ints down(up.rbegin(), up.rend());
  const auto load = [&](const Ints& keys) {
    const Ints values = Values(keys, [&](absl::Span<const size_t> missing) {
      return LoadTenTimes(keys, missing);
    });
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], keys[i] * 10);
  };
  for (int round = 0; round < 100; ++round) {
    cache_->Clear();
    std::thread other([&] { load(down); });
    load(up);
    other.join();
  }
  EXPECT_TRUE(cache_->CheckInvariants().ok());
}

// Calls within calls: whatever runs user code of key 1, this may make any call
// for key 2, and another thread may, too: no lock is held.
class NestedCallsTest : public CacheEnvironment {
 protected:
  using Call = std::function<void(StringCache&)>;
  struct Outer {
    const char* name;
    Call call;  // Calls Inner() meanwhile.
  };
  struct Inner {
    const char* name;
    std::function<bool(StringCache&)> works;
  };

  NestedCallsTest() {
    options_.shards = 1;
    hooks_.load = [this](int) {
      CallInner();
      return One();
    };
    hooks_.on_removal = [this](int key, std::string_view, RemovalCause) {
      if (key == 1) CallInner();
    };
  }

  // Once for each outer call.
  void CallInner() {
    if (inner_ != nullptr) std::exchange(inner_, nullptr)();
  }

  std::vector<Outer> OuterCalls() {
    const auto call_inner = [this](const auto&) { CallInner(); };
    const auto load = [this] {
      CallInner();
      return One();
    };
    return {
        {"GetOrLoad",
         [=](auto& cache) {
           (void)cache.GetOrLoad(1, [=] { return load()->value; });
         }},
        {"FindOrLoad",
         [=](auto& cache) { (void)cache.FindOrLoad(1, {}, load); }},
        {"FindOrLoad by the hook",
         [](auto& cache) { (void)cache.FindOrLoad(1); }},
        {"FindOrLoadMany",
         [=](auto& cache) {
           (void)cache.FindOrLoadMany({1}, {}, [=](const auto&) {
             return std::vector<Result>{load()};
           });
         }},
        {"BeginLoad",
         [=](auto& cache) {
           cache.Set(1, "set");
           EXPECT_FALSE(cache.BeginLoad(1, {}, call_inner));
         }},
        {"Finish",
         [=](auto& cache) {
           cache.BeginLoad(1, {}, call_inner).Finish(One());
         }},
        {"end of a ticket",
         [=](auto& cache) { (void)cache.BeginLoad(1, {}, call_inner); }},
        {"Refresh",
         [](auto& cache) {
           cache.Set(1, "set");
           EXPECT_TRUE(cache.Refresh(1));
         }},
        {"Update",
         [this](auto& cache) {
           cache.Update(1, [this](const Handle&) {
             CallInner();
             return StringCache::Decision::Set("updated");
           });
         }},
        {"Visit",
         [=](auto& cache) {
           cache.Set(1, "set");
           EXPECT_TRUE(cache.Visit(1, call_inner));
         }},
        {"removal",
         [](auto& cache) {
           cache.Set(1, "set");
           EXPECT_TRUE(cache.Take(1));
         }},
    };
  }

  static std::vector<Inner> InnerCalls() {
    using Decision = StringCache::Decision;
    return {
        {"Set", [](auto& cache) { return cache.Set(2, "2"); }},
        {"GetOrLoad",
         [](auto& cache) {
           return cache.GetOrLoad(2, [] { return std::string("2"); }).ok();
         }},
        {"FindOrLoadMany",
         [](auto& cache) {
           return cache
               .FindOrLoadMany({2, 3}, {},
                               [](const auto&) {
                                 return std::vector<Result>{One(), One()};
                               })[1]
               .ok();
         }},
        {"Finish",
         [](auto& cache) {
           return cache.BeginLoad(2, {}, [](const auto&) {}).Finish(One());
         }},
        {"Refresh",
         [](auto& cache) { return cache.Set(2, "2") && cache.Refresh(2); }},
        {"Update",
         [](auto& cache) {
           return cache.Update(
               2, [](const Handle&) { return Decision::Set("2"); });
         }},
        {"SetIf and Take",
         [](auto& cache) {
           return cache.SetIf(2, {}, "2") == Put::kStored &&
                  *cache.Take(2) == "2";
         }},
        {"Clear and maintenance",
         [](auto& cache) {
           cache.Clear();
           cache.RunMaintenance();
           return cache.size() == 0;
         }},
    };
  }

  StringCache::Hooks hooks_;
  std::function<void()> inner_;
};

// Promise: Your code runs under no lock
TEST_F(NestedCallsTest, EachCallMayBeMadeWithinEachThatRunsUserCode) {
  for (const Outer& outer : OuterCalls()) {
    for (const Inner& inner : InnerCalls()) {
      for (const bool on_another_thread : {false, true}) {
        SCOPED_TRACE(std::string(inner.name) + " within " + outer.name);
        auto cache = New<int, std::string>(hooks_);
        bool works = false;
        const auto call = [&] { works = inner.works(*cache); };
        inner_ = call;
        if (on_another_thread) inner_ = [&] { std::thread(call).join(); };
        outer.call(*cache);
        EXPECT_TRUE(works);
        EXPECT_TRUE(cache->CheckInvariants().ok());
        // Nothing is left behind.
        cache->Del(1);
        EXPECT_TRUE(cache->FindOrLoad(1, {}, One).ok());
      }
    }
  }
}

// Promise: One load per key
TEST_F(CacheLoadTest, LoaderThatAsksForItsOwnKeyGetsAnError) {
  const auto outer = cache_->FindOrLoad(1, {}, [&]() -> Result {
    return cache_->FindOrLoad(1, {}, NeverCalled).status();
  });
  EXPECT_EQ(outer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cache_->FindOrLoad(1, {}, One).ok());
}

TEST_F(CacheLoadTest, LoaderMayAskForACallbackOfItsOwnLoad) {
  const auto loaded = cache_->FindOrLoad(1, {}, [&] {
    EXPECT_FALSE(Begin(1));
    return One();
  });
  EXPECT_EQ(loaded->value(), "one");
  EXPECT_EQ(Told(), Strings{"one"});
}

TEST_F(CacheLoadTest, ListenerMayLoadWhatHasLeftInACacheForOneEntry) {
  options_.max_entries = 1;
  StringCache* self = nullptr;
  int loads = 0;
  StringCache::Hooks hooks;
  hooks.on_removal = [&](int key, std::string_view, RemovalCause cause) {
    if (cause != RemovalCause::kEvicted || loads == 3) return;
    ++loads;
    EXPECT_EQ(self->FindOrLoad(key, {}, One)->value(), "one");
  };
  auto cache = New<int, std::string>(hooks);
  self = cache.get();
  cache->Set(1, "set");
  EXPECT_TRUE(cache->FindOrLoad(2, {}, One).ok());
  EXPECT_EQ(loads, 3);
  EXPECT_EQ(cache->size(), 1);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheLoadTest, ValuesNeedNotBeCopied) {
  using Unique = std::unique_ptr<int>;
  auto cache = New<int, Unique>();
  const auto load = [](int value) -> absl::StatusOr<Loaded<Unique>> {
    return Loaded<Unique>{std::make_unique<int>(value)};
  };
  EXPECT_EQ(*cache->FindOrLoad(1, {}, [&] { return load(7); })->value(), 7);
  auto ticket = cache->BeginLoad(
      2, {}, [](const auto& result) { EXPECT_EQ(*result->value(), 8); });
  EXPECT_TRUE(ticket.Finish(load(8)));
  const auto many =
      cache->FindOrLoadMany({1, 2, 3}, {}, [&](const auto& missing) {
        EXPECT_EQ(missing.size(), 1U);
        std::vector<absl::StatusOr<Loaded<Unique>>> loaded;
        loaded.push_back(load(9));
        return loaded;
      });
  EXPECT_EQ(***many[1], 8);
  EXPECT_EQ(***many[2], 9);
}

TEST_F(CacheLoadTest, StringKeysMayBeGivenAsViews) {
  auto cache = New<std::string, std::string>();
  std::string buffer = "a key of some length, which is not short";
  EXPECT_EQ(**cache->FindOrLoad(std::string_view(buffer), {}, One), "one");
  const auto none = [] { return std::string("called"); };
  EXPECT_EQ(*cache->GetOrLoad(std::string_view(buffer), none), "one");
  EXPECT_EQ(*cache->GetOrLoad("literal", [] { return std::string(); }), "");
  auto ticket =
      cache->BeginLoad(std::string_view("begun"), {}, [](const auto&) {});
  EXPECT_EQ(ticket.key(), "begun");
  buffer.assign(buffer.size(), 'x');
  EXPECT_TRUE(ticket.Finish(One()));
  EXPECT_EQ(cache->Get("begun"), "one");
  EXPECT_FALSE(cache->Refresh(std::string_view("begun")));
}

TEST_F(CacheLoadTest, LoadThatHasEndedKeepsItsValueNoLonger) {
  using Shared = std::shared_ptr<int>;
  auto cache = New<int, Shared>();
  std::weak_ptr<int> value;
  const auto load = [&]() -> absl::StatusOr<Loaded<Shared>> {
    auto shared = std::make_shared<int>(7);
    value = shared;
    return Loaded<Shared>{std::move(shared)};
  };
  EXPECT_TRUE(cache->FindOrLoad(1, {}, load).ok());
  cache->Del(1);
  cache->RunMaintenance();
  EXPECT_TRUE(value.expired());
  auto ticket = cache->BeginLoad(1, {}, [](const auto&) {});
  cache = nullptr;
  EXPECT_FALSE(ticket.Finish(*load()));
  EXPECT_TRUE(value.expired());
}

}  // namespace
}  // namespace wheelcache
