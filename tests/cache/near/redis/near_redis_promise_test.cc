// Tries to break the promise of near caches on a real Redis: see
// promise_checker.h. The simulated form of it is near_promise_test.cc.
//
// From a million operations on, the server also stops for 10 s.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/cache/near/redis/promise_checker.h"
#include "wheelcache/tests/cache/near/redis/promised_key.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::Connections;
using testing::ConnectionsOf;
using testing::RedisClient;
using testing::RedisServer;
using testing::Relay;

constexpr absl::Duration kBound = absl::Milliseconds(150);  // L

// Waits; no test here waits to see something expire.
void Pause(absl::Duration time) { absl::SleepFor(time); }

enum Fault {
  kStop,
  kCloseConnections,
  kClientKill,
  kDropDirection,
  kHoldReplies,
  kHoldDirection,
  kKillServer,
  kWriteBehindAPong,
  kOftenWriteBehindAPong,
  kFaults
};

// The server, and what is between it and two stores.
class Redis {
 public:
  using Random = PromiseChecker::Random;

  // `pong` is how the server answers on the connection of the session.
  Redis(std::unique_ptr<RedisServer> server, absl::string_view pong)
      : server_(std::move(server)), pong_(pong) {
    std::vector<std::unique_ptr<RemoteStore>> stores;
    for (auto& relay : relays_) {
      relay = std::make_unique<Relay>(server_->port());
      RedisStoreOptions options;
      options.url = relay->url();
      options.connect_timeout = kBound;
      options.unanswered_limit = 4 * kBound;
      stores.push_back(*RedisStore::Create(options));
    }
    PromiseChecker::Options options;
    options.max_staleness = kBound;
    // Shorter than the long stop.
    options.command_timeout = absl::Milliseconds(50);
    checker_ = std::make_unique<PromiseChecker>(options, std::move(stores));
  }

  // Returns the first violation.
  std::string Run(int64_t operations) {
    auto client = std::make_unique<RedisClient>(server_->port());
    return checker_->Run(
        operations, [this](Random& random) { return Break(random); },
        [&](const std::string& name, int64_t version) {
          if (client->Run({"PING"}) != "PONG") {
            Pause(absl::Milliseconds(1));
            client = std::make_unique<RedisClient>(server_->port());
          }
          return WriteAs(*client, name, version);
        });
  }

  const PromiseChecker& checker() const { return *checker_; }

