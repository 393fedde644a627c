#include "wheelcache/tests/testing/shrink.h"

#include <numeric>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(ShrinkTest, LeavesWhatTheFailureNeeds) {
  const auto fails = [](const std::vector<int>& numbers) {
    return absl::c_linear_search(numbers, 17) &&
           absl::c_linear_search(numbers, 800) &&
           absl::c_linear_search(numbers, 801);
  };
  EXPECT_THAT(Shrink(Numbers(1000), fails), ElementsAre(17, 800, 801));
}

TEST(ShrinkTest, LeavesNothingWhereNothingIsNeeded) {
  EXPECT_THAT(Shrink(Numbers(10), [](const std::vector<int>&) { return true; }),
              ElementsAre());
}

TEST(ShrinkTest, LeavesNoItemThatCanGo) {
  // What fails are sums from 100 on, so which numbers stay is open.
  const auto fails = [](const std::vector<int>& numbers) {
    return absl::c_accumulate(numbers, 0) >= 100;
  };
  const std::vector<int> few = Shrink(Numbers(50), fails);
  EXPECT_TRUE(fails(few));
  for (size_t i = 0; i < few.size(); ++i) {
    std::vector<int> fewer = few;
    fewer.erase(fewer.begin() + static_cast<int>(i));
    EXPECT_FALSE(fails(fewer));
  }
}

}  // namespace
}  // namespace wheelcache
