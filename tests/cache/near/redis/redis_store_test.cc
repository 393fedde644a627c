// Calls of a RedisStore to a real server: what they do there, and their errors.

#include "wheelcache/cache/near/redis_store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::RedisClient;
using testing::RedisServer;
using Results = std::vector<absl::StatusOr<RemoteStore::Fetched>>;

constexpr absl::Duration kTimeout = absl::Seconds(30);

class RedisStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto server = RedisServer::Start();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    other_ = std::make_unique<RedisClient>(server_->port());
    other_->Run({"FLUSHALL"});
    store_ = NewStore({});
    ASSERT_NE(store_, nullptr);
  }

  static std::unique_ptr<RedisStore> NewStore(RedisStoreOptions options) {
    if (options.url == RedisStoreOptions().url) options.url = server_->url();
    auto store = RedisStore::Create(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  absl::StatusOr<RemoteStore::Fetched> FetchOne(absl::string_view key) {
    return store_->Fetch({key}, kTimeout)[0];
  }

  static RedisServer* server_;
  std::unique_ptr<RedisClient> other_;
  std::unique_ptr<RedisStore> store_;
};

RedisServer* RedisStoreTest::server_ = nullptr;

TEST_F(RedisStoreTest, FetchesWhatAnotherClientHasSet) {
  other_->Run({"SET", "key", "value"});
  const auto fetched = FetchOne("key");
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->bytes, "value");
  EXPECT_EQ(fetched->deadline_nanos, Clock::kNever);
}

TEST_F(RedisStoreTest, AnAbsentKeyHasNoBytesAndNoDeadline) {
  const auto fetched = FetchOne("absent");
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->bytes, std::nullopt);
  EXPECT_EQ(fetched->deadline_nanos, Clock::kNever);
}

TEST_F(RedisStoreTest, AnEmptyValueIsNotAbsent) {
  other_->Run({"SET", "key", ""});
  EXPECT_EQ(FetchOne("key")->bytes, "");
}

TEST_F(RedisStoreTest, KeysAndValuesMayHaveAnyBytes) {
  const std::string key("a\0 \r\n$\xff", 7);
  std::string value;
  for (int i = 0; i < 1000; ++i) value.push_back(static_cast<char>(i));
  EXPECT_TRUE(store_->Put({key, value}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"GET", key}), value);
  EXPECT_EQ(FetchOne(key)->bytes, value);
  EXPECT_EQ(*store_->Remove(key, kTimeout), true);
}

TEST_F(RedisStoreTest, AnEmptyKeyIsAKey) {
  EXPECT_TRUE(store_->Put({"", "value"}, kTimeout).ok());
  EXPECT_EQ(FetchOne("")->bytes, "value");
}

TEST_F(RedisStoreTest, TheDeadlineIsNeverLaterThanAtTheServer) {
  other_->Run({"SET", "key", "value", "PX", "60000"});
  const int64_t before = store_->clock().NowNanos();
  const auto fetched = FetchOne("key");
  ASSERT_TRUE(fetched.ok());
  int64_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(other_->Run({"PTTL", "key"}), &left));
  const int64_t after = store_->clock().NowNanos();
  EXPECT_GT(fetched->deadline_nanos, before);
  // One millisecond for the rounding of PTTL.
  EXPECT_LE(fetched->deadline_nanos,
            Clock::NanosAfter(after, absl::Milliseconds(left + 1)));
}

TEST_F(RedisStoreTest, PutRoundsTheTtlUpToMilliseconds) {
  ASSERT_TRUE(
      store_->Put({"key", "value", absl::Nanoseconds(1)}, kTimeout).ok());
  ASSERT_TRUE(store_->Put({"long", "v", absl::Hours(1)}, kTimeout).ok());
  int64_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(other_->Run({"PTTL", "long"}), &left));
  EXPECT_GT(left, 3'500'000);
  EXPECT_LE(left, 3'600'000);
}

TEST_F(RedisStoreTest, PutTakesTheLongestOfTtls) {
  const absl::Duration almost_infinite =
      absl::InfiniteDuration() - absl::Nanoseconds(1);
  for (const absl::Duration ttl : {absl::Hours(24 * 365) * 300.0,
                                   absl::Seconds(INT64_MAX), almost_infinite}) {
    EXPECT_TRUE(store_->Put({"key", "value", ttl}, kTimeout).ok()) << ttl;
  }
}

TEST_F(RedisStoreTest, PutWithoutATtlEndsTheOldOne) {
  other_->Run({"SET", "key", "old", "PX", "60000"});
  ASSERT_TRUE(store_->Put({"key", "new"}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"PTTL", "key"}), "-1");
}

TEST_F(RedisStoreTest, RemoveTellsWhetherTheKeyWasThere) {
  other_->Run({"SET", "key", "value"});
  EXPECT_EQ(*store_->Remove("key", kTimeout), true);
  EXPECT_EQ(*store_->Remove("key", kTimeout), false);
  EXPECT_EQ(other_->Run({"GET", "key"}), "(nil)");
}

