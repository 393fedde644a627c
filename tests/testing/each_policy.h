// Runs each test of a suite with both eviction policies, and with advice in one
// of them.
//
//   class MyTest : public testing::WithEachPolicy<CacheEnvironment> {};
//   INSTANTIATE_TEST_SUITE_P(Policies, MyTest, testing::EachPolicy());
//
//   TEST_P(MyTest, SetIsVisible) {
//     auto cache = New<int, int>();  // With the policy in options_.
//     ...
//   }

#ifndef WHEELCACHE_TESTS_TESTING_EACH_POLICY_H_
#define WHEELCACHE_TESTS_TESTING_EACH_POLICY_H_

#include <ostream>

#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"

namespace wheelcache::testing {

struct PolicySetup {
  EvictionPolicy policy;
  bool advise;

  friend std::ostream& operator<<(std::ostream& out, const PolicySetup& setup) {
    const bool is_lru = setup.policy == EvictionPolicy::kLru;
    return out << (is_lru ? "LRU" : "scan-resistant")
               << (setup.advise ? ", advised" : "");
  }
};

inline auto EachPolicy() {
  return ::testing::Values(PolicySetup{EvictionPolicy::kLru, false},
                           PolicySetup{EvictionPolicy::kScanResistant, true});
}

// An environment that has options_.
template <typename Environment>
class WithEachPolicy : public Environment,
                       public ::testing::WithParamInterface<PolicySetup> {
 protected:
  WithEachPolicy() {
    this->options_.policy = GetParam().policy;
    this->options_.advise = GetParam().advise;
  }
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_EACH_POLICY_H_
