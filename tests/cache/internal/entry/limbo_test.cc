// How long retired entries wait, and for whom. What another thread does in the
// middle of a collection happens at a named point of it.

#include "wheelcache/cache/internal/entry/limbo.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/typed_pool.h"

namespace wheelcache::internal {
namespace {

using testing::Counted;
using testing::TypedPool;

// A thread that has been reading, so that entries must wait for it, and reads
// again from Open to Close.
class Reader {
 public:
  Reader() : thread_([this] { Run(); }) { Become(State::kClosed); }
  ~Reader() {
    Become(State::kEnded);
    thread_.join();
  }

  void Open() { Become(State::kOpen); }
  void Close() { Become(State::kClosed); }

 private:
  enum class State { kNew, kClosed, kOpen, kEnded };

  void Become(State state) {
    wanted_.store(state);
    while (state_.load() != state) std::this_thread::yield();
  }

  void Run() {
    std::optional<ReadSection> section(std::in_place);
    while (state_.load() != State::kEnded) {
      const State wanted = wanted_.load();
      if (wanted == state_.load()) {
        std::this_thread::yield();
        continue;
      }
      section.reset();
      if (wanted == State::kOpen) section.emplace();
      state_.store(wanted);
    }
  }

  std::atomic<State> wanted_{State::kNew};
  std::atomic<State> state_{State::kNew};
  std::thread thread_;
};

class LimboTest : public InterruptedCacheEnvironment {
 protected:
  // So many light entries are collected at a time.
  static constexpr int kPatience = 100;
  // So many collections wait when a reader counts as stalled.
  static constexpr int kStalled = 16;

  // Far from the end of a birth: entries of one test are of the same, until a
  // reader has stalled.
  LimboTest() {
    while (current_epoch.load() % (1 << kEpochsPerBirthBits) > 100) {
      AdvanceEpoch();
    }
  }
  ~LimboTest() override {
    limbo_.DestroyAll();
    EXPECT_EQ(values_.load(), 0) << "entries were lost";
    EXPECT_TRUE(limbo_.empty());
  }

  void Add(uint32_t charge = 0) {
    const EntryRef ref = pool_.New(1, Counted(&values_));
    pool_.SetCharge(ref, charge);
    limbo_.Add(ref);
  }
  void AddAndFlush() {
    Add();
    limbo_.Flush();
  }

