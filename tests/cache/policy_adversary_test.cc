// The scan-resistant policy against workloads made to defeat it: in a cache of
// 1,000 entries or more its hit ratio over some fifty requests an entry is
// never more than two points below that of LRU.

#include "wheelcache/tests/testing/policy_adversary.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

using testing::HitRatio;
using testing::PolicyAdversary;
using testing::Workload;

class PolicyAdversaryTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void ExpectNoLossOn(const Workload& keys) {
    const double lru = HitRatio(keys, GetParam(), EvictionPolicy::kLru);
    const double policy =
        HitRatio(keys, GetParam(), EvictionPolicy::kScanResistant);
    RecordProperty("lru", std::to_string(lru));
    RecordProperty("scan_resistant", std::to_string(policy));
    EXPECT_GE(policy, lru - 0.02) << "LRU: " << lru;
  }

  PolicyAdversary adversary_{GetParam(), TestSeed()};
};

TEST_P(PolicyAdversaryTest, FloodOfKeysThatCollide) {
  ExpectNoLossOn(adversary_.FloodOfKeysThatCollide());
}

TEST_P(PolicyAdversaryTest, ScansThatResetEachHotKey) {
  ExpectNoLossOn(adversary_.ScansThatResetEachHotKey());
}

TEST_P(PolicyAdversaryTest, LoopThatJustFits) {
  ExpectNoLossOn(adversary_.LoopThatJustFits());
}

TEST_P(PolicyAdversaryTest, AbruptChangeOfTheKeys) {
  ExpectNoLossOn(adversary_.AbruptChangeOfTheKeys());
}

TEST_P(PolicyAdversaryTest, AbruptChangeToAnotherSetThatFits) {
  ExpectNoLossOn(adversary_.AbruptChangeToAnotherSetThatFits());
}

TEST_P(PolicyAdversaryTest, Sessions) { ExpectNoLossOn(adversary_.Sessions()); }

TEST_P(PolicyAdversaryTest, SessionsThatDoNotFit) {
  ExpectNoLossOn(adversary_.SessionsThatDoNotFit());
}

TEST_P(PolicyAdversaryTest, News) { ExpectNoLossOn(adversary_.News()); }

// A large cache is for optimized builds.
std::vector<int64_t> Sizes() {
#ifdef NDEBUG
  return {1'000, 10'000};
#else
  return {1'000};
#endif
}

INSTANTIATE_TEST_SUITE_P(Entries, PolicyAdversaryTest,
                         ::testing::ValuesIn(Sizes()));

}  // namespace
}  // namespace wheelcache
