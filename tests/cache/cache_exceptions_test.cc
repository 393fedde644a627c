// What exceptions of user code leave behind: a cache as it was, nothing that is
// held or leaks.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/each_policy.h"

namespace wheelcache {
namespace {

std::atomic<int64_t> objects{0};

// A key or value of which so many copies and moves will succeed, and then one
// throws.
struct Fragile : testing::Counted {
  static inline int intact = -1;

  explicit Fragile(int n) : Counted(&objects), number(n) {}
  Fragile(const Fragile& other) : Counted(other), number(other.number) {
    MaybeThrow();
  }
  // NOLINTNEXTLINE(performance-noexcept-move-constructor)
  Fragile(Fragile&& other) : Counted(other), number(other.number) {
    MaybeThrow();
  }

  const int number;

 private:
  static void MaybeThrow() {
    if (intact-- == 0) throw std::runtime_error("broken");
  }
};

struct HashFragile {
  size_t operator()(const Fragile& fragile) const { return fragile.number; }
};
struct EqualFragile {
  bool operator()(const Fragile& a, const Fragile& b) const {
    return a.number == b.number;
  }
};

template <typename Value>
using FragileCache = Cache<Fragile, Value, HashFragile, EqualFragile>;

class CacheExceptionsTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  CacheExceptionsTest() { cache_->Set(old_, Fragile(10)); }
  ~CacheExceptionsTest() override {
    ExpectWhole();
    cache_ = nullptr;
    EXPECT_EQ(objects.load(), 2) << "besides the keys of the test";
  }

  // Has the first copy or move of `call` throw, the second, and so on, each of
  // which must change nothing. Returns how many there are.
  template <typename Call>
  int BreakEachConstruction(Call&& call) {
    for (int intact = 0;; ++intact) {
      const int64_t objects_before = objects.load();
      const int64_t sets_before = cache_->stats().sets;
      Fragile::intact = intact;
      try {
        call();
      } catch (const std::runtime_error&) {
        EXPECT_EQ(objects.load(), objects_before);
        EXPECT_EQ(cache_->stats().sets, sets_before);
        EXPECT_EQ(ValueOf(old_), 10);
        EXPECT_EQ(cache_->size(), 1);
        ExpectWhole();
        continue;
      }
      Fragile::intact = -1;
      return intact;
    }
  }

  // The number of the key's value, or 0.
  int ValueOf(const Fragile& key) {
    int number = 0;
    cache_->Visit(key, [&](const Fragile& value) { number = value.number; });
    return number;
  }

