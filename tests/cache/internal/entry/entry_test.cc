// An entry: how its key and value lie in memory and come out as they went in,
// what it is charged, how old it is, and for whom it waits once it is retired.
// What another thread does in the middle of a collection happens at a named
// point of it.

#include "wheelcache/cache/internal/entry/entry.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/idle_ttl.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/entry/limbo.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/typed_pool.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

using testing::Counted;
using testing::TypedPool;

// An entry of a pool of its own.
template <typename Key, typename Value>
class OneEntry {
 public:
  template <typename K, typename V>
  OneEntry(K&& key, V&& value)
      : ref_(pool_.New(std::forward<K>(key), std::forward<V>(value))) {}
  OneEntry(const OneEntry&) = delete;
  OneEntry& operator=(const OneEntry&) = delete;
  ~OneEntry() { pool_.Unpin(ref_); }

  bool IsPlain(size_t most_bytes) const {
    return (*pool_).IsPlain((*pool_).FootprintOf(ref_), most_bytes);
  }

  const Entry<Key, Value>& operator*() const { return pool_.At(ref_); }
  const Entry<Key, Value>* operator->() const { return &pool_.At(ref_); }

 private:
  TypedPool<Key, Value> pool_{Charges::kFromSizes};
  const EntryRef ref_;
};

TEST(EntryLayoutTest, StringsOfEveryLengthComeOutAsTheyWentIn) {
  for (const size_t length :
       {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{16383},
        kMaxInside, kMaxInside + 1, size_t{1} << 21, (size_t{1} << 21) + 1}) {
    std::string text(length, 'x');
    for (size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * 7 / 3);
    const OneEntry<std::string, std::string> as_value("key", text);
    EXPECT_EQ(as_value->key(), "key");
    EXPECT_EQ(as_value->value(), text) << length;
    const OneEntry<std::string, std::string> as_key(text, "value");
    EXPECT_EQ(as_key->key(), text) << length;
    EXPECT_EQ(as_key->value(), "value");
  }
}

uint64_t MemoryOf(Footprint footprint) {
  return EntryPool::LeastCharge(footprint, Charges::kFromSizes,
                                IdleTtl(Clock::kNever));
}

