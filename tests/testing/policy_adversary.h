// Workloads made to defeat the scan-resistant policy, and the hit ratios of
// caches that they are read through.
//
//   PolicyAdversary adversary(/*entries=*/1000, /*seed=*/1);
//   const auto keys = adversary.FloodOfKeysThatCollide();
//   const double lru = HitRatio(keys, 1000, EvictionPolicy::kLru);
//
// Each has some fifty requests or more for each entry.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_TESTS_TESTING_POLICY_ADVERSARY_H_
#define WHEELCACHE_TESTS_TESTING_POLICY_ADVERSARY_H_

#include <cstdint>
#include <random>
#include <vector>

#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::testing {

// Chosen by the keys themselves, so that an adversary knows it: the upper half
// of a key is all that counts.
struct KnownHash {
  uint64_t operator()(uint64_t key) const {
    key >>= 32;
    key = (key ^ (key >> 15)) * 0xbf58476d1ce4e5b9;
    return key ^ (key >> 29);
  }
};

using Workload = std::vector<uint64_t>;

// That of a cache which the keys are read through; 0 shards for the default.
inline double HitRatio(const Workload& keys, int64_t entries,
                       EvictionPolicy policy, int shards = 0) {
  SimulatedClock clock;
  CacheOptions options;
  options.clock = &clock;
  options.reaper = nullptr;
  options.max_entries = entries;
  options.policy = policy;
  options.shards = shards;
  auto cache = *Cache<uint64_t, int, KnownHash>::Create(options);
  double hits = 0;
  for (const uint64_t key : keys) {
    if (cache->Get(key).has_value()) {
      ++hits;
    } else {
      cache->Set(key, 0);
    }
  }
  const bool is_whole = cache->CheckInvariants().ok();
  return is_whole ? hits / static_cast<double>(keys.size()) : -1;
}

class PolicyAdversary {
 public:
  // Against a cache of so many entries.
  PolicyAdversary(int64_t entries, uint64_t seed)
      : entries_(static_cast<uint64_t>(entries)), random_(seed) {}

  // The main list fills with keys that share the counters of frequent ones, and
  // all of them look frequent.
  Workload FloodOfKeysThatCollide() {
    const uint64_t n = entries_;
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
    return keys;
  }

  // Every hot key is used once, scanned over, and used again.
  Workload ScansThatResetEachHotKey() {
    const uint64_t n = entries_;
    Workload keys;
    uint64_t next = 100 * n;
    for (int round = 0; round < 30; ++round) {
      for (uint64_t hot = 0; hot < n / 2; ++hot) keys.push_back(Key(hot));
      for (uint64_t i = 0; i < n; ++i) keys.push_back(Key(next++));
    }
    return keys;
  }

  // As large as the cache, so that LRU keeps all of it, between scans that are
  // too short to push it out.
  Workload LoopThatJustFits() {
    const uint64_t n = entries_;
    Workload keys;
    uint64_t next = 100 * n;
    for (int round = 0; round < 30; ++round) {
      for (uint64_t hot = 0; hot < n * 9 / 10; ++hot) keys.push_back(Key(hot));
      for (uint64_t i = 0; i < n / 20; ++i) keys.push_back(Key(next++));
    }
    return keys;
  }

  Workload AbruptChangeOfTheKeys() {
    const uint64_t n = entries_;
    Workload keys;
    for (uint64_t era = 0; era < 8; ++era) {
      for (uint64_t i = 0; i < 10 * n; ++i) {
        keys.push_back(Key(era * 100 * n + Skewed(4 * n)));
      }
    }
    return keys;
  }

  // As above, but the new keys are all equally popular and fit.
  Workload AbruptChangeToAnotherSetThatFits() {
    const uint64_t n = entries_;
    Workload keys;
    for (uint64_t era = 0; era < 8; ++era) {
      for (uint64_t i = 0; i < 20 * n; ++i) {
        keys.push_back(Key(era * 100 * n + Below(n * 4 / 5)));
      }
    }
    return keys;
  }

  // Each is used for a while, and then never again: recency is all.
  Workload Sessions() {
    const uint64_t n = entries_;
    Workload keys;
    std::vector<uint64_t> sessions(n / 2);
    uint64_t next = 0;
    for (uint64_t& session : sessions) session = next++;
    for (uint64_t i = 0; i < 80 * n; ++i) {
      uint64_t& session = sessions[Below(sessions.size())];
      if (Below(10) == 0) session = next++;
      keys.push_back(Key(session));
    }
    return keys;
  }

  // More sessions at a time than fit.
  Workload SessionsThatDoNotFit() {
    const uint64_t n = entries_;
    Workload keys;
    std::vector<uint64_t> sessions(2 * n);
    uint64_t next = 0;
    for (uint64_t& session : sessions) session = next++;
    for (uint64_t i = 0; i < 80 * n; ++i) {
      uint64_t& session = sessions[Skewed(sessions.size())];
      if (Below(10) == 0) session = next++;
      keys.push_back(Key(session));
    }
    return keys;
  }

  // Each key is used twice, nine tenths of a cache apart.
  Workload Pairs() {
    const uint64_t n = entries_;
    Workload keys;
    const uint64_t apart = n * 45 / 100;  // Keys of both kinds lie between.
    for (uint64_t i = apart; i < 40 * n; ++i) {
      keys.push_back(Key(i));
      keys.push_back(Key(i - apart));
    }
    return keys;
  }

  // A set that is used again and again, and then a loop that fits.
  Workload HeatedAndThenALoop() {
    const uint64_t n = entries_;
    Workload keys;
    for (uint64_t era = 0; era < 8; ++era) {
      for (uint64_t i = 0; i < 4 * n; ++i) {
        keys.push_back(Key(era * 100 * n + Below(n * 9 / 10)));
      }
      for (uint64_t i = 0; i < 3 * n; ++i) {
        keys.push_back(Key(era * 100 * n + 50 * n + i % (n * 9 / 10)));
      }
    }
    return keys;
  }

  // A loop that fits, until another one takes its place.
  Workload HotSetThatDies() {
    const uint64_t n = entries_;
    Workload keys;
    for (uint64_t era = 0; era < 25; ++era) {
      for (uint64_t i = 0; i < 2 * n; ++i) {
        keys.push_back(Key(era * 100 * n + i % (n * 72 / 100)));
      }
    }
    return keys;
  }

  // The most recent keys are the most popular, always.
  Workload News() {
    const uint64_t n = entries_;
    Workload keys;
    for (uint64_t i = 0; i < 80 * n; ++i) {
      keys.push_back(Key(i / 4 + 8 * n - Skewed(8 * n)));
    }
    return keys;
  }

 private:
  // The keys with numbers of different hashes, and those that share one.
  static uint64_t Key(uint64_t number) { return number << 32; }
  static uint64_t Colliding(uint64_t number, uint64_t with) {
    return with << 32 | (number + 1);
  }

  uint64_t Below(uint64_t number) { return random_() % number; }

  // Small numbers more often than large ones.
  uint64_t Skewed(uint64_t below) {
    const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<uint64_t>(static_cast<double>(below) * uniform *
                                 uniform * uniform);
  }

  const uint64_t entries_;
  std::mt19937_64 random_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_POLICY_ADVERSARY_H_
