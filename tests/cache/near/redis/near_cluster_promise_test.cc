// Tries to break the promise of near caches on a real Redis Cluster, as
// near_redis_promise_test.cc does on one server: two near caches, each with
// threads that read and write, a foreign writer, and faults at random. Once
// slots move back and forth all the time, and nothing causes a failover, so
// that the bound is L; once replicas take over, asked to or because their
// primary is stopped, and the bound has the cluster-node-timeout as well.
//
// WHEELCACHE_TEST_OPERATIONS and WHEELCACHE_TEST_SEED say how much and which
// faults. The log says how many of each there were.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/cluster.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
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
constexpr absl::Duration kCommandTimeout = absl::Milliseconds(100);
constexpr absl::Duration kNodeTimeout = RedisCluster::kNodeTimeout;
constexpr size_t kCaches = PromisedKey::kCaches;
constexpr int kThreads = 2;
constexpr size_t kKeys = 16;

enum Fault {
  kMoveSlot,
  kStopNode,
  kCloseConnections,
  kHoldMessages,
  kMoveAbsentKey,
  kAskedFailover,
  kForcedFailover,
  kFaults
};
constexpr std::array<const char*, kFaults> kFaultNames = {
    "slots moved",
    "SIGSTOP",
    "connections closed",
    "messages held",
    "slots of absent keys moved",
    "failovers that were asked for",
    "failovers from a primary that was stopped"};

// What happens, how often at least, and the bound.
struct Plan {
  std::vector<Fault> faults;  // Each once, and then at equal odds.
  int least_faults;
  absl::Duration bound;
};

int64_t Now() { return Clock::Monotonic().NowNanos(); }

// Of the slot of its tag, whatever its name is.
std::string TagOf(size_t k) { return absl::StrCat("{", k, "}"); }

class Checker {
 public:
  Checker(std::unique_ptr<RedisCluster> cluster, Plan plan, uint64_t seed)
      : cluster_(std::move(cluster)), plan_(std::move(plan)), seed_(seed) {
    for (size_t k = 0; k < kKeys; ++k) {
      keys_.push_back(std::make_unique<PromisedKey>(
          TagOf(k), Clock::Monotonic(), plan_.bound));
    }
    for (size_t c = 0; c < kCaches; ++c) {
      RedisStoreOptions store_options;
      store_options.url = cluster_->url();
      store_options.cluster = true;
      store_options.cluster_node_timeout = kNodeTimeout;
      stores_[c] = *RedisStore::Create(store_options);
      NearCacheOptions options;
      options.key_prefix = "p:";
      options.max_staleness = kBound;
      options.command_timeout = kCommandTimeout;
      near_[c] = *NearCache<std::string>::Create(options, stores_[c].get());
    }
  }

