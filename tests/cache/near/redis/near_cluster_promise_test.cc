// Tries to break the promise of near caches on a real Redis Cluster, as
// near_redis_promise_test.cc does on one server, while slots move back and
// forth all the time: two near caches, each with threads that read and write, a
// foreign writer, and faults at random that cause no failover, so that the
// bound is L.
//
// WHEELCACHE_TEST_OPERATIONS and WHEELCACHE_TEST_SEED say how much and which
// faults. The log says how many of each there were.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
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
constexpr size_t kCaches = PromisedKey::kCaches;
constexpr int kThreads = 2;
constexpr size_t kKeys = 16;
constexpr int kLeastFaults = 30;

enum Fault {
  kMoveSlot,
  kStopNode,
  kCloseConnections,
  kHoldMessages,
  kMoveAbsentKey,
  kFaults
};
constexpr std::array<const char*, kFaults> kFaultNames = {
    "slots moved", "SIGSTOP", "connections closed", "messages held",
    "slots of absent keys moved"};

int64_t Now() { return Clock::Monotonic().NowNanos(); }

// Of the slot of its tag, whatever its name is.
std::string TagOf(size_t k) { return absl::StrCat("{", k, "}"); }

class Checker {
 public:
  Checker(std::unique_ptr<RedisCluster> cluster, uint64_t seed)
      : cluster_(std::move(cluster)), seed_(seed) {
    for (size_t k = 0; k < kKeys; ++k) {
      keys_.push_back(
          std::make_unique<PromisedKey>(TagOf(k), Clock::Monotonic(), kBound));
    }
    for (size_t c = 0; c < kCaches; ++c) {
      RedisStoreOptions store_options;
      store_options.url = cluster_->url();
      store_options.cluster = true;
      store_options.cluster_node_timeout = RedisCluster::kNodeTimeout;
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
         (operations_ < operations || faults < kLeastFaults) && !is_violated_;
         ++faults) {
      Break(random);
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
      absl::StrAppend(&report, fault == 0 ? " " : ", ", kFaultNames[fault], " ",
                      faults_[fault]);
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
        Note(Read(c, *keys_[k], &reads[k]));
      }
      if (operations_ % 64 == 0) absl::SleepFor(absl::Milliseconds(1));
    }
  }

  std::string Read(size_t c, PromisedKey& key, PromisedKey::Reads* reads) {
    const PromisedKey::Claim claim = key.ClaimNow(c);
    const auto result = near_[c]->Get(claim.name);
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
        MutexLock lock(&key.writing);
        WriteLocked(key);
      }
      absl::SleepFor(UpTo(random, absl::Milliseconds(4)));
    }
  }

  // Half of them move a slot.
  void Break(std::mt19937_64& random) {
    const auto fault = static_cast<Fault>(
        Uniform(random, 2) == 0 ? 0 : Uniform(random, kFaults));
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
        absl::SleepFor(UpTo(random, RedisCluster::kNodeTimeout / 4));
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
      default:
        MoveAbsentKey(k, node);
        break;
    }
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
  const uint64_t seed_;
  std::vector<std::unique_ptr<PromisedKey>> keys_;
  std::array<std::unique_ptr<RedisStore>, kCaches> stores_;
  std::array<std::unique_ptr<NearCache<std::string>>, kCaches> near_;

  std::array<int, kFaults> faults_ = {};  // Of the thread that runs.
  std::atomic<int64_t> operations_{0};    // That were answered.
  std::atomic<int64_t> failures_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_violated_{false};
  Mutex mu_;
  std::string violation_ ABSL_GUARDED_BY(mu_);
};

// Promise: A near cache is never staler than its bound
TEST(NearClusterPromiseTest, HoldsWhileSlotsMove) {
  auto cluster = RedisCluster::Start(RedisCluster::kWithoutReplicas);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Checker checker(*std::move(cluster), TestSeed());
  EXPECT_EQ(checker.Run(static_cast<int64_t>(TestOperations())), "")
      << "WHEELCACHE_TEST_SEED=" << TestSeed();
  std::cout << checker.Report() << std::endl;
  // It would prove nothing otherwise.
  EXPECT_GT(checker.local_hits(), static_cast<int64_t>(TestOperations()) / 10);
}

}  // namespace
}  // namespace wheelcache