  std::atomic<int64_t> values_{0};
  TypedPool<int, Counted> pool_{Charges::kStored};
  Limbo limbo_{&*pool_, kPatience};
};

TEST_F(LimboTest, EntriesAreDestroyedAtOnceWhereNobodyElseReads) {
  Add();
  EXPECT_EQ(values_.load(), 0);
}

// Between the look at its pins and the end of the cache's own.
TEST_F(LimboTest, EntryWhoseHandleIsLetGoMeanwhileIsDestroyed) {
  const EntryRef ref = pool_.New(1, Counted(&values_));
  (*pool_).Pin(ref);
  At("unpin: before the pin is dropped", [&] { (*pool_).UnpinOutside(ref); });
  limbo_.Add(ref);
  EXPECT_EQ(values_.load(), 0);
  EXPECT_EQ((*pool_).orphan_bytes(), 0);
}

TEST_F(LimboTest, IsEmptyAndNotStalledAtFirst) {
  EXPECT_TRUE(limbo_.empty());
  EXPECT_FALSE(limbo_.HasOwn());
  EXPECT_FALSE(limbo_.stalled());
}

// Whichever index it has, within the stripes and beyond.
TEST_F(LimboTest, EachThreadKnowsWhetherItHasLeftAnything) {
  constexpr int kThreads = 20;
  Reader reader;
  reader.Open();
  std::vector<std::thread> threads;
  std::atomic<int> turn{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ThreadIndex();
      while (turn.load() != i) std::this_thread::yield();
      EXPECT_FALSE(limbo_.HasOwn());
      Add();
      EXPECT_TRUE(limbo_.HasOwn());
      limbo_.DestroyAll();
      EXPECT_FALSE(limbo_.HasOwn());
      turn.store(i + 1);
      while (turn.load() != kThreads) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LimboTest, LightEntriesAreCollectedUpToTheirNumber) {
  Reader reader;
  for (int i = 1; i < kPatience; ++i) Add();
  EXPECT_EQ(values_.load(), kPatience - 1);
  EXPECT_TRUE(limbo_.HasOwn());
  Add();
  EXPECT_EQ(values_.load(), 0);
  EXPECT_FALSE(limbo_.HasOwn());
}

// However large the cache is.
TEST_F(LimboTest, NoMoreThanHalfAMebibyteIsCollected) {
  limbo_.SetPatience(std::numeric_limits<int64_t>::max());
  Reader reader;
  constexpr int kMost = (1 << 19) / 256;
  for (int i = 1; i < kMost; ++i) Add(100);
  EXPECT_EQ(values_.load(), kMost - 1);
  Add(100);
  EXPECT_EQ(values_.load(), 0);
}

// Each 256 bytes weigh as much as a light entry.
TEST_F(LimboTest, HeavyEntriesAreCollectedUpToTheirBytes) {
  Reader reader;
  for (int i = 1; i < 4; ++i) Add(kPatience / 4 * 256);
  EXPECT_EQ(values_.load(), 3);
  Add(kPatience / 4 * 256);
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(LimboTest, EntriesWaitForTheReaderThatMaySeeThem) {
  Reader reader;
  reader.Open();
  AddAndFlush();
  EXPECT_EQ(values_.load(), 1);
  EXPECT_TRUE(limbo_.HasOwn());
  EXPECT_FALSE(limbo_.empty());
  reader.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
  EXPECT_FALSE(limbo_.HasOwn());
  EXPECT_TRUE(limbo_.empty());
}

TEST_F(LimboTest, EntriesDoNotWaitForAReaderThatCameAfterTheirEpoch) {
  Reader reader;
  Reader later;
  reader.Open();
  AddAndFlush();
  later.Open();
  reader.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
}

// The epoch that has ended is too early for what is added after its end: a
// reader of the next one may see that.
TEST_F(LimboTest, WhatIsAddedAfterTheEndOfAnEpochWaitsForAnother) {
  Reader reader;
  Add();
  At("epoch: after its end", [&] {
    reader.Open();
    Add();
  });
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 1);
  reader.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(LimboTest, WhatIsPutBackMeanwhileIsNotLost) {
  Reader reader;
  reader.Open();
  Add();
  At("limbo: between the epoch's end and the scan of readers",
     [&] { AddAndFlush(); });
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 2);
  EXPECT_FALSE(limbo_.empty());
  reader.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(LimboTest, AStalledReaderHoldsBackNothingThatIsMadeLater) {
  Reader reader;
  reader.Open();
  for (int i = 1; i < kStalled; ++i) AddAndFlush();
  EXPECT_FALSE(limbo_.stalled());
  for (int i = 0; i < 2; ++i) AddAndFlush();
  EXPECT_EQ(values_.load(), kStalled + 1);
  EXPECT_TRUE(limbo_.stalled());
  for (int i = 0; i < 10; ++i) AddAndFlush();
  EXPECT_EQ(values_.load(), kStalled + 1);
  reader.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
  EXPECT_FALSE(limbo_.stalled());
}

TEST_F(LimboTest, WhatAStalledReaderLetsGoAnotherMayStillSee) {
  Reader first;
  Reader second;
  first.Open();
  AddAndFlush();  // So that the second has an epoch of its own.
  second.Open();
  for (int i = 0; i < kStalled; ++i) AddAndFlush();
  EXPECT_EQ(values_.load(), kStalled + 1);
  second.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), kStalled + 1);
  first.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(LimboTest, DestroyAllTakesWhatIsCollectedAndWhatWaits) {
  Reader reader;
  reader.Open();
  AddAndFlush();
  Add();
  limbo_.DestroyAll();
  EXPECT_EQ(values_.load(), 0);
  EXPECT_TRUE(limbo_.empty());
}

}  // namespace
}  // namespace wheelcache::internal
