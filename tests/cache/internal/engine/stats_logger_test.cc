#include "wheelcache/cache/internal/engine/stats_logger.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMinute = 60'000'000'000;

class StatsLoggerTest : public ::testing::Test {
 protected:
  static CacheOptions OptionsThatLogTo(std::vector<std::string>* lines) {
    CacheOptions options;
    options.stats_log = [lines](absl::string_view line) {
      lines->emplace_back(line);
    };
    return options;
  }

  std::vector<std::string> lines_;
  StatsLogger logger_{OptionsThatLogTo(&lines_), /*now_nanos=*/0};
  CacheStats stats_;
};

TEST_F(StatsLoggerTest, LineComesOnceAMinuteWithWhatHasHappenedInIt) {
  stats_.hits = 3;
  logger_.Run(kMinute - 1, stats_);
  EXPECT_THAT(lines_, IsEmpty());
  logger_.Run(kMinute, stats_);
  stats_.misses = 1;
  logger_.Run(kMinute, stats_);
  logger_.Run(2 * kMinute, stats_);
  EXPECT_THAT(lines_, ElementsAre("cache(cache) - qpm: 3, hit_ratio: 100.0%, "
                                  "elements: 0, hit: 3, miss: 0",
                                  "cache(cache) - qpm: 1, hit_ratio: 0.0%, "
                                  "elements: 0, hit: 0, miss: 1"));
  logger_.Run(3 * kMinute, stats_);  // Nobody has read.
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(StatsLoggerTest, NeverIsDueWithoutALog) {
  EXPECT_EQ(StatsLogger(CacheOptions(), 0).due_nanos(), Clock::kNever);
}

}  // namespace
}  // namespace wheelcache::internal
