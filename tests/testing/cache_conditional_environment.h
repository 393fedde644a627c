// A cache of strings with a listener, for tests of conditional calls.
//
//   const StringHandle old = SetAndFind(1, "old");
//   EXPECT_EQ(cache_->SetIf(1, old, "new"), Put::kStored);
//   EXPECT_THAT(log_.Take(),
//               ElementsAre(Left(1, "old", RemovalCause::kReplaced)));

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_CONDITIONAL_ENVIRONMENT_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_CONDITIONAL_ENVIRONMENT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {

inline Removal<int, std::string> Left(int key, std::string value,
                                      RemovalCause cause) {
  return {key, std::move(value), cause, {}};
}
using StringHandle = CacheHandle<int, std::string>;
inline constexpr std::nullopt_t kNoTtl = std::nullopt;

class CacheConditionalEnvironment : public CacheEnvironment {
 protected:
  using StringCache = Cache<int, std::string>;

  CacheConditionalEnvironment() {
    options_.max_bytes = 10'000;
    options_.default_ttl = absl::Minutes(5);
    cache_ = New<int, std::string>(log_.hooks());
  }
  ~CacheConditionalEnvironment() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  // A handle on the value, which is then the key's.
  StringHandle SetAndFind(int key, const std::string& value,
                          absl::Duration ttl = absl::InfiniteDuration()) {
    cache_->Set(key, value, ttl);
    return cache_->Find(key);
  }

  RemovalLog<int, std::string> log_;
  std::unique_ptr<StringCache> cache_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_CONDITIONAL_ENVIRONMENT_H_
