// ForEach and EraseIf: what they show and remove, also while the cache is
// changed before each of their steps.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using IntCache = Cache<int, int>;

// What ForEach shows, in the order of the keys.
template <typename CacheType>
std::map<int, int> Shown(CacheType* cache) {
  std::map<int, int> shown;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    EXPECT_TRUE(shown.emplace(handle.key(), *handle).second) << handle.key();
    return true;
  }));
  return shown;
}

class ForEachTest : public CacheEnvironment {};

struct OneHash {
  static constexpr const char* kName = "one";
  size_t operator()(int) const { return 42; }
};

// Those that a step has pinned together expire one after the other.
TEST_F(ForEachTest, ShowsNothingThatExpiresWithinTheFunction) {
  auto cache = New<int, int>();
  for (int key = 0; key < 20; ++key) cache->Set(key, key, absl::Seconds(1));
  cache->Set(20, 20);
  int expiring = 0;
  int shown = 0;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    ++shown;
    if (handle.key() < 20) {
      ++expiring;
      clock_.Advance(absl::Seconds(1));
    }
    return true;
  }));
  EXPECT_EQ(expiring, 1);
  EXPECT_EQ(shown, 2);
}

class ForEachRaceTest : public InterruptedCacheEnvironment {};

TEST_F(ForEachRaceTest, ShowsWhatATouchSavesInTheLastInstant) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Milliseconds(5));
  At("read: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Seconds(1)));
    clock_.Advance(absl::Milliseconds(6));
  });
  EXPECT_THAT(Shown(cache.get()), ElementsAre(Pair(1, 10)));
}

TEST_F(ForEachTest, HandleTellsWhatOneOfFindTells) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value", absl::Seconds(10));
  clock_.Advance(absl::Seconds(4));
  cache->ForEach([&](const auto& handle) {
    EXPECT_EQ(handle.key(), "key");
    EXPECT_EQ(*handle, "value");
    EXPECT_EQ(handle.TimeToLive(), absl::Seconds(6));
    EXPECT_EQ(handle.Age(), absl::Seconds(4));
    EXPECT_EQ(handle.charge(), cache->bytes());
    return true;
  });
}

// The exact order of a cache of one shard; in others, that of generations.
TEST_F(ForEachTest, RankTellsHowLongAValueWasNotUsed) {
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    auto cache = New<int, int>();
    for (int key = 0; key < 1000; ++key) cache->Set(key, key);
    for (int key = 0; key < 300; ++key) cache->Get(key);
    std::map<int, uint32_t> ranks;
    cache->ForEach([&](const auto& handle, uint32_t rank) {
      ranks.emplace(handle.key(), rank);
      return true;
    });
    ASSERT_EQ(ranks.size(), 1000u);
    for (int key = 300; key < 999; ++key) {
      EXPECT_TRUE(shards > 1 || ranks[key] > ranks[key + 1]) << key;
      EXPECT_LT(ranks[key % 300], ranks[300 + key % 500]);
    }
  }
}

// With hashes of all kinds, for what lies in one bucket is pinned together.
template <typename Hash>
void ExpectNoPinIsLeft(CacheOptions options) {
  std::atomic<int64_t> living{0};
  options.maintenance_budget = 1;
  auto cache = std::move(*Cache<int, testing::Counted, Hash>::Create(options));
  for (int key = 0; key < 200; ++key) {
    cache->Set(key, testing::Counted(&living));
  }
  for (int most = 1; most < 200; most += 7) {
    int shown = 0;
    cache->ForEach([&](const auto&) { return ++shown < most; });
    shown = 0;
    EXPECT_THROW(cache->ForEach([&](const auto&) {
      if (++shown == most) throw 1;
      return true;
    }),
                 int);
  }
  cache->Clear();
  cache->RunMaintenance();
  EXPECT_EQ(living, 0);
}

// Promise: Every value is seen once
TEST_F(ForEachTest, NoPinIsLeftWhenItStopsOrThrows) {
  ExpectNoPinIsLeft<DefaultHash<int>>(options_);
  ExpectNoPinIsLeft<OneHash>(options_);
}

TEST_F(ForEachTest, ChildOfForkGoesOn) {
  auto cache = New<int, int>();
  for (int key = 0; key < 500; ++key) cache->Set(key, key);
  const auto shows_all_in_child = [&] {
    return testing::HoldsInChild(
        [&] { return Shown(cache.get()).size() == 500; });
  };
  EXPECT_TRUE(shows_all_in_child());
  int shown = 0;
  cache->ForEach([&](const auto&) {
    if (++shown == 250) {
      EXPECT_TRUE(shows_all_in_child());
    }
    return true;
  });
  EXPECT_EQ(shown, 500);
}

