// The scan-resistant policy against workloads made to defeat it: in a cache of
// 1,000 entries or more its hit ratio over some fifty requests an entry is
// never more than two points below that of LRU.

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

// Chosen by the keys themselves, so that an adversary knows it: the upper half
// of a key is all that counts.
struct KnownHash {
  uint64_t operator()(uint64_t key) const {
    key >>= 32;
    key = (key ^ (key >> 15)) * 0xbf58476d1ce4e5b9;
    return key ^ (key >> 29);
  }
};
using KnownCache = Cache<uint64_t, int, KnownHash>;

// The keys with numbers of different hashes, and those that share one.
uint64_t Key(uint64_t number) { return number << 32; }
uint64_t Colliding(uint64_t number, uint64_t with) {
  return with << 32 | (number + 1);
}

using Workload = std::vector<uint64_t>;

double HitRatio(const Workload& keys, int64_t entries, EvictionPolicy policy) {
  SimulatedClock clock;
  CacheOptions options;
  options.clock = &clock;
  options.reaper = nullptr;
  options.max_entries = entries;
  options.policy = policy;
  auto cache = *KnownCache::Create(options);
  double hits = 0;
  for (const uint64_t key : keys) {
    if (cache->Get(key).has_value()) {
      ++hits;
    } else {
      cache->Set(key, 0);
    }
  }
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  return hits / static_cast<double>(keys.size());
}

class PolicyAdversaryTest : public ::testing::TestWithParam<int64_t> {
 protected:
  int64_t entries() const { return GetParam(); }
  uint64_t Below(uint64_t number) { return random_() % number; }

  // Small numbers more often than large ones.
  uint64_t Skewed(uint64_t below) {
    const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<uint64_t>(static_cast<double>(below) * uniform *
                                 uniform * uniform);
  }

  void ExpectNoLossOn(const Workload& keys) {
    const double lru = HitRatio(keys, entries(), EvictionPolicy::kLru);
    const double policy =
        HitRatio(keys, entries(), EvictionPolicy::kScanResistant);
    RecordProperty("lru", std::to_string(lru));
    RecordProperty("scan_resistant", std::to_string(policy));
    EXPECT_GE(policy, lru - 0.02) << "LRU: " << lru;
  }

  std::mt19937_64 random_{TestSeed()};
};

// The main list fills with keys that share the counters of frequent ones, and
// all of them look frequent.
TEST_P(PolicyAdversaryTest, FloodOfKeysThatCollide) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  for (uint64_t i = 0; i < 4 * n; ++i) keys.push_back(Key(Skewed(2 * n)));
  // A chain of keys with one hash would be long: as many as are spread well.
  for (uint64_t i = 0; i < 2 * n; ++i) {
    keys.push_back(Colliding(i / 64, /*with=*/i % 64));
    keys.push_back(Key(Skewed(2 * n)));
  }
  for (uint64_t i = 0; i < 60 * n; ++i) {
    keys.push_back(Key(10 * n + Skewed(2 * n)));
  }
  ExpectNoLossOn(keys);
}

// Every hot key is used once, scanned over, and used again.
TEST_P(PolicyAdversaryTest, ScansThatResetEachHotKey) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  uint64_t next = 100 * n;
  for (int round = 0; round < 30; ++round) {
    for (uint64_t hot = 0; hot < n / 2; ++hot) keys.push_back(Key(hot));
    for (uint64_t i = 0; i < n; ++i) keys.push_back(Key(next++));
  }
  ExpectNoLossOn(keys);
}

// As large as the cache, so that LRU keeps all of it, between scans that are
// too short to push it out.
TEST_P(PolicyAdversaryTest, LoopThatJustFits) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  uint64_t next = 100 * n;
  for (int round = 0; round < 30; ++round) {
    for (uint64_t hot = 0; hot < n * 9 / 10; ++hot) keys.push_back(Key(hot));
    for (uint64_t i = 0; i < n / 20; ++i) keys.push_back(Key(next++));
  }
  ExpectNoLossOn(keys);
}

TEST_P(PolicyAdversaryTest, AbruptChangeOfTheKeys) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  for (uint64_t era = 0; era < 8; ++era) {
    for (uint64_t i = 0; i < 10 * n; ++i) {
      keys.push_back(Key(era * 100 * n + Skewed(4 * n)));
    }
  }
  ExpectNoLossOn(keys);
}

// As above, but the new keys are all equally popular and fit.
TEST_P(PolicyAdversaryTest, AbruptChangeToAnotherSetThatFits) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  for (uint64_t era = 0; era < 8; ++era) {
    for (uint64_t i = 0; i < 20 * n; ++i) {
      keys.push_back(Key(era * 100 * n + Below(n * 4 / 5)));
    }
  }
  ExpectNoLossOn(keys);
}

// Each is used for a while, and then never again: recency is all.
TEST_P(PolicyAdversaryTest, Sessions) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  std::vector<uint64_t> sessions(n / 2);
  uint64_t next = 0;
  for (uint64_t& session : sessions) session = next++;
  for (uint64_t i = 0; i < 80 * n; ++i) {
    uint64_t& session = sessions[Below(sessions.size())];
    if (Below(10) == 0) session = next++;
    keys.push_back(Key(session));
  }
  ExpectNoLossOn(keys);
}

// More sessions at a time than fit.
TEST_P(PolicyAdversaryTest, SessionsThatDoNotFit) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  std::vector<uint64_t> sessions(2 * n);
  uint64_t next = 0;
  for (uint64_t& session : sessions) session = next++;
  for (uint64_t i = 0; i < 80 * n; ++i) {
    uint64_t& session = sessions[Skewed(sessions.size())];
    if (Below(10) == 0) session = next++;
    keys.push_back(Key(session));
  }
  ExpectNoLossOn(keys);
}

// The most recent keys are the most popular, always.
TEST_P(PolicyAdversaryTest, News) {
  const auto n = static_cast<uint64_t>(entries());
  Workload keys;
  for (uint64_t i = 0; i < 80 * n; ++i) {
    keys.push_back(Key(i / 4 + 8 * n - Skewed(8 * n)));
  }
  ExpectNoLossOn(keys);
}

// A large cache is for optimized builds.
std::vector<int64_t> Sizes() {
#ifdef NDEBUG
  return {1'000, 10'000};
#else
  return {1'000};
#endif
}

INSTANTIATE_TEST_SUITE_P(Entries, PolicyAdversaryTest,
                         ::testing::ValuesIn(Sizes()));

}  // namespace
}  // namespace wheelcache
