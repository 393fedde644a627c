// Tries to break the promise of near caches on a real Redis Cluster, as
// near_redis_promise_test.cc does on one server. Once slots move back and forth
// all the time, and nothing causes a failover, so that the bound is L; once
// replicas take over, asked to or because their primary is stopped, and the
// bound has the cluster-node-timeout as well.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/cluster.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/cache/near/redis/promise_checker.h"
#include "wheelcache/tests/cache/near/redis/promised_key.h"
#include "wheelcache/tests/testing/redis_cluster.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::RedisCluster;
using testing::Relay;

constexpr absl::Duration kBound = absl::Milliseconds(200);  // L
constexpr absl::Duration kNodeTimeout = RedisCluster::kNodeTimeout;

enum Fault {
  kMoveSlot,
  kStopNode,
  kCloseConnections,
  kHoldMessages,
  kMoveAbsentKey,
  kAskedFailover,
  kForcedFailover,
};

// What happens, how often at least, and the bound.
struct Plan {
  std::vector<Fault> faults;  // Each once, and then at equal odds.
  int least_faults;
  absl::Duration bound;
};

int64_t Now() { return Clock::Monotonic().NowNanos(); }

// Of the slot of its tag, whatever its name is.
std::string TagOf(size_t k) { return absl::StrCat("{", k, "}"); }

class Cluster {
 public:
  using Random = PromiseChecker::Random;

  Cluster(std::unique_ptr<RedisCluster> cluster, Plan plan)
      : cluster_(std::move(cluster)), plan_(std::move(plan)) {
    std::vector<std::unique_ptr<RemoteStore>> stores;
    for (size_t c = 0; c < PromiseChecker::kCaches; ++c) {
      RedisStoreOptions store;
      store.url = cluster_->url();
      store.cluster = true;
      store.cluster_node_timeout = kNodeTimeout;
      stores.push_back(*RedisStore::Create(store));
    }
    PromiseChecker::Options options;
    options.max_staleness = kBound;
    options.more = plan_.bound - kBound;
    options.command_timeout = absl::Milliseconds(100);
    options.start = &TagOf;
    options.reads_per_set = 1000;
    options.reads_many = true;  // Of several nodes, as it happens.
    options.least_faults = plan_.least_faults;
    options.most_between_faults = kBound / 4;
    options.most_between_writes = absl::Milliseconds(4);
    checker_ = std::make_unique<PromiseChecker>(options, std::move(stores));
  }

  // Returns the first violation.
  std::string Run(int64_t operations) {
    return checker_->Run(
        operations, [this](Random& random) { return Break(random); },
        [this](const std::string& name, int64_t version) {
          return WriteAsAnother(name, version);
        });
  }

  const PromiseChecker& checker() const { return *checker_; }

 private:
  std::string Break(Random& random) {
    const size_t n = broken_++;
    const size_t kinds = plan_.faults.size();
    const size_t k = PromiseChecker::Uniform(random, PromiseChecker::kKeys);
    const size_t node =
        PromiseChecker::Uniform(random, RedisCluster::kPrimaries);
    const auto kind = static_cast<Relay::Kind>(
        Relay::kReads +
        PromiseChecker::Uniform(random, Relay::kKinds - Relay::kReads));
    switch (
        plan_.faults[n < kinds ? n : PromiseChecker::Uniform(random, kinds)]) {
      case kMoveSlot:
        cluster_->MoveSlot(internal::SlotOf("p:" + TagOf(k)), node);
        return "slots moved";
      case kStopNode:
        cluster_->node(node).Stop();
        absl::SleepFor(PromiseChecker::UpTo(random, kNodeTimeout / 4));
        cluster_->node(node).Continue();
        return "SIGSTOP";
      case kCloseConnections:
        cluster_->relay(node).Close(kind);
        return "connections closed";
      case kHoldMessages:
        cluster_->relay(node).Hold(Relay::kSubscription, Relay::kToClient);
        absl::SleepFor(PromiseChecker::UpTo(random, 2 * kBound));
        cluster_->relay(node).ReleaseAll();
        return "messages held";
      case kMoveAbsentKey:
        MoveAbsentKey(k, node);
        return "slots of absent keys moved";
      case kAskedFailover:
        FailOver(node, /*is_forced=*/false, {});
        return "failovers that were asked for";
      default:
        FailOver(node, /*is_forced=*/true,
                 PromiseChecker::UpTo(random, kNodeTimeout / 2));
        return "failovers from a primary that was stopped";
    }
  }

  // Has the other one of the pair take over. A primary that was stopped goes on
  // later, and learns of it at once, by what has come meanwhile. No write is
  // lost.
  void FailOver(size_t pair, bool is_forced, absl::Duration pause) {
    const size_t slot = pair * internal::kSlots / RedisCluster::kPrimaries + 1;
    const size_t primary = cluster_->OwnerOf(slot);
    const size_t replica =
        primary == pair ? pair + RedisCluster::kPrimaries : pair;
    // Or for long enough: it need not succeed.
    const auto await = [&](const std::function<bool()>& condition) {
      const int64_t end = Clock::NanosAfter(Now(), 10 * kNodeTimeout);
      while (!condition() && Now() < end) absl::SleepFor(absl::Milliseconds(5));
    };
    if (is_forced) {
      // A foreign write may reach the old one, which this process would not
      // ask.
      MutexLock foreign(&checker_->foreign_writes);
      if (!StopReplicated(primary, slot)) return;
      await([&] { return ServesAs(replica, "master"); });
      absl::SleepFor(pause);
      HoldMessagesOf(replica, slot);
      cluster_->node(primary).Continue();
      await([&] { return ServesAs(primary, "slave"); });
    } else {
      int64_t ask = 0;
      await([&] {
        if (Now() >= ask) {  // The bus may lose a request.
          ask = Clock::NanosAfter(Now(), kNodeTimeout);
          cluster_->Run(replica, {"CLUSTER", "FAILOVER"});
        }
        return ServesAs(replica, "master");
      });
    }
    // So that the next one may be asked to.
    await([&] {
      return absl::StrContains(cluster_->Run(primary, {"INFO", "replication"}),
                               "master_link_status:up");
    });
  }

