// Near caches in front of a real Redis Cluster: keys on all nodes, slots that
// move, nodes that fail and are replaced, and one that does not know it yet.

#include "wheelcache/tests/testing/redis_cluster.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/cluster.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/testing/awaited_fetch.h"
#include "wheelcache/tests/testing/loopback.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using internal::SlotOf;
using testing::AwaitedFetch;
using testing::RedisCluster;
using testing::Relay;

constexpr absl::Duration kTimeout = absl::Seconds(30);

TEST(SlotTest, IsThatOfTheSpecification) {
  EXPECT_EQ(SlotOf("123456789"), 0x31C3);
  EXPECT_EQ(SlotOf(""), 0);
  EXPECT_EQ(SlotOf("{user1000}.following"), SlotOf("{user1000}.followers"));
  EXPECT_EQ(SlotOf("{user1000}.following"), SlotOf("user1000"));
  EXPECT_EQ(SlotOf("foo{{bar}}zap"), SlotOf("{bar"));
  EXPECT_EQ(SlotOf("foo{bar}{zap}"), SlotOf("bar"));
  EXPECT_NE(SlotOf("foo{}{bar}"), SlotOf("bar"));
  EXPECT_NE(SlotOf("foo{bar"), SlotOf("bar"));
}

TEST(SlotTest, ALockHasTheSlotOfItsKey) {
  for (const std::string key : {"", "key", "user:{7}:name", "{}", "}", "{",
                                "a}b", "{a", "{}{b}", "a{}", "}{"}) {
    const std::string name = internal::NameInSlotOf(key, key + ":lock");
    EXPECT_EQ(SlotOf(name), SlotOf(key)) << key << " and " << name;
    EXPECT_TRUE(absl::StartsWith(name, key + ":lock")) << name;
  }
}

class RedisClusterTest : public ::testing::Test {
 protected:
  using Near = NearCache<std::string>;

  void Start(RedisCluster::Replicas replicas, absl::Duration max_staleness) {
    auto cluster = RedisCluster::Start(replicas);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    RedisStoreOptions options;
    options.url = cluster_->url();
    options.connect_timeout = absl::Seconds(10);
    options.cluster = true;
    options.cluster_node_timeout = RedisCluster::kNodeTimeout;
    auto store = RedisStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    NearCacheOptions near;
    near.key_prefix = "p:";
    near.max_staleness = max_staleness;
    near.command_timeout = max_staleness;
    near_ = *Near::Create(near, store_.get());
    ASSERT_TRUE(Until([&] { return near_->stats().sessions >= 3; }));
  }

