// The engine with each policy against the policy's reference simulator, on
// random traces of reads that load what they miss, writes, deletions, TTLs,
// weights, and limits that change. LRU in one shard has the same hit or miss at
// each request. Hashes and ages are approximate in both implementations of the
// scan-resistant policy, so that what they have in common are hit ratios:
// within a point on each trace, and half a point in the mean.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/policy_adversary.h"
#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_lru.h"
#include "wheelcache/tests/testing/reference_scan_resistant.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using testing::HitRatio;
using testing::PolicyAdversary;
using testing::ReferenceCache;
using testing::ReferenceLimits;
using testing::ReferenceLru;
using testing::ReferenceScanResistant;
using testing::Workload;

constexpr auto kOverhead = static_cast<int64_t>(kEntryOverhead);

// The same in every run.
struct FixedHash {
  uint64_t operator()(uint64_t key) const {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
    key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
    return key ^ (key >> 31);
  }
};

struct Request {
  enum Kind { kReadThrough, kSet, kDel, kSetLimits };
  Kind kind;
  uint64_t key;
  int64_t charge;
  std::optional<int64_t> ttl;  // In seconds; none is for ever.
  int64_t passed;              // Seconds before it.
  ReferenceLimits limits;      // Of kSetLimits.
};

struct Trace {
  ReferenceLimits limits;
  int64_t mean_charge;
  std::vector<Request> requests;
};

// Hot keys, and scans of keys that come once; every other trace with TTLs and
// time that passes, and limits of entries, of bytes, or of both.
class TraceMaker {
 public:
  explicit TraceMaker(uint64_t seed)
      : random_(seed),
        has_ttls_(seed % 2 == 1),
        by_entries_(seed % 3 != 1),
        by_bytes_(seed % 3 != 0),
        entries_(1'000 + static_cast<int64_t>(Below(1'000))) {}

  Trace Make() {
    Trace trace;
    trace.limits = Limits(1);
    trace.mean_charge = kMeanCharge;
    const int64_t count = 40 * entries_;
    for (int64_t i = 0; i < count; ++i) {
      if (i % (count / 5) == count / 10) {
        const double part = 0.5 + static_cast<double>(Below(5)) / 10;
        trace.requests.push_back(
            {Request::kSetLimits, 0, 0, std::nullopt, 0, Limits(part)});
      }
      trace.requests.push_back(Next());
    }
    return trace;
  }

 private:
  static constexpr int64_t kMeanCharge = kOverhead + 64;

  uint64_t Below(uint64_t number) { return random_() % number; }

  ReferenceLimits Limits(double part) const {
    const auto entries = static_cast<int64_t>(part * entries_);
    ReferenceLimits limits;
    if (by_entries_) limits.entries = entries;
    if (by_bytes_) limits.bytes = entries * kMeanCharge;
    return limits;
  }

  Request Next() {
    Request request = {};
    const uint64_t choice = Below(100);
    request.kind = choice < 2   ? Request::kDel
                   : choice < 7 ? Request::kSet
                                : Request::kReadThrough;
    if (scan_ == 0 && Below(4 * entries_) == 0) {
      scan_ = static_cast<int64_t>(Below(4 * entries_));
    }
    if (scan_ > 0 && choice % 2 == 0) {
      --scan_;
      request.key = next_cold_++;
    } else {
      const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;
      request.key = static_cast<uint64_t>(static_cast<double>(3 * entries_) *
                                          uniform * uniform * uniform);
    }
    // A key keeps its weight.
    request.charge =
        kOverhead + static_cast<int64_t>(FixedHash()(request.key) % 129);
    if (has_ttls_ && Below(2) == 0) {
      request.ttl = 1 + static_cast<int64_t>(Below(200));
    }
    if (has_ttls_ && Below(entries_ / 10) == 0) request.passed = 1;
    return request;
  }

  std::mt19937_64 random_;
  const bool has_ttls_;
  const bool by_entries_;
  const bool by_bytes_;
  const int64_t entries_;
  int64_t scan_ = 0;
  uint64_t next_cold_ = uint64_t{1} << 40;
};

