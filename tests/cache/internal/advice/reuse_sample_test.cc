// What a ReuseSample of all keys says of other limits, against caches that have
// them; what one of some keys says, within a tolerance; why reads miss; and the
// ranks of uses, against a vector.

#include "wheelcache/cache/internal/advice/reuse_sample.h"

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
#include "wheelcache/cache/internal/advice/use_ranks.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kSecond = 1'000'000'000;

class ReuseSampleTest : public ::testing::Test {
 protected:
  static std::unique_ptr<ReuseSample> Make(int64_t entries,
                                           int64_t bytes = kUnlimited) {
    return std::make_unique<ReuseSample>(ReuseSample::Limits{entries, bytes},
                                         /*now_nanos=*/0);
  }

  void Miss(uint32_t key) { sample_->Read(key, /*hit=*/false, now_); }
  void Hit(uint32_t key) { sample_->Read(key, /*hit=*/true, now_); }
  void Store(uint32_t key, int64_t ttl = Clock::kNever, uint32_t charge = 1) {
    sample_->Store(key, {charge, Clock::NanosAfter(now_, ttl)}, now_);
  }
  void Load(uint32_t key, int64_t ttl = Clock::kNever) {
    Miss(key);
    Store(key, ttl);
  }
  // Loads `sampled` keys of the `all` that the cache gets meanwhile, as parts
  // of those that it would hold with these limits.
  void LoadMany(double sampled, double all) {
    constexpr double kLimit = 10'000;
    const auto keys = static_cast<uint32_t>(sampled * kLimit * sample_->rate());
    for (uint32_t key = 0; key < keys; ++key) Load(key);
    sample_->CountInsertions(static_cast<int64_t>(all * kLimit));
  }
  double More(ReuseSample::Size size) const { return sample_->more_hits(size); }
  double Misses(ReuseSample::Cause cause) const {
    return sample_->misses(cause);
  }

  int64_t now_ = 0;
  std::unique_ptr<ReuseSample> sample_ = Make(/*entries=*/4);
};

TEST_F(ReuseSampleTest, AStoreOfAKnownKeyChangesItsCharge) {
  sample_ = Make(kUnlimited, /*bytes=*/100);
  Store(1, Clock::kNever, /*charge=*/10);
  Store(2, Clock::kNever, /*charge=*/300);
  Store(2, Clock::kNever, /*charge=*/20);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, ALargerSizeHasTheOlderDeadline) {
  Load(1, 10 * kSecond);
  now_ += 8 * kSecond;
  for (uint32_t key = 2; key <= 6; ++key) Load(key);
  Load(1, 10 * kSecond);  // Evicted here, and loaded; twice as many hold it.
  EXPECT_EQ(More(ReuseSample::kTwice), 1);
  now_ += 4 * kSecond;
  Hit(1);  // There, it has expired.
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  now_ += 4 * kSecond;
  Hit(1);  // And was loaded at that time.
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, WhatIsLoadedAfterAnEvictionHasItsNewDeadline) {
  Load(1, 10 * kSecond);
  now_ += 2 * kSecond;
  for (uint32_t key = 2; key <= 6; ++key) Load(key);
  Load(1, 10 * kSecond);
  now_ += 9 * kSecond;
  Miss(1);  // Before its new deadline: it had to make room.
  EXPECT_EQ(Misses(ReuseSample::kEvicted), 2);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 0);
}

TEST_F(ReuseSampleTest, AStoreThatNoMissAskedForRenewsEachSize) {
  Load(1, 10 * kSecond);
  now_ += 8 * kSecond;
  Store(1, 10 * kSecond);
  now_ += 8 * kSecond;
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, ATouchRenewsTheDeadlineAndTheUse) {
  Load(1, 10 * kSecond);
  Load(2);
  Load(3);
  sample_->Touch(1, 20 * kSecond, now_);
  now_ += 15 * kSecond;
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, AMissThatIsNotLoadedLeavesTheKeyOut) {
  Load(1);
  for (uint32_t key = 2; key <= 9; ++key) Load(key);
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 2);
}

