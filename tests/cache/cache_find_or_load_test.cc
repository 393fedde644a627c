// FindOrLoad: what its options and its loader may say.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;
using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Handle = StringCache::Handle;

Result One() { return Loaded<std::string>{"one"}; }
Result Down() { return absl::UnavailableError("down"); }
Result NeverCalled() { return absl::InternalError("called"); }

class CacheFindOrLoadTest : public CacheEnvironment {
 protected:
  std::unique_ptr<StringCache> NewCache() { return New<int, std::string>(); }
};

TEST_F(CacheFindOrLoadTest, MissLoadsStoresAndPins) {
  auto cache = NewCache();
  const absl::StatusOr<Handle> loaded = cache->FindOrLoad(1, {}, One);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->value(), "one");
  EXPECT_EQ(loaded->key(), 1);
  EXPECT_EQ(cache->Get(1), "one");
  EXPECT_EQ(cache->FindOrLoad(1, {}, NeverCalled)->value(), "one");
  EXPECT_EQ(cache->stats().hits, 2);
  EXPECT_EQ(cache->stats().misses, 1);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheFindOrLoadTest, TtlIsThatOfTheLoaderThenOfTheCallThenTheDefault) {
  options_.default_ttl = absl::Minutes(5);
  auto cache = NewCache();
  LoadOptions options;
  EXPECT_EQ(cache->FindOrLoad(1, options, One)->TimeToLive(), absl::Minutes(5));
  options.ttl = absl::Minutes(3);
  EXPECT_EQ(cache->FindOrLoad(2, options, One)->TimeToLive(), absl::Minutes(3));
  const auto brief = [] {
    return Result(Loaded<std::string>{"brief", absl::Seconds(1)});
  };
  EXPECT_EQ(cache->FindOrLoad(3, options, brief)->TimeToLive(),
            absl::Seconds(1));
}

TEST_F(CacheFindOrLoadTest, ValueWithoutALifeIsReturnedAndNotStored) {
  auto cache = NewCache();
  for (const absl::Duration ttl :
       {absl::ZeroDuration(), absl::Seconds(-1), -absl::InfiniteDuration()}) {
    clock_.Advance(absl::Hours(1));
    const absl::StatusOr<Handle> handle = cache->FindOrLoad(1, {}, [&] {
      return Result(Loaded<std::string>{"gone", ttl});
    });
    EXPECT_EQ(handle->value(), "gone");
    EXPECT_LE(handle->TimeToLive(), absl::ZeroDuration());
    EXPECT_EQ(handle->Age(), absl::ZeroDuration());
    EXPECT_EQ(cache->size(), 0);
  }
}

TEST_F(CacheFindOrLoadTest, ResultOutlivesTheCache) {
  auto cache = NewCache();
  const absl::StatusOr<Handle> stored = cache->FindOrLoad(1, {}, One);
  const absl::StatusOr<Handle> superseded = cache->FindOrLoad(2, {}, [&] {
    cache->Del(2);
    return One();
  });
  EXPECT_EQ(cache->size(), 1);
  cache.reset();
  EXPECT_EQ(stored->value(), "one");
  EXPECT_EQ(superseded->value(), "one");
}

TEST_F(CacheFindOrLoadTest, FailureIsRememberedForItsTime) {
  auto cache = NewCache();
  LoadOptions options;
  options.error_ttl = absl::Seconds(1);
  EXPECT_EQ(cache->FindOrLoad(1, options, Down).status(), Down().status());
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_EQ(cache->FindOrLoad(1, {}, NeverCalled).status(), Down().status());
  EXPECT_EQ(
      cache->GetOrLoad(1, [] { return absl::StatusOr<std::string>("called"); })
          .status(),
      Down().status());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(cache->FindOrLoad(1, {}, One)->value(), "one");
}

TEST_F(CacheFindOrLoadTest, WritesForgetAFailure) {
  auto cache = NewCache();
  LoadOptions options;
  options.error_ttl = absl::InfiniteDuration();
  const auto fails = [&] {
    return !cache->FindOrLoad(1, options, Down).ok() &&
           !cache->FindOrLoad(1, options, One).ok();
  };
  ASSERT_TRUE(fails());
  EXPECT_FALSE(cache->Del(1));
  EXPECT_TRUE(cache->FindOrLoad(1, options, One).ok());
  cache->Del(1);
  ASSERT_TRUE(fails());
  cache->Clear();
  EXPECT_TRUE(cache->FindOrLoad(1, options, One).ok());
  cache->Del(1);
  ASSERT_TRUE(fails());
  cache->Set(1, "set");
  EXPECT_EQ(cache->FindOrLoad(1, options, NeverCalled)->value(), "set");
}

TEST_F(CacheFindOrLoadTest, FailureOfASupersededLoadIsNotRemembered) {
  auto cache = NewCache();
  LoadOptions options;
  options.error_ttl = absl::Hours(1);
  EXPECT_FALSE(cache
                   ->FindOrLoad(1, options,
                                [&] {
                                  cache->Del(1);
                                  return Down();
                                })
                   .ok());
  EXPECT_TRUE(cache->FindOrLoad(1, options, One).ok());
}