// Plays requests in a cache of one shard.
class Player {
 public:
  Player(const Trace& trace, EvictionPolicy policy) {
    CacheOptions options;
    options.clock = &clock_;
    options.reaper = nullptr;
    options.jitter = 0;
    options.policy = policy;
    options.shards = 1;
    options.max_entries = trace.limits.entries;
    options.max_bytes = trace.limits.bytes;
    CacheType::Hooks hooks;
    hooks.weigher = [](uint64_t, int64_t charge) {
      return static_cast<uint64_t>(charge - kOverhead);
    };
    cache_ = *CacheType::Create(options, hooks);
  }

  // Returns whether the request is a hit.
  bool Play(const Request& request) {
    if (request.passed > 0) {
      clock_.Advance(absl::Seconds(request.passed));
      cache_->RunMaintenance(std::numeric_limits<int64_t>::max());
    }
    switch (request.kind) {
      case Request::kReadThrough:
        if (cache_->Get(request.key).has_value()) return true;
        [[fallthrough]];
      case Request::kSet:
        cache_->Set(request.key, request.charge,
                    request.ttl ? absl::Seconds(*request.ttl)
                                : absl::InfiniteDuration());
        return false;
      case Request::kDel:
        return cache_->Del(request.key);
      case Request::kSetLimits:
        EXPECT_TRUE(
            cache_->SetLimits(request.limits.entries, request.limits.bytes)
                .ok());
        return false;
    }
    return false;
  }

  int64_t size() const { return cache_->size(); }
  absl::Status CheckInvariants() { return cache_->CheckInvariants(); }

 private:
  using CacheType = Cache<uint64_t, int64_t, FixedHash>;

  SimulatedClock clock_;
  std::unique_ptr<CacheType> cache_;
};

// The same in a reference simulator.
bool Play(const Request& request, int64_t* now, ReferenceCache* cache) {
  *now += request.passed;
  cache->AdvanceTo(*now);
  switch (request.kind) {
    case Request::kReadThrough:
      if (cache->Get(request.key)) return true;
      [[fallthrough]];
    case Request::kSet:
      cache->Set(request.key,
                 {request.charge, request.ttl ? *now + *request.ttl
                                              : testing::kReferenceUnlimited});
      return false;
    case Request::kDel: {
      const bool live = cache->Contains(request.key);
      cache->Del(request.key);
      return live;
    }
    case Request::kSetLimits:
      cache->SetLimits(request.limits);
      return false;
  }
  return false;
}

TEST(PolicyModelTest, LruHitsAndMissesAsItsReference) {
  uint64_t seed = TestSeed();
  for (uint64_t made = 0; made < TestOperations(); ++seed) {
    const Trace trace = TraceMaker(seed).Make();
    Player player(trace, EvictionPolicy::kLru);
    ReferenceLru reference(trace.limits);
    int64_t now = 0;
    for (const Request& request : trace.requests) {
      ASSERT_EQ(player.Play(request), Play(request, &now, &reference))
          << "request " << made << " from WHEELCACHE_TEST_SEED=" << seed;
      ASSERT_EQ(player.size(), reference.size()) << "seed " << seed;
      ++made;
    }
    ASSERT_TRUE(player.CheckInvariants().ok()) << player.CheckInvariants();
  }
}

// In points of the hit ratio, which differ by the hashes.
TEST(PolicyModelTest, ScanResistantHasTheHitRatioOfItsReference) {
  constexpr double kOfATrace = 0.01;
  constexpr double kOfTheMean = 0.005;
  uint64_t seed = TestSeed();
  double sum = 0;
  double lru_sum = 0;
  int traces = 0;
  for (uint64_t made = 0; made < 2 * TestOperations(); ++seed) {
    const Trace trace = TraceMaker(seed).Make();
    Player player(trace, EvictionPolicy::kScanResistant);
    ReferenceScanResistant reference(trace.limits, trace.mean_charge);
    ReferenceLru lru(trace.limits);
    int64_t now = 0;
    int64_t lru_now = 0;
    double more = 0;
    double more_than_lru = 0;
    for (const Request& request : trace.requests) {
      const bool hit = player.Play(request);
      more += hit - Play(request, &now, &reference);
      more_than_lru += hit - Play(request, &lru_now, &lru);
    }
    const auto count = static_cast<double>(trace.requests.size());
    EXPECT_NEAR(more / count, 0, kOfATrace) << "WHEELCACHE_TEST_SEED=" << seed;
    ASSERT_TRUE(player.CheckInvariants().ok()) << player.CheckInvariants();
    sum += more / count;
    lru_sum += more_than_lru / count;
    ++traces;
    made += trace.requests.size();
  }
  RecordProperty("difference", std::to_string(sum / traces));
  RecordProperty("gain", std::to_string(lru_sum / traces));
  EXPECT_NEAR(sum / traces, 0, kOfTheMean);
  // On these traces the policy matters.
  EXPECT_GT(lru_sum / traces, 0.01);
}