  bool Until(const std::function<bool()>& condition) const {
    const int64_t limit = store_->clock().NanosAfter(kTimeout);
    while (!condition()) {
      if (store_->clock().NowNanos() > limit) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string Get(absl::string_view key) {
    const Near::Result value = near_->Get(key);
    if (!value.ok()) return value.status().ToString();
    return value->value_or("(absent)");
  }

  // Whether the key is local.
  bool Hits(absl::string_view key) {
    const int64_t before = near_->stats().local_hits;
    near_->Get(key).IgnoreError();
    return near_->stats().local_hits > before;
  }

  // A key of a slot that the node serves.
  std::string KeyOn(size_t node) {
    for (int i = 0;; ++i) {
      std::string key = absl::StrCat("key", i);
      if (cluster_->OwnerOf(SlotOf("p:" + key)) == node) return key;
    }
  }

  std::unique_ptr<RedisCluster> cluster_;
  std::unique_ptr<RedisStore> store_;
  std::unique_ptr<Near> near_;
};

// Promise: A near cache is never staler than its bound
TEST_F(RedisClusterTest, KeysOfAllNodesAreReadWrittenAndToldOf) {
  Start(RedisCluster::kWithoutReplicas, absl::Seconds(3));
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back(absl::StrCat("key", i));
  for (const std::string& name : names) {
    ASSERT_TRUE(near_->Set(name, name + "v").ok());
  }
  const std::vector<absl::string_view> keys(names.begin(), names.end());
  const std::vector<Near::Result> values = near_->GetMany(keys);
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE(values[i].ok()) << values[i].status();
    EXPECT_EQ(**values[i], names[i] + "v");
  }
  for (size_t node = 0; node < RedisCluster::kPrimaries; ++node) {
    const std::string key = KeyOn(node);
    EXPECT_TRUE(Until([&] { return Hits(key); }));
    cluster_->RunForKey({"SET", "p:" + key, "foreign"});
    EXPECT_TRUE(Until([&] { return Get(key) == "foreign"; }));
    EXPECT_TRUE(*near_->Del(key));
    EXPECT_EQ(Get(key), "(absent)");
  }

  // Locks are where their keys are.
  for (const absl::string_view key : {"p:a", "p:{b}c", "p:d}", "p:{"}) {
    EXPECT_EQ(*store_->TakeLock({key, "token"}, kTimeout, kTimeout),
              RemoteStore::LockResult::kTaken);
    EXPECT_TRUE(
        store_->Put({key, "value", kTimeout, false, "token"}, kTimeout).ok());
    EXPECT_TRUE(*store_->Remove(key, kTimeout));
  }
}

// Also where they were fetched together.
// Promise: A near cache is never staler than its bound
TEST_F(RedisClusterTest, EachEntryHasTheLeaseOfItsOwnNode) {
  constexpr absl::Duration kBound = absl::Milliseconds(300);
  Start(RedisCluster::kWithoutReplicas, kBound);
  const std::vector<std::string> names = {KeyOn(0), KeyOn(1), KeyOn(2)};
  const std::vector<absl::string_view> keys(names.begin(), names.end());
  for (size_t node = 0; node < RedisCluster::kPrimaries; ++node) {
    for (const std::string& name : names) {
      ASSERT_TRUE(near_->Set(name, "old").ok());
    }
    for (const auto& value : near_->GetMany(keys)) ASSERT_EQ(**value, "old");
    cluster_->relay(node).Hold(Relay::kSubscription, Relay::kToClient);
    EXPECT_EQ(cluster_->RunForKey({"SET", "p:" + names[node], "new"}), "OK");
    const int64_t limit = store_->clock().NanosAfter(kBound);
    ASSERT_TRUE(Until([&] { return store_->clock().NowNanos() > limit; }));
    EXPECT_NE(Get(names[node]), "old") << node;
    cluster_->relay(node).ReleaseAll();
    EXPECT_TRUE(Until([&] { return Hits(names[node]); }));
  }
}

TEST_F(RedisClusterTest, SlotsThatMoveAreFollowed) {
  Start(RedisCluster::kWithoutReplicas, absl::Seconds(3));
  const std::string key = KeyOn(0);
  const size_t slot = SlotOf("p:" + key);
  for (size_t to : {1, 2, 0, 1, 0}) {
    const std::string value = absl::StrCat("before ", to);
    ASSERT_TRUE(near_->Set(key, value).ok());
    ASSERT_TRUE(Until([&] { return Hits(key); }));
    cluster_->MoveSlot(slot, to);
    EXPECT_EQ(Get(key), value);
    cluster_->RunForKey({"SET", "p:" + key, "after"});
    EXPECT_TRUE(Until([&] { return Get(key) == "after"; }));
    EXPECT_TRUE(Until([&] { return Hits(key); }));
  }
}

// A key that was absent at the source, and is then set at the target, which
// does not get to tell of it.
// Promise: A near cache is never staler than its bound
TEST_F(RedisClusterTest, AbsenceDoesNotOutliveTheBoundWhenTheSlotMoves) {
  constexpr absl::Duration kBound = absl::Milliseconds(300);
  Start(RedisCluster::kWithoutReplicas, kBound);
  const std::string key = KeyOn(0);
  EXPECT_EQ(Get(key), "(absent)");
  cluster_->relay(1).Hold(Relay::kSubscription, Relay::kToClient);
  cluster_->MoveSlot(SlotOf("p:" + key), 1);
  EXPECT_EQ(cluster_->RunForKey({"SET", "p:" + key, "new"}), "OK");
  const int64_t limit = store_->clock().NanosAfter(kBound);
  ASSERT_TRUE(Until([&] { return store_->clock().NowNanos() > limit; }));
  EXPECT_NE(Get(key), "(absent)");
  cluster_->relay(1).ReleaseAll();
  EXPECT_TRUE(Until([&] { return Get(key) == "new"; }));
}

TEST_F(RedisClusterTest, WhileASlotMovesKeysAreFoundOnEitherSide) {
  Start(RedisCluster::kWithoutReplicas, absl::Seconds(3));
  const std::string there = KeyOn(0);
  const std::string slot = absl::StrCat(SlotOf("p:" + there));
  const std::string gone = absl::StrCat("{p:", there, "}gone");
  const std::string ids[] = {cluster_->Run(0, {"CLUSTER", "MYID"}),
                             cluster_->Run(1, {"CLUSTER", "MYID"})};
  const auto fetch = [&](absl::string_view key) {
    const auto fetched = store_->Fetch({key}, kTimeout)[0];
    return fetched.ok() ? fetched->bytes.value_or("(absent)")
                        : fetched.status().ToString();
  };
  ASSERT_TRUE(store_->Put({"p:" + there, "there"}, kTimeout).ok());
  cluster_->Run(1, {"CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]});
  cluster_->Run(0, {"CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]});
  EXPECT_EQ(fetch("p:" + there), "there");
  EXPECT_EQ(fetch(gone), "(absent)");
  // Not at the source any more: written and read at the target.
  EXPECT_TRUE(store_->Put({gone, "moved"}, kTimeout).ok());
  EXPECT_EQ(fetch(gone), "moved");
  EXPECT_TRUE(*store_->Remove(gone, kTimeout));
  EXPECT_EQ(fetch(gone), "(absent)");
  // Its lock is not at the source.
  EXPECT_TRUE(*store_->Remove("p:" + there, kTimeout));
  EXPECT_EQ(fetch("p:" + there), "(absent)");
}

// Promise: One load per key
TEST_F(RedisClusterTest, ADelFollowsTheLateWriteOfItsKey) {
  Start(RedisCluster::kWithoutReplicas, absl::Seconds(3));
  const std::string key = "p:" + KeyOn(0);
  const std::string large(8 << 20, 'x');
  ASSERT_TRUE(store_->Put({key, large}, kTimeout).ok());
  ASSERT_TRUE(*store_->Remove(key, kTimeout));
  cluster_->node(0).Stop();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      store_->Put({key, large}, absl::Milliseconds(50))));
  cluster_->node(0).Continue();
  EXPECT_TRUE(*store_->Remove(key, kTimeout));
  ASSERT_TRUE(store_->Put({absl::StrCat("{", key, "}"), large}, kTimeout).ok());
  EXPECT_EQ(cluster_->Run(0, {"EXISTS", key}), "0");
}

// Promise: One load per key
TEST_F(RedisClusterTest, WhileASlotMovesALoadThatGetsNoLockRuns) {
  Start(RedisCluster::kWithoutReplicas, absl::Seconds(3));
  const std::string key = KeyOn(0);
  const std::string slot = absl::StrCat(SlotOf("p:" + key));
  const std::string ids[] = {cluster_->Run(0, {"CLUSTER", "MYID"}),
                             cluster_->Run(1, {"CLUSTER", "MYID"})};
  // The key is absent, and its lock still at the source.
  ASSERT_EQ(
      *store_->TakeLock({"p:" + key, "of another"}, absl::Hours(1), kTimeout),
      RemoteStore::LockResult::kTaken);
  cluster_->Run(1, {"CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]});
  cluster_->Run(0, {"CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]});
  NearLoadOptions options;
  options.load_lock = absl::Hours(1);
  const auto loaded = near_->GetOrLoad(key, options, [] { return "value"; });
  EXPECT_EQ(loaded.status(), absl::OkStatus());
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisClusterTest, FailoverIsFollowed) {
  Start(RedisCluster::kWithReplicas, absl::Seconds(1));
  const std::string key = KeyOn(1);
  ASSERT_TRUE(near_->Set(key, "old").ok());
  ASSERT_EQ(cluster_->Run(1, {"WAIT", "1", "5000"}), "1");
  ASSERT_TRUE(Until([&] { return Hits(key); }));
  cluster_->node(1).Kill();
  EXPECT_EQ(cluster_->RunForKey({"SET", "p:" + key, "new"}), "OK");
  EXPECT_TRUE(Until([&] { return Get(key) == "new"; })) << Get(key);
  EXPECT_TRUE(Until([&] { return Hits(key); }));
  EXPECT_TRUE(near_->Set(key, "newer").ok());
  EXPECT_EQ(Get(key), "newer");
}

// A primary that is stopped, replaced, and goes on without knowing it.
// Promise: A near cache is never staler than its bound
TEST_F(RedisClusterTest, PrimaryThatDoesNotKnowThatItIsNoneIsNotBelieved) {
  Start(RedisCluster::kWithReplicas, absl::Seconds(1));
  const std::string key = KeyOn(1);
  ASSERT_TRUE(near_->Set(key, "old").ok());
  ASSERT_EQ(cluster_->Run(1, {"WAIT", "1", "5000"}), "1");
  EXPECT_EQ(Get(key), "old");
  cluster_->node(1).Stop();
  EXPECT_EQ(cluster_->RunForKey({"SET", "p:" + key, "new"}), "OK");
  EXPECT_TRUE(Until([&] { return Get(key) == "new"; }));
  // Nobody tells it.
  for (size_t i = 0; i < cluster_->size(); ++i) {
    if (i != 1) cluster_->node(i).Stop();
  }
  cluster_->node(1).Continue();
  const int64_t limit =
      store_->clock().NanosAfter(3 * RedisCluster::kNodeTimeout);
  while (store_->clock().NowNanos() < limit) {
    const auto value = near_->Get(key);
    ASSERT_TRUE(!value.ok() || **value == "new") << **value;
  }
  for (size_t i = 0; i < cluster_->size(); ++i) cluster_->node(i).Continue();
  EXPECT_TRUE(Until([&] { return Get(key) == "new"; }));
}

TEST_F(RedisClusterTest, ANodeThatIsCutOffFromTheOthersEndsItsSession) {
  Start(RedisCluster::kWithoutReplicas, absl::Seconds(1));
  const std::string key = KeyOn(0);
  ASSERT_TRUE(near_->Set(key, "value").ok());
  ASSERT_TRUE(Until([&] { return Hits(key); }));
  cluster_->node(1).Stop();
  cluster_->node(2).Stop();
  // It answers all the time, but sees no majority.
  EXPECT_TRUE(Until([&] { return !near_->Get(key).ok(); }));
  EXPECT_TRUE(
      Until([&] { return near_->stats().lease_left == absl::ZeroDuration(); }));
  cluster_->node(1).Continue();
  cluster_->node(2).Continue();
  EXPECT_TRUE(Until([&] { return Get(key) == "value"; }));
}

// A node of a cluster that says what it is told to: whom it calls primaries,
// each with an equal share of the slots, and the value of all keys.
class ScriptedNode final {
 public:
  ScriptedNode() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = testing::Loopback(0);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    EXPECT_EQ(listen(listener_, 100), 0);
    port_ = ntohs(address.sin_port);
  }
  ~ScriptedNode() {
    shutdown(listener_, SHUT_RDWR);
    if (accepting_.joinable()) accepting_.join();
    for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
    for (std::thread& each : threads_) each.join();
    for (const int fd : connections_) close(fd);
    close(listener_);
  }
  ScriptedNode(const ScriptedNode&) = delete;
  ScriptedNode& operator=(const ScriptedNode&) = delete;

  int port() const { return port_; }
  std::string url() const { return absl::StrCat("redis://127.0.0.1:", port_); }

  bool is_connected() const { return open_ != 0; }

  // From now on it is another run, and the connection for sessions is lost, but
  // not the others, as where a host between has died.
  void Restart() {
    ++run_;
    shutdown(session_fd_, SHUT_RDWR);
  }

  // It answers reads so, instead of with its value. REQUIRES: before Play.
  void set_error(std::string error) { error_ = "-" + error + "\r\n"; }

  // REQUIRES: before Play.
  void BeReplica() { role_ = "slave"; }

  // REQUIRES: called once.
  void Play(std::vector<int> primaries, std::string value) {
    slots_ = absl::StrCat("*", primaries.size(), "\r\n");
    for (size_t i = 0; i < primaries.size(); ++i) {
      const size_t share = internal::kSlots / primaries.size() + 1;
      const size_t last = std::min((i + 1) * share, internal::kSlots) - 1;
      absl::StrAppend(&slots_, "*3\r\n:", i * share, "\r\n:", last,
                      "\r\n*2\r\n$9\r\n127.0.0.1\r\n:", primaries[i], "\r\n");
    }
    value_ = absl::StrCat("$", value.size(), "\r\n", value, "\r\n");
    accepting_ = std::thread([this] {
      while (true) {
        const int fd = accept(listener_, nullptr, nullptr);
        if (fd < 0) return;
        connections_.push_back(fd);
        ++open_;
        threads_.emplace_back([this, fd] {
          Serve(fd);
          --open_;
        });
      }
    });
  }

 private:
  void Serve(int fd) {
    internal::ReplyReader reader({100, 10'000});
    std::array<char, 4096> buffer;
    while (true) {
      const ssize_t size = recv(fd, buffer.data(), buffer.size(), 0);
      if (size <= 0) return;
      reader.Feed({buffer.data(), static_cast<size_t>(size)});
      internal::Reply command;
      while (reader.Next(&command) == internal::ReplyReader::kReply) {
        if (command.elements[1 % command.elements.size()].text == "TRACKING") {
          session_fd_ = fd;
        }
        const std::string reply = ReplyTo(command);
        send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
      }
    }
  }
  std::string ReplyTo(const internal::Reply& command) const {
    const std::string& name = command.elements[0].text;
    if (name == "HELLO") {
      return absl::StrCat("%3\r\n+id\r\n:1\r\n+mode\r\n+cluster\r\n+role\r\n+",
                          role_, "\r\n");
    }
    if (name == "INFO") {
      return absl::StrCat("$9\r\n\nrun_id:", run_.load(), "\r\n");
    }
    if (name == "PTTL") return ":-1\r\n";
    if (name == "GET") return error_.empty() ? value_ : error_;
    if (name != "CLUSTER") return "+OK\r\n";
    return command.elements[1].text == "SLOTS" ? slots_
                                               : "$16\r\ncluster_state:ok\r\n";
  }

  const int listener_;
  int port_ = 0;
  std::string slots_;
  std::string value_;
  std::string error_;
  std::string role_ = "master";
  std::atomic<int> run_{1};
  std::atomic<int> session_fd_{-1};
  std::atomic<int> open_{0};
  std::thread accepting_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
};

// It was stopped while another one was elected in its place.
// Promise: A near cache is never staler than its bound
TEST(ClusterBeliefTest, APrimaryThatMostOthersDoNotKnowIsNotBelieved) {
  ScriptedNode stale;
  ScriptedNode successor;
  ScriptedNode second;
  ScriptedNode third;
  stale.Play({stale.port(), second.port(), third.port()}, "old");
  const std::vector<int> now = {successor.port(), second.port(), third.port()};
  for (ScriptedNode* each : {&successor, &second, &third}) {
    each->Play(now, "new");
  }
  RedisStoreOptions options;
  options.url = absl::StrCat("redis://127.0.0.1:", stale.port());
  options.cluster = true;
  auto store = *RedisStore::Create(options);
  for (int i = 0; i < 100; ++i) {
    const auto fetched = store->Fetch({absl::StrCat("key", i)}, kTimeout)[0];
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    ASSERT_EQ(fetched->bytes, "new");
  }
}

std::unique_ptr<RedisStore> StoreOf(const ScriptedNode& node) {
  RedisStoreOptions options;
  options.url = node.url();
  options.cluster = true;
  return *RedisStore::Create(options);
}

TEST(ClusterBeliefTest, ANodeThatRestartsBehindOpenConnectionsIsANewSession) {
  ScriptedNode node;
  node.Play({node.port()}, "value");
  const auto store = StoreOf(node);
  const auto near = *NearCache<std::string>::Create({}, store.get());
  ASSERT_TRUE(near->WaitUntilReady(kTimeout).ok());
  for (int restarts = 1; restarts <= 3; ++restarts) {
    EXPECT_EQ(*near->Get("key"), "value");
    node.Restart();
    while (near->stats().sessions <= restarts ||
           !near->WaitUntilReady(absl::Milliseconds(10)).ok()) {
    }
    while (!near->Get("key").ok()) {
    }
  }
}

// The first slot of a new node: it serves none yet, so that nobody lists it.
TEST(ClusterBeliefTest, ANodeWithoutSlotsIsAskedWhereOneGoesThere) {
  ScriptedNode source;
  ScriptedNode target;
  source.set_error(
      absl::StrCat("ASK ", SlotOf("key"), " 127.0.0.1:", target.port()));
  source.Play({source.port()}, "old");
  target.Play({source.port()}, "new");
  for (const bool waits : {true, false}) {
    const auto store = StoreOf(source);
    AwaitedFetch awaited;
    if (!waits) store->BeginFetch("key", kTimeout, awaited.done());
    const auto fetched =
        waits ? store->Fetch({"key"}, kTimeout)[0] : awaited.result();
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(fetched->bytes, "new");
    EXPECT_EQ(fetched->session, 0);
  }
}

TEST(ClusterBeliefTest, AFetchThatNobodyWaitsForFollowsAMove) {
  ScriptedNode source;
  ScriptedNode target;
  ASSERT_LT(SlotOf("bar"), internal::kSlots / 2);
  source.set_error(
      absl::StrCat("MOVED ", SlotOf("bar"), " 127.0.0.1:", target.port()));
  source.Play({source.port(), target.port()}, "old");
  target.Play({source.port(), target.port()}, "new");
  const auto store = StoreOf(source);
  AwaitedFetch awaited;
  store->BeginFetch("bar", kTimeout, awaited.done());
  ASSERT_TRUE(awaited.result().ok()) << awaited.result().status();
  EXPECT_EQ(awaited.result()->bytes, "new");
}

TEST(ClusterBeliefTest, AnyNodeThatLivesIsASeed) {
  ScriptedNode primary;
  ScriptedNode replica;
  primary.Play({primary.port()}, "value");
  replica.BeReplica();
  replica.Play({primary.port()}, "old");
  RedisStoreOptions options;
  options.url = absl::StrCat("redis://127.0.0.1:", testing::FreePort(),
                             ",127.0.0.1:", replica.port());
  options.cluster = true;
  const auto store = *RedisStore::Create(options);
  const auto fetched = store->Fetch({"key"}, kTimeout)[0];
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->bytes, "value");
}

// As the pods of a service come and go, each with another address.
TEST(ClusterBeliefTest, ANodeThatNobodyNamesIsForgottenUntilItIsWanted) {
  ScriptedNode source;
  ScriptedNode other;
  source.set_error(
      absl::StrCat("ASK ", SlotOf("key"), " 127.0.0.1:", other.port()));
  source.Play({source.port()}, "old");
  other.Play({source.port()}, "new");
  RedisStoreOptions options;
  options.url = absl::StrCat(source.url(), ",127.0.0.1:", other.port());
  options.cluster = true;
  options.unanswered_limit = absl::Milliseconds(100);
  const auto store = *RedisStore::Create(options);
  while (!other.is_connected()) {
  }
  while (other.is_connected()) {
  }
  const auto fetched = store->Fetch({"key"}, kTimeout)[0];
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->bytes, "new");
}

TEST(ClusterBeliefTest, AShortBoundDoesNotWaitForTheHeartbeatOfALongOne) {
  ScriptedNode node;
  node.Play({node.port()}, "value");
  const auto store = StoreOf(node);
  NearCacheOptions options;
  options.key_prefix = "long:";
  options.max_staleness = absl::Hours(24);
  const auto first = *NearCache<std::string>::Create(options, store.get());
  ASSERT_TRUE(first->WaitUntilReady(kTimeout).ok());
  options.key_prefix = "short:";
  options.max_staleness = absl::Seconds(1);
  const auto second = *NearCache<std::string>::Create(options, store.get());
  EXPECT_TRUE(second->WaitUntilReady(kTimeout).ok());
}

TEST(ClusterBeliefTest, APrimaryThatNobodyElseConfirmsIsNotBelieved) {
  ScriptedNode alone;
  alone.Play({alone.port(), testing::FreePort(), testing::FreePort()}, "old");
  RedisStoreOptions options;
  options.url = absl::StrCat("redis://127.0.0.1:", alone.port());
  options.cluster = true;
  auto store = *RedisStore::Create(options);
  ASSERT_LT(SlotOf("bar"), internal::kSlots / 3);
  const auto fetched = store->Fetch({"bar"}, absl::Milliseconds(200))[0];
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(fetched.status().message(), "majority"))
      << fetched.status();
  AwaitedFetch late;
  store->BeginFetch("bar", absl::Milliseconds(100), late.done());
  EXPECT_TRUE(absl::IsUnavailable(late.result().status()));
  AwaitedFetch cut_off;
  store->BeginFetch("bar", kTimeout, cut_off.done());
  store = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(cut_off.result().status()));
}

TEST_F(RedisClusterTest, OneServerIsNoCluster) {
  auto server = testing::RedisServer::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  RedisStoreOptions options;
  options.url = (*server)->url();
  options.cluster = true;
  auto store = RedisStore::Create(options);
  ASSERT_TRUE(store.ok());
  const auto near = NearCache<std::string>::Create({}, store->get());
  const absl::Status why = (*near)->WaitUntilReady(absl::InfiniteDuration());
  EXPECT_TRUE(absl::StrContains(why.message(), "is no node of a cluster"))
      << why;
  options.url = "unix:///run/redis.sock";
  EXPECT_TRUE(absl::IsInvalidArgument(RedisStore::Create(options).status()));
  options.url = "redis://one,two";
  options.cluster = false;
  EXPECT_TRUE(absl::IsInvalidArgument(RedisStore::Create(options).status()));
}

}  // namespace
}  // namespace wheelcache
