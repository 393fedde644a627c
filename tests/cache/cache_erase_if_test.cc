// EraseIf: what it removes, and what it leaves alone.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Told = Removal<int, int>;

class EraseIfTest : public CacheEnvironment {
 protected:
  static Told Deleted(int key, int value) {
    return {key, value, RemovalCause::kDeleted, {}};
  }
};

TEST_F(EraseIfTest, RemovesWhatThePredicateChoosesAndCountsIt) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = New<int, int>();
    for (int key = 0; key < 1000; ++key) cache->Set(key, key);
    EXPECT_EQ(cache->EraseIf([](const auto& h) { return *h % 3 == 0; }), 334);
    EXPECT_EQ(cache->size(), 666);
    for (int key = 0; key < 1000; ++key) {
      EXPECT_EQ(cache->Contains(key), key % 3 != 0);
    }
    EXPECT_EQ(cache->stats().deletes, 334);
    EXPECT_EQ(cache->EraseIf([](const auto&) { return false; }), 0);
    EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 666);
    EXPECT_EQ(cache->size(), 0);
    EXPECT_EQ(cache->bytes(), 0);
    EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_F(EraseIfTest, ListenerIsToldOfDeletions) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  for (int key = 0; key < 4; ++key) cache->Set(key, 10 * key);
  cache->EraseIf([](const auto& handle) { return handle.key() >= 2; });
  EXPECT_THAT(log.Take(), UnorderedElementsAre(Deleted(2, 20), Deleted(3, 30)));
}

TEST_F(EraseIfTest, ListenerMayEraseToo) {
  Cache<int, int>* erased_from = nullptr;
  std::vector<int> told;
  Cache<int, int>::Hooks hooks;
  hooks.on_removal = [&](int key, int, RemovalCause) {
    told.push_back(key);
    if (key < 1000) {
      EXPECT_LE(erased_from->EraseIf(
                    [&](const auto& h) { return h.key() == key + 1000; }),
                1);
    }
  };
  auto cache = New<int, int>(std::move(hooks));
  erased_from = cache.get();
  for (int key = 0; key < 50; ++key) {
    cache->Set(key, key);
    cache->Set(key + 1000, key);
  }
  EXPECT_EQ(cache->EraseIf([](const auto& h) { return h.key() < 1000; }), 50);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(told.size(), 100u);
}

TEST_F(EraseIfTest, ExceptionOfThePredicateLeavesTheRest) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  for (int key = 0; key < 100; ++key) cache->Set(key, key);
  int seen = 0;
  EXPECT_THROW(cache->EraseIf([&](const auto&) {
    if (++seen == 31) throw 1;
    return true;
  }),
               int);
  EXPECT_EQ(cache->size(), 70);
  EXPECT_EQ(log.Take().size(), 30u);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

TEST_F(EraseIfTest, PredicateMayCallTheCache) {
  auto cache = New<int, int>();
  for (int key = 0; key < 300; ++key) cache->Set(key, key);
  EXPECT_EQ(cache->EraseIf([&](const auto& handle) {
    const int key = handle.key();
    EXPECT_EQ(cache->Get(key), key);
    if (key % 3 == 0) {
      EXPECT_TRUE(cache->Del(key));  // Before EraseIf does.
    }
    if (key % 3 == 1) {
      EXPECT_TRUE(cache->Set(key, key));
    }
    return true;
  }),
            100)
      << "neither what was deleted nor what came in the place of another";
  EXPECT_EQ(cache->size(), 100);
}

TEST_F(EraseIfTest, ValueThatExpiresUnderThePredicateIsNotErased) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->EraseIf([&](const auto&) {
    clock_.Advance(absl::Seconds(1));
    return true;
  }),
            0);
  cache->RunMaintenance();
  EXPECT_THAT(log.Take(), ElementsAre(Told{1, 10, RemovalCause::kExpired, {}}));
}

TEST_F(EraseIfTest, TouchSparesNothing) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->EraseIf([&](const auto&) {
    EXPECT_TRUE(cache->Touch(1, absl::Seconds(5)));
    clock_.Advance(absl::Seconds(2));
    return true;
  }),
            1);
}

// The loader cannot know of the invalidation, nor the predicate of its value.
TEST_F(EraseIfTest, SupersedesEveryLoadInFlight) {
  options_.shards = 8;
  auto cache = New<int, int>();
  for (int key = 0; key < 32; ++key) {
    const absl::StatusOr<int> got =
        cache->GetOrLoad(key, [&]() -> absl::StatusOr<int> {
          EXPECT_EQ(cache->EraseIf([](const auto&) { return false; }), 0);
          return 7;
        });
    EXPECT_EQ(*got, 7);
    EXPECT_FALSE(cache->Contains(key));
  }
}

TEST_F(EraseIfTest, LoadThatBeginsWithinItIsStored) {
  auto cache = New<int, int>();
  cache->Set(1, 1);
  cache->EraseIf([&](const auto& handle) {
    EXPECT_EQ(*cache->GetOrLoad(2, []() -> absl::StatusOr<int> { return 3; }),
              3);
    return handle.key() == 1;
  });
  EXPECT_EQ(cache->Peek(2), 3);
}

TEST_F(EraseIfTest, SupersedesBeforeItLooks) {
  auto cache = New<int, int>();
  cache->Set(1, 1);
  // Stored before the predicate's first call, or not at all.
  std::thread loader;
  testing::Notification loads;
  testing::Notification go_on;
  loader = std::thread([&] {
    EXPECT_EQ(*cache->GetOrLoad(2,
                                [&]() -> absl::StatusOr<int> {
                                  loads.Notify();
                                  go_on.Wait();
                                  return 3;
                                }),
              3);
  });
  loads.Wait();
  cache->EraseIf([&](const auto&) {
    if (loader.joinable()) {
      go_on.Notify();
      loader.join();
      EXPECT_FALSE(cache->Contains(2));
    }
    return true;
  });
  EXPECT_EQ(cache->size(), 0);
}

class EraseIfRaceTest : public InterruptedCacheEnvironment {};

TEST_F(EraseIfRaceTest, SparesWhatCameAfterThePredicate) {
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  cache->Set(1, 10);
  At("remove if: before the lock", [&] { cache->Set(1, 10); });
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
  EXPECT_EQ(cache->Peek(1), 10);
  At("remove if: before the lock", [&] {
    cache->Del(1);
    cache->Set(1, 11);
  });
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
  EXPECT_EQ(cache->Peek(1), 11);
  At("remove if: before the lock", [&] { cache->Clear(); });
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 0);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

// The block of what was seen is pinned, so that no other entry may have it.
TEST_F(EraseIfRaceTest, SparesWhatWouldHaveTheSameMemory) {
  auto cache = New<int, std::string>();
  cache->Set(1, std::string(100, 'a'));
  At("remove if: before the lock", [&] {
    cache->Del(1);
    cache->RunMaintenance();
    for (int key = 1; key < 50; ++key) cache->Set(key, std::string(100, 'b'));
  });
  EXPECT_EQ(cache->EraseIf([](const auto& h) { return (*h)[0] == 'a'; }), 0);
  EXPECT_EQ(cache->size(), 49);
}

}  // namespace
}  // namespace wheelcache