TEST(EntryLayoutTest, WhatIsLargeLiesOutsideAndIsCounted) {
  const OneEntry<std::string, std::string> text("key",
                                                std::string(100'000, 'v'));
  EXPECT_LE(text->footprint().inside, 64u);
  EXPECT_GT(MemoryOf(text->footprint()), 100'000u);
  EXPECT_EQ(text->footprint().outside % Pages::RoundUp(1),
            0u);  // Pages of its own.
  EXPECT_LT(MemoryOf(text->footprint()), 100'200u + Pages::RoundUp(1));
  using Large = std::array<char, 100'000>;
  auto large = std::make_unique<Large>();
  large->back() = 'x';
  const OneEntry<int, Large> object(1, *large);
  EXPECT_LE(object->footprint().inside, 64u);
  EXPECT_GT(MemoryOf(object->footprint()), 100'000u);
  EXPECT_EQ(object->value().back(), 'x');
}

TEST(EntryLayoutTest, OnlySmallPairsThatEndWithTheirMemoryArePlain) {
  EXPECT_TRUE((OneEntry<int, int>(1, 2).IsPlain(100)));
  EXPECT_FALSE((OneEntry<int, std::shared_ptr<int>>(1, nullptr).IsPlain(100)));
  EXPECT_FALSE(
      (OneEntry<int, std::array<char, 100'000>>(1, std::array<char, 100'000>())
           .IsPlain(1'000'000)));
  const OneEntry<std::string, std::string> text("key", std::string(100, 'v'));
  EXPECT_TRUE(text.IsPlain(text->footprint().inside));
  EXPECT_FALSE(text.IsPlain(text->footprint().inside - 1));
  const OneEntry<std::string, std::string> large("key",
                                                 std::string(100'000, 'v'));
  EXPECT_FALSE(large.IsPlain(1'000'000));  // Not all of it is in its block.
}

TEST(EntryLayoutTest, OnlyWhatABytewiseCopyCopiesIsCopyable) {
  const auto copyable = [](auto key, auto* value) {
    using Key = decltype(key);
    using Value = std::remove_pointer_t<decltype(value)>;
    return Layout<Key, Value>::kCopyable;
  };
  struct alignas(64) Aligned {
    char byte;
  };
  EXPECT_TRUE(copyable(1, static_cast<int*>(nullptr)));
  EXPECT_TRUE(copyable(std::string(), static_cast<std::string*>(nullptr)));
  EXPECT_FALSE(copyable(1, static_cast<std::shared_ptr<int>*>(nullptr)));
  EXPECT_FALSE(copyable(1, static_cast<std::atomic<int>*>(nullptr)));
  EXPECT_FALSE(copyable(1, static_cast<Aligned*>(nullptr)));
}

TEST(EntryLayoutTest, TwoOfTheLargestThatLieInsideFitIntoABlock) {
  using Largest = std::array<char, kMaxInside>;
  EXPECT_TRUE(Stored<Largest>::kInside);
  const OneEntry<std::string, std::string> strings(
      std::string(kMaxInside, 'k'), std::string(kMaxInside, 'v'));
  EXPECT_LE(strings->footprint().inside, Arena::kMaxBytes);
  const auto largest = std::make_unique<Largest>();
  const OneEntry<Largest, Largest> objects(*largest, *largest);
  EXPECT_LE(objects->footprint().inside, Arena::kMaxBytes);
}

struct alignas(64) Aligned {
  int number;
};

TEST(EntryLayoutTest, ObjectsLieAtTheirAlignment) {
  for (int i = 1; i < 20; ++i) {
    const OneEntry<std::string, Aligned> one(std::string(i, 'k'), Aligned{i});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&one->value()) % 64, 0u);
    EXPECT_EQ(one->value().number, i);
    EXPECT_EQ(one->key(), std::string(i, 'k'));
    const OneEntry<char, Aligned> two('k', Aligned{i});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&two->value()) % 64, 0u);
    EXPECT_EQ(two->key(), 'k');
  }
}

// Counts what lives, and throws when told to.
class ThrowingValue {
 public:
  explicit ThrowingValue(bool fails) {
#ifdef ABSL_HAVE_EXCEPTIONS
    if (fails) throw std::runtime_error("told to");
#endif
    static_cast<void>(fails);
    ++living;
  }
  ThrowingValue(const ThrowingValue&) = delete;
  ThrowingValue& operator=(const ThrowingValue&) = delete;
  ~ThrowingValue() { --living; }

  static inline int living = 0;
};

#ifdef ABSL_HAVE_EXCEPTIONS
TEST(EntryLayoutTest, AConstructorThatThrowsLeavesNothing) {
  TypedPool<ThrowingValue, ThrowingValue> pool(Charges::kFromSizes);
  const EntryRef first = pool.New(false, false);
  pool.Unpin(first);
  EXPECT_THROW(pool.New(true, false), std::runtime_error);
  EXPECT_THROW(pool.New(false, true), std::runtime_error);
  EXPECT_EQ(ThrowingValue::living, 0);
  const EntryRef again = pool.New(false, false);
  EXPECT_EQ(again, first) << "a block was lost";
  pool.Unpin(again);
}
#endif

using Numbers = TypedPool<uint64_t, uint64_t>;
using Strings = TypedPool<std::string, std::string>;

// Promise: Hard limits
TEST(EntryChargeTest, ChargeFromSizesIsTheMemoryOfTheEntry) {
  Numbers numbers(Charges::kFromSizes);
  const EntryRef number = numbers.New(1, 2);
  EXPECT_EQ(numbers.Charge(number), 40 + 8 + 8 + 12);
  numbers.Unpin(number);
  Strings strings(Charges::kFromSizes);
  const EntryRef text = strings.New(std::string(21, 'k'), std::string(64, 'v'));
  EXPECT_EQ(strings.Charge(text), 40 + 1 + 21 + 1 + 64 + 1 + 12);
  strings.Unpin(text);
}

// Whether blocks follow each other without a gap shows in their references.
TEST(EntryChargeTest, OnlyAStoredChargeTakesMemory) {
  for (const auto& [charges, bytes] :
       {std::pair(Charges::kFromSizes, 56), std::pair(Charges::kStored, 64)}) {
    Numbers pool(charges);
    const EntryRef first = pool.New(1, 2);
    const EntryRef second = pool.New(3, 4);
    EXPECT_EQ((second - first) * 8, static_cast<uint32_t>(bytes));
    pool.Unpin(first);
    pool.Unpin(second);
  }
}

TEST(EntryChargeTest, OverheadIsAllThatAWeigherDoesNotSee) {
  TypedPool<uint64_t, uint32_t> pool(Charges::kStored);
  const EntryRef first = pool.New(1, 2);
  const EntryRef second = pool.New(3, 4);
  EXPECT_EQ(uint64_t{second - first} * 8 + kIndexBytes, kEntryOverhead + 8 + 4);
  pool.Unpin(first);
  pool.Unpin(second);
}

// A pair of strings of 0 to 24 bytes in all: so that the charge lies at every
// address, and ends with its block or begins a new granule.
TEST(EntryChargeTest, StoredChargeAndItsNeighboursStayWhatTheyAre) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  Strings pool(Charges::kStored);
  std::vector<EntryRef> refs;
  for (uint32_t i = 0; i < 25; ++i) {
    refs.push_back(pool.New(std::string(i / 3, 'k'),
                            std::string(i - i / 3, static_cast<char>(i))));
    pool.SetCharge(refs.back(), kMost - i);
  }
  for (uint32_t i = 0; i < 25; ++i) {
    EXPECT_EQ(pool.Charge(refs[i]), int64_t{kMost} - i);
    EXPECT_EQ(pool.At(refs[i]).key(), std::string(i / 3, 'k'));
    EXPECT_EQ(pool.At(refs[i]).value(),
              std::string(i - i / 3, static_cast<char>(i)));
  }
  for (const EntryRef ref : refs) pool.Unpin(ref);
}

TEST(EntryChargeTest, ChargeIsStoredBehindObjectsAndPointersToObjects) {
  TypedPool<char, Aligned> aligned(Charges::kStored);
  using Large = std::array<char, kMaxInside + 1>;
  TypedPool<Large, char> outside(Charges::kStored);
  const auto large = std::make_unique<Large>();
  large->fill('x');
  const EntryRef first = aligned.New('k', Aligned{7});
  const EntryRef second = aligned.New('l', Aligned{8});
  const EntryRef third = outside.New(*large, 'v');
  aligned.SetCharge(first, 1);
  aligned.SetCharge(second, 2);
  outside.SetCharge(third, 3);
  EXPECT_EQ(aligned.Charge(first), 1);
  EXPECT_EQ(aligned.Charge(second), 2);
  EXPECT_EQ(outside.Charge(third), 3);
  EXPECT_EQ(aligned.At(first).value().number, 7);
  EXPECT_EQ(aligned.At(second).key(), 'l');
  EXPECT_EQ(outside.At(third).key(), *large);
  EXPECT_EQ(outside.At(third).value(), 'v');
  aligned.Unpin(first);
  aligned.Unpin(second);
  outside.Unpin(third);
}

// 48 bytes and the charge: a granule more than without it, which has to come
// back.
TEST(EntryChargeTest, BlockComesBackWithItsCharge) {
  Strings pool(Charges::kStored);
  const EntryRef first = pool.New("key", "val");
  pool.Unpin(first);
  const size_t carved = pool.arena().carved_bytes();
  for (int i = 0; i < 10; ++i) {
    const EntryRef again = pool.New("yek", "lav");
    EXPECT_EQ(again, first);
    pool.Unpin(again);
  }
  EXPECT_EQ(pool.arena().carved_bytes(), carved);
  EXPECT_TRUE(pool.arena().CheckInvariants().ok());
}

constexpr int64_t kStep = kAgeStepNanos;
constexpr int64_t kDay = int64_t{24} * 3600 * 1'000'000'000;
constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

int64_t AgeAfter(int64_t set_nanos, int64_t elapsed) {
  return AgeNanos(CreationTimeAt(set_nanos), set_nanos + elapsed);
}

TEST(AgeTest, IsExactWhereWholeStepsHavePassed) {
  for (const int64_t set : {-7 * kStep - 3, int64_t{0}, kStep - 1, kDay + 5}) {
    for (const int64_t steps : {0, 1, 2, 50, 2'000'000'000}) {
      EXPECT_EQ(AgeAfter(set, steps * kStep), steps * kStep) << set;
    }
  }
}

TEST(AgeTest, IsOffByLessThanAStepEitherWay) {
  EXPECT_EQ(AgeAfter(kStep - 1, 1), kStep);
  EXPECT_EQ(AgeAfter(0, 2 * kStep - 1), kStep);
  constexpr int64_t kThird = kStep / 3;
  for (int64_t set = -6 * kThird; set <= 6 * kThird; set += kThird) {
    for (int64_t elapsed = 0; elapsed <= 9 * kThird; elapsed += kThird) {
      const int64_t age = AgeAfter(set, elapsed);
      EXPECT_LT(age, elapsed + kStep) << set;
      EXPECT_GT(age, elapsed - kStep) << set;
      EXPECT_EQ(age % kStep, 0);
    }
  }
}

TEST(AgeTest, IsToldAtBothEndsOfTheClock) {
  for (const int64_t age : {int64_t{0}, kStep, kDay, 460 * kDay}) {
    EXPECT_EQ(AgeAfter(kFirst, age), age);
    EXPECT_EQ(AgeAfter(kLast - age, age), age);
  }
}

// The number of the step begins anew in between.
TEST(AgeTest, ReachesUpTo466DaysWhereverItBegins) {
  constexpr int64_t kReach = 466 * kDay;
  for (const int64_t set : {int64_t{0}, 250 * kDay, 497 * kDay, -2 * kDay}) {
    EXPECT_EQ(AgeAfter(set, kReach), kReach) << set;
    EXPECT_EQ(AgeAfter(set, kReach + kDay), 0) << set;
  }
}

TEST(AgeTest, IsZeroWhereTheClockWasTurnedBackByUpTo31Days) {
  for (const int64_t set : {int64_t{0}, 500 * kDay, -500 * kDay}) {
    for (const int64_t back : {int64_t{1}, kStep, kDay, 31 * kDay}) {
      EXPECT_EQ(AgeAfter(set, -back), 0) << set << " " << back;
    }
  }
}

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

// Each end of an epoch interrupts all threads.
TEST_F(LimboTest, FlushEndsOneEpochForAllThreads) {
  Reader reader;
  reader.Open();
  std::thread([&] {
    ThreadIndex();
    Add();
  }).join();
  Add();
  const Epoch before = current_epoch.load();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 2);
  EXPECT_EQ(current_epoch.load(), before + 1);
  reader.Close();
  limbo_.Flush();
  EXPECT_EQ(values_.load(), 0);
  EXPECT_EQ(current_epoch.load(), before + 1);
}

TEST_F(LimboTest, FlushLooksOnceMoreForReadersThatHaveGoneOn) {
  Reader reader;
  reader.Open();
  Add();
  AtNth("limbo: between the epoch's end and the scan of readers", 2,
        [&] { reader.Close(); });
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
