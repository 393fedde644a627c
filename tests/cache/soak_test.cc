// Caches under mixed load, one with each policy, with threads and keys that
// come and go: their memory does not grow, and their counters add up.
// WHEELCACHE_TEST_SECONDS says for how long.
//
// The caches' clock moves with the calls, so that a run does the same on a slow
// machine as on a fast one, only less of it.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/benchmarks/resident_memory.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using StringCache = Cache<std::string, std::string>;

// A sanitizer keeps what is freed, and more.
constexpr bool kSanitized =
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
    true;
#else
    false;
#endif

// At least, however long they take.
constexpr size_t kSamples = kSanitized ? 8 : 40;

constexpr int kThreads = 4;
constexpr int64_t kMaxBytes = 64 << 20;  // Of each of two caches.

// How many calls a thread makes before another takes its place.
constexpr int kCallsOfAThread = 20'000;

// Keys are drawn from a window that moves on: most of those that were ever used
// never come back.
constexpr uint64_t kWindow = 60'000;

class Soak {
 public:
  Soak() {
    CacheOptions options;
    options.clock = &clock_;
    options.reaper = &reaper_;
    options.max_bytes = kMaxBytes;
    options.shards = 8;
    caches_[0] = std::move(*StringCache::Create(options));
    options.policy = EvictionPolicy::kScanResistant;
    options.advise = true;
    caches_[1] = std::move(*StringCache::Create(options));
  }

  // A life of each thread, with the one cache or the other.
  void RunGeneration() {
    ++generation_;
    cache_ = caches_[generation_ % 2].get();
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i] { LiveThrough(i); });
    }
    for (std::thread& thread : threads) thread.join();
    cache_->RunMaintenance();
  }

  // The cache of the last generation.
  const StringCache& cache() const { return *cache_; }
  bool HaveEvicted(int64_t entries) const {
    return caches_[0]->stats().evictions > entries &&
           caches_[1]->stats().evictions > entries;
  }
  absl::Status CheckInvariants() {
    absl::Status status;
    for (const auto& cache : caches_) {
      cache->Stop();
      status.Update(cache->CheckInvariants());
    }
    return status;
  }

 private:
  void LiveThrough(int thread) {
    std::mt19937_64 random(generation_ * kThreads + thread);
    const uint64_t first_key = generation_ / 2 * (kWindow / 16);
    StringCache::Handle held[16];
    for (int i = 0; i < kCallsOfAThread; ++i) {
      const std::string key = std::to_string(first_key + random() % kWindow);
      Call(key, random(), &held[i % 16]);
      if (i % 64 == 0) clock_.Advance(absl::Milliseconds(1));
    }
  }

  // One TTL in sixteen ends soon.
  void Call(const std::string& key, uint64_t choice,
            StringCache::Handle* held) {
    const absl::Duration ttl = choice >> 32 & 15
                                   ? absl::Minutes(1)
                                   : absl::Milliseconds(choice >> 40 & 1023);
    std::string value(16 + (choice >> 52), 'v');
    switch (choice % 16) {
      case 0:
        cache_->Del(key);
        break;
      case 1:
        cache_->Touch(key, ttl);
        break;
      case 2:
        *held = cache_->Find(key);
        break;
      case 3:
        cache_
            ->GetOrLoad(key, ttl,
                        [&] { return absl::StatusOr<std::string>(value); })
            .IgnoreError();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        cache_->Set(key, std::move(value), ttl);
        break;
      default:
        cache_->Get(key);
    }
  }

  SimulatedClock clock_;
  Reaper reaper_{clock_};
  std::unique_ptr<StringCache> caches_[2];
  StringCache* cache_ = nullptr;  // Of the present generation.
  uint64_t generation_ = 0;
};

void ExpectCountersAddUp(const CacheStats& stats) {
  EXPECT_EQ(stats.sets, stats.entries + stats.evictions + stats.expirations +
                            stats.deletes + stats.replaced);
}

double Median(std::vector<int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  return static_cast<double>(samples[samples.size() / 2]);
}

// That no later tenth of the samples has a larger median than the first. Single
// samples rise and fall with the rounds that move entries.
void ExpectNoGrowth(const std::vector<int64_t>& samples) {
  constexpr double kMost = 1.02;
  constexpr int64_t kFewest = 10;  // Fewer have no steady median.
  const auto end = static_cast<int64_t>(samples.size());
  const int64_t part = std::max(kFewest, end / 10);
  const auto median = [&](int64_t begin) {
    return Median({samples.begin() + begin, samples.begin() + begin + part});
  };
  for (int64_t begin = part; begin + part <= end; begin += part) {
    EXPECT_LE(median(begin), kMost * median(0));
  }
}

// Promise: Memory comes back by itself
TEST(SoakTest, MemoryDoesNotGrowAndCountersAddUp) {
  using SteadyClock = std::chrono::steady_clock;
  const auto begin = SteadyClock::now();
  const auto length = std::chrono::seconds(TestSeconds());
  const int64_t before = benchmarks::ResidentBytes();
  Soak soak;
  // The first quarter fills the cache and what the threads keep for good.
  std::vector<int64_t> resident;
  int64_t generations = 0;
  while (SteadyClock::now() - begin < length || resident.size() < kSamples) {
    soak.RunGeneration();
    ++generations;
    ExpectCountersAddUp(soak.cache().stats());
    EXPECT_LE(soak.cache().bytes(), kMaxBytes);
    const bool settled =
        SteadyClock::now() - begin >= length / 4 && soak.HaveEvicted(25'000);
    if (settled) resident.push_back(benchmarks::ResidentBytes());
  }
  const absl::Status invariants = soak.CheckInvariants();
  EXPECT_TRUE(invariants.ok()) << invariants;
  const CacheStats stats = soak.cache().stats();
  std::cout << generations
            << " generations of threads; the last cache: " << stats.sets
            << " sets, " << stats.evictions << " evictions, "
            << stats.expirations << " expirations; resident bytes "
            << resident.front() << " at first, " << resident.back()
            << " at last\n";
  if (kSanitized) return;
  EXPECT_LE(*std::max_element(resident.begin(), resident.end()) - before,
            2 * (kMaxBytes / 100 * 112 + (8 << 20)));
  ExpectNoGrowth(resident);
}

}  // namespace
}  // namespace wheelcache