// Workloads made to defeat the scan-resistant policy: with each of these, in a
// cache of 1,000 entries or more and over some fifty requests an entry, its hit
// ratio is not more than two points below that of exact LRU. docs/policy.md has
// one with which it is.
struct CacheSize {
  int64_t entries;
  int shards;
};

class PolicyAdversaryTest : public ::testing::TestWithParam<CacheSize> {
 protected:
  void ExpectNoLossOn(const Workload& keys) {
    const auto [entries, shards] = GetParam();
    const double lru = HitRatio(keys, entries, EvictionPolicy::kLru, 1);
    const double policy =
        HitRatio(keys, entries, EvictionPolicy::kScanResistant, shards);
    RecordProperty("lru", std::to_string(lru));
    RecordProperty("scan_resistant", std::to_string(policy));
    EXPECT_GE(policy, lru - 0.02) << "LRU: " << lru;
  }

  PolicyAdversary adversary_{GetParam().entries, TestSeed()};
};

// Promise: Expired entries go first
TEST_P(PolicyAdversaryTest, FloodOfKeysThatCollide) {
  ExpectNoLossOn(adversary_.FloodOfKeysThatCollide());
}

TEST_P(PolicyAdversaryTest, ScansThatResetEachHotKey) {
  ExpectNoLossOn(adversary_.ScansThatResetEachHotKey());
}

TEST_P(PolicyAdversaryTest, LoopThatJustFits) {
  if (GetParam().entries < 1'000 * GetParam().shards) {
    GTEST_SKIP() << "loses 0.21 in small shards, as docs/policy.md says";
  }
  ExpectNoLossOn(adversary_.LoopThatJustFits());
}

TEST_P(PolicyAdversaryTest, AbruptChangeOfTheKeys) {
  ExpectNoLossOn(adversary_.AbruptChangeOfTheKeys());
}

TEST_P(PolicyAdversaryTest, AbruptChangeToAnotherSetThatFits) {
  ExpectNoLossOn(adversary_.AbruptChangeToAnotherSetThatFits());
}

TEST_P(PolicyAdversaryTest, Sessions) { ExpectNoLossOn(adversary_.Sessions()); }

TEST_P(PolicyAdversaryTest, SessionsThatDoNotFit) {
  ExpectNoLossOn(adversary_.SessionsThatDoNotFit());
}

TEST_P(PolicyAdversaryTest, News) { ExpectNoLossOn(adversary_.News()); }

TEST_P(PolicyAdversaryTest, Pairs) { ExpectNoLossOn(adversary_.Pairs()); }

TEST_P(PolicyAdversaryTest, HeatedAndThenALoop) {
  ExpectNoLossOn(adversary_.HeatedAndThenALoop());
}

TEST_P(PolicyAdversaryTest, HotSetThatDies) {
  ExpectNoLossOn(adversary_.HotSetThatDies());
}

// Shards exchange room, and share a target. A large cache is for optimized
// builds.
std::vector<CacheSize> Sizes() {
#ifdef NDEBUG
  return {{1'000, 1}, {1'000, 4}, {4'000, 4}, {10'000, 1}, {10'000, 8}};
#else
  return {{1'000, 1}, {1'000, 4}, {4'000, 4}};
#endif
}

INSTANTIATE_TEST_SUITE_P(Entries, PolicyAdversaryTest,
                         ::testing::ValuesIn(Sizes()));

}  // namespace
}  // namespace wheelcache