  void ExpectWhole() {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  const Fragile old_{1};
  const Fragile new_{2};
  std::unique_ptr<FragileCache<Fragile>> cache_ =
      *FragileCache<Fragile>::Create(options_);
};

TEST_P(CacheExceptionsTest, SetThatCannotCopyChangesNothing) {
  for (const Fragile* const key : {&new_, &old_}) {
    const Fragile value(20);
    EXPECT_EQ(BreakEachConstruction([&] { cache_->Set(*key, value); }), 2);
    EXPECT_EQ(ValueOf(*key), 20);
    cache_->Del(new_);
  }
}

TEST_P(CacheExceptionsTest, SetThatCannotMoveChangesNothing) {
  for (const int key : {2, 1}) {
    EXPECT_EQ(
        BreakEachConstruction([&] { cache_->Set(Fragile(key), Fragile(20)); }),
        2);
    EXPECT_EQ(ValueOf(Fragile(key)), 20);
    cache_->Del(new_);
  }
}

TEST_P(CacheExceptionsTest, SetIfThatCannotCopyChangesNothing) {
  const Fragile value(20);
  const auto set_if = [&](const Fragile& key) {
    EXPECT_EQ(cache_->SetIf(key, cache_->Find(key), value), Put::kStored);
  };
  EXPECT_EQ(BreakEachConstruction([&] { set_if(new_); }), 2);
  EXPECT_EQ(ValueOf(new_), 20);
  cache_->Del(new_);
  EXPECT_EQ(BreakEachConstruction([&] { set_if(old_); }), 2);
  EXPECT_EQ(ValueOf(old_), 20);
}

TEST_P(CacheExceptionsTest, UpdateThatCannotCopyChangesNothing) {
  using Decision = FragileCache<Fragile>::Decision;
  const Fragile value(20);
  const auto update = [&](const Fragile& key) {
    EXPECT_TRUE(
        cache_->Update(key, [&](const auto&) { return Decision::Set(value); }));
  };
  EXPECT_GE(BreakEachConstruction([&] { update(new_); }), 3);
  EXPECT_EQ(ValueOf(new_), 20);
  cache_->Del(new_);
  EXPECT_GE(BreakEachConstruction([&] { update(old_); }), 3);
  EXPECT_EQ(ValueOf(old_), 20);
}

TEST_P(CacheExceptionsTest, ReadThatCannotCopyChangesNothing) {
  EXPECT_EQ(BreakEachConstruction([&] { (void)cache_->Peek(old_); }), 1);
  EXPECT_GE(BreakEachConstruction([&] { (void)cache_->Get(old_); }), 1);
}

TEST_P(CacheExceptionsTest, LoadThatCannotCopyItsKeyIsNotLeftBehind) {
  auto cache = *FragileCache<int>::Create(options_);
  int loads = 0;
  const auto load = [&] { return absl::StatusOr<int>(++loads); };
  const int constructions = BreakEachConstruction([&] {
    EXPECT_EQ(cache->size(), 0);
    EXPECT_TRUE(cache->GetOrLoad(new_, load).ok());
  });
  EXPECT_GE(constructions, 2);  // Into the load and into the cache.
  EXPECT_EQ(cache->Get(new_), loads);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

TEST_P(CacheExceptionsTest, VisitorThatThrowsEndsItsRead) {
  const int64_t objects_before = objects.load();
  EXPECT_THROW(cache_->Visit(old_,
                             [](const Fragile&) {
                               throw std::runtime_error("of the visitor");
                             }),
               std::runtime_error);
  // What leaves is held back by nobody.
  cache_->Del(old_);
  EXPECT_EQ(objects.load(), objects_before - 2);
}

class WeigherExceptionsTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  using WeighedCache = Cache<int, Fragile>;

  static WeighedCache::Hooks ThrowingHooks() {
    WeighedCache::Hooks hooks;
    hooks.weigher = [](int, const Fragile& value) -> uint64_t {
      if (value.number < 0) throw std::runtime_error("negative");
      return 0;
    };
    return hooks;
  }

  std::unique_ptr<WeighedCache> cache_ = New<int, Fragile>(ThrowingHooks());
};

TEST_P(WeigherExceptionsTest, SetThatCannotWeighChangesNothing) {
  cache_->Set(1, Fragile(1));
  EXPECT_THROW(cache_->Set(1, Fragile(-1)), std::runtime_error);
  EXPECT_THROW(cache_->Set(2, Fragile(-1)), std::runtime_error);
  EXPECT_EQ(cache_->Get(1)->number, 1);
  EXPECT_EQ(cache_->size(), 1);
  EXPECT_EQ(cache_->stats().sets, 1);
  EXPECT_EQ(objects.load(), 1);
  EXPECT_TRUE(cache_->CheckInvariants().ok());
}

TEST_P(WeigherExceptionsTest, ConditionalWriteThatCannotWeighChangesNothing) {
  using Decision = WeighedCache::Decision;
  cache_->Set(1, Fragile(1));
  const auto old = cache_->Find(1);
  EXPECT_THROW(cache_->SetIf(1, old, Fragile(-1)), std::runtime_error);
  EXPECT_THROW(cache_->SetIf(2, {}, Fragile(-1)), std::runtime_error);
  EXPECT_THROW(
      cache_->Update(1, [](const auto&) { return Decision::Set(Fragile(-1)); }),
      std::runtime_error);
  EXPECT_EQ(cache_->Get(1)->number, 1);
  EXPECT_EQ(cache_->size(), 1);
  EXPECT_EQ(cache_->stats().sets, 1);
  EXPECT_EQ(objects.load(), 1);
  EXPECT_EQ(cache_->SetIf(1, old, Fragile(2)), Put::kStored);
  EXPECT_TRUE(cache_->CheckInvariants().ok());
}

TEST_P(WeigherExceptionsTest, LoadThatCannotBeWeighedIsNotLeftBehind) {
  const auto load = [&](int number) {
    return cache_->GetOrLoad(
        1, [&] { return absl::StatusOr<Fragile>(Fragile(number)); });
  };
  EXPECT_THROW((void)load(-1), std::runtime_error);
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(objects.load(), 0);
  EXPECT_EQ(load(7)->number, 7);
  EXPECT_TRUE(cache_->CheckInvariants().ok());
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheExceptionsTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, WeigherExceptionsTest,
                         testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