  // Returns the first violation.
  std::string Run(int64_t operations) {
    std::vector<std::thread> threads;
    for (size_t c = 0; c < kCaches; ++c) {
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([this, c, t] { Use(c, 10 * c + t); });
      }
    }
    threads.emplace_back([this] { WriteAsAnother(); });
    std::mt19937_64 random(seed_);
    for (int faults = 0;
         (operations_ < operations || faults < plan_.least_faults) &&
         !is_violated_;
         ++faults) {
      const size_t n = static_cast<size_t>(faults);
      const size_t kinds = plan_.faults.size();
      Break(plan_.faults[n < kinds ? n : Uniform(random, kinds)], random);
      absl::SleepFor(UpTo(random, kBound / 4));
    }
    is_over_ = true;
    for (std::thread& thread : threads) thread.join();
    MutexLock lock(&mu_);
    return violation_;
  }

  std::string Report() const {
    std::string report =
        absl::StrCat(operations_.load(), " operations, ", local_hits(),
                     " local hits, ", failures_.load(), " failed; faults:");
    for (int fault = 0; fault < kFaults; ++fault) {
      if (faults_[fault] == 0) continue;
      absl::StrAppend(&report, " ", kFaultNames[fault], " ", faults_[fault],
                      ";");
    }
    return report;
  }

  int64_t local_hits() const {
    return near_[0]->stats().local_hits + near_[1]->stats().local_hits;
  }

 private:
  static uint64_t Uniform(std::mt19937_64& random, uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
  }
  static absl::Duration UpTo(std::mt19937_64& random, absl::Duration most) {
    return most * std::uniform_real_distribution<double>(0, 1)(random);
  }

  void Use(size_t c, uint64_t number) {
    std::mt19937_64 random(seed_ * 100 + number);
    std::array<PromisedKey::Reads, kKeys> reads;
    while (!is_over_) {
      const size_t k = Uniform(random, kKeys);
      if (Uniform(random, 1000) == 0) Set(c, *keys_[k]);
      if (Uniform(random, 10) == 0) {
        ReadMany(c, random, &reads);
      } else {
        Note(Read(c, *keys_[k], random, &reads[k]));
      }
      if (operations_ % 64 == 0) absl::SleepFor(absl::Milliseconds(1));
    }
  }

  std::string Read(size_t c, PromisedKey& key, std::mt19937_64& random,
                   PromisedKey::Reads* reads) {
    const PromisedKey::Claim claim = key.ClaimNow(c);
    const auto result = GetSomehow(*near_[c], claim.name, random);
    if (!result.ok()) {
      ++failures_;
      absl::SleepFor(absl::Milliseconds(1));
      return "";
    }
    ++operations_;
    return key.Judge(claim, VersionOf(*result), reads);
  }

  // Of several nodes, as it happens.
  void ReadMany(size_t c, std::mt19937_64& random,
                std::array<PromisedKey::Reads, kKeys>* reads) {
    std::array<size_t, 4> wanted;
    std::vector<PromisedKey::Claim> claims;
    std::vector<absl::string_view> names;
    for (size_t& k : wanted) {
      k = Uniform(random, kKeys);
      claims.push_back(keys_[k]->ClaimNow(c));
    }
    for (const PromisedKey::Claim& claim : claims) names.push_back(claim.name);
    const auto results = near_[c]->GetMany(names);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!results[i].ok()) {
        ++failures_;
        continue;
      }
      ++operations_;
      Note(keys_[wanted[i]]->Judge(claims[i], VersionOf(*results[i]),
                                   &(*reads)[wanted[i]]));
    }
  }

  static int64_t VersionOf(const std::optional<std::string>& value) {
    int64_t version = 0;
    if (!value.has_value()) return 0;
    EXPECT_TRUE(absl::SimpleAtoi(*value, &version)) << *value;
    return version;
  }

  void Set(size_t c, PromisedKey& key) {
    MutexLock lock(&key.writing);
    const int64_t version = key.NextVersion();
    if (near_[c]->Set(key.name(), absl::StrCat(version)).ok()) {
      key.ExecutedBy(c, version);
      ++operations_;
    } else {
      key.Rename();  // It may happen yet.
    }
  }

  void WriteAsAnother() {
    std::mt19937_64 random(seed_ + 7);
    while (!is_over_) {
      PromisedKey& key = *keys_[Uniform(random, kKeys)];
      {
        MutexLock foreign(&foreign_writes_);
        MutexLock lock(&key.writing);
        WriteLocked(key);
      }
      absl::SleepFor(UpTo(random, absl::Milliseconds(4)));
    }
  }

  void Break(Fault fault, std::mt19937_64& random) {
    ++faults_[fault];
    const size_t k = Uniform(random, kKeys);
    const size_t node = Uniform(random, RedisCluster::kPrimaries);
    const auto kind = static_cast<Relay::Kind>(
        Relay::kReads + Uniform(random, Relay::kKinds - Relay::kReads));
    switch (fault) {
      case kMoveSlot:
        cluster_->MoveSlot(internal::SlotOf("p:" + TagOf(k)), node);
        break;
      case kStopNode:
        cluster_->node(node).Stop();
        absl::SleepFor(UpTo(random, kNodeTimeout / 4));
        cluster_->node(node).Continue();
        break;
      case kCloseConnections:
        cluster_->relay(node).Close(kind);
        break;
      case kHoldMessages:
        cluster_->relay(node).Hold(Relay::kSubscription, Relay::kToClient);
        absl::SleepFor(UpTo(random, 2 * kBound));
        cluster_->relay(node).ReleaseAll();
        break;
      case kMoveAbsentKey:
        MoveAbsentKey(k, node);
        break;
      case kAskedFailover:
        FailOver(node, /*is_forced=*/false, {});
        break;
      default:
        FailOver(node, /*is_forced=*/true, UpTo(random, kNodeTimeout / 2));
        break;
    }
  }

  // Has the other one of the pair take over. A primary that was stopped goes on
  // a bit later, and does not know it at first. No write is lost.
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
      MutexLock foreign(&foreign_writes_);
      if (!StopReplicated(primary, slot)) return;
      await([&] { return ServesAs(replica, "master"); });
      absl::SleepFor(pause);
      GoOnUnknowing(primary);
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
  // Nobody tells it for a while that another has taken over.
  void GoOnUnknowing(size_t primary) {
    for (size_t i = 0; i < cluster_->size(); ++i) {
      if (i != primary) cluster_->node(i).Stop();
    }
    cluster_->node(primary).Continue();
    absl::SleepFor(0.8 * kNodeTimeout);
    for (size_t i = 0; i < cluster_->size(); ++i) {
      if (i != primary) cluster_->node(i).Continue();
    }
  }
  bool ServesAs(size_t node, absl::string_view role) {
    return absl::StrContains(cluster_->Run(node, {"INFO", "replication"}),
                             absl::StrCat("role:", role));
  }

  // Stops a primary while nobody writes, and its replica has all. Returns
  // false, and does not, if that has no link.
  bool StopReplicated(size_t primary,
                      size_t slot) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::string mark = "0";
    for (int i = 0; internal::SlotOf(mark) != slot; ++i) mark = absl::StrCat(i);
    for (const auto& key : keys_) key->writing.Lock();
    cluster_->Run(primary, {"SET", mark, ""});  // WAIT is for one's own writes.
    const bool has_all = cluster_->Run(primary, {"WAIT", "1", "400"}) == "1";
    if (has_all) cluster_->node(primary).Stop();
    for (const auto& key : keys_) key->writing.Unlock();
    return has_all;
  }

  // Nobody tells its holders when it is set at the other node.
  void MoveAbsentKey(size_t k, size_t to) {
    {
      PromisedKey& key = *keys_[k];
      MutexLock lock(&key.writing);
      key.Rename();
      for (const auto& near : near_) near->Get(key.name()).IgnoreError();
      cluster_->relay(to).Hold(Relay::kSubscription, Relay::kToClient);
      cluster_->MoveSlot(internal::SlotOf("p:" + TagOf(k)), to);
      WriteLocked(key);
    }
    absl::SleepFor(1.3 * kBound);
    cluster_->relay(to).ReleaseAll();
  }

  void WriteLocked(PromisedKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(key.writing) {
    const int64_t version = key.NextVersion();
    const std::string reply =
        cluster_->RunForKey({"SET", "p:" + key.name(), absl::StrCat(version)});
    if (reply == "OK") {
      key.Executed(version, Now());
    } else {
      key.Rename();
    }
  }

  // Keeps the first.
  void Note(std::string violation) {
    if (violation.empty()) return;
    MutexLock lock(&mu_);
    if (violation_.empty()) violation_ = std::move(violation);
    is_violated_ = true;
  }

  const std::unique_ptr<RedisCluster> cluster_;
  const Plan plan_;
  const uint64_t seed_;
  std::vector<std::unique_ptr<PromisedKey>> keys_;
  std::array<std::unique_ptr<RedisStore>, kCaches> stores_;
  std::array<std::unique_ptr<NearCache<std::string>>, kCaches> near_;

  std::array<int, kFaults> faults_ = {};  // Of the thread that runs.
  std::atomic<int64_t> operations_{0};    // That were answered.
  std::atomic<int64_t> failures_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_violated_{false};
  Mutex foreign_writes_;  // Held during one.
  Mutex mu_;
  std::string violation_ ABSL_GUARDED_BY(mu_);
};

