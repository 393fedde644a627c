#include "wheelcache/cache/internal/advice/use_ranks.h"

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

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
    if (!model_.empty() && step % 4 == 0) Check(random() % model_.size());
  }
  ASSERT_EQ(ranks_->size(), model_.size());
  for (size_t i = 0; i < model_.size(); i += 97) Check(i);
}

TEST_F(UseRanksTest, OldestIsTheOnePushedFirst) {
  for (uint32_t i = 0; i < 300; ++i) Push(i, 1);
  for (uint32_t i = 0; i < 300; ++i) {
    ASSERT_EQ(ranks_->Oldest(), i);
    Remove(0);
  }
  EXPECT_TRUE(ranks_->empty());
  EXPECT_EQ(ranks_->weight(), 0u);
}

TEST_F(UseRanksTest, HoldsAllKeysAtOnceAndPacksThem) {
  for (uint32_t i = 0; i < UseRanks::kMostKeys; ++i) Push(i, i);
  for (uint32_t i = 0; i < UseRanks::kMostKeys; ++i) {
    Remove(0);
    Push(i, i);
  }
  EXPECT_TRUE(ranks_->full());
  Pack();
  EXPECT_FALSE(ranks_->full());
  Check(0);
  Check(UseRanks::kMostKeys / 2);
  Check(UseRanks::kMostKeys - 1);
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