class EraseIfTest : public CacheEnvironment {};

TEST_F(EraseIfTest, ExceptionOfThePredicateLeavesTheRest) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  for (int key = 0; key < 100; ++key) cache->Set(key, key);
  int seen = 0;
  EXPECT_THROW(cache->EraseIf([&](const auto&) {
    if (++seen == 31) throw 1;
    return true;
  }),
               int);
  EXPECT_EQ(cache->size(), 70);
  EXPECT_EQ(log.Take().size(), 30u);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

TEST_F(EraseIfTest, PredicateMayCallTheCache) {
  auto cache = New<int, int>();
  for (int key = 0; key < 300; ++key) cache->Set(key, key);
  EXPECT_EQ(cache->EraseIf([&](const auto& handle) {
    const int key = handle.key();
    EXPECT_EQ(cache->Get(key), key);
    if (key % 3 == 0) {
      EXPECT_TRUE(cache->Del(key));  // Before EraseIf does.
    }
    if (key % 3 == 1) {
      EXPECT_TRUE(cache->Set(key, key));
    }
    return true;
  }),
            100)
      << "neither what was deleted nor what came in the place of another";
  EXPECT_EQ(cache->size(), 100);
}

TEST_F(EraseIfTest, ValueThatExpiresUnderThePredicateIsNotErased) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->EraseIf([&](const auto&) {
    clock_.Advance(absl::Seconds(1));
    return true;
  }),
            0);
  cache->RunMaintenance();
  EXPECT_THAT(log.Take(), ElementsAre(Removal<int, int>{
                              1, 10, RemovalCause::kExpired, {}}));
}

TEST_F(EraseIfTest, TouchSparesNothing) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->EraseIf([&](const auto&) {
    EXPECT_TRUE(cache->Touch(1, absl::Seconds(5)));
    clock_.Advance(absl::Seconds(2));
    return true;
  }),
            1);
}

// Promise: Every value is seen once
// The loader cannot know of the invalidation, nor the predicate of its value.
TEST_F(EraseIfTest, SupersedesEveryLoadInFlight) {
  options_.shards = 8;
  auto cache = New<int, int>();
  for (int key = 0; key < 32; ++key) {
    const absl::StatusOr<int> got =
        cache->GetOrLoad(key, [&]() -> absl::StatusOr<int> {
          EXPECT_EQ(cache->EraseIf([](const auto&) { return false; }), 0);
          return 7;
        });
    EXPECT_EQ(*got, 7);
    EXPECT_FALSE(cache->Contains(key));
  }
}

TEST_F(EraseIfTest, LoadThatBeginsWithinItIsStored) {
  auto cache = New<int, int>();
  cache->Set(1, 1);
  cache->EraseIf([&](const auto& handle) {
    EXPECT_EQ(*cache->GetOrLoad(2, []() -> absl::StatusOr<int> { return 3; }),
              3);
    return handle.key() == 1;
  });
  EXPECT_EQ(cache->Peek(2), 3);
}

class EraseIfRaceTest : public InterruptedCacheEnvironment {};

// Promise: Every value is seen once
TEST_F(EraseIfRaceTest, SparesWhatCameAfterThePredicate) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  cache->Set(1, 10);
  At("remove if: before the lock", [&] { cache->Set(1, 10); });
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
  EXPECT_EQ(cache->Peek(1), 10);
  At("remove if: before the lock", [&] {
    cache->Del(1);
    cache->Set(1, 11);
  });
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
  EXPECT_EQ(cache->Peek(1), 11);
  At("remove if: before the lock", [&] { cache->Clear(); });
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

// The block of what was seen is pinned, so that no other entry may have it.
TEST_F(EraseIfRaceTest, SparesWhatWouldHaveTheSameMemory) {
  auto cache = New<int, std::string>();
  cache->Set(1, std::string(100, 'a'));
  At("remove if: before the lock", [&] {
    cache->Del(1);
    cache->RunMaintenance();
    for (int key = 1; key < 50; ++key) cache->Set(key, std::string(100, 'b'));
  });
  EXPECT_EQ(cache->EraseIf([](const auto& h) { return (*h)[0] == 'a'; }), 0);
  EXPECT_EQ(cache->size(), 49);
}

// ForEach while the cache is changed before each of its steps: by what makes
// its index grow and shrink, by removals, by Clear, and by moves of entries in
// memory.

