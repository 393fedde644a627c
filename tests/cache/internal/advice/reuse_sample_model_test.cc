// What a ReuseSample of all keys says of other limits, against caches that have
// them; and what one of some keys says, within a tolerance.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/advice/reuse_sample.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kMilli = 1'000'000;
constexpr std::array<double, 4> kFactors = {0.5, 1, 2, 4};

uint32_t ChargeOf(uint32_t key) { return 50 + key * 2654435761u % 100; }

// An exact LRU cache: what has expired goes first.
class ExactCache {
 public:
  ExactCache(double entries, double bytes) : entries_(entries), bytes_(bytes) {}

  bool Read(uint32_t key, int64_t now) {
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    if (found->second->deadline <= now) {
      Erase(found->second);
      return false;
    }
    order_.splice(order_.begin(), order_, found->second);
    return true;
  }

  void Store(uint32_t key, int64_t now, int64_t deadline) {
    Delete(key);
    if (deadline != Clock::kNever) EraseExpired(now);
    while (static_cast<double>(order_.size()) + 1 > entries_ ||
           used_ + ChargeOf(key) > bytes_) {
      if (order_.empty()) return;
      Erase(std::prev(order_.end()));
    }
    order_.push_front({key, deadline});
    places_[key] = order_.begin();
    used_ += ChargeOf(key);
  }

  void Delete(uint32_t key) {
    const auto found = places_.find(key);
    if (found != places_.end()) Erase(found->second);
  }

 private:
  struct Held {
    uint32_t key;
    int64_t deadline;
  };
  void EraseExpired(int64_t now) {
    for (auto i = order_.begin(); i != order_.end();) {
      const auto held = i++;
      if (held->deadline <= now) Erase(held);
    }
  }
  void Erase(std::list<Held>::iterator held) {
    used_ -= ChargeOf(held->key);
    places_.erase(held->key);
    order_.erase(held);
  }

  const double entries_;
  const double bytes_;
  double used_ = 0;
  std::list<Held> order_;
  std::unordered_map<uint32_t, std::list<Held>::iterator> places_;
};

struct Workload {
  int64_t entries = kUnlimited;
  int64_t bytes = kUnlimited;
  uint32_t keys = 0;
  int reads = 0;
  int64_t ttl_millis = 0;  // 0 for none.
  uint32_t deletes = 0;    // One in so many.
};

// A few keys often, most rarely.
uint32_t Draw(std::mt19937_64* random, uint32_t keys) {
  const double uniform = static_cast<double>((*random)() >> 11) / (1ull << 53);
  return static_cast<uint32_t>(keys * uniform * uniform * uniform);
}

// Returns the largest difference between the hit ratios that the sample tells
// and those of exact caches.
double WorstError(const Workload& work, uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t salt = random() | 1;
  const auto hash = [&](uint32_t key) {
    return static_cast<uint32_t>((key + 1) * salt >> 32);
  };
  const auto limit = [](int64_t most, double factor) {
    return most == kUnlimited ? std::numeric_limits<double>::infinity()
                              : static_cast<double>(most) * factor;
  };
  std::vector<ExactCache> caches;
  for (const double factor : kFactors) {
    caches.emplace_back(limit(work.entries, factor), limit(work.bytes, factor));
  }
  ReuseSample sample({work.entries, work.bytes}, 0);
  std::array<double, 4> hits = {};
  int64_t now = 0;
  for (int i = 0; i < work.reads; ++i) {
    now += kMilli;
    const uint32_t key = Draw(&random, work.keys);
    if (work.deletes != 0 && random() % work.deletes == 0) {
      for (ExactCache& cache : caches) cache.Delete(key);
      sample.Delete(hash(key));
      continue;
    }
    const int64_t deadline =
        work.ttl_millis == 0 ? Clock::kNever : now + work.ttl_millis * kMilli;
    for (size_t size = 0; size < caches.size(); ++size) {
      const bool hit = caches[size].Read(key, now);
      hits[size] += hit ? 1 : 0;
      if (!hit) caches[size].Store(key, now, deadline);
      if (size != ReuseSample::kSame) continue;
      sample.Read(hash(key), hit, now);
      if (hit) continue;
      sample.CountInsertions(1);
      sample.Store(hash(key), {ChargeOf(key), deadline}, now);
    }
  }
  double worst = 0;
  for (const auto size :
       {ReuseSample::kHalf, ReuseSample::kTwice, ReuseSample::kFourTimes}) {
    const double error =
        hits[ReuseSample::kSame] + sample.more_hits(size) - hits[size];
    worst = std::max(worst, std::abs(error) / work.reads);
  }
  return worst;
}

TEST(ReuseSampleModelTest, IsExactForEntriesWhereAllKeysAreSampled) {
  for (const int64_t entries : {1, 2, 3, 10, 100, 800}) {
    Workload work;
    work.entries = entries;
    work.keys = static_cast<uint32_t>(entries * 12);
    work.reads = 10'000;
    EXPECT_LT(WorstError(work, /*seed=*/entries), 1e-9) << entries;
  }
}

TEST(ReuseSampleModelTest, IsNearlyExactForBytesWhereAllKeysAreSampled) {
  // A cache evicts until the new entry fits, which may be one too many.
  Workload work;
  work.bytes = 20'000;
  work.keys = 2'000;
  work.reads = 20'000;
  EXPECT_LT(WorstError(work, /*seed=*/1), 0.002);
  work.entries = 180;
  EXPECT_LT(WorstError(work, /*seed=*/2), 0.002);
}

TEST(ReuseSampleModelTest, FollowsDeadlinesOfEachSize) {
  for (const int64_t ttl_millis : {200, 1'000, 5'000}) {
    Workload work;
    work.entries = 100;
    work.keys = 1'000;
    work.reads = 15'000;
    work.ttl_millis = ttl_millis;
    // Expired keys leave the sample a little later than the cache.
    EXPECT_LT(WorstError(work, /*seed=*/3), 0.02) << ttl_millis;
  }
}

TEST(ReuseSampleModelTest, FollowsDeletions) {
  Workload work;
  work.entries = 100;
  work.keys = 1'500;
  work.reads = 30'000;
  work.deletes = 10;
  EXPECT_LT(WorstError(work, /*seed=*/4), 0.01);
}

TEST(ReuseSampleModelTest, SomeKeysStandForAll) {
  Workload work;
  work.entries = 5'000;
  work.keys = 80'000;
  work.reads = 150'000;
  EXPECT_LT(WorstError(work, /*seed=*/5), 0.02);
}

}  // namespace
}  // namespace wheelcache::internal
