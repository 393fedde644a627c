// For tests of shards with entries from int to int: a Set of such an entry, and
// a fixture with one shard on simulated time.
//
// The shard's limits are a hundred entries and 10,000 bytes, unless a test
// wants others.

#ifndef WHEELCACHE_TESTS_TESTING_SHARD_TEST_BASE_H_
#define WHEELCACHE_TESTS_TESTING_SHARD_TEST_BASE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::internal {

inline constexpr EntryOperations kIntEntries =
    kEntryOperations<int, int, DefaultHash<int>, DefaultEqual<int>>;

inline KeyHash HashOf(int key) { return HashKey<DefaultHash<int>>(key); }

inline auto QueryOf(const int& key) {
  return TypedKeyQuery<int, int, DefaultEqual<int>, int>(key, HashOf(key));
}

// A Set of a new entry, which is in the pool already.
inline Shard::Write NewIntWrite(EntryPool* pool, const Clock& clock, int key,
                                uint32_t charge, absl::Duration ttl) {
  Shard::Write write;
  write.ref = MakeEntry<int, int>(pool, key, key);
  pool->SetCharge(write.ref, charge);
  write.room = {1, charge};
  write.hash = HashOf(key);
  write.ttl_nanos = Clock::NanosAfter(0, ttl);
  write.now_nanos = clock.NowNanos();
  return write;
}

// At the end of a call the room that is left goes back.
struct GiveBack {
  ~GiveBack() { claim.GiveBack(); }
  Claim& claim;
};

class ShardTestBase : public ::testing::Test {
 protected:
  static constexpr int kBudget = 5;
  static constexpr SharedState::Entries kEntries = {
      &kIntEntries, Charges::kStored, /*has_listener=*/false};

  ShardTestBase() : ShardTestBase(/*max_entries=*/100, /*max_bytes=*/10'000) {}
  ShardTestBase(int64_t max_entries, int64_t max_bytes,
                int64_t budget = kBudget, Reaper* reaper = nullptr)
      : options_(Options({max_entries, max_bytes}, &clock_, budget, reaper)) {}

  static CacheOptions Options(Room limit, Clock* clock, int64_t budget,
                              Reaper* reaper) {
    CacheOptions options;
    options.max_entries = limit.entries;
    options.max_bytes = limit.bytes;
    options.shards = 1;
    options.jitter = 0;
    options.maintenance_budget = budget;
    options.clock = clock;
    options.reaper = reaper;
    return options;
  }

  // Fills the cache with entries of a hundredth of both limits.
  void Fill(absl::Duration ttl) {
    for (int key = 0; key < 100; ++key) {
      const GiveBack at_end{departures_.claim};
      ASSERT_EQ(shard_.TryStore(NewWrite(key, 100, ttl), &departures_),
                StoreOutcome::kStored);
    }
  }

  Shard::Write NewWrite(int key, uint32_t charge,
                        absl::Duration ttl = absl::InfiniteDuration()) {
    return NewIntWrite(shared_.pool.get(), clock_, key, charge, ttl);
  }

  // Returns why entries have been removed since the last call.
  std::vector<RemovalCause> TakeCauses() {
    std::vector<RemovalCause> causes;
    departures_.Dispose(
        [&](EntryRef, RemovalCause cause) { causes.push_back(cause); });
    return causes;
  }
  // Returns how many they were.
  int TakeRemoved() { return static_cast<int>(TakeCauses().size()); }

  // Repeats the call until it is done. Returns how often that was.
  int StoreInSteps(const Shard::Write& write) {
    const GiveBack at_end{departures_.claim};
    for (int calls = 1;; ++calls) {
      const StoreOutcome outcome = shard_.TryStore(write, &departures_);
      // And what it replaces.
      EXPECT_LE(TakeRemoved(), options_.maintenance_budget + 1);
      if (outcome == StoreOutcome::kStored) return calls;
      EXPECT_EQ(outcome, StoreOutcome::kMoreToDo);
    }
  }

  void CheckInvariants() {
    Room taken;
    const absl::Status status = shard_.CheckInvariants(&taken);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(shared_.budget.taken(), taken);
  }

  // Whether the shard has a live entry of the key.
  bool Holds(int key) {
    const EntryRef ref = shard_.FindAndPin(QueryOf(key), Use::kIgnore);
    if (ref != 0) shared_.pool->UnpinOutside(ref);
    return ref != 0;
  }

  void Clear() {
    shard_.Lock();
    shard_.TakeAllLocked(&departures_);
    shard_.Unlock();
  }

  void TearDown() override {
    CheckInvariants();
    Clear();
    TakeRemoved();
    shared_.limbo.DestroyAll();
  }

  SimulatedClock clock_;
  const CacheOptions options_;
  SharedState shared_{options_, 1, kEntries, /*shard_bytes=*/0};
  Shard shard_{&shared_, 0, options_};
  Departures departures_{&shared_};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_TESTS_TESTING_SHARD_TEST_BASE_H_
