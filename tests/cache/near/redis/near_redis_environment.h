// What tests of near caches on a real server have in common: the server, a
// client that is none of the library's, a relay, and behind it a store with a
// near cache of "p:".
//
//   class MyTest : public NearRedisEnvironment {};
//
//   TEST_F(MyTest, ForeignWriteIsSeen) {
//     Start();
//     other_->Run({"SET", "p:key", "value"});
//     EXPECT_TRUE(Until([&] { return Get() == "value"; }));
//   }

#ifndef WHEELCACHE_TESTS_CACHE_NEAR_REDIS_NEAR_REDIS_ENVIRONMENT_H_
#define WHEELCACHE_TESTS_CACHE_NEAR_REDIS_NEAR_REDIS_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

class NearRedisEnvironment : public ::testing::Test {
 protected:
  using Near = NearCache<std::string>;

  void Start(absl::Duration max_staleness = absl::Seconds(3),
             std::vector<std::string> server_options = {}) {
    auto server = testing::RedisServer::Start(std::move(server_options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    other_ = std::make_unique<testing::RedisClient>(server_->port());
    relay_ = std::make_unique<testing::Relay>(server_->port());
    RedisStoreOptions store_options;
    store_options.url = relay_->url();
    store_ = *RedisStore::Create(store_options);
    options_.key_prefix = "p:";
    options_.max_staleness = max_staleness;
    options_.command_timeout = max_staleness;
    near_ = *Near::Create(options_, store_.get());
    ASSERT_TRUE(near_->WaitUntilReady(absl::Seconds(30)).ok());
  }

  // Repeats until the condition holds, generously.
  bool Until(const std::function<bool()>& condition) {
    const int64_t limit = store_->clock().NanosAfter(absl::Seconds(30));
    while (!condition()) {
      if (store_->clock().NowNanos() > limit) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string Get(absl::string_view key = "key") {
    const Near::Result value = near_->Get(key);
    if (!value.ok()) return std::string(value.status().message());
    return value->value_or("(absent)");
  }

  // Reads "key" until it has the value; returns whether each read that began
  // at `limit_nanos` or later had it.
  bool GetsFrom(int64_t limit_nanos, absl::string_view value) {
    while (true) {
      const int64_t begin = store_->clock().NowNanos();
      const bool has_it = Get() == value;
      if (begin >= limit_nanos) return has_it;
    }
  }

  std::unique_ptr<testing::RedisServer> server_;
  std::unique_ptr<testing::RedisClient> other_;
  std::unique_ptr<testing::Relay> relay_;
  std::unique_ptr<RedisStore> store_;
  NearCacheOptions options_;
  std::unique_ptr<Near> near_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_CACHE_NEAR_REDIS_NEAR_REDIS_ENVIRONMENT_H_