// What happens before each step of a ForEach, but not within itself.
std::function<void()> churn;

void AtEachStep(const char* point) {
  if (std::string_view(point) != "iteration: before a step" || !churn) return;
  const std::function<void()> action = std::exchange(churn, nullptr);
  action();
  churn = action;
}

struct MixedHash : DefaultHash<int> {
  static constexpr const char* kName = "mixed";
};
struct FewHashes {
  static constexpr const char* kName = "few";
  size_t operator()(int key) const { return static_cast<size_t>(key % 7); }
};
// Keys of two equal hashes next to many others.
struct PairedHash {
  static constexpr const char* kName = "paired";
  size_t operator()(int key) const { return DefaultHash<int>()(key / 2); }
};

template <typename Hash>
class ForEachChurnTest : public CacheEnvironment {
 protected:
  using CacheType = Cache<int, int64_t, Hash>;

  ForEachChurnTest() { internal::SetInterleaving(&AtEachStep); }
  ~ForEachChurnTest() override {
    internal::SetInterleaving(nullptr);
    churn = nullptr;
  }

  void SetUp() override {
#ifdef NDEBUG
    GTEST_SKIP() << "an engine without points to stop at";
#endif
  }

  void Set(int key) {
    const int64_t value = ++values_;
    ASSERT_TRUE(cache_->Set(key, value));
    model_[key] = value;
  }
  void Del(int key) { EXPECT_EQ(cache_->Del(key), model_.erase(key) > 0); }

  // Keys below kStaying are Set once, the others come and go.
  static constexpr int kStaying = 150;

  // Changes the index by some hundred keys, so that its table is replaced
  // within a few calls, and then back.
  void ChurnOnce() {
    const bool grows = random_() % 100 < (is_growing_ ? 85 : 15);
    const int most = static_cast<int>(random_() % 60);
    for (int i = 0; i < most; ++i) {
      const int key = kStaying + static_cast<int>(random_() % 2000);
      if (grows) {
        Set(key);
      } else if (!model_.empty()) {
        // One that is there.
        auto it = model_.lower_bound(key);
        if (it == model_.end()) it = model_.lower_bound(kStaying);
        if (it != model_.end()) Del(it->first);
      }
    }
    if (random_() % 20 == 0) is_growing_ = !is_growing_;
    // A new value in the place of an old one does not move.
    if (random_() % 4 == 0 && !model_.empty()) {
      const auto it = model_.lower_bound(kStaying);
      if (it != model_.end()) Set(it->first);
    }
  }

  // One ForEach, with churn before each step, and within the function.
  void ExpectEachOnce() {
    std::map<int64_t, int> times;
    churn = [&] {
      ChurnOnce();
      ++steps_;
    };
    EXPECT_TRUE(cache_->ForEach([&](const auto& handle) {
      EXPECT_EQ(++times[*handle], 1) << "key " << handle.key();
      const auto it = model_.find(handle.key());
      if (it == model_.end() || it->second != *handle) {
        ADD_FAILURE() << "was not there when it was taken: " << handle.key();
      }
      return true;
    }));
    churn = nullptr;
    for (const auto& [key, value] : model_) {
      if (key >= kStaying) break;
      ASSERT_EQ(times[value], 1) << "of key " << key << " that stayed";
    }
  }

  void Run(int shards, int64_t budget, int rounds) {
    SCOPED_TRACE(::testing::Message() << Hash::kName << ", " << shards
                                      << " shards, budget " << budget);
    this->options_.shards = shards;
    this->options_.maintenance_budget = budget;
    cache_ = std::move(*CacheType::Create(this->options_));
    model_.clear();
    for (int key = 0; key < kStaying; ++key) Set(key);
    for (int i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) {
      ExpectEachOnce();
    }
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
    EXPECT_GT(steps_, 0);
  }

  std::unique_ptr<CacheType> cache_;
  std::map<int, int64_t> model_;
  std::mt19937_64 random_{TestSeed()};
  bool is_growing_ = true;
  int64_t values_ = 0;
  int64_t steps_ = 0;
};

using Hashes = ::testing::Types<MixedHash, OneHash, FewHashes, PairedHash>;
TYPED_TEST_SUITE(ForEachChurnTest, Hashes);

// Promise: Every value is seen once
TYPED_TEST(ForEachChurnTest, WhatStaysIsShownOnceAndTheRestAtMostOnce) {
  for (const int64_t budget : {1, 5, 64}) {
    for (const int shards : {1, 4}) this->Run(shards, budget, 2);
  }
}

