// Why one PONG does not certify what has executed before its PING.

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/cache/near/redis/near_redis_environment.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::RecordingListener;
using testing::RedisClient;
using testing::Relay;

// A PONG may come before the invalidation of a write that was executed before
// its PING was sent: where the write, something slow, and the PING share a turn
// of the server's event loop.
class PongTest : public NearRedisEnvironment {
 protected:
  static constexpr absl::Duration kBound = absl::Milliseconds(600);

  void SetUp() override {
    Start();
    ASSERT_TRUE(store_->Attach("q:", kBound, &listener_).ok());
    first_ = std::make_unique<RedisClient>(server_->port());
    slow_ = std::make_unique<RedisClient>(server_->port());
    for (RedisClient* each : {first_.get(), slow_.get(), other_.get()}) {
      ASSERT_EQ(each->Run({"PING"}), "PONG");
    }
  }
  void TearDown() override {
    relay_->ReleaseAll();
    store_->Detach(&listener_);
  }

  // Brings that about, and holds back all that comes after the PONG. Returns
  // whether the invalidation did: where a thread of the test was late, not.
  bool HoldsBehindThePong() {
    EXPECT_TRUE(listener_.AwaitLease());
    // Right after a PONG, so that the next PING is 100 ms away.
    int leases = -1;
    EXPECT_TRUE(listener_.Await([&] {
      if (leases < 0) leases = listener_.leases;
      return listener_.leases > leases;
    }));
    // During this turn, three things gather for the next one: the write,
    // something slow, and an empty line on the subscription. The server reads
    // the latter when the slow one has ended, with the PING that came behind.
    first_->Send({"DEBUG", "SLEEP", "0.03"});
    before_write_ = store_->clock().NowNanos();
    other_->Send({"SET", "q:key", "new"});
    slow_->Send({"DEBUG", "SLEEP", "0.2"});
    relay_->HoldAfter(Relay::kSubscription, Relay::kToClient,
                      "$4\r\npong\r\n$0\r\n\r\n");
    relay_->Inject(Relay::kSubscription, "\r\n");
    for (RedisClient* each : {first_.get(), slow_.get(), other_.get()}) {
      EXPECT_EQ(each->Receive(), "OK");
    }
    bool is_held = false;
    EXPECT_TRUE(Until([&] {
      is_held = relay_->Holds(Relay::kSubscription, Relay::kToClient, "q:key");
      return is_held ||
             listener_.Await([&] { return listener_.keys.count("q:key") != 0; },
                             absl::ZeroDuration());
    }));
    return is_held;
  }

  RecordingListener listener_;
  std::unique_ptr<RedisClient> first_;
  std::unique_ptr<RedisClient> slow_;
  int64_t before_write_ = 0;
};

TEST_F(PongTest, PongBeforeAnInvalidationDoesNotCertifyTheWrite) {
  int attempts = 0;
  while (!HoldsBehindThePong()) {
    ASSERT_LT(++attempts, 30);
    relay_->ReleaseAll();
    listener_.Clear();
  }
  // The session ends, since all that follows is held back. Until then, no lease
  // has been longer than the bound allows for the write.
  EXPECT_FALSE(listener_.AwaitLoss().ok());
  EXPECT_TRUE(listener_.Await(
      [&] {
        return listener_.keys.empty() &&
               listener_.until <= Clock::NanosAfter(before_write_, kBound);
      },
      absl::ZeroDuration()));
}

}  // namespace
}  // namespace wheelcache
