// What a listener learns of other clients' writes, from a real server.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"

namespace wheelcache {
namespace {

using testing::Notification;
using testing::RecordingListener;
using testing::RedisClient;
using testing::RedisServer;

constexpr absl::Duration kTimeout = absl::Seconds(30);

class RedisInvalidationTest : public ::testing::Test {
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

  // A listener of "p:" that has a lease, and a key that is there.
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    other_ = std::make_unique<RedisClient>(server_->port());
    other_->Run({"CONFIG", "SET", "maxmemory", "0"});
    other_->Run({"FLUSHALL"});
    other_->Run({"SET", "p:key", "value"});
    RedisStoreOptions options;
    options.url = server_->url();
    auto store = RedisStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(store_->Attach("p:", absl::Seconds(3), &listener_).ok());
    ASSERT_TRUE(listener_.AwaitLease());
    listener_.Clear();
  }
  void TearDown() override {
    if (store_ != nullptr) store_->Detach(&listener_);
  }

  bool AwaitKey(const std::string& key) {
    return listener_.Await([&] { return listener_.keys.count(key) != 0; });
  }

  // Returns whether the listener hears of "p:key" after that command.
  bool Invalidates(const std::vector<absl::string_view>& command) {
    other_->Run(command);
    return AwaitKey("p:key");
  }

