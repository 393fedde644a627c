// What a cache is like after an allocation has failed in a call that loads: no
// load is left behind, and all who wait are told.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/failing_allocations.h"

namespace wheelcache {
namespace {

using testing::WithEachAllocationFailing;

// A cache of long strings, of which each call that loads runs with each of its
// allocations failing.
class LoadMemoryFailureTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  using StringCache = Cache<int, std::string>;
  using Result = absl::StatusOr<Loaded<std::string>>;

  LoadMemoryFailureTest() {
    options_.shards = 1;
    options_.max_refreshes = 1;
    hooks_.load = [this](int) { return NewValue(); };
  }

  // The allocation that it takes is one of the caller's.
  Result NewValue() const { return Loaded<std::string>{long_value_}; }

  // No load is left behind, nor the claim of a refresh.
  void ExpectThatKeysMayBeLoaded(StringCache& cache) {
    for (const int key : {1, 2, 3}) {
      cache.Del(key);
      EXPECT_EQ(cache.FindOrLoad(key, {}, [&] { return NewValue(); })->value(),
                long_value_);
      EXPECT_TRUE(cache.Refresh(key));
      cache.Del(key);
    }
    EXPECT_TRUE(cache.CheckInvariants().ok());
  }

  StringCache::Hooks hooks_;
  const std::string long_value_ = std::string(200'000, 'x');  // Outside.
  int failures_ = 0;
};

// Promise: Failures leave the cache whole
TEST_P(LoadMemoryFailureTest, CallsThatLoadLeaveNoLoadBehind) {
  LoadOptions limited;
  limited.wait = absl::Seconds(1);
  limited.error_ttl = absl::Seconds(1);
  const std::function<void(StringCache&)> calls[] = {
      [&](auto& cache) {
        (void)cache.GetOrLoad(1, [&] { return long_value_; });
      },
      [&](auto& cache) { (void)cache.FindOrLoad(1, limited); },
      [&](auto& cache) {
        (void)cache.FindOrLoad(1, limited, [&] { return NewValue(); });
      },
      [&](auto& cache) {
        (void)cache.FindOrLoadMany({1, 2, 1, 3}, {}, [&](const auto& missing) {
          std::vector<Result> loaded;
          for (size_t i = 0; i < missing.size(); ++i) {
            loaded.push_back(NewValue());
          }
          return loaded;
        });
      },
  };
  for (const auto& call : calls) {
    failures_ = 0;
    auto cache = New<int, std::string>(hooks_);
    WithEachAllocationFailing([&] { call(*cache); },
                              [&](bool thrown) {
                                failures_ += thrown ? 1 : 0;
                                ExpectThatKeysMayBeLoaded(*cache);
                              });
    EXPECT_GT(failures_, 3);
  }
}

TEST_P(LoadMemoryFailureTest, FailureThatCannotBeRememberedIsReturned) {
  LoadOptions options;
  options.error_ttl = absl::Hours(1);
  const absl::Status down = absl::UnavailableError("down");
  WithEachAllocationFailing(
      [&] {
        auto cache = New<int, std::string>();
        EXPECT_EQ(cache->FindOrLoad(1, options, [&] { return Result(down); })
                      .status(),
                  down);
      },
      [&](bool thrown) { failures_ += thrown ? 1 : 0; });
  EXPECT_GT(failures_, 3);
}

TEST_P(LoadMemoryFailureTest, FailuresThatAreForgottenMayWait) {
  auto cache = New<int, std::string>(hooks_);
  LoadOptions options;
  options.error_ttl = absl::Seconds(1);
  const auto fail_all = [&] {
    for (int key = 10; key < 40; ++key) {
      (void)cache->FindOrLoad(
          key, options, [] { return Result(absl::UnavailableError("down")); });
    }
    clock_.Advance(absl::Seconds(1));
  };
  fail_all();
  WithEachAllocationFailing(
      [&] { (void)cache->FindOrLoad(1, {}, [&] { return NewValue(); }); },
      [&](bool thrown) {
        failures_ += thrown ? 1 : 0;
        ExpectThatKeysMayBeLoaded(*cache);
        fail_all();
      });
  EXPECT_GT(failures_, 3);
}

// A key whose destructor calls the cache, which blocks for ever if that runs
// under the lock of the shard.
struct NosyKey {
  NosyKey(int key_id) : id(key_id) {}  // NOLINT: as a look-up gives it.
  NosyKey(const NosyKey&) = default;
  ~NosyKey() {
    if (look != nullptr) (*look)();
  }

