// FindOrLoadMany: one call of the loader for all that are missing.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

using IntCache = Cache<int, int>;
using Results = std::vector<absl::StatusOr<Loaded<int>>>;
using Positions = std::vector<size_t>;

class CacheLoadManyTest : public CacheEnvironment {
 protected:
  // Loads ten times each key, and notes for which positions it was asked.
  auto TenTimes(const std::vector<int>& keys) {
    return [this, &keys](absl::Span<const size_t> missing) {
      asked_.emplace_back(missing.begin(), missing.end());
      Results results;
      for (const size_t i : missing) {
        results.emplace_back(Loaded<int>{keys[i] * 10});
      }
      return results;
    };
  }
  static std::vector<int> Values(
      const std::vector<absl::StatusOr<IntCache::Handle>>& results) {
    std::vector<int> values;
    for (const auto& result : results) {
      values.push_back(result.ok() ? **result : -1);
    }
    return values;
  }

  std::unique_ptr<IntCache> cache_ = New<int, int>();
  std::vector<Positions> asked_;
};

TEST_F(CacheLoadManyTest, LoaderIsCalledOnceForWhatIsMissing) {
  cache_->Set(2, 22);
  const std::vector<int> keys = {1, 2, 3};
  EXPECT_EQ(Values(cache_->FindOrLoadMany(keys, {}, TenTimes(keys))),
            (std::vector<int>{10, 22, 30}));
  EXPECT_EQ(asked_, (std::vector<Positions>{{0, 2}}));
  EXPECT_EQ(Values(cache_->FindOrLoadMany(keys, {}, TenTimes(keys))),
            (std::vector<int>{10, 22, 30}));
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(CacheLoadManyTest, KeyThatComesTwiceIsLoadedOnce) {
  const std::vector<int> keys = {4, 4, 5, 4};
  EXPECT_EQ(Values(cache_->FindOrLoadMany(keys, {}, TenTimes(keys))),
            (std::vector<int>{40, 40, 50, 40}));
  EXPECT_EQ(asked_, (std::vector<Positions>{{0, 2}}));
}

TEST_F(CacheLoadManyTest, NoKeysCallNoLoader) {
  EXPECT_TRUE(cache_->FindOrLoadMany({}, {}, TenTimes({})).empty());
  EXPECT_TRUE(asked_.empty());
}

TEST_F(CacheLoadManyTest, WrongNumberOfResultsIsAnErrorForAll) {
  const std::vector<int> keys = {1, 2};
  const auto results =
      cache_->FindOrLoadMany(keys, {}, [](absl::Span<const size_t>) {
        Results few;
        few.emplace_back(Loaded<int>{1});
        return few;
      });
  for (const auto& result : results) {
    EXPECT_EQ(result.status(),
              absl::InternalError("the loader returned 1 results for 2 keys"));
  }
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(Values(cache_->FindOrLoadMany(keys, {}, TenTimes(keys))),
            (std::vector<int>{10, 20}));
}

// The batch takes over a load of its own that it has cancelled.
TEST_F(CacheLoadManyTest, KeyThatIsLoadedLaterIsCountedAsWell) {
  const auto results =
      cache_->FindOrLoadMany({1, 1}, {}, [](absl::Span<const size_t> missing) {
        Results one;
        if (missing[0] == 0) one.emplace_back(absl::CancelledError("later"));
        return one;
      });
  EXPECT_TRUE(absl::IsCancelled(results[0].status()));
  EXPECT_EQ(results[1].status(),
            absl::InternalError("the loader returned 0 results for 1 keys"));
  EXPECT_EQ(Values(cache_->FindOrLoadMany({1}, {}, TenTimes({1}))),
            std::vector<int>{10});
}

TEST_F(CacheLoadManyTest, KeyThatAnotherGivesUpIsLoadedAlone) {
  auto other = cache_->BeginLoad(2, {}, [](const auto&) {});
  const std::vector<int> keys = {1, 2};
  const auto load = TenTimes(keys);
  const auto results =
      cache_->FindOrLoadMany(keys, {}, [&](absl::Span<const size_t> missing) {
        other = IntCache::Ticket();
        return load(missing);
      });
  EXPECT_EQ(Values(results), (std::vector<int>{10, 20}));
  EXPECT_EQ(asked_, (std::vector<Positions>{{0}, {1}}));
}

TEST_F(CacheLoadManyTest, EachKeyMayFailOnItsOwn) {
  const std::vector<int> keys = {1, 2};
  const auto results =
      cache_->FindOrLoadMany(keys, {}, [](absl::Span<const size_t>) {
        Results mixed;
        mixed.emplace_back(absl::NotFoundError("one"));
        mixed.emplace_back(Loaded<int>{20});
        return mixed;
      });
  EXPECT_EQ(results[0].status(), absl::NotFoundError("one"));
  EXPECT_EQ(**results[1], 20);
}

// With loads open, no thread may wait for the other.
TEST_F(CacheLoadManyTest, BatchesInOppositeOrdersDoNotBlockEachOther) {
  constexpr int kKeys = 50;
  std::vector<int> up;
  for (int key = 0; key < kKeys; ++key) up.push_back(key);
  const std::vector<int> down(up.rbegin(), up.rend());
  for (int round = 0; round < 100; ++round) {
    cache_->Clear();
    const auto load = [&](const std::vector<int>& keys) {
      const auto results = cache_->FindOrLoadMany(
          keys, {}, [&](absl::Span<const size_t> missing) {
            Results loaded;
            for (const size_t i : missing) {
              loaded.emplace_back(Loaded<int>{keys[i] * 10});
            }
            return loaded;
          });
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(**results[i], keys[i] * 10);
      }
    };
    std::thread other([&] { load(down); });
    load(up);
    other.join();
  }
  EXPECT_TRUE(cache_->CheckInvariants().ok());
}

}  // namespace
}  // namespace wheelcache