 private:
  // When the server says that it has written.
  static std::optional<int64_t> WriteAs(RedisClient& client,
                                        const std::string& name,
                                        int64_t version) {
    const std::string reply = client.Run(
        {"EVAL",
         "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('TIME')", "1",
         "p:" + name, absl::StrCat(version)});
    const std::vector<std::string> words = absl::StrSplit(reply, ' ');
    int64_t seconds = 0;
    int64_t micros = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &seconds) ||
        !absl::SimpleAtoi(words[1], &micros)) {
      return std::nullopt;
    }
    const absl::Duration ago =
        absl::Now() - absl::FromUnixMicros(seconds * 1'000'000 + micros + 1);
    return Clock::Monotonic().NowNanos() - absl::ToInt64Nanoseconds(ago);
  }

  std::string Break(Random& random) {
    if (checker_->operations() >= next_long_stop_) {
      next_long_stop_ += kOperationsPerLongStop;
      StopFor(absl::Seconds(10));
      return "SIGSTOP for 10 s";
    }
    const absl::Duration length = PromiseChecker::UpTo(random, 2 * kBound);
    Relay& relay = *relays_[PromiseChecker::Uniform(random, relays_.size())];
    const auto kind = static_cast<Relay::Kind>(
        Relay::kReads +
        PromiseChecker::Uniform(random, Relay::kKinds - Relay::kReads));
    const auto direction = static_cast<Relay::Direction>(
        PromiseChecker::Uniform(random, Relay::kDirections));
    switch (static_cast<Fault>(PromiseChecker::Uniform(random, kFaults))) {
      case kStop:
        StopFor(length);
        return "SIGSTOP";
      case kCloseConnections:
        relay.Close(kind);
        return "connections closed";
      case kClientKill:
        KillConnections(kind == Relay::kSubscription ? Connections::kTracking
                                                     : Connections::kOthers);
        return "CLIENT KILL";
      case kDropDirection:
        relay.Drop(kind, direction);
        Pause(length);
        // What comes after a gap is no stream any more.
        relay.Close(kind);
        relay.ReleaseAll();
        return "a direction dropped";
      case kHoldReplies:
        relay.Hold(Relay::kReads, Relay::kToClient);
        Pause(length);
        relay.ReleaseAll();
        return "replies held";
      case kHoldDirection:
        relay.Hold(kind, direction);
        Pause(length);
        relay.ReleaseAll();
        return "a direction held";
      case kKillServer:
        // All data is lost: another server, in effect, with other keys.
        checker_->Note(checker_->WithoutWrites([this] {
          for (size_t k = 0; k < PromiseChecker::kKeys; ++k) {
            checker_->key(k).Rename();
          }
          server_->Kill();
          return std::string(server_->Restart().message());
        }));
        return "kill -9 and restart";
      default:
        WriteBehindAPong(relay, checker_->key(PromiseChecker::Uniform(
                                    random, PromiseChecker::kKeys)));
        return "a write behind a PONG";
    }
  }

  void StopFor(absl::Duration time) {
    server_->Stop();
    Pause(time);
    server_->Continue();
  }

  void KillConnections(Connections which) {
    RedisClient client(server_->port());
    for (const std::string& id : ConnectionsOf(client, which)) {
      client.Run({"CLIENT", "KILL", "ID", id});
    }
  }

  // A write whose invalidation comes after the PONG to a PING that was sent
  // after it, and is then held back: see redis_fault_test.cc.
  void WriteBehindAPong(Relay& relay, PromisedKey& key) {
    RedisClient first(server_->port());
    RedisClient slow(server_->port());
    RedisClient writer(server_->port());
    for (RedisClient* each : {&first, &slow, &writer}) each->Run({"PING"});
    MutexLock lock(&key.writing);
    // Right after a PONG, so that the next PING is a sixth of L away.
    relay.HoldAfter(Relay::kSubscription, Relay::kToClient, pong_);
    const bool passed =
        relay.AwaitPassed(Relay::kSubscription, Relay::kToClient);
    relay.ReleaseAll();
    if (!passed) return;
    first.Send({"DEBUG", "SLEEP", "0.003"});
    std::thread write([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      PromiseChecker::WriteLocked(
          key, [&](const std::string& name, int64_t version) {
            return WriteAs(writer, name, version);
          });
    });
    Pause(absl::Milliseconds(1));
    slow.Send({"DEBUG", "SLEEP", "0.06"});
    relay.HoldAfter(Relay::kSubscription, Relay::kToClient, pong_);
    relay.Inject(Relay::kSubscription, "\r\n");
    write.join();
    Pause(1.2 * kBound);
    relay.ReleaseAll();
  }

  static constexpr int64_t kOperationsPerLongStop = 1'000'000;

  const std::unique_ptr<RedisServer> server_;
  const absl::string_view pong_;
  int64_t next_long_stop_ = kOperationsPerLongStop;
  std::array<std::unique_ptr<Relay>, PromiseChecker::kCaches> relays_;
  std::unique_ptr<PromiseChecker> checker_;
};

void ExpectPromise(std::vector<std::string> server_options,
                   absl::string_view pong) {
  auto server = RedisServer::Start(std::move(server_options));
  ASSERT_TRUE(server.ok()) << server.status();
  Redis redis(*std::move(server), pong);
  EXPECT_EQ(redis.Run(static_cast<int64_t>(TestOperations())), "")
      << "WHEELCACHE_TEST_SEED=" << TestSeed();
  std::cout << redis.checker().Report() << std::endl;
  // It would prove nothing otherwise.
  EXPECT_GT(redis.checker().local_hits(),
            static_cast<int64_t>(TestOperations()) / 10);
}

// Promise: A near cache is never staler than its bound
TEST(NearRedisPromiseTest, HoldsWhateverBreaks) {
  ExpectPromise({}, "+PONG\r\n");
}

// Promise: A near cache is never staler than its bound
TEST(NearRedisPromiseTest, HoldsWithAServerThatKnowsOnlyRESP2) {
  ExpectPromise({"--rename-command", "HELLO", ""}, "$4\r\npong\r\n$0\r\n\r\n");
}

}  // namespace
}  // namespace wheelcache