TEST_F(ReuseSampleTest, TellsWhyReadsMiss) {
  Load(1);
  EXPECT_EQ(Misses(ReuseSample::kFirstUse), 1);
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kEvicted), 1);
  Store(1);
  sample_->Delete(1);
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kDeleted), 1);
  Store(1, kSecond);
  now_ += 2 * kSecond;
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 1);
}

TEST_F(ReuseSampleTest, DeleteAllDeletesEachKey) {
  Load(1);
  Load(2);
  sample_->DeleteAll();
  Miss(1);
  Miss(2);
  EXPECT_EQ(Misses(ReuseSample::kDeleted), 2);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
  Store(1);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, FarLowerLimitsSampleMoreKeys) {
  sample_ = Make(/*entries=*/1'000'000);
  EXPECT_LT(sample_->rate(), 0.001);
  sample_->SetLimits({/*entries=*/600'000, kUnlimited});
  EXPECT_LT(sample_->rate(), 0.001);
  sample_->FollowLimits({/*entries=*/100, kUnlimited});
  EXPECT_LT(sample_->rate(), 0.001);
  sample_->SetLimits({/*entries=*/100, kUnlimited});
  EXPECT_EQ(sample_->rate(), 1);
}

TEST_F(ReuseSampleTest, TheRateFallsUntilTheKeysFit) {
  sample_ = Make(kUnlimited, /*bytes=*/1'000'000);
  for (uint32_t i = 0; i < 200'000; ++i) Store(i * 2654435761u);
  EXPECT_LE(sample_->keys(), ReuseSample::kMostKeys);
  EXPECT_GE(sample_->keys(), ReuseSample::kMostKeys * 3 / 4);
  EXPECT_NEAR(sample_->rate(), 4096 / 200'000.0, 0.003);
}

TEST_F(ReuseSampleTest, KeysThatNoSizeHoldsMakeRoomForOthers) {
  sample_ = Make(/*entries=*/100);
  for (uint32_t i = 0; i < 100'000; ++i) Load(i);
  EXPECT_EQ(sample_->rate(), 1);
  Miss(100'000 - 399);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 1);
}

TEST_F(ReuseSampleTest, RemovedKeysDoNotLowerTheRateOfASmallCache) {
  sample_ = Make(/*entries=*/100);
  for (uint32_t i = 0; i < 100'000; ++i) {
    Load(i);
    sample_->Delete(i);
  }
  EXPECT_EQ(sample_->rate(), 1);
}

TEST_F(ReuseSampleTest, KeysAboveTheThresholdAreLeftOut) {
  sample_ = Make(/*entries=*/1'000'000);
  const auto above = static_cast<uint32_t>(sample_->threshold());
  Miss(above);
  Store(above);
  EXPECT_EQ(sample_->keys(), 0u);
  EXPECT_EQ(Misses(ReuseSample::kFirstUse), 0);
  Miss(above - 1);
  EXPECT_NEAR(Misses(ReuseSample::kFirstUse), 1 / sample_->rate(), 1e-6);
}

TEST_F(ReuseSampleTest, TooManySampledKeysMakeNoDistanceLonger) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/2.2, /*all=*/1.9);
  Miss(100'000);
  EXPECT_GT(More(ReuseSample::kTwice), 0);
}

TEST_F(ReuseSampleTest, TooFewSampledKeysMakeNoDistanceShorter) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/1.8, /*all=*/2.1);
  Miss(100'000);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_GT(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, AHitIsNoHitOfHalfTheLimitsBeyondTheirDistance) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/0.45, /*all=*/0.55);
  Hit(100'000);
  EXPECT_LT(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, AKeyThatExpiresOrIsDeletedOftenStandsForNoOther) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/2.5, /*all=*/2.5);
  for (int i = 0; i < 500; ++i) {
    Store(200'000);
    sample_->Expire(200'000);
    Store(300'000);
    sample_->Delete(300'000);
  }
  Miss(100'000);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_GT(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, AStoreThatReplacesIsNoInsertion) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/2.5, /*all=*/2.5);
  for (int i = 0; i < 500; ++i) {
    sample_->Store(0, {1, Clock::kNever, /*replaces=*/true}, now_);
  }
  Miss(100'000);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
}

TEST_F(ReuseSampleTest, ClocksMayBeginBelowZeroAndJump) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  sample_ = std::make_unique<ReuseSample>(ReuseSample::Limits{4, kUnlimited},
                                          kLowest);
  now_ = kLowest;
  Load(1, kSecond);
  now_ = kLowest + 2 * kSecond;
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 1);
  now_ = std::numeric_limits<int64_t>::max() - 1;
  Load(2);
  Hit(2);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

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
  work.entries = 3'000;
  work.keys = 48'000;
  work.reads = 90'000;
  EXPECT_LT(WorstError(work, /*seed=*/5), 0.02);
}

// The same in a vector: the last one was used last.
struct Ranked {
  uint32_t slot;
  uint32_t weight;
};

class UseRanksTest : public ::testing::Test {
 protected:
  void Push(uint32_t slot, uint32_t weight) {
    weights_[slot] = weight;
    places_[slot] = ranks_->Push(slot, weight);
    model_.push_back({slot, weight});
  }
  void Remove(size_t i) {
    ranks_->Remove(places_[model_[i].slot], model_[i].weight);
    model_.erase(model_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void Pack() {
    ranks_->Pack(
        [this](uint32_t slot, uint32_t place) { places_[slot] = place; },
        [this](uint32_t slot) { return weights_[slot]; });
  }
  void Check(size_t i) const {
    uint64_t weight = 0;
    for (size_t j = i + 1; j < model_.size(); ++j) weight += model_[j].weight;
    const uint32_t place = places_[model_[i].slot];
    ASSERT_EQ(ranks_->CountAbove(place), model_.size() - i - 1);
    ASSERT_EQ(ranks_->WeightAbove(
                  place, [this](uint32_t slot) { return weights_[slot]; }),
              weight);
  }

  std::unique_ptr<UseRanks> ranks_ = std::make_unique<UseRanks>();
  std::vector<Ranked> model_;
  std::vector<uint32_t> places_ = std::vector<uint32_t>(UseRanks::kMostKeys);
  std::vector<uint32_t> weights_ = std::vector<uint32_t>(UseRanks::kMostKeys);
};

TEST_F(UseRanksTest, RanksAreThoseOfAVector) {
  std::mt19937 random(1);
  std::vector<uint32_t> unused;
  for (uint32_t i = 0; i < UseRanks::kMostKeys; ++i) unused.push_back(i);
  for (int step = 0; step < 60'000; ++step) {
    if (ranks_->full()) Pack();
    const bool may_push = !unused.empty();
    if (model_.empty() || (may_push && random() % 16 != 0)) {
      Push(unused.back(), random() % 1000);
      unused.pop_back();
    } else {
      const size_t i = random() % model_.size();
      const Ranked moved = model_[i];
      Remove(i);
      if (random() % 8 != 0) {
        Push(moved.slot, moved.weight);
      } else {
        unused.push_back(moved.slot);
      }
    }
    ASSERT_EQ(ranks_->empty(), model_.empty());
    if (model_.empty() || step % 4 != 0) continue;
    Check(random() % model_.size());
    ASSERT_EQ(ranks_->Oldest(), model_.front().slot);
  }
  ASSERT_EQ(ranks_->size(), model_.size());
  for (size_t i = 0; i < model_.size(); i += 97) Check(i);
}

TEST_F(UseRanksTest, IsEmptyAfterClear) {
  for (uint32_t i = 0; i < 100; ++i) Push(i, 7);
  ranks_->Clear();
  model_.clear();
  EXPECT_TRUE(ranks_->empty());
  EXPECT_EQ(ranks_->weight(), 0u);
  Push(5, 9);
  Check(0);
}

}  // namespace
}  // namespace wheelcache::internal