  static inline std::function<void()>* look = nullptr;
  int id;
};
struct NosyHash {
  size_t operator()(int id) const { return static_cast<size_t>(id); }
  size_t operator()(const NosyKey& key) const { return (*this)(key.id); }
};
struct NosyEqual {
  bool operator()(const NosyKey& a, int b) const { return a.id == b; }
  bool operator()(const NosyKey& a, const NosyKey& b) const {
    return a.id == b.id;
  }
};

TEST_P(LoadMemoryFailureTest, NoKeyOfAFailureIsDestroyedUnderALock) {
  using NosyCache = Cache<NosyKey, int, NosyHash, NosyEqual>;
  auto cache = *NosyCache::Create(options_);
  std::function<void()> look = [&] { cache->Touch(0, absl::Seconds(1)); };
  NosyKey::look = &look;
  LoadOptions options;
  options.error_ttl = absl::Seconds(1);
  const auto fail_all = [&] {
    for (int key = 10; key < 40; ++key) {
      (void)cache->FindOrLoad(key, options,
                              []() -> absl::StatusOr<Loaded<int>> {
                                return absl::UnavailableError("down");
                              });
    }
    clock_.Advance(absl::Seconds(1));
  };
  fail_all();
  WithEachAllocationFailing(
      [&] {
        (void)cache->FindOrLoad(1, {}, []() -> absl::StatusOr<Loaded<int>> {
          return Loaded<int>{1};
        });
      },
      [&](bool thrown) {
        failures_ += thrown ? 1 : 0;
        cache->Del(1);
        fail_all();
      });
  EXPECT_GT(failures_, 3);
  NosyKey::look = nullptr;
}

TEST_P(LoadMemoryFailureTest, BeginLoadTellsOnceOrThrows) {
  auto cache = New<int, std::string>(hooks_);
  // With a load in flight that it joins, and with none.
  for (const bool joins : {false, true}) {
    failures_ = 0;
    StringCache::Ticket other;
    int told = 0;
    const auto tell = [&](const auto&) { ++told; };
    const auto begin_other = [&] {
      if (joins) other = cache->BeginLoad(1, {}, [](const auto&) {});
    };
    begin_other();
    WithEachAllocationFailing(
        [&] {
          auto ticket = cache->BeginLoad(1, {}, tell);
          EXPECT_EQ(static_cast<bool>(ticket), !joins);
        },
        [&](bool thrown) {
          failures_ += thrown ? 1 : 0;
          other = StringCache::Ticket();
          EXPECT_EQ(std::exchange(told, 0), thrown ? 0 : 1);
          ExpectThatKeysMayBeLoaded(*cache);
          begin_other();
        });
    EXPECT_GT(failures_, 1);
  }
}

TEST_P(LoadMemoryFailureTest, FinishTellsAllWhoWait) {
  auto cache = New<int, std::string>(hooks_);
  std::vector<absl::StatusCode> told;
  told.reserve(10);
  const auto begin = [&] {
    return cache->BeginLoad(1, {}, [&](const auto& result) {
      told.push_back(result.status().code());
    });
  };
  auto ticket = begin();
  WithEachAllocationFailing([&] { EXPECT_TRUE(ticket.Finish(NewValue())); },
                            [&](bool thrown) {
                              failures_ += thrown ? 1 : 0;
                              // Of its own argument, perhaps.
                              ticket = StringCache::Ticket();
                              EXPECT_EQ(told.size(), 1U);
                              EXPECT_EQ(told[0] == absl::StatusCode::kOk,
                                        !thrown);
                              told.clear();
                              ExpectThatKeysMayBeLoaded(*cache);
                              ticket = begin();
                            });
  EXPECT_GT(failures_, 1);
}

TEST_P(LoadMemoryFailureTest, EndOfAWaitNeedsNoMemory) {
  auto cache = New<int, std::string>(hooks_);
  auto ticket = cache->BeginLoad(1, {}, [](const auto&) {});
  absl::StatusCode told = absl::StatusCode::kOk;
  LoadOptions options;
  options.wait = absl::Seconds(1);
  (void)cache->BeginLoad(
      1, options, [&](const auto& result) { told = result.status().code(); });
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(testing::ThrowsWithoutMemory(0, /*all_that_follow=*/true,
                                            [&] { cache->RunMaintenance(); }));
  EXPECT_EQ(told, absl::StatusCode::kDeadlineExceeded);
}

TEST_P(LoadMemoryFailureTest, TicketThatIsDroppedNeedsNoMemory) {
  auto cache = New<int, std::string>(hooks_);
  int told = 0;
  auto ticket = cache->BeginLoad(1, {}, [&](const auto&) { ++told; });
  EXPECT_FALSE(testing::ThrowsWithoutMemory(
      0, /*all_that_follow=*/true, [&] { ticket = StringCache::Ticket(); }));
  // Nor does the chain of those who get it and drop it.
  ticket = cache->BeginLoad(1, {}, [](const auto&) {});
  int taken = 0;
  for (int i = 0; i < 3; ++i) {
    (void)cache->BeginLoad(
        1, {}, [](const auto&) {},
        [&](StringCache::Ticket /*ticket*/) { ++taken; });
  }
  EXPECT_FALSE(testing::ThrowsWithoutMemory(
      0, /*all_that_follow=*/true, [&] { ticket = StringCache::Ticket(); }));
  EXPECT_EQ(taken, 3);
  ticket = cache->BeginLoad(1, {}, [&](const auto&) { ++told; });
  cache->Del(1);
  cache.reset();
  EXPECT_FALSE(testing::ThrowsWithoutMemory(
      0, /*all_that_follow=*/true, [&] { ticket = StringCache::Ticket(); }));
  EXPECT_EQ(told, 2);
}

TEST_P(LoadMemoryFailureTest, RefreshKeepsTheOldValueOrStoresTheNew) {
  std::function<void()> task;
  for (const bool has_executor : {false, true}) {
    failures_ = 0;
    if (has_executor) {
      hooks_.executor = [&](std::function<void()> given) {
        task = std::move(given);
      };
    }
    auto cache = New<int, std::string>(hooks_);
    cache->Set(1, "old");
    WithEachAllocationFailing(
        [&] {
          if (!cache->Refresh(1)) ++failures_;
          // As a thread pool could not catch it.
          if (task != nullptr) {
            EXPECT_NO_THROW(task());
          }
          task = nullptr;
        },
        [&](bool thrown) {
          failures_ += thrown ? 1 : 0;
          const std::string value = *cache->Get(1);
          EXPECT_TRUE(value == "old" || value == long_value_);
          cache->Set(1, "old");
          // The claim was given up, and so was the load.
          EXPECT_TRUE(cache->Refresh(1));
          if (task != nullptr) task();
          task = nullptr;
          EXPECT_EQ(cache->Get(1), long_value_);
          EXPECT_TRUE(cache->CheckInvariants().ok());
          cache->Set(1, "old");
        });
    EXPECT_GT(failures_, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, LoadMemoryFailureTest,
                         testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