TEST_F(CacheFindOrLoadTest, ShardRemembersSixtyFourFailuresThoseThatEndLast) {
  options_.shards = 1;
  auto cache = NewCache();
  LoadOptions options;
  for (int key = 0; key < 100; ++key) {
    options.error_ttl = absl::Seconds(100 - key);
    EXPECT_FALSE(cache->FindOrLoad(key, options, Down).ok());
  }
  // Each that came later ended first, and had to make room for the next.
  int remembered = 0;
  for (int key = 0; key < 100; ++key) {
    const bool ok = cache->FindOrLoad(key, {}, One).ok();
    if (!ok) ++remembered;
    EXPECT_EQ(!ok, key < 63 || key == 99) << key;
  }
  EXPECT_EQ(remembered, 64);
}

TEST_F(CacheFindOrLoadTest, FailureMayTakeThePlaceOfOneThatWasForgotten) {
  options_.shards = 1;
  auto cache = NewCache();
  LoadOptions options;
  options.error_ttl = absl::Hours(1);
  for (int key = 0; key < 64; ++key) {
    EXPECT_FALSE(cache->FindOrLoad(key, options, Down).ok());
  }
  EXPECT_FALSE(cache
                   ->FindOrLoad(64, options,
                                [&] {
                                  cache->Del(0);
                                  return Down();
                                })
                   .ok());
  for (int key = 1; key < 64; ++key) {
    EXPECT_FALSE(cache->FindOrLoad(key, {}, One).ok()) << key;
    cache->Del(key);
  }
  EXPECT_FALSE(cache->FindOrLoad(64, {}, One).ok());
}

TEST_F(CacheFindOrLoadTest, ValueThatIsTooOldIsLoadedAnew) {
  auto cache = NewCache();
  cache->Set(1, "old");
  clock_.Advance(absl::Seconds(10));
  LoadOptions options;
  options.max_age = absl::Seconds(10);
  EXPECT_EQ(cache->FindOrLoad(1, options, NeverCalled)->value(), "old");
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_EQ(cache->stats().hits, 1);
  EXPECT_EQ(cache->FindOrLoad(1, options, Down).status(), Down().status());
  EXPECT_EQ(cache->Get(1), "old");
  EXPECT_EQ(cache->FindOrLoad(1, options, One)->value(), "one");
  EXPECT_EQ(cache->Get(1), "one");
  EXPECT_EQ(cache->stats().misses, 2);
}

// A load of key 1 on another thread, which ends when it is told to.
class OtherLoad {
 public:
  explicit OtherLoad(StringCache* cache, Result result = One())
      : thread_([this, cache, result] {
          result_ = cache->FindOrLoad(1, {}, [&] {
            runs_.Notify();
            may_end_.Wait();
            return result;
          });
        }) {
    runs_.Wait();
  }
  absl::StatusOr<Handle> End() {
    may_end_.Notify();
    thread_.join();
    return std::move(result_);
  }

 private:
  Notification runs_;
  Notification may_end_;
  absl::StatusOr<Handle> result_;
  std::thread thread_;
};

TEST_F(CacheFindOrLoadTest, WaitOfZeroNeverWaits) {
  auto cache = NewCache();
  OtherLoad other(cache.get());
  LoadOptions options;
  options.wait = absl::ZeroDuration();
  const auto result = cache->FindOrLoad(1, options, NeverCalled);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(other.End()->value(), "one");
  EXPECT_EQ(cache->FindOrLoad(1, options, NeverCalled)->value(), "one");
}

TEST_F(CacheFindOrLoadTest, WaitEndsByTheClockOfTheCache) {
  auto cache = NewCache();
  OtherLoad other(cache.get());
  absl::Status status;
  std::atomic<bool> returned{false};
  const absl::Duration begin = clock_.Now();
  std::thread waiter([&] {
    LoadOptions options;
    options.wait = absl::Seconds(3);
    status = cache->FindOrLoad(1, options, NeverCalled).status();
    returned = true;
  });
  while (!returned) {
    clock_.Advance(absl::Milliseconds(100));
    std::this_thread::yield();
  }
  waiter.join();
  EXPECT_GE(clock_.Now() - begin, absl::Seconds(3));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(other.End()->value(), "one");
  EXPECT_EQ(cache->Get(1), "one");
}

TEST_F(CacheFindOrLoadTest, BlockedCallerTakesOverWhatIsCancelled) {
  auto cache = NewCache();
  OtherLoad other(cache.get(), absl::CancelledError("client has gone"));
  absl::StatusOr<Handle> taken;
  LoadOptions options;
  options.wait = absl::Hours(1);
  std::thread waiter([&] {
    taken = cache->FindOrLoad(
        1, options, [] { return Result(Loaded<std::string>{"taken over"}); });
  });
  const absl::StatusOr<Handle> cancelled = other.End();
  EXPECT_TRUE(absl::IsCancelled(cancelled.status()));
  waiter.join();
  EXPECT_EQ(taken->value(), "taken over");
  EXPECT_EQ(cache->Get(1), "taken over");
}

}  // namespace
}  // namespace wheelcache
