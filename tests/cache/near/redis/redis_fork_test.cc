// A RedisStore and its near cache in the child of a fork().

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/cache/near/redis/near_redis_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/recording_listener.h"

namespace wheelcache {
namespace {

using testing::HoldsInChild;
using testing::kChildMayStartThreads;
using testing::Others;

class RedisForkTest : public NearRedisEnvironment {};

TEST_F(RedisForkTest, CallsInTheChildFail) {
  Start();
  other_->Run({"SET", "p:key", "value"});
  ASSERT_TRUE(Until([&] { return Get() == "value"; }));
  testing::RecordingListener listener;
  EXPECT_TRUE(HoldsInChild(
      [&] {
        const auto fails = [](const absl::Status& status) {
          return status.code() == absl::StatusCode::kFailedPrecondition;
        };
        constexpr absl::Duration kTimeout = absl::Seconds(30);
        return fails(store_->Fetch({"p:key"}, kTimeout)[0].status()) &&
               fails(store_->Put({"p:key", "new"}, kTimeout)) &&
               fails(store_->Remove("p:key", kTimeout).status()) &&
               fails(store_->Attach("q:", kTimeout, &listener)) &&
               // The local tier may start a thread.
               (!kChildMayStartThreads || (fails(near_->Get("key").status()) &&
                                           fails(near_->Set("key", "new"))));
      },
      Others::kRun));
  // The parent's connections are whole.
  EXPECT_TRUE(near_->Set("key", "newer").ok());
  EXPECT_EQ(Get(), "newer");
  EXPECT_EQ(near_->stats().losses, 0);
}

TEST_F(RedisForkTest, DestroyingInTheChildLeavesTheParentItsConnections) {
  if (!kChildMayStartThreads) GTEST_SKIP() << "ThreadSanitizer";
  Start();
  EXPECT_TRUE(HoldsInChild(
      [&] {
        near_ = nullptr;
        store_ = nullptr;
        return true;
      },
      Others::kRun));
  EXPECT_TRUE(near_->Set("key", "value").ok());
  EXPECT_EQ(Get(), "value");
  EXPECT_EQ(near_->stats().losses, 0);
}

TEST_F(RedisForkTest, AStoreThatIsMadeInTheChildWorks) {
  if (!kChildMayStartThreads) GTEST_SKIP() << "ThreadSanitizer";
  Start();
  EXPECT_TRUE(HoldsInChild([&] {
    RedisStoreOptions options;
    options.url = server_->url();
    auto store = RedisStore::Create(options);
    return store.ok() &&
           (*store)->Put({"p:key", "child"}, absl::Seconds(30)).ok();
  }));
  EXPECT_TRUE(Until([&] { return Get() == "child"; }));
}

}  // namespace
}  // namespace wheelcache