TEST_F(RedisStoreTest, FetchesManyKeysInTheirOrder) {
  std::vector<std::string> names;
  for (int i = 0; i < 2500; ++i) {
    names.push_back(absl::StrCat("key", i));
    if (i % 3 != 0) other_->Run({"SET", names.back(), absl::StrCat(i)});
  }
  const std::vector<absl::string_view> keys(names.begin(), names.end());
  const Results results = store_->Fetch(keys, kTimeout);
  ASSERT_EQ(results.size(), keys.size());
  for (int i = 0; i < 2500; ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(results[i]->bytes,
              i % 3 == 0 ? std::nullopt : std::optional(absl::StrCat(i)));
  }
}

TEST_F(RedisStoreTest, FetchOfNoKeysReturnsNothing) {
  EXPECT_TRUE(store_->Fetch({}, kTimeout).empty());
}

TEST_F(RedisStoreTest, AKeyMayComeTwiceInAFetch) {
  other_->Run({"SET", "key", "value"});
  const Results results = store_->Fetch({"key", "key"}, kTimeout);
  EXPECT_EQ(results[0]->bytes, "value");
  EXPECT_EQ(results[1]->bytes, "value");
}

TEST_F(RedisStoreTest, AValueThatIsNoStringIsAnError) {
  other_->Run({"RPUSH", "list", "a"});
  const auto fetched = FetchOne("list");
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(fetched.status().message(), "GET: WRONGTYPE"))
      << fetched.status();
}

TEST_F(RedisStoreTest, AValueThatIsNoStringIsAnErrorAmongOthersToo) {
  other_->Run({"RPUSH", "list", "a"});
  other_->Run({"SET", "key", "value"});
  const Results results = store_->Fetch({"key", "list", "absent"}, kTimeout);
  EXPECT_EQ(results[0]->bytes, "value");
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[2]->bytes, std::nullopt);
}

TEST_F(RedisStoreTest, ThreadsShareTheConnections) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = absl::StrCat("key", t);
        const std::string value = absl::StrCat(t, ":", i);
        ASSERT_TRUE(store_->Put({key, value}, kTimeout).ok());
        const auto fetched = FetchOne(key);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        ASSERT_EQ(fetched->bytes, value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string clients = other_->Run({"CLIENT", "LIST"});
  EXPECT_TRUE(absl::StrContains(clients, "name=wheelcache"));
  // With the other client: one for reads, one for writes.
  EXPECT_EQ(std::count(clients.begin(), clients.end(), '\n'), 3) << clients;
}

TEST_F(RedisStoreTest, UsesTheDatabaseOfTheUrl) {
  store_ = NewStore({absl::StrCat(server_->url(), "/3")});
  ASSERT_TRUE(store_->Put({"key", "value"}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"GET", "key"}), "(nil)");
  other_->Run({"SELECT", "3"});
  EXPECT_EQ(other_->Run({"GET", "key"}), "value");
  EXPECT_EQ(FetchOne("key")->bytes, "value");
}

TEST_F(RedisStoreTest, UsesAUnixSocket) {
  store_ = NewStore({absl::StrCat("unix://", server_->socket_path(), "?db=2")});
  ASSERT_TRUE(store_->Put({"key", "value"}, kTimeout).ok());
  other_->Run({"SELECT", "2"});
  EXPECT_EQ(other_->Run({"GET", "key"}), "value");
}

TEST_F(RedisStoreTest, ACallWithoutTimeSendsNothing) {
  EXPECT_EQ(store_->Put({"key", "value"}, absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(FetchOne("key")->bytes, std::nullopt);
}

TEST_F(RedisStoreTest, RefusesMoreCommandsThanMayBeInFlight) {
  RedisStoreOptions options;
  options.max_in_flight = 10;
  store_ = NewStore(options);
  const std::vector<absl::string_view> keys(10, "key");
  const Results results = store_->Fetch(keys, kTimeout);
  EXPECT_EQ(results[9].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(FetchOne("key").ok());
}

TEST_F(RedisStoreTest, CreateNamesTheOptionThatIsWrong) {
  const auto message = [](const RedisStoreOptions& options) {
    const auto store = RedisStore::Create(options);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(store.status().message());
  };
  RedisStoreOptions options;
  options.url = "http://127.0.0.1";
  EXPECT_TRUE(absl::StartsWith(message(options), "url: scheme \"http\""));
  options = {};
  options.client_name = "my cache";
  EXPECT_TRUE(absl::StartsWith(message(options), "client_name: \"my cache\""));
  options = {};
  options.connect_timeout = absl::ZeroDuration();
  EXPECT_EQ(message(options), "connect_timeout: 0 is not more than zero");
  options = {};
  options.unanswered_limit = -absl::Seconds(1);
  EXPECT_EQ(message(options), "unanswered_limit: -1s is not more than zero");
  options = {};
  options.max_in_flight = 1;
  EXPECT_TRUE(absl::StartsWith(message(options), "max_in_flight: 1 "));
}

}  // namespace
}  // namespace wheelcache
