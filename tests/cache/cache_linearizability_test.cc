// Histories of short concurrent scripts on few keys, each of which must be
// explained by calls that took effect one after the other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/tests/testing/cache_history.h"
#include "wheelcache/tests/testing/history_script.h"
#include "wheelcache/tests/testing/history_stage.h"
#include "wheelcache/tests/testing/linearizability.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

// The time at which a history begins.
CacheState InitialState(const CacheHistory& history, int64_t idle_ttl) {
  CacheState state;
  state.now = kForever;
  state.idle_ttl = idle_ttl;
  for (const auto& recorded : history) {
    state.now = std::min(state.now, recorded.call.time_before);
  }
  return state;
}

class CacheLinearizabilityTest : public ::testing::TestWithParam<HistorySetup> {
};

// Promise: Each call takes effect at one instant
TEST_P(CacheLinearizabilityTest, EachHistoryIsThatOfCallsOneAfterTheOther) {
#ifdef NDEBUG
  GTEST_SKIP() << "an engine that does not yield";
#endif
  internal::SetInterleaving(&HistoryStage::MayYield);
  constexpr size_t kBatch = 100;
  const uint64_t histories = TestHistories();
  int64_t yields = 0;
  int64_t evictions = 0;
  for (uint64_t done = 0; done < histories; done += kBatch) {
    const uint64_t seed = TestSeed() + done;
    HistoryStage stage(GetParam());
    const std::vector<CacheHistory> batch = stage.Play(seed, kBatch);
    for (size_t i = 0; i < batch.size(); ++i) {
      const CacheState begin = InitialState(batch[i], GetParam().idle_ttl);
      ASSERT_TRUE(IsLinearizable(batch[i], begin, AfterCall))
          << "the scripts are those of WHEELCACHE_TEST_SEED=" << seed + i
          << "\n"
          << batch[i];
    }
    ASSERT_TRUE(stage.CheckInvariants().ok()) << stage.CheckInvariants();
    ASSERT_TRUE(stage.CheckMemory().ok()) << stage.CheckMemory();
    yields += stage.yields();
    evictions += stage.evictions();
  }
  // Otherwise the engine was not built for this.
  EXPECT_GT(yields, static_cast<int64_t>(histories));
  const bool is_limited = GetParam().max_entries < kHistoryKeys;
  EXPECT_EQ(evictions > 0, is_limited);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, CacheLinearizabilityTest,
    ::testing::Values(
        HistorySetup{2, 6, 1, 0}, HistorySetup{2, 6, 1, 6, 4},
        HistorySetup{3, 5, 1, 0}, HistorySetup{3, 5, 4, 0},
        HistorySetup{4, 4, 1, 6},
        HistorySetup{4, 4, 8, 0, 4, false, false, false, true, 2},
        HistorySetup{2, 6, 1, 0, 0, true}, HistorySetup{3, 5, 1, 6, 4, true},
        HistorySetup{4, 4, 4, 0, 0, true},
        HistorySetup{2, 6, 1, 0, 0, false, true},
        HistorySetup{3, 5, 1, 0, 4, true, true},
        HistorySetup{4, 4, 4, 0, 0, false, true},
        HistorySetup{3, 5, 1, 6, 4, false, false, true, true, 2},
        HistorySetup{3, 5, 4, 0, 0, true, true, true, false, 2},
        HistorySetup{2, 6, 1, 0, 0, false, false, false, false, 1'000, 2},
        HistorySetup{4, 4, 4, 0, 4, true, false, false, false, 1'000, 1},
        HistorySetup{3, 5, 1, 0, 0, true, true, true, true, 2, 2}));

}  // namespace
}  // namespace wheelcache