  static std::string KeyIn(size_t slot) {
    std::string key = "0";
    for (int i = 0; internal::SlotOf(key) != slot; ++i) key = absl::StrCat(i);
    return key;
  }

  bool ServesAs(size_t node, absl::string_view role) {
    return absl::StrContains(cluster_->Run(node, {"INFO", "replication"}),
                             absl::StrCat("role:", role));
  }

  // Stops a primary while nobody writes, and its replica has all. Returns
  // false, and does not, if that has no link.
  bool StopReplicated(size_t primary, size_t slot) {
    const std::string mark = KeyIn(slot);
    return checker_->WithoutWrites([&] {
      // WAIT is for one's own writes.
      cluster_->Run(primary, {"SET", mark, ""});
      const bool has_all = cluster_->Run(primary, {"WAIT", "1", "400"}) == "1";
      if (has_all) cluster_->node(primary).Stop();
      return has_all;
    });
  }

  // Writes all keys through one near cache, while nobody hears from the node
  // that has taken over: what the lease of the old one serves must have ended
  // when the bound is over. A write shows that the new one is believed.
  void HoldMessagesOf(size_t node, size_t slot) {
    const std::string mark = absl::StrCat("{", KeyIn(slot), "}mark");
    const int64_t end = Clock::NanosAfter(Now(), 10 * kNodeTimeout);
    while (!checker_->near(0).Set(mark, "").ok() && Now() < end) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    cluster_->relay(node).Hold(Relay::kSubscription, Relay::kToClient);
    for (size_t k = 0; k < PromiseChecker::kKeys; ++k) {
      checker_->Set(0, checker_->key(k));
    }
    absl::SleepFor(plan_.bound + kBound);
    cluster_->relay(node).ReleaseAll();
  }

  // Nobody tells its holders when it is set at the other node.
  void MoveAbsentKey(size_t k, size_t to) {
    {
      PromisedKey& key = checker_->key(k);
      MutexLock lock(&key.writing);
      key.Rename();
      for (size_t c = 0; c < PromiseChecker::kCaches; ++c) {
        checker_->near(c).Get(key.name()).IgnoreError();
      }
      cluster_->relay(to).Hold(Relay::kSubscription, Relay::kToClient);
      cluster_->MoveSlot(internal::SlotOf("p:" + TagOf(k)), to);
      PromiseChecker::WriteLocked(
          key, [this](const std::string& name, int64_t version) {
            return WriteAsAnother(name, version);
          });
    }
    absl::SleepFor(1.3 * kBound);
    cluster_->relay(to).ReleaseAll();
  }

  std::optional<int64_t> WriteAsAnother(const std::string& name,
                                        int64_t version) {
    const std::string reply =
        cluster_->RunForKey({"SET", "p:" + name, absl::StrCat(version)});
    if (reply != "OK") return std::nullopt;
    return Now();
  }

  const std::unique_ptr<RedisCluster> cluster_;
  const Plan plan_;
  size_t broken_ = 0;
  std::unique_ptr<PromiseChecker> checker_;
};

void Check(RedisCluster::Replicas replicas, Plan plan) {
  auto started = RedisCluster::Start(replicas);
  ASSERT_TRUE(started.ok()) << started.status();
  Cluster cluster(*std::move(started), std::move(plan));
  EXPECT_EQ(cluster.Run(static_cast<int64_t>(TestOperations())), "")
      << "WHEELCACHE_TEST_SEED=" << TestSeed();
  std::cout << cluster.checker().Report() << std::endl;
  // It would prove nothing otherwise.
  EXPECT_GT(cluster.checker().local_hits(),
            static_cast<int64_t>(TestOperations()) / 10);
}

// Promise: A near cache is never staler than its bound
TEST(NearClusterPromiseTest, HoldsWhileSlotsMove) {
  Check(RedisCluster::kWithoutReplicas,
        {{kMoveSlot, kStopNode, kMoveSlot, kCloseConnections, kMoveSlot,
          kHoldMessages, kMoveSlot, kMoveAbsentKey, kMoveSlot},
         /*least_faults=*/30,
         kBound});
}

// It finds leases that outlive a primary. It does not find a node that is
// believed wrongly, which says at once that it sees no majority: that is for
// ClusterBeliefTest.
// Promise: A near cache is never staler than its bound
TEST(NearClusterPromiseTest, HoldsInFailovers) {
  Check(RedisCluster::kWithReplicas,
        {{kForcedFailover, kAskedFailover, kCloseConnections, kHoldMessages},
         /*least_faults=*/4,
         kBound + kNodeTimeout});
}

}  // namespace
}  // namespace wheelcache
