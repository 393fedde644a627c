// The timing wheel over timers in storage of the owner's: references, links,
// and what CheckInvariants finds.

#include "wheelcache/wheel/basic_timing_wheel.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache {
namespace {

struct Session {
  TimerLinks<uint32_t> links;
  uint64_t deadline = 0;
};

struct Sessions {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const { return all[ref].links; }
  uint64_t deadline(Ref ref) const { return all[ref].deadline; }
  Session* all;
};

TEST(BasicTimingWheelTest, DeadlineThatHasGrownIsFoundWithoutACall) {
  Session table[2];
  BasicTimingWheel<Sessions> wheel(Sessions{table}, 0);
  table[1].deadline = 70;
  wheel.Schedule(1);
  table[1].deadline = 5000;
  EXPECT_EQ(wheel.NextWakeup(), 70u);
  wheel.Advance(4999, kNoBudget, [](uint32_t) { FAIL(); });
  EXPECT_EQ(wheel.NextWakeup(), 5000u);
  int fired = 0;
  wheel.Advance(5000, kNoBudget, [&](uint32_t) { ++fired; });
  EXPECT_EQ(fired, 1);
}

// Timers without storage: the wheel has to ask for links and deadlines.
struct ScatteredTimers {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const { return (*all)[ref]; }
  uint64_t deadline(Ref ref) const { return ref % 1000; }
  std::map<Ref, TimerLinks<Ref>>* all;
};

TEST(BasicTimingWheelTest, ReferencesReachUpToTheTagsOfLists) {
  constexpr uint32_t kLargest = 0xffffffff - 2816;
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  BasicTimingWheel<ScatteredTimers> wheel(ScatteredTimers{&links});
  std::set<uint32_t> refs = {1, 703, 704, 2816, 0x7fffffff, 0x80000000};
  for (uint32_t i = 0; i < 20; ++i) refs.insert(kLargest - i * 1000);
  for (const uint32_t ref : refs) wheel.Schedule(ref);
  // The neighbour of a cancelled timer must not be taken for a list.
  for (uint32_t i = 19; i > 0; --i) {
    const uint32_t cancelled = kLargest - i * 1000;
    wheel.Cancel(cancelled);
    refs.erase(cancelled);
    ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    ASSERT_EQ(wheel.CountTimers(), refs.size());
  }
  std::set<uint32_t> fired;
  wheel.Advance(1000, kNoBudget, [&](uint32_t ref) { fired.insert(ref); });
  EXPECT_EQ(fired, refs);
}

// Timers that note which of them the wheel asks for.
struct ObservedTimers {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const {
    asked->insert(ref);
    return (*all)[ref];
  }
  uint64_t deadline(Ref) const { return uint64_t{1} << 40; }
  std::map<Ref, TimerLinks<Ref>>* all;
  std::set<Ref>* asked;
};

TEST(BasicTimingWheelTest, WhatCancelWillChangeIsAskedForAhead) {
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  std::set<uint32_t> asked;
  BasicTimingWheel<ObservedTimers> wheel(ObservedTimers{&links, &asked});
  for (uint32_t ref = 1; ref <= 20; ++ref) wheel.Schedule(ref);
  for (const uint32_t ref : {20, 10, 1, 9, 11, 5, 6, 7, 2, 3, 4, 19, 8}) {
    asked.clear();
    wheel.PrefetchNeighbours(links[ref]);
    std::set<uint32_t> ahead = std::exchange(asked, {});
    ahead.insert(ref);
    wheel.Cancel(ref);
    EXPECT_EQ(ahead, asked) << "neither tags nor null for " << ref;

    asked.clear();
    wheel.PrefetchNeighbours(links[ref]);
    EXPECT_TRUE(asked.empty()) << "it is not scheduled";
  }
}

TEST(BasicTimingWheelTest, NoTimerIsLookedAtWhileNoneIsDue) {
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  std::set<uint32_t> asked;
  BasicTimingWheel<ObservedTimers> wheel(ObservedTimers{&links, &asked});
  for (uint32_t ref = 1; ref <= 1000; ++ref) wheel.Schedule(ref);
  asked.clear();
  for (const uint64_t tick : {1, 64, 100'000'000}) {
    EXPECT_EQ(wheel.Advance(tick, kNoBudget, [](uint32_t) {}), 0u);
    EXPECT_EQ(wheel.NextWakeup(), uint64_t{1} << 40);
  }
  EXPECT_TRUE(asked.empty());
}

TEST(BasicTimingWheelTest, TagsOfListsAreNotTakenForTimers) {
  for (uint32_t list = 0; list < internal::kTimerLists; ++list) {
    using Tag = internal::ListTag<uint32_t>;
    ASSERT_TRUE(Tag::Holds(Tag::Make(list)));
    ASSERT_EQ(Tag::List(Tag::Make(list)), list);
  }
  EXPECT_FALSE(internal::ListTag<uint32_t>::Holds(0xffffffff - 2816));
}

TEST(BasicTimingWheelTest, ResetForgetsAllTimersWithoutTouchingThem) {
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  BasicTimingWheel<ScatteredTimers> wheel(ScatteredTimers{&links});
  for (uint32_t ref = 1; ref < 1000; ++ref) wheel.Schedule(ref);
  wheel.Advance(500, 300, [](uint32_t) {});
  links.clear();
  wheel.Reset();
  EXPECT_TRUE(links.empty());
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.NextWakeup(), std::nullopt);

  wheel.Schedule(600);
  EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  std::vector<uint32_t> fired;
  wheel.Advance(1000, kNoBudget, [&](uint32_t ref) { fired.push_back(ref); });
  EXPECT_EQ(fired, std::vector<uint32_t>{600});
}

TEST(BasicTimingWheelTest, CheckInvariantsFindsABrokenLink) {
  Session table[13];  // Three in each list of a slot.
  BasicTimingWheel<Sessions> wheel(Sessions{table}, 0);
  for (uint32_t ref = 1; ref <= 12; ++ref) {
    table[ref].deadline = 100;
    wheel.Schedule(ref);
  }
  for (uint32_t ref = 1; ref <= 12; ++ref) {
    const TimerLinks<uint32_t> intact = table[ref].links;
    table[ref].links.prev = ref;
    EXPECT_FALSE(wheel.CheckInvariants().ok());
    table[ref].links = intact;
    EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  }
}

TEST(BasicTimingWheelTest, CheckInvariantsFindsADeadlineThatShrank) {
  for (const uint64_t deadline : {50, 100, 5000, 300'000}) {
    Session table[2];
    BasicTimingWheel<Sessions> wheel(Sessions{table}, 10);
    table[1].deadline = deadline;
    wheel.Schedule(1);
    EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    --table[1].deadline;
    EXPECT_FALSE(wheel.CheckInvariants().ok()) << deadline;
  }
}

}  // namespace
}  // namespace wheelcache