void Check(RedisCluster::Replicas replicas, Plan plan) {
  auto cluster = RedisCluster::Start(replicas);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Checker checker(*std::move(cluster), std::move(plan), TestSeed());
  EXPECT_EQ(checker.Run(static_cast<int64_t>(TestOperations())), "")
      << "WHEELCACHE_TEST_SEED=" << TestSeed();
  std::cout << checker.Report() << std::endl;
  // It would prove nothing otherwise.
  EXPECT_GT(checker.local_hits(), static_cast<int64_t>(TestOperations()) / 10);
}

// Promise: A near cache is never staler than its bound
TEST(NearClusterPromiseTest, HoldsWhileSlotsMove) {
  Check(RedisCluster::kWithoutReplicas,
        {{kMoveSlot, kStopNode, kMoveSlot, kCloseConnections, kMoveSlot,
          kHoldMessages, kMoveSlot, kMoveAbsentKey, kMoveSlot},
         /*least_faults=*/30,
         kBound});
}

// Promise: A near cache is never staler than its bound
TEST(NearClusterPromiseTest, HoldsInFailovers) {
  Check(RedisCluster::kWithReplicas,
        {{kForcedFailover, kAskedFailover, kCloseConnections, kHoldMessages},
         /*least_faults=*/4,
         kBound + kNodeTimeout});
}

}  // namespace
}  // namespace wheelcache