  static RedisServer* server_;
  std::unique_ptr<RedisClient> other_;
  RecordingListener listener_;
  std::unique_ptr<RedisStore> store_;
};

RedisServer* RedisInvalidationTest::server_ = nullptr;

TEST_F(RedisInvalidationTest, HearsOfASet) {
  EXPECT_TRUE(Invalidates({"SET", "p:key", "new"}));
}

TEST_F(RedisInvalidationTest, HearsOfASetOfAnAbsentKey) {
  other_->Run({"SET", "p:absent", "value"});
  EXPECT_TRUE(AwaitKey("p:absent"));
}

TEST_F(RedisInvalidationTest, HearsOfADel) {
  EXPECT_TRUE(Invalidates({"DEL", "p:key"}));
}

TEST_F(RedisInvalidationTest, HearsOfAnExpire) {
  EXPECT_TRUE(Invalidates({"EXPIRE", "p:key", "100"}));
}

TEST_F(RedisInvalidationTest, HearsOfAPersist) {
  other_->Run({"EXPIRE", "p:key", "100"});
  EXPECT_TRUE(AwaitKey("p:key"));
  listener_.Clear();
  EXPECT_TRUE(Invalidates({"PERSIST", "p:key"}));
}

TEST_F(RedisInvalidationTest, HearsOfAWriteByAScript) {
  EXPECT_TRUE(
      Invalidates({"EVAL", "redis.call('SET', KEYS[1], 'new')", "1", "p:key"}));
}

TEST_F(RedisInvalidationTest, HearsOfAWriteInATransaction) {
  other_->Run({"MULTI"});
  other_->Run({"APPEND", "p:key", "more"});
  EXPECT_TRUE(Invalidates({"EXEC"}));
}

TEST_F(RedisInvalidationTest, HearsOfARename) {
  EXPECT_TRUE(Invalidates({"RENAME", "p:key", "p:other"}));
  EXPECT_TRUE(AwaitKey("p:other"));
}

TEST_F(RedisInvalidationTest, HearsOfAnExpiry) {
  other_->Run({"SET", "p:short", "value", "PX", "20"});
  EXPECT_TRUE(AwaitKey("p:short"));
  // Once for the SET, and once for the expiry.
  EXPECT_TRUE(listener_.Await([&] { return listener_.keys["p:short"] == 2; }));
}

TEST_F(RedisInvalidationTest, HearsOfAnEviction) {
  other_->Run({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
  // Less than the server takes without any key, so that it evicts all.
  other_->Run({"CONFIG", "SET", "maxmemory", "1"});
  other_->Run({"GET", "p:key"});
  other_->Run({"SET", "other", "value"});
  EXPECT_TRUE(AwaitKey("p:key"));
}

TEST_F(RedisInvalidationTest, HearsOfEvictionsThatItsOwnStoreCauses) {
  for (int i = 0; i < 30; ++i) {
    other_->Run({"SET", absl::StrCat("p:", i), std::string(1000, 'x')});
  }
  EXPECT_TRUE(AwaitKey("p:29"));
  listener_.Clear();
  other_->Run({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
  other_->Run({"CONFIG", "SET", "maxmemory", "1"});
  // Refused, when all the others have been evicted for it.
  store_->Put({"p:big", "value"}, kTimeout).IgnoreError();
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(AwaitKey(absl::StrCat("p:", i)));
}

TEST_F(RedisInvalidationTest, HearsOfItsOwnWrites) {
  ASSERT_TRUE(store_->Put({"p:key", "new"}, kTimeout).ok());
  EXPECT_TRUE(AwaitKey("p:key"));
  listener_.Clear();
  ASSERT_TRUE(store_->Remove("p:key", kTimeout).ok());
  EXPECT_TRUE(AwaitKey("p:key"));
}

TEST_F(RedisInvalidationTest, HearsOfFlushallAsOfAllKeys) {
  other_->Run({"FLUSHALL"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
}

TEST_F(RedisInvalidationTest, HearsOfFlushdbOfAnyDatabase) {
  other_->Run({"SELECT", "5"});
  other_->Run({"FLUSHDB"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
}

TEST_F(RedisInvalidationTest, HearsOfItsPrefixAndNothingElse) {
  other_->Run({"SET", "q:key", "value"});
  other_->Run({"SET", "p", "value"});
  EXPECT_TRUE(Invalidates({"SET", "p:key", "value"}));
  EXPECT_TRUE(listener_.Await([&] { return listener_.keys.size() == 1; }));
}

TEST_F(RedisInvalidationTest, ManyKeysOfACommandComeWhole) {
  std::vector<std::string> names;
  std::vector<absl::string_view> command = {"MSET"};
  for (int i = 0; i < 5000; ++i) {
    names.push_back(absl::StrCat("p:", i, std::string(50, 'x')));
  }
  for (const std::string& name : names) {
    command.push_back(name);
    command.push_back("value");
  }
  other_->Run(command);
  EXPECT_TRUE(
      listener_.Await([&] { return listener_.keys.size() == names.size(); }));
}

TEST_F(RedisInvalidationTest, KeysMayHaveAnyBytes) {
  const std::string key("p:\0\r\n\xff", 6);
  other_->Run({"SET", key, "value"});
  EXPECT_TRUE(AwaitKey(key));
}

TEST_F(RedisInvalidationTest, WhatIsPublishedOnTheChannelInvalidatesAll) {
  other_->Run({"PUBLISH", "__redis__:invalidate", "p:key"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
}

TEST_F(RedisInvalidationTest, LeasesNeverGoBackAndTheSessionStays) {
  RecordingListener short_one;
  ASSERT_TRUE(store_->Attach("s:", absl::Milliseconds(60), &short_one).ok());
  EXPECT_TRUE(short_one.Await([&] { return short_one.leases >= 12; }));
  EXPECT_TRUE(short_one.Await(
      [&] { return !short_one.went_back && short_one.losses.empty(); }));
  store_->Detach(&short_one);
}

TEST_F(RedisInvalidationTest, EachListenerHearsOfItsOwnPrefix) {
  RecordingListener second;
  ASSERT_TRUE(store_->Attach("q:", absl::Seconds(3), &second).ok());
  ASSERT_TRUE(second.AwaitLease());
  EXPECT_NE(second.Session(), listener_.Session());
  other_->Run({"SET", "q:key", "value"});
  EXPECT_TRUE(Invalidates({"SET", "p:key", "value"}));
  EXPECT_TRUE(second.Await([&] { return second.keys.count("q:key") == 1; }));
  EXPECT_TRUE(second.Await([&] { return second.keys.size() == 1; }));
  store_->Detach(&second);
}

TEST_F(RedisInvalidationTest, RefusesAPrefixThatOverlaps) {
  RecordingListener second;
  for (const absl::string_view prefix : {"p:", "p", "p:a:", ""}) {
    const absl::Status status =
        store_->Attach(prefix, absl::Seconds(3), &second);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << prefix;
    EXPECT_EQ(status.message().substr(0, 13), "key_prefix: \"");
  }
}

TEST_F(RedisInvalidationTest, APrefixIsFreeAfterDetach) {
  store_->Detach(&listener_);
  store_->Detach(&listener_);  // Does nothing.
  EXPECT_TRUE(store_->Attach("", absl::Seconds(3), &listener_).ok());
  EXPECT_TRUE(listener_.AwaitLease(listener_.Session()));
  other_->Run({"SET", "any", "value"});
  EXPECT_TRUE(AwaitKey("any"));
}

TEST_F(RedisInvalidationTest, AfterDetachTheListenerMayGo) {
  for (int i = 0; i < 20; ++i) {
    auto brief = std::make_unique<RecordingListener>();
    ASSERT_TRUE(store_->Attach("b:", absl::Seconds(3), brief.get()).ok());
    other_->Send({"SET", "b:key", "value"});
    if (i % 2 == 0) {
      EXPECT_TRUE(brief->AwaitLease());
    }
    store_->Detach(brief.get());
  }
}

// As the destructor of a value may, which a near cache deletes when it is told.
class AttachingListener final : public RecordingListener {
 public:
  AttachingListener(RedisStore* store, Listener* other)
      : store_(*store), other_(*other) {}

  void OnInvalidate(absl::Span<const absl::string_view> keys) override {
    invalidates.Notify();
    detaches.Wait();
    // Meanwhile the other thread comes to wait for this one.
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();
    EXPECT_TRUE(store_.Attach("n:", absl::Seconds(3), &other_).ok());
    RecordingListener::OnInvalidate(keys);
  }

  Notification invalidates;
  Notification detaches;

 private:
  RedisStore& store_;
  Listener& other_;
};

TEST_F(RedisInvalidationTest, ListenerMayBeAttachedWhileAnotherIsDetached) {
  RecordingListener late;
  AttachingListener attaching(store_.get(), &late);
  ASSERT_TRUE(store_->Attach("a:", absl::Seconds(3), &attaching).ok());
  ASSERT_TRUE(attaching.AwaitLease());
  other_->Run({"SET", "a:key", "value"});
  attaching.invalidates.Wait();
  attaching.detaches.Notify();
  store_->Detach(&listener_);
  EXPECT_TRUE(late.AwaitLease());
  store_->Detach(&late);
  store_->Detach(&attaching);
}

}  // namespace
}  // namespace wheelcache
