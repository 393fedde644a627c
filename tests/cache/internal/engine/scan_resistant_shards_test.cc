// Two shards of a scan-resistant cache: which of them evicts for a Set, and how
// much of what fits is a shard's.

#include <cstdint>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/shard_test_base.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::internal {
namespace {

// Both with entries of the same charge, of which a thousand fit.
class ScanResistantShardsTest : public ::testing::Test {
 protected:
  static constexpr int kEntries = 1'000;
  static constexpr uint32_t kCharge = 100;

  ScanResistantShardsTest()
      : ScanResistantShardsTest({kUnlimited, kEntries * kCharge}) {}
  explicit ScanResistantShardsTest(Room limit)
      : options_(Options(limit, &clock_)) {}

  ~ScanResistantShardsTest() override {
    for (Shard* shard : {&first_, &second_}) {
      shard->Lock();
      shard->TakeAllLocked(&departures_);
      shard->Unlock();
    }
    departures_.removed.Dispose([](EntryRef, RemovalCause) {});
    shared_.limbo.DestroyAll();
  }

  static CacheOptions Options(Room limit, Clock* clock) {
    CacheOptions options;
    options.max_entries = limit.entries;
    options.max_bytes = limit.bytes;
    options.shards = 2;
    options.jitter = 0;
    options.clock = clock;
    options.reaper = nullptr;
    options.policy = EvictionPolicy::kScanResistant;
    return options;
  }

  // Each key is a new one.
  StoreOutcome Store(Shard* shard) {
    const Shard::Write write =
        NewIntWrite(shared_.pool.get(), clock_, ++last_key_, kCharge,
                    absl::InfiniteDuration());
    const StoreOutcome outcome = shard->TryStore(write, &departures_);
    departures_.claim.GiveBack();
    if (outcome != StoreOutcome::kStored) shared_.pool->Unpin(write.ref);
    return outcome;
  }

  void Fill(Shard* shard, int entries) {
    for (int i = 0; i < entries; ++i) {
      ASSERT_EQ(Store(shard), StoreOutcome::kStored);
    }
    shard->ShowOldest(&departures_);
  }

  bool FirstHolds(int key) {
    const EntryRef ref = first_.FindAndPin(QueryOf(key), Use::kIgnore);
    if (ref != 0) shared_.pool->UnpinOutside(ref);
    return ref != 0;
  }

  SimulatedClock clock_;
  const CacheOptions options_;
  SharedState shared_{options_,
                      2,
                      {&kIntEntries, Charges::kStored, /*has_listener=*/false},
                      /*shard_bytes=*/0};
  Shard first_{&shared_, 0, options_};
  Shard second_{&shared_, 1, options_};
  Departures departures_{&shared_};
  int last_key_ = 0;
};

TEST_F(ScanResistantShardsTest, OfAFullCacheTheLargerShardEvicts) {
  Fill(&first_, 490);
  Fill(&second_, 510);
  EXPECT_EQ(Store(&first_), StoreOutcome::kEvictOlder);
  EXPECT_EQ(Store(&second_), StoreOutcome::kStored);
}

TEST_F(ScanResistantShardsTest, ShardsOfAboutTheSameSizeEvictTheirOwn) {
  Fill(&first_, 496);
  Fill(&second_, 504);
  EXPECT_EQ(Store(&first_), StoreOutcome::kStored);
  EXPECT_EQ(Store(&second_), StoreOutcome::kStored);
}

// Else a Set would be sent to it for an older entry for ever.
TEST_F(ScanResistantShardsTest, ShardThatWasEmptiedShowsThatItHoldsNothing) {
  Fill(&first_, kEntries - 1);
  Fill(&second_, 1);
  EXPECT_NE(shared_.uses.tail(1), 0u);
  ASSERT_FALSE(departures_.claim.Cover({2, 2 * kCharge}));
  EXPECT_TRUE(second_.Evict(&departures_));
  EXPECT_FALSE(second_.Evict(&departures_));
  EXPECT_EQ(shared_.uses.tail(1), 0u);
  departures_.claim.GiveBack();
}

// All keys of the cache are in one of its shards. Of those that came first the
// main list takes nine tenths of the cache, not of the half that the shard was
// expected to have; what comes later passes through the window.
TEST_F(ScanResistantShardsTest, AllThatACacheHoldsIsTheShareOfTheOneFullShard) {
  Fill(&first_, kEntries);
  Fill(&first_, kEntries);
  int stayed = 0;
  for (int key = 1; key <= kEntries; ++key) stayed += FirstHolds(key) ? 1 : 0;
  EXPECT_GT(stayed, kEntries * 8 / 10);
}

class ScanResistantShardsInEntriesTest : public ScanResistantShardsTest {
 protected:
  ScanResistantShardsInEntriesTest()
      : ScanResistantShardsTest({kEntries, kUnlimited}) {}
};

TEST_F(ScanResistantShardsInEntriesTest, SmallerShardEvictsItsOwnNewEntry) {
  Fill(&first_, 400);
  Fill(&second_, 600);
  EXPECT_EQ(Store(&first_), StoreOutcome::kStored);
}

}  // namespace
}  // namespace wheelcache::internal
