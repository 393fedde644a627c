// ForEach while the cache is changed before each of its steps: by what makes
// its index grow and shrink, by removals, by Clear, and by moves of entries in
// memory.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

// What happens before each step of a ForEach.
std::function<void()> churn;

void AtEachStep(const char* point) {
  if (std::string_view(point) != "iteration: before a step") return;
  if (churn) std::exchange(churn, nullptr)();
}

struct MixedHash : DefaultHash<int> {
  static constexpr const char* kName = "mixed";
};
struct OneHash {
  static constexpr const char* kName = "one";
  size_t operator()(int) const { return 42; }
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
      const int key = kStaying + static_cast<int>(random_() % 3000);
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
    const std::function<void()> again = [&] {
      ChurnOnce();
      ++steps_;
      churn = again;
      at_step_ = model_;
    };
    churn = again;
    EXPECT_TRUE(cache_->ForEach([&](const auto& handle) {
      EXPECT_EQ(++times[*handle], 1) << "key " << handle.key();
      const auto it = at_step_.find(handle.key());
      if (it == at_step_.end() || it->second != *handle) {
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
    SCOPED_TRACE(testing::Message() << Hash::kName << ", " << shards
                                    << " shards, budget " << budget);
    this->options_.shards = shards;
    this->options_.maintenance_budget = budget;
    cache_ = std::move(*CacheType::Create(this->options_));
    model_.clear();
    for (int key = 0; key < kStaying; ++key) Set(key);
    for (int i = 0; i < rounds && !testing::Test::HasFailure(); ++i) {
      ExpectEachOnce();
    }
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
    EXPECT_GT(steps_, 0);
  }

  std::unique_ptr<CacheType> cache_;
  std::map<int, int64_t> model_;
  std::map<int, int64_t> at_step_;
  std::mt19937_64 random_{TestSeed()};
  bool is_growing_ = true;
  int64_t values_ = 0;
  int64_t steps_ = 0;
};

using Hashes = testing::Types<MixedHash, OneHash, FewHashes, PairedHash>;
TYPED_TEST_SUITE(ForEachChurnTest, Hashes);

TYPED_TEST(ForEachChurnTest, WhatStaysIsShownOnceAndTheRestAtMostOnce) {
  for (const int64_t budget : {1, 5, 64}) {
    for (const int shards : {1, 4}) this->Run(shards, budget, 3);
  }
}

// Nothing stays, and the index begins anew again and again.
TYPED_TEST(ForEachChurnTest, ClearAtAnyStepEndsInPeace) {
  this->options_.maintenance_budget = 1;
  this->cache_ = std::move(*TestFixture::CacheType::Create(this->options_));
  for (int at = 0; at < 40; ++at) {
    for (int key = 0; key < 200; ++key) this->Set(key);
    int steps = 0;
    const std::function<void()> again = [&] {
      if (steps++ == at) {
        this->cache_->Clear();
        this->model_.clear();
        for (int key = 300; key < 350; ++key) this->Set(key);
      }
      this->at_step_ = this->model_;
      churn = again;
    };
    churn = again;
    std::map<int64_t, int> times;
    EXPECT_TRUE(this->cache_->ForEach([&](const auto& handle) {
      EXPECT_EQ(++times[*handle], 1);
      EXPECT_EQ(this->at_step_.count(handle.key()), 1u);
      return true;
    }));
    churn = nullptr;
  }
}

// Very many keys with hashes from one corner, so that they share few home
// buckets, but no two hashes are equal.
class CrowdedForEachTest : public ForEachChurnTest<MixedHash> {};

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
  int since_step = 0;
  int most_in_a_step = 0;
  const std::function<void()> again = [&] {
    since_step = 0;
    churn = again;
    // Grows slowly, without an end to the crowd.
    cache_->Set(static_cast<int>(random_() % 1000) + 100'000'000, 1);
  };
  churn = again;
  std::map<int, int> times;
  EXPECT_TRUE(cache_->ForEach([&](const auto& handle) {
    ++times[handle.key()];
    most_in_a_step = std::max(most_in_a_step, ++since_step);
    return true;
  }));
  for (const int key : keys) ASSERT_EQ(times[key], 1);
  EXPECT_LE(most_in_a_step, 16 + 12);
}

TEST_F(CrowdedForEachTest, StepKeepsToTheBudgetWhereAllHashesAreEqual) {
  options_.shards = 1;
  options_.maintenance_budget = 16;
  auto cache = std::move(*Cache<int, int, OneHash>::Create(options_));
  for (int key = 0; key < 500; ++key) cache->Set(key, key);
  int since_step = 0;
  int most_in_a_step = 0;
  const std::function<void()> again = [&] {
    since_step = 0;
    churn = again;
  };
  churn = again;
  int shown = 0;
  EXPECT_TRUE(cache->ForEach([&](const auto&) {
    ++shown;
    most_in_a_step = std::max(most_in_a_step, ++since_step);
    return true;
  }));
  EXPECT_EQ(shown, 500);
  EXPECT_LE(most_in_a_step, 16 + 12);
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
  const std::function<void()> again = [&] {
    cache->RunMaintenance(50);
    churn = again;
  };
  churn = again;
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