// Nothing stays, and the index begins anew again and again.
TYPED_TEST(ForEachChurnTest, ClearAtAnyStepEndsInPeace) {
  this->options_.maintenance_budget = 1;
  this->cache_ = std::move(*TestFixture::CacheType::Create(this->options_));
  for (int at = 0; at < 40; ++at) {
    for (int key = 0; key < 200; ++key) this->Set(key);
    int steps = 0;
    churn = [&] {
      if (steps++ == at) {
        this->cache_->Clear();
        this->model_.clear();
        for (int key = 300; key < 350; ++key) this->Set(key);
      }
    };
    std::map<int64_t, int> times;
    EXPECT_TRUE(this->cache_->ForEach([&](const auto& handle) {
      EXPECT_EQ(++times[*handle], 1);
      EXPECT_EQ(this->model_.count(handle.key()), 1u);
      return true;
    }));
    churn = nullptr;
  }
}

// Very many keys with hashes from one corner, so that they share few home
// buckets, but no two hashes are equal.
class CrowdedForEachTest : public ForEachChurnTest<MixedHash> {};

// Expects that ForEach shows each of the keys once, and in none of its steps
// more than the budget and a bucket; `change` comes before each step.
template <typename CacheType>
void ExpectSmallSteps(CacheType* cache, const std::vector<int>& keys,
                      const std::function<void()>& change) {
  int since_step = 0;
  int most_in_a_step = 0;
  churn = [&] {
    since_step = 0;
    change();
  };
  std::map<int, int> times;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    ++times[handle.key()];
    most_in_a_step = std::max(most_in_a_step, ++since_step);
    return true;
  }));
  churn = nullptr;
  for (const int key : keys) ASSERT_EQ(times[key], 1);
  EXPECT_LE(most_in_a_step, 16 + 12);
}

// Promise: No long pauses
TEST_F(CrowdedForEachTest, StepKeepsToTheBudgetAndShowsEachOnce) {
  std::vector<int> keys;
  for (int key = 0; keys.size() < 1000; ++key) {
    const auto hash = internal::HashKey<MixedHash>(key);
    if (hash.for_index >> 22 == 77) keys.push_back(key);
  }
  options_.shards = 1;
  options_.maintenance_budget = 16;
  cache_ = std::move(*CacheType::Create(options_));
  for (const int key : keys) cache_->Set(key, key);
  ExpectSmallSteps(cache_.get(), keys, [&] {
    // Grows slowly, without an end to the crowd.
    cache_->Set(static_cast<int>(random_() % 1000) + 100'000'000, 1);
  });
}

TEST_F(CrowdedForEachTest, StepKeepsToTheBudgetWhereAllHashesAreEqual) {
  options_.shards = 1;
  options_.maintenance_budget = 16;
  auto cache = std::move(*Cache<int, int, OneHash>::Create(options_));
  std::vector<int> keys(500);
  std::iota(keys.begin(), keys.end(), 0);
  for (const int key : keys) cache->Set(key, key);
  ExpectSmallSteps(cache.get(), keys, [] {});
}

// Half of the entries of each page leave, and maintenance before each step
// moves the others together.
TEST_F(CrowdedForEachTest, EntriesThatMoveAreShownOnce) {
  constexpr int kKeys = 40'000;
  options_.shards = 2;
  auto cache = New<int, std::string>();
  const auto value_of = [](int key) { return std::string(300 + key % 7, 'x'); };
  for (int key = 0; key < kKeys; ++key) cache->Set(key, value_of(key));
  for (int key = 0; key < kKeys; ++key) {
    if (key % 4 != 0) cache->Del(key);
  }
  std::map<int, const char*> places;
  for (int key = 0; key < kKeys; key += 4) {
    cache->Visit(key, [&](std::string_view v) { places[key] = v.data(); });
  }
  churn = [&] { cache->RunMaintenance(50); };
  std::map<int, int> times;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    EXPECT_EQ(*handle, value_of(handle.key()));
    ++times[handle.key()];
    return true;
  }));
  churn = nullptr;
  int moved = 0;
  for (int key = 0; key < kKeys; key += 4) {
    ASSERT_EQ(times[key], 1) << key;
    cache->Visit(key,
                 [&](std::string_view v) { moved += v.data() != places[key]; });
  }
  EXPECT_EQ(times.size(), size_t{kKeys / 4});
  EXPECT_GT(moved, 100) << "nothing was put to the test";
}

}  // namespace
}  // namespace wheelcache
