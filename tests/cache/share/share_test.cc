// One budget for many caches: it is never exceeded, and its bytes go where they
// bring hits.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/near/fake_server.h"
#include "wheelcache/cache/near/fake_store.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/share/internal/choice.h"
#include "wheelcache/cache/share/internal/demand.h"
#include "wheelcache/cache/share/memory_pressure.h"
#include "wheelcache/cache/share/memory_share.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/tests/testing/failing_allocations.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Each value is charged what it says.
using Sized = Cache<int64_t, int64_t>;

constexpr int64_t kMax = 1'000'000;
constexpr int64_t kMiB = 1 << 20;

absl::string_view Message(const absl::Status& status) {
  return status.message();
}

class ShareTest : public ::testing::Test {
 protected:
  ~ShareTest() override { share_.reset(); }

  MemoryShareOptions ShareOptions(int64_t max_bytes = kMax) {
    MemoryShareOptions options;
    options.max_bytes = max_bytes;
    options.clock = &clock_;
    options.reaper = nullptr;
    return options;
  }
  void MakeShare(int64_t max_bytes = kMax) {
    share_ = MemoryShare::Create(ShareOptions(max_bytes)).value();
  }

  std::unique_ptr<Sized> MakeCache(const std::string& name, bool advise = true,
                                   std::function<void()> told = nullptr) {
    CacheOptions options;
    options.name = name;
    options.clock = &clock_;
    options.reaper = nullptr;
    options.advise = advise;
    options.shards = 1;
    Sized::Hooks hooks;
    hooks.weigher = [](const int64_t&, const int64_t& value) { return value; };
    if (told != nullptr) {
      hooks.on_removal = [told = std::move(told)](int64_t, int64_t,
                                                  RemovalCause) { told(); };
    }
    return Sized::Create(std::move(options), std::move(hooks)).value();
  }
  Sized& Join(const std::string& name, ShareMemberOptions options = {1000},
              bool advise = true) {
    caches_.push_back(MakeCache(name, advise, [this] { Check(); }));
    const absl::Status status = share_->Add(*caches_.back(), options);
    EXPECT_TRUE(status.ok()) << status;
    return *caches_.back();
  }

  // The invariant, at any instant.
  void Check() const {
    int64_t sum = 0;
    for (const auto& cache : caches_) {
      const int64_t bytes = cache->limits().bytes;
      if (bytes != kUnlimited) sum += bytes;  // Not a member yet.
    }
    most_ = std::max(most_, sum);
  }

  // A read of one of so many keys, by a power law as in caches; loads a miss.
  bool ReadOne(Sized& cache, int64_t keys, int64_t bytes = 200) {
    const double u = std::uniform_real_distribution<double>(0, 1)(random_);
    const auto key =
        static_cast<int64_t>(std::pow(static_cast<double>(keys), u));
    if (cache.Get(key).has_value()) return true;
    cache.Set(key, bytes);
    return false;
  }

  // Time that passes, in which `reads` come in each 100 ms to each cache.
  struct Load {
    Sized* cache;
    int reads;
    int64_t keys = 100'000;
  };
  void Run(absl::Duration time, const std::vector<Load>& loads) {
    for (; time > absl::ZeroDuration(); time -= absl::Milliseconds(100)) {
      for (const Load& load : loads) {
        for (int i = 0; i < load.reads; ++i) {
          hits_ += ReadOne(*load.cache, load.keys) ? 1 : 0;
        }
      }
      clock_.Advance(absl::Milliseconds(100));
      share_->RunMaintenance();
      Check();
    }
  }

  int64_t SumOfLimits() const {
    int64_t sum = 0;
    for (const auto& cache : caches_) sum += cache->limits().bytes;
    return sum;
  }

  SimulatedClock clock_;
  std::vector<std::unique_ptr<Sized>> caches_;
  std::unique_ptr<MemoryShare> share_;
  mutable int64_t most_ = 0;
  int64_t hits_ = 0;
  std::mt19937_64 random_{1};
};

TEST_F(ShareTest, CreateNamesWhatIsWrong) {
  MemoryShareOptions options = ShareOptions(0);
  options.name = "all";
  EXPECT_EQ(Message(MemoryShare::Create(options).status()),
            "share \"all\": max_bytes = 0 must be at least 1");
  options = ShareOptions();
  options.clock = nullptr;
  EXPECT_EQ(Message(MemoryShare::Create(options).status()),
            "share \"share\": clock = null must be a clock");
  options = ShareOptions();
  options.reaper = &Reaper::Shared();
  EXPECT_EQ(
      Message(MemoryShare::Create(options).status()),
      "share \"share\": reaper = of another clock must run on the share's "
      "clock, or be null");
}

TEST_F(ShareTest, AddNamesWhatIsWrong) {
  MakeShare();
  const auto cache = MakeCache("users");
  const auto error = [&](ShareMemberOptions options) {
    const absl::Status status = share_->Add(*cache, std::move(options));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error({0}),
            "share \"share\": min_bytes of \"users\" = 0 must be at least 1");
  EXPECT_EQ(error({1, 0, "U"}),
            "share \"share\": weight of \"U\" = 0 must be more than 0, and "
            "finite");
  EXPECT_THAT(error({1, std::nan("")}), HasSubstr("weight of \"users\" = nan"));
  EXPECT_THAT(error({1, std::numeric_limits<double>::infinity()}),
              HasSubstr("= inf must be more than 0, and finite"));
  EXPECT_EQ(error({kMax + 1}),
            "share \"share\": min_bytes of \"users\" = 1000001 must be at most "
            "1000000, what the floors of others leave");
  EXPECT_EQ(cache->limits().bytes, kUnlimited);
  ASSERT_TRUE(share_->Add(*cache, {kMax - 1}).ok());
  const auto other = MakeCache("images");
  EXPECT_THAT(Message(share_->Add(*other, {2})),
              HasSubstr("must be at most 1, what the floors"));
  EXPECT_TRUE(share_->Add(*other, {1}).ok());
}

TEST_F(ShareTest, ACacheIsInOneShareAtMost) {
  MakeShare();
  const auto other = MemoryShare::Create(ShareOptions()).value();
  Sized& cache = Join("users");
  EXPECT_TRUE(absl::IsFailedPrecondition(share_->Add(cache, {1})));
  EXPECT_EQ(Message(other->Add(cache, {1})),
            "share \"share\": cache \"users\" is in a share already");
  // Nobody's bytes have gone.
  EXPECT_EQ(share_->stats().free_bytes, 0);
  EXPECT_EQ(other->stats().free_bytes, kMax);
}

TEST_F(ShareTest, MembersBeginWithEqualParts) {
  MakeShare();
  Sized& first = Join("first");
  EXPECT_EQ(first.limits().bytes, kMax);
  for (int64_t i = 0; i < 900; ++i) first.Set(i, 1000);
  Sized& second = Join("second");
  EXPECT_EQ(first.limits().bytes, kMax / 2);
  EXPECT_LE(first.bytes(), kMax / 2);
  EXPECT_EQ(second.limits().bytes, kMax / 2);
  Sized& third = Join("third");
  EXPECT_EQ(third.limits().bytes, kMax / 3);
  EXPECT_EQ(SumOfLimits() + share_->stats().free_bytes, kMax);
  EXPECT_LE(most_, kMax);
}

TEST_F(ShareTest, FloorsOfOthersBoundTheFirstPart) {
  MakeShare();
  Sized& first = Join("first", {900'000});
  Sized& second = Join("second", {1000});
  EXPECT_EQ(first.limits().bytes, 900'000);
  EXPECT_EQ(second.limits().bytes, 100'000);
}

// Promise: One budget for many caches
TEST_F(ShareTest, TheSumOfLimitsNeverExceedsTheBudget) {
  MakeShare();
  Sized& a = Join("a");
  Sized& b = Join("b");
  Sized& c = Join("c", {200'000}, /*advise=*/false);
  for (int i = 0; i < 6; ++i) {
    Run(absl::Seconds(8), {{&a, i % 2 * 100}, {&b, i % 3 * 60}, {&c, 40}});
    EXPECT_GE(c.limits().bytes, 200'000);
    EXPECT_EQ(SumOfLimits() + share_->stats().free_bytes, kMax);
  }
  EXPECT_EQ(most_, kMax);
  EXPECT_GT(share_->stats().moved_bytes, kMax);
}

TEST_F(ShareTest, AStepMovesASixtyFourthOfAllBytesAtMost) {
  MakeShare();
  Sized& busy = Join("busy");
  Sized& idle = Join("idle");
  int64_t before = busy.limits().bytes;
  int64_t most = 0;
  for (int i = 0; i < 300; ++i) {
    Run(absl::Milliseconds(100), {{&busy, 100}});
    // Not yet time for another.
    clock_.Advance(absl::Milliseconds(1));
    const int64_t now = busy.limits().bytes;
    share_->RunMaintenance();
    EXPECT_EQ(busy.limits().bytes, now);
    most = std::max(most, now - before);
    before = now;
  }
  EXPECT_GT(most, kMax / 100);
  EXPECT_LE(most, kMax / 64);
  EXPECT_LT(idle.limits().bytes, kMax / 100);
}

TEST_F(ShareTest, TheIdleGiveWithinAMinuteAndGetBackWithinTenSeconds) {
  for (const bool advise : {true, false}) {
    SCOPED_TRACE(advise);
    share_.reset();
    caches_.clear();
    MakeShare();
    Sized& a = Join("a", {5000}, advise);
    Sized& b = Join("b", {5000}, advise);
    Run(absl::Seconds(60), {{&a, 100}, {&b, 100}});
    EXPECT_GT(b.limits().bytes, kMax * 2 / 5);
    Run(absl::Seconds(60), {{&a, 100}});
    EXPECT_LT(b.limits().bytes, kMax / 50);
    Run(absl::Seconds(10), {{&a, 100}, {&b, 100}});
    EXPECT_GT(b.limits().bytes, kMax / 4);
  }
}

TEST_F(ShareTest, EqualCachesDoNotTradeForEver) {
  MakeShare();
  Sized& a = Join("a");
  Sized& b = Join("b");
  Run(absl::Seconds(30), {{&a, 50}, {&b, 50}});
  const int64_t before = share_->stats().moved_bytes;
  Run(absl::Seconds(120), {{&a, 50}, {&b, 50}});
  EXPECT_LT(share_->stats().moved_bytes - before, kMax / 10);
  EXPECT_NEAR(static_cast<double>(a.limits().bytes), kMax / 2, kMax / 10);
}

TEST_F(ShareTest, AWeightIsWhatAHitIsWorth) {
  MakeShare();
  Sized& cheap = Join("cheap");
  Sized& dear = Join("dear", {1000, /*weight=*/3});
  Run(absl::Seconds(60), {{&cheap, 100}, {&dear, 100}});
  // Where the hits grow with the logarithm, the parts are as the weights.
  EXPECT_NEAR(static_cast<double>(dear.limits().bytes), kMax * .75, kMax / 10);
  (void)cheap;
}

TEST_F(ShareTest, ALoopLongerThanItsCacheGetsWhatItNeeds) {
  MakeShare();
  Sized& loop = Join("loop");
  Sized& other = Join("other");
  int64_t next = 0;
  for (int i = 0; i < 600; ++i) {
    for (int j = 0; j < 100; ++j) {
      const int64_t key = next++ % 3500;
      if (!loop.Get(key).has_value()) loop.Set(key, 200);
    }
    Run(absl::Milliseconds(100), {{&other, 20}});
  }
  EXPECT_GT(loop.limits().bytes, 700'000);
}

TEST_F(ShareTest, WhatACacheDoesNotUseIsForOthers) {
  MakeShare();
  Sized& small = Join("small");
  Sized& large = Join("large");
  Run(absl::Seconds(60), {{&small, 200, /*keys=*/100}, {&large, 100}});
  EXPECT_GT(large.limits().bytes, kMax * 8 / 10);
  // It keeps what it uses.
  EXPECT_EQ(small.size(), 99);
}

TEST_F(ShareTest, AMemberHasItsLimitOfBytesFromTheShareAlone) {
  MakeShare();
  Sized& cache = Join("users");
  const absl::Status status = cache.SetLimits(10, 500);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(Message(status),
            "SetLimits of cache \"users\": max_bytes = 500 must be what it is, "
            "for a MemoryShare sets it");
  EXPECT_EQ(cache.limits().bytes, kMax);
  EXPECT_TRUE(absl::IsInvalidArgument(cache.SetLimits(0, kMax)));
  // That of entries is its own, and remains.
  EXPECT_TRUE(cache.SetLimits(10, kMax).ok());
  Join("other");
  EXPECT_EQ(cache.limits().entries, 10);
  EXPECT_EQ(cache.limits().bytes, kMax / 2);
}

TEST_F(ShareTest, ACacheThatEndsGivesItsBytesBack) {
  MakeShare();
  Sized& a = Join("a");
  Join("b");
  caches_.pop_back();
  EXPECT_EQ(share_->stats().free_bytes, kMax / 2);
  EXPECT_EQ(share_->stats().members.size(), 1);
  Run(absl::Seconds(30), {{&a, 100}});
  EXPECT_EQ(a.limits().bytes, kMax);
  EXPECT_EQ(share_->stats().free_bytes, 0);
}

// Calls a function at its end.
struct Probe {
  std::function<void()> end;
  explicit Probe(std::function<void()> at_end) : end(std::move(at_end)) {}
  Probe(Probe&&) = default;
  ~Probe() {
    if (end != nullptr) end();
  }
};

class ShareEndTest : public ShareTest {
 protected:
  using Probes = Cache<int, std::unique_ptr<Probe>>;

  // A member whose end calls a function.
  std::unique_ptr<Probes> Ending(std::function<void()> end) {
    CacheOptions options;
    options.clock = &clock_;
    options.reaper = nullptr;
    auto cache = Probes::Create(options).value();
    EXPECT_TRUE(share_->Add(*cache, {100'000}).ok());
    cache->Set(1, std::make_unique<Probe>(std::move(end)));
    return cache;
  }
};

// The bytes are free only once the entries are gone.
TEST_F(ShareEndTest, ItsBytesAreNotFreeBeforeItsEntriesAreGone) {
  MakeShare();
  int64_t free = -1;
  auto cache = Ending([&] { free = share_->stats().free_bytes; });
  cache.reset();
  EXPECT_EQ(free, 0);
  EXPECT_EQ(share_->stats().free_bytes, kMax);
}

TEST_F(ShareEndTest, ItWaitsUntilTheShareHasLeftIt) {
  MakeShare();
  std::atomic<bool> shrinks{false};
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  auto cache = MakeCache("a", true, [&] {
    if (shrinks.exchange(true)) return;
    while (!begun) std::this_thread::yield();
    for (int i = 0; i < 10'000 && !ended; ++i) std::this_thread::yield();
    EXPECT_FALSE(ended);
  });
  ASSERT_TRUE(share_->Add(*cache, {1000}).ok());
  for (int64_t i = 0; i < 400; ++i) cache->Set(i, 1000);
  std::thread ender([&] {
    while (!shrinks) std::this_thread::yield();
    begun = true;
    cache.reset();
    ended = true;
  });
  EXPECT_TRUE(share_->SetMaxBytes(1000).ok());
  ender.join();
  EXPECT_EQ(share_->stats().free_bytes, 1000);
}

TEST_F(ShareEndTest, SetMaxBytesWaitsForItWhereOthersCannotGiveEnough) {
  MakeShare();
  Sized& stays = Join("stays", {100'000});
  std::atomic<bool> begun{false};
  std::atomic<bool> may_end{false};
  auto cache = Ending([&] {
    begun = true;
    while (!may_end) std::this_thread::yield();
  });
  std::thread ender([&] { cache.reset(); });
  while (!begun) std::this_thread::yield();
  EXPECT_TRUE(share_->SetMaxBytes(650'000).ok());
  EXPECT_EQ(stays.limits().bytes, 150'000);
  const auto late = MakeCache("late");
  EXPECT_EQ(Message(share_->Add(*late, {100'000})),
            "share \"share\": a cache of it is ending; add \"late\" again");
  std::atomic<bool> holds{false};
  std::thread setter([&] {
    EXPECT_TRUE(share_->SetMaxBytes(300'000).ok());
    EXPECT_GE(share_->stats().free_bytes, 0);
    holds = true;
  });
  while (share_->stats().max_bytes != 300'000) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    // Nobody else has to wait.
    clock_.Advance(absl::Seconds(1));
    share_->RunMaintenance();
    std::this_thread::yield();
  }
  EXPECT_FALSE(holds);
  may_end = true;
  setter.join();
  ender.join();
  EXPECT_TRUE(share_->Add(*late, {100'000}).ok());
}

TEST_F(ShareEndTest, WithinItTheThreadChangesNoLimit) {
  MakeShare();
  Sized& stays = Join("stays");
  const auto late = MakeCache("late");
  absl::Status set;
  absl::Status added;
  auto cache = Ending([&] {
    set = share_->SetMaxBytes(kMax / 2);
    added = share_->Add(*late);
    clock_.Advance(absl::Seconds(1));
    share_->RunMaintenance();
  });
  cache.reset();
  EXPECT_TRUE(absl::IsFailedPrecondition(set)) << set;
  EXPECT_TRUE(absl::IsFailedPrecondition(added)) << added;
  EXPECT_EQ(share_->stats().max_bytes, kMax);
  EXPECT_EQ(stays.limits().bytes, kMax / 2);
  EXPECT_EQ(late->limits().bytes, kUnlimited);
  EXPECT_LT(share_->NextDeadline(), clock_.Now());
}

TEST_F(ShareTest, MembersOfAShareThatEndsAreFree) {
  MakeShare();
  Sized& a = Join("a");
  Join("b");
  share_.reset();
  EXPECT_EQ(a.limits().bytes, kMax / 2);
  EXPECT_TRUE(a.SetLimits(kUnlimited, 5000).ok());
  MakeShare();
  EXPECT_TRUE(share_->Add(a, {1}).ok());
}

TEST_F(ShareTest, SetMaxBytesHoldsOnReturn) {
  MakeShare();
  Sized& a = Join("a", {100'000});
  Sized& b = Join("b", {300'000});
  for (int64_t i = 0; i < 400; ++i) a.Set(i, 1000);
  EXPECT_TRUE(share_->SetMaxBytes(600'000).ok());
  // Each a half of what it had above its floor: 400,000 and 200,000.
  EXPECT_NEAR(static_cast<double>(a.limits().bytes), 233'333, 1);
  EXPECT_NEAR(static_cast<double>(b.limits().bytes), 366'667, 1);
  EXPECT_EQ(SumOfLimits(), 600'000);
  EXPECT_LE(a.bytes(), a.limits().bytes);
  EXPECT_EQ(Message(share_->SetMaxBytes(399'999)),
            "share \"share\": max_bytes = 399999 must be at least 400000, the "
            "sum of the floors");
  EXPECT_EQ(share_->stats().max_bytes, 600'000);
  EXPECT_TRUE(share_->SetMaxBytes(400'000).ok());
  EXPECT_EQ(a.limits().bytes, 100'000);
  EXPECT_TRUE(share_->SetMaxBytes(2 * kMax).ok());
  EXPECT_EQ(share_->stats().free_bytes, 2 * kMax - 400'000);
  EXPECT_THAT(
      Message(MemoryShare::Create(ShareOptions()).value()->SetMaxBytes(0)),
      HasSubstr("max_bytes = 0 must be at least 1"));
}

TEST_F(ShareTest, HugeNumbersDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  MakeShare(kHuge);
  Sized& a = Join("a", {kHuge / 2});
  Sized& b = Join("b", {kHuge / 4});
  EXPECT_LE(a.limits().bytes, kHuge - b.limits().bytes);
  EXPECT_TRUE(
      absl::IsInvalidArgument(share_->Add(*MakeCache("c"), {kHuge / 2})));
  Run(absl::Seconds(2), {{&a, 10}});
  EXPECT_TRUE(share_->SetMaxBytes(kHuge / 4 * 3 + 10).ok());
  EXPECT_LE(a.limits().bytes, kHuge / 4 * 3 + 10 - b.limits().bytes);
  caches_.clear();
  MakeShare(kHuge);
  Sized& all = Join("all", {1});
  EXPECT_TRUE(share_->SetMaxBytes(100).ok());
  EXPECT_EQ(all.limits().bytes, 100);
}

TEST_F(ShareTest, TheSameCallsMoveTheSameBytes) {
  std::vector<std::vector<int64_t>> runs;
  for (int run = 0; run < 2; ++run) {
    share_.reset();
    caches_.clear();
    random_.seed(7);
    clock_.Advance(absl::Hours(1));
    MakeShare();
    Sized& a = Join("a");
    Sized& b = Join("b", {1000}, /*advise=*/false);
    std::vector<int64_t>& limits = runs.emplace_back();
    for (int i = 0; i < 100; ++i) {
      Run(absl::Milliseconds(300), {{&a, i}, {&b, 50}});
      limits.push_back(a.limits().bytes);
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_GT(share_->stats().moved_bytes, 0);
}

TEST_F(ShareTest, TellsWhoHasWhatAndWhyItMoved) {
  MakeShare();
  Sized& busy = Join("busy", {1000, 2, "B"});
  Sized& idle = Join("idle");
  Run(absl::Seconds(20), {{&busy, 100}});
  const ShareStats stats = share_->stats();
  ASSERT_EQ(stats.members.size(), 2);
  const ShareStats::Member& to = stats.members[0];
  EXPECT_EQ(to.name, "B");
  EXPECT_EQ(to.bytes, busy.limits().bytes);
  EXPECT_EQ(to.used, busy.bytes());
  EXPECT_EQ(to.min_bytes, 1000);
  EXPECT_EQ(to.weight, 2);
  EXPECT_GT(to.gain, 0);
  EXPECT_EQ(to.taken_bytes, to.bytes - kMax / 2);
  EXPECT_EQ(stats.members[1].given_bytes, to.taken_bytes);
  EXPECT_EQ(stats.moved_bytes, to.taken_bytes);
  EXPECT_EQ(stats.members[1].name, "idle");
  EXPECT_EQ(stats.members[1].loss, 0);
  // One way all the time is one move.
  ASSERT_EQ(stats.latest.size(), 1);
  EXPECT_EQ(stats.latest[0].from, "idle");
  EXPECT_EQ(stats.latest[0].to, "B");
  EXPECT_EQ(stats.latest[0].bytes, stats.moved_bytes);
  EXPECT_GT(stats.latest[0].gain, stats.latest[0].loss);
  EXPECT_GT(stats.latest[0].time, absl::ZeroDuration());
  EXPECT_EQ(stats.max_bytes, kMax);
  EXPECT_EQ(stats.limit, kMax);
  (void)idle;
}

TEST_F(ShareTest, KeepsTheLatestSixteenMoves) {
  MakeShare();
  Sized& a = Join("a");
  Sized& b = Join("b");
  for (int i = 0; i < 20; ++i) {
    Run(absl::Seconds(20), {{i % 2 == 0 ? &a : &b, 30}});
  }
  const ShareStats stats = share_->stats();
  ASSERT_EQ(stats.latest.size(), 16);
  EXPECT_EQ(stats.latest.back().to, "b");
  EXPECT_LT(stats.latest[0].time, stats.latest[15].time);
}

TEST_F(ShareTest, RunsByTheReaper) {
  Reaper reaper(clock_);
  MemoryShareOptions options = ShareOptions();
  options.reaper = &reaper;
  share_ = MemoryShare::Create(options).value();
  Sized& busy = Join("busy");
  Join("idle");
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < 100; ++j) ReadOne(busy, 100'000);
    clock_.RunFor(absl::Milliseconds(100));
  }
  EXPECT_GT(busy.limits().bytes, kMax * 9 / 10);
  // Where nobody reads, it looks once a second.
  clock_.RunFor(absl::Seconds(2));
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Seconds(60));
  EXPECT_LE(clock_.wake_ups() - before, 61);
  share_.reset();
}

TEST_F(ShareTest, NextDeadlineIsWhenItLooks) {
  MakeShare();
  EXPECT_EQ(share_->NextDeadline(), clock_.Now() + absl::Milliseconds(100));
  Sized& a = Join("a");
  a.Get(1);
  clock_.Advance(absl::Milliseconds(150));
  share_->RunMaintenance();
  EXPECT_EQ(share_->NextDeadline(), clock_.Now() + absl::Milliseconds(100));
  clock_.Advance(absl::Milliseconds(100));
  share_->RunMaintenance();
  EXPECT_EQ(share_->NextDeadline(), clock_.Now() + absl::Seconds(1));
}

// Another whom the reaper runs.
struct Other : Reaper::Client {
  std::function<int64_t(int64_t)> run;
  int64_t RunDue(int64_t now) override { return run(now); }
};

// Between the parts of a large move others get their turn.
TEST_F(ShareTest, ATurnOfTheReaperIsShort) {
  Reaper reaper(clock_);
  MemoryShareOptions options = ShareOptions(8192 * kMiB);
  options.reaper = &reaper;
  share_ = MemoryShare::Create(options).value();
  Sized& busy = Join("busy", {kMiB});
  Join("idle", {kMiB});
  int64_t before = busy.limits().bytes;
  int64_t most = 0;
  int64_t most_in_a_look = 0;
  int turns = 0;
  Other other;
  other.run = [&](int64_t now) {
    const int64_t limit = busy.limits().bytes;
    most = std::max(most, limit - std::exchange(before, limit));
    return ++turns % 64 > 0 ? now : Clock::kNever;
  };
  ASSERT_TRUE(reaper.Register(&other).ok());
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 100; ++j) ReadOne(busy, 1'000'000, kMiB);
    reaper.WakeAt(&other, absl::ToInt64Nanoseconds(share_->NextDeadline()));
    const int64_t limit = busy.limits().bytes;
    clock_.RunFor(absl::Milliseconds(101));
    most_in_a_look = std::max(most_in_a_look, busy.limits().bytes - limit);
  }
  EXPECT_GT(share_->stats().moved_bytes, 100 * kMiB);
  EXPECT_EQ(most, 16 * kMiB);
  EXPECT_EQ(most_in_a_look, 128 * kMiB);
  reaper.Unregister(&other);
  share_.reset();
}

TEST_F(ShareTest, WithoutAReaperALargeMoveIsNotDivided) {
  MakeShare(8192 * kMiB);
  Sized& busy = Join("busy", {kMiB});
  Join("idle", {kMiB});
  for (int i = 0; i < 100 && busy.limits().bytes == 4096 * kMiB; ++i) {
    for (int j = 0; j < 100; ++j) ReadOne(busy, 1'000'000, kMiB);
    clock_.Advance(absl::Milliseconds(100));
    share_->RunMaintenance();
  }
  EXPECT_EQ(busy.limits().bytes, 4096 * kMiB + 128 * kMiB);
}

// Others may take what was free.
TEST_F(ShareTest, ALargeMoveEndsWhereNothingIsFreeAnyMore) {
  Reaper reaper(clock_);
  MemoryShareOptions options = ShareOptions(8192 * kMiB);
  options.reaper = &reaper;
  share_ = MemoryShare::Create(options).value();
  Sized& busy = Join("busy", {kMiB});
  Join("gone", {kMiB});
  caches_.pop_back();
  bool set = false;
  Other other;
  other.run = [&](int64_t now) {
    const int64_t limit = busy.limits().bytes;
    if (!set && limit > 4096 * kMiB) {
      set = true;
      EXPECT_EQ(limit, 4112 * kMiB);
      EXPECT_TRUE(share_->SetMaxBytes(limit + kMiB).ok());
      return now;
    }
    return set ? Clock::kNever : now + 1'000'000;
  };
  ASSERT_TRUE(reaper.Register(&other).ok());
  reaper.WakeAt(&other, 0);
  for (int i = 0; i < 100 && !set; ++i) {
    for (int j = 0; j < 100; ++j) ReadOne(busy, 1'000'000, kMiB);
    clock_.RunFor(absl::Milliseconds(101));
  }
  EXPECT_EQ(busy.limits().bytes, 4113 * kMiB);
  EXPECT_EQ(share_->stats().free_bytes, 0);
  reaper.Unregister(&other);
  share_.reset();
}

// And may shrink the one that gives, to its floor.
TEST_F(ShareTest, ALargeMoveStopsAtAFloorThatOthersReachMeanwhile) {
  Reaper reaper(clock_);
  MemoryShareOptions options = ShareOptions(8192 * kMiB);
  options.reaper = &reaper;
  share_ = MemoryShare::Create(options).value();
  Sized& busy = Join("busy", {256 * kMiB});
  Sized& idle = Join("idle", {256 * kMiB});
  bool set = false;
  Other other;
  other.run = [&](int64_t now) {
    if (!set && busy.limits().bytes > 4096 * kMiB) {
      set = true;
      EXPECT_TRUE(share_->SetMaxBytes(512 * kMiB).ok());
      return now;
    }
    EXPECT_GE(idle.limits().bytes, 256 * kMiB);
    return set ? Clock::kNever : now + 1'000'000;
  };
  ASSERT_TRUE(reaper.Register(&other).ok());
  reaper.WakeAt(&other, 0);
  for (int i = 0; i < 100 && !set; ++i) {
    for (int j = 0; j < 100; ++j) ReadOne(busy, 1'000'000, kMiB);
    clock_.RunFor(absl::Milliseconds(101));
  }
  EXPECT_TRUE(set);
  clock_.RunFor(absl::Milliseconds(101));
  EXPECT_EQ(idle.limits().bytes, 256 * kMiB);
  EXPECT_EQ(busy.limits().bytes, 256 * kMiB);
  reaper.Unregister(&other);
  share_.reset();
}

TEST_F(ShareTest, AListenerMayEndOtherMembersAndLook) {
  MakeShare();
  auto victim = MakeCache("b");
  bool told = false;
  absl::Status added;
  absl::Status set;
  auto cache = MakeCache("a", true, [&] {
    if (std::exchange(told, true)) return;
    victim.reset();
    auto other = MakeCache("c");
    added = share_->Add(*other, {1});
    set = share_->SetMaxBytes(kMax);
    share_->RunMaintenance();
    EXPECT_EQ(share_->stats().members.size(), 1);
  });
  ASSERT_TRUE(share_->Add(*cache, {1}).ok());
  ASSERT_TRUE(share_->Add(*victim, {1}).ok());
  for (int64_t i = 0; i < 400; ++i) cache->Set(i, 1000);
  EXPECT_TRUE(share_->SetMaxBytes(kMax / 2).ok());
  EXPECT_EQ(victim, nullptr);
  EXPECT_EQ(cache->limits().bytes + share_->stats().free_bytes, kMax / 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(added)) << added;
  EXPECT_THAT(Message(set), HasSubstr("called by a listener"));
}

TEST_F(ShareTest, TakesTheLocalTierOfANearCache) {
  FakeServer server(&clock_);
  FakeStore store(&server);
  NearCacheOptions options;
  options.local.clock = &clock_;
  options.local.reaper = nullptr;
  options.local.name = "near";
  auto near = NearCache<std::string>::Create(options, &store).value();
  MakeShare();
  ASSERT_TRUE(share_->Add(near->local_tier(), {1000}).ok());
  Join("other");
  EXPECT_EQ(near->local_tier().limits().bytes, kMax / 2);
  near.reset();
  EXPECT_EQ(share_->stats().free_bytes, kMax / 2);
}

TEST_F(ShareTest, AMemberIsAdvisedWhileItsLimitMoves) {
  MakeShare();
  Sized& a = Join("a");
  Sized& b = Join("b");
  Run(absl::Seconds(30), {{&a, 100}, {&b, 100}});
  const CacheAdvice before = *a.Advise();
  EXPECT_GT(before.twice, before.same);
  Run(absl::Seconds(30), {{&a, 100}, {&b, 10}});
  EXPECT_GT(a.Advise()->same, 0);
  EXPECT_NEAR(a.Advise()->same, a.stats().hit_ratio(), 1e-9);
}

TEST_F(ShareTest, WithoutMemoryNothingIsLost) {
  MakeShare();
  Sized& a = Join("a");
  auto b = MakeCache("b");
  for (int i = 0;; ++i) {
    SCOPED_TRACE(i);
    ASSERT_LT(i, 100);
    bool added = false;
    const bool failed = testing::ThrowsWithoutMemory(
        i, /*all_that_follow=*/true,
        [&] { added = share_->Add(*b, {1000}).ok(); });
    const ShareStats stats = share_->stats();
    EXPECT_EQ(stats.members.size(), added ? 2 : 1);
    int64_t sum = stats.free_bytes;
    for (const auto& member : stats.members) sum += member.bytes;
    EXPECT_EQ(sum, kMax);
    EXPECT_LE(a.limits().bytes, stats.members[0].bytes);
    if (!failed) break;
    EXPECT_TRUE(b->SetLimits(kUnlimited, kUnlimited).ok());
  }
  EXPECT_EQ(b->limits().bytes, kMax / 2);
  caches_.push_back(std::move(b));
  // Looks that cannot move.
  for (int i = 0; i < 400; ++i) {
    for (int j = 0; j < 50; ++j) ReadOne(a, 100'000);
    clock_.Advance(absl::Milliseconds(100));
    testing::ThrowsWithoutMemory(i % 40, /*all_that_follow=*/i % 3 == 0,
                                 [&] { share_->RunMaintenance(); });
    Check();
    ASSERT_LE(SumOfLimits(), kMax);
  }
  EXPECT_GT(a.limits().bytes, kMax * 3 / 4);
  EXPECT_EQ(share_->stats().members.size(), 2);
}

// Threads read, caches come and go, limits change, and others look.
TEST_F(ShareTest, HoldsWithManyThreads) {
  Reaper reaper(Clock::Monotonic());
  MemoryShareOptions options;
  options.max_bytes = kMax;
  options.reaper = &reaper;
  share_ = MemoryShare::Create(options).value();
  const auto make = [&](const std::string& name) {
    CacheOptions cache;
    cache.name = name;
    cache.reaper = &reaper;
    cache.advise = true;
    cache.max_bytes = 1000;
    Sized::Hooks hooks;
    hooks.weigher = [](const int64_t&, const int64_t& value) { return value; };
    return Sized::Create(cache, std::move(hooks)).value();
  };
  auto a = make("a");
  auto b = make("b");
  ASSERT_TRUE(share_->Add(*a, {1000}).ok());
  ASSERT_TRUE(share_->Add(*b, {1000}).ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (Sized* const cache : {a.get(), b.get()}) {
    threads.emplace_back([cache, &done] {
      for (int64_t i = 0; !done.load(); ++i) {
        const int64_t key = i * i % 5003;
        if (!cache->Get(key).has_value()) cache->Set(key, 300);
      }
    });
  }
  threads.emplace_back([&] {
    while (!done.load()) {
      share_->RunMaintenance();
      // One after the other: a reading of both is none of one instant.
      const ShareStats stats = share_->stats();
      int64_t sum = stats.free_bytes;
      for (const auto& member : stats.members) sum += member.bytes;
      EXPECT_LE(std::min(sum, kMax), stats.max_bytes);
    }
  });
  for (int i = 0; i < 40; ++i) {
    auto c = make("c");
    const absl::Status status = share_->Add(*c, {1000});
    EXPECT_TRUE(status.ok()) << status;
    for (int64_t j = 0; j < 200; ++j) c->Set(j, 300);
    EXPECT_TRUE(share_->SetMaxBytes(kMax - i * 1000).ok());
    EXPECT_LE(a->limits().bytes + b->limits().bytes + c->limits().bytes,
              kMax - i * 1000);
  }
  done.store(true);
  for (auto& thread : threads) thread.join();
  share_.reset();
}

TEST_F(ShareTest, ReportsShowIt) {
  const std::string before = PrometheusText();
  EXPECT_THAT(before, Not(HasSubstr("wheelcache_share")));
  MemoryShareOptions options = ShareOptions();
  options.name = "<all>";
  share_ = MemoryShare::Create(options).value();
  Sized& busy = Join("busy", {1000, 2});
  Join("i\"dle");
  Run(absl::Seconds(20), {{&busy, 100}});
  const ShareStats stats = share_->stats();
  const std::string text = PrometheusText();
  EXPECT_THAT(text, HasSubstr("\nwheelcache_share_max_bytes{share=\"<all>\"} "
                              "1000000\n"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(
                        "# TYPE wheelcache_share_moved_bytes_total counter\n"
                        "wheelcache_share_moved_bytes_total{share=\"<all>\"} ",
                        stats.moved_bytes, "\n")));
  EXPECT_THAT(text,
              HasSubstr(absl::StrCat("\nwheelcache_share_member_bytes{share="
                                     "\"<all>\",member=\"busy\"} ",
                                     busy.limits().bytes, "\n")));
  EXPECT_THAT(text, HasSubstr("member=\"i\\\"dle\"} "));
  const std::string page = StatusPage();
  EXPECT_THAT(page, HasSubstr("data-share=\"&lt;all&gt;\""));
  EXPECT_THAT(page, HasSubstr("to busy, which gained "));
  EXPECT_THAT(page, HasSubstr("from i&quot;dle, which lost 0"));
  EXPECT_THAT(page, Not(HasSubstr("memory is short")));
  Join("busy");
  EXPECT_THAT(PrometheusText(),
              HasSubstr("\nwheelcache_share_member_bytes{share=\"<all>\","
                        "member=\"busy\",member_id=\"2\"} "));
  // It is no cache.
  for (const CacheReport& report : ReportCaches()) {
    EXPECT_NE(report.name, "<all>");
  }
  ASSERT_EQ(ReportShares().size(), 1);
  EXPECT_EQ(ReportShares()[0].stats.moved_bytes, stats.moved_bytes);
  share_.reset();
  EXPECT_TRUE(ReportShares().empty());
}

using internal::Holding;

// What to do with 6,400 bytes, of which a step is 100: "from>to bytes".
std::string Chosen(const std::vector<Holding>& members, int64_t free = 0) {
  const auto move = internal::ChooseMove(members, free, 6400);
  if (!move.has_value()) return "";
  return absl::StrCat(move->from.has_value() ? absl::StrCat(*move->from) : "",
                      ">", move->to, " ", move->bytes);
}

TEST(ShareChoiceTest, AMoveIsOfWhatTheGiverCanSpareWithoutHarm) {
  const Holding taker = {1000, 1000, 1, /*gain=*/2, /*loss=*/2};
  EXPECT_EQ(Chosen({taker, {3200, 3200, 1, 1, 1}}), "1>0 100");
  // A part of what it has; what it has above its floor.
  EXPECT_EQ(Chosen({taker, {1600, 1600, 1, 1, 1}}), "1>0 50");
  EXPECT_EQ(Chosen({taker, {3200, 3200, 3190, 1, 1}}), "1>0 10");
  EXPECT_EQ(Chosen({taker, {3200, 3200, 3200, 1, 1}}), "");
  EXPECT_EQ(Chosen({taker}), "");
  // What it does not use, but for two steps: that costs nothing.
  const Holding spares = {3200, 2999, 1, 3, 3};
  EXPECT_EQ(Chosen({taker, spares}), "1>0 1");
  EXPECT_EQ(Chosen({taker, {3200, 3000, 1, 3, 3}}), "");
  EXPECT_EQ(Chosen({taker, {3200, 3200, 1, .1, .1}, spares}), "2>0 1");
  // The one that loses least gives, and the one that gains most takes.
  const Holding low = {3200, 3200, 1, 1, 1};
  const Holding lowest = {3200, 3200, 1, .5, .5};
  EXPECT_EQ(Chosen({low, lowest, taker}), "1>2 100");
  EXPECT_EQ(Chosen({lowest, low, taker}), "0>2 100");
  EXPECT_EQ(Chosen({taker, {3200, 3200, 3200, .5, .5}, low}), "2>0 100");
  EXPECT_EQ(Chosen({{1000, 1000, 1, 2, /*loss=*/.1}, low}), "1>0 100");
  // What is free costs nothing either.
  EXPECT_EQ(Chosen({low, taker}, 30), ">1 30");
  EXPECT_EQ(Chosen({low, taker}, 300), ">1 100");
}

TEST(ShareChoiceTest, OnlyAFullCacheTakes) {
  const Holding giver = {3200, 3200, 1, 1, 1};
  EXPECT_EQ(Chosen({{1000, 900, 1, 2, 2}, giver}), "1>0 100");
  EXPECT_EQ(Chosen({{1000, 899, 1, 2, 2}, giver}), "");
  EXPECT_EQ(Chosen({{6400, 6200, 1, 2, 2}, giver}), "1>0 100");
  EXPECT_EQ(Chosen({{6400, 6199, 1, 2, 2}, giver}), "");
  EXPECT_EQ(Chosen({{1000, 1000, 1, 0, 0}}, 100), "");
}

TEST(ShareChoiceTest, AMoveNeedsAGainBeyondATenthAndThreeErrors) {
  const auto chosen = [](double gain, double error, double giver_error) {
    return Chosen({{1000, 1000, 1, gain, gain, error},
                   {3200, 3200, 1, 1, 1, giver_error}});
  };
  EXPECT_EQ(chosen(1.09, 0, 0), "");
  // Half of the 77 that would make both equal.
  EXPECT_EQ(chosen(1.11, 0, 0), "1>0 38");
  EXPECT_EQ(chosen(2, .33, 0), "1>0 100");
  EXPECT_EQ(chosen(2, .34, 0), "");
  EXPECT_EQ(chosen(2, .23, .23), "1>0 100");
  EXPECT_EQ(chosen(2, .24, .24), "");
}

TEST(ShareChoiceTest, ALossIsSpreadByWhatEachHasAboveItsFloor) {
  using internal::SpreadLoss;
  const std::vector<Holding> members = {{100, 0, 0}, {300, 0, 100}};
  EXPECT_THAT(SpreadLoss(members, 150), ElementsAre(50, 100));
  EXPECT_THAT(SpreadLoss(members, 1), ElementsAre(1, 0));
  EXPECT_THAT(SpreadLoss(members, 1000), ElementsAre(100, 200));
  // Beyond 2^53, where parts are not exact.
  constexpr int64_t kLarge = int64_t{1} << 60;
  const std::vector<int64_t> given =
      SpreadLoss({{kLarge + 1}, {kLarge + 1}, {kLarge + 1}}, 3 * kLarge + 2);
  EXPECT_EQ(given[0] + given[1] + given[2], 3 * kLarge + 2);
}

TEST(ShareDemandTest, WhatIsEvictedYoungWouldBeUsedAgain) {
  internal::Demand demand;
  CacheStats stats;
  demand.Observe(stats, std::nullopt, 0);
  EXPECT_EQ(demand.gain(), 0);
  stats.evictions = 100;
  stats.evicted_bytes = 100'000;
  stats.eviction_age.sum = 500;
  demand.Observe(stats, std::nullopt, 1);
  // A tenth, within 5 seconds, of 1000 bytes.
  EXPECT_DOUBLE_EQ(demand.gain(), .1 / 5000);
  EXPECT_DOUBLE_EQ(demand.loss(), .1 / 5000);
  EXPECT_DOUBLE_EQ(demand.error(), .1 / 5000 / std::sqrt(100.));
  // While nothing leaves, what is there gets older.
  demand.Observe(stats, std::nullopt, 2);
  demand.Observe(stats, std::nullopt, 1);
  EXPECT_NEAR(demand.gain(), .1 / 8000, 1e-12);
  stats.evictions += 100;
  stats.evicted_bytes += 100'000;
  stats.eviction_age.sum += 500;
  demand.Observe(stats, std::nullopt, 1);
  EXPECT_NEAR(demand.gain(), .1 / 5000, 1e-12);
  // After a minute, less than one of 200 is remembered.
  demand.Observe(stats, std::nullopt, 60);
  EXPECT_EQ(demand.gain(), 0);
}

TEST(ShareDemandTest, ASampleTellsWhatMoreBytesAndFewerWouldDo) {
  CacheStats stats;
  stats.max_bytes = 1000;
  stats.advice.emplace().sampled = .5;
  internal::Advisor::MoreHits more;
  internal::Demand demand;
  demand.Observe(stats, more, 0);
  stats.misses = 30;
  more.misses = 20;
  more.half = -10;
  more.twice = 8;
  more.four_times = 12;
  demand.Observe(stats, more, 2);
  // A hit, in 2 seconds, between half and twice of 1000 bytes.
  const double per_hit = 1 / (2 * std::log(2) * 1000 * 2);
  // Of 20 sampled misses there were 30 in truth.
  EXPECT_DOUBLE_EQ(demand.loss(), (10 + 8 * 1.5) * per_hit);
  EXPECT_DOUBLE_EQ(demand.gain(), demand.loss());
  EXPECT_DOUBLE_EQ(demand.error(),
                   std::sqrt((10 + 8 * 1.5 + 1) / .5) * per_hit);
  // A loop: nothing but four times as much brings hits. Of a sample of half of
  // all, each counts twice at most.
  internal::Demand loop;
  loop.Observe({}, internal::Advisor::MoreHits(), 0);
  stats.misses = 100;
  more = {/*half=*/10, /*twice=*/-1, /*four_times=*/20, /*misses=*/20};
  loop.Observe(stats, more, 2);
  EXPECT_EQ(loop.loss(), 0);
  EXPECT_DOUBLE_EQ(loop.gain(), 20 * 2 / (3. * 1000 * 2));
  EXPECT_DOUBLE_EQ(loop.error(), std::sqrt(1 / .5) * per_hit);
}

class MemoryPressureTest : public ShareTest {
 protected:
  // A folder that stands for a cgroup.
  MemoryPressureTest() {
    Write("memory.max", "max");
    Write("memory.high", absl::StrCat(100 * kMiB));
    WriteUse(0);
    Write("memory.pressure", Pressure(0));
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder_, "/", name)) << text << "\n";
  }
  // What the caches hold, and others.
  void WriteUse(int64_t others) {
    int64_t used = others;
    for (const auto& cache : caches_) used += cache->bytes();
    Write("memory.current", absl::StrCat(used + 7 * kMiB));
    Write("memory.stat", absl::StrCat("anon 1\ninactive_anon 5\n",
                                      "inactive_file ", 7 * kMiB));
  }
  static std::string Pressure(double percent) {
    return absl::StrCat("some avg10=", percent,
                        " avg60=1.00 avg300=0.00 total=9\nfull avg10=0.00 "
                        "avg60=0.00 avg300=0.00 total=0");
  }

  void MakePressedShare() {
    MemoryShareOptions options = ShareOptions(60 * kMiB);
    options.pressure = MemoryPressureOptions();
    options.pressure->cgroup = folder_;
    share_ = MemoryShare::Create(options).value();
  }
  void Look(int64_t others) {
    WriteUse(others);
    clock_.Advance(absl::Milliseconds(100));
    share_->RunMaintenance();
  }
  int64_t Held() const {
    int64_t bytes = 0;
    for (const auto& cache : caches_) bytes += cache->bytes();
    return bytes;
  }
  void Fill(Sized& cache, int64_t bytes) {
    for (int64_t i = 0; i < bytes / kMiB; ++i) cache.Set(i, kMiB);
  }

  const std::string folder_ = ::testing::TempDir();
};

TEST_F(MemoryPressureTest, ReadsACgroup) {
  Write("memory.max", absl::StrCat(90 * kMiB));
  Write("memory.pressure", Pressure(12.5));
  WriteUse(5 * kMiB);
  const MemoryReading reading = ReadCgroup(folder_).value();
  EXPECT_EQ(reading.used, 5 * kMiB);  // Without what the kernel drops.
  EXPECT_EQ(reading.limit, 90 * kMiB);
  EXPECT_EQ(reading.stalled, 0.125);
  Write("memory.max", "max");
  EXPECT_EQ(ReadCgroup(folder_)->limit, 100 * kMiB);
  unlink(absl::StrCat(folder_, "/memory.high").c_str());
  unlink(absl::StrCat(folder_, "/memory.pressure").c_str());
  unlink(absl::StrCat(folder_, "/memory.stat").c_str());
  EXPECT_EQ(ReadCgroup(folder_)->limit, kUnlimited);
  EXPECT_EQ(ReadCgroup(folder_)->used, 12 * kMiB);
  EXPECT_EQ(ReadCgroup(folder_)->stalled, 0);
  Write("memory.current", "none");
  EXPECT_EQ(
      Message(ReadCgroup(folder_).status()),
      absl::StrCat("no cgroup (version 2) that counts memory in ", folder_));
}

TEST_F(MemoryPressureTest, CreateNamesWhatIsWrong) {
  MemoryShareOptions options = ShareOptions();
  options.pressure = MemoryPressureOptions();
  options.pressure->reserve = 0.6;
  EXPECT_EQ(Message(MemoryShare::Create(options).status()),
            "share \"share\": pressure.reserve = 0.6 must be from 0 to 0.5");
  options.pressure->reserve = std::nan("");
  EXPECT_FALSE(MemoryShare::Create(options).ok());
  options.pressure->reserve = 0;
  options.pressure->cgroup = "/nowhere";
  EXPECT_TRUE(absl::IsNotFound(MemoryShare::Create(options).status()));
}

// Other memory of the process grows. With the share it stays below its limit;
// without, the caches alone would have taken it beyond.
TEST_F(MemoryPressureTest, ShrinksBeforeTheLimitAndGrowsBack) {
  MakePressedShare();
  Sized& a = Join("a", {2 * kMiB});
  Sized& b = Join("b", {2 * kMiB});
  Fill(a, 30 * kMiB);
  Fill(b, 30 * kMiB);
  const int64_t before = Held();
  EXPECT_GT(before, 55 * kMiB);
  for (int64_t others = 0; others <= 80 * kMiB; others += kMiB) {
    Look(others);
    EXPECT_LE(Held() + others, 100 * kMiB) << others / kMiB;
    EXPECT_EQ(Held() == before, others + before <= 100 * kMiB / 16 * 15);
  }
  EXPECT_GT(before + 80 * kMiB, 100 * kMiB);
  EXPECT_NEAR(static_cast<double>(SumOfLimits()), 14 * kMiB, 2 * kMiB);
  ShareStats stats = share_->stats();
  EXPECT_EQ(stats.max_bytes, 60 * kMiB);
  EXPECT_EQ(stats.limit, SumOfLimits() + stats.free_bytes);
  EXPECT_GT(stats.memory.shrinks, 20);
  EXPECT_EQ(stats.memory.limit, 100 * kMiB);
  EXPECT_THAT(StatusPage(), HasSubstr("as memory is short: "));
  // It falls. A minute brings half of it back, two all.
  for (int i = 0; i < 600; ++i) Look(0);
  EXPECT_NEAR(static_cast<double>(share_->stats().limit), 44 * kMiB, 3 * kMiB);
  for (int i = 0; i < 600; ++i) Look(0);
  EXPECT_EQ(share_->stats().limit, 60 * kMiB);
  EXPECT_EQ(share_->stats().memory.shrinks, stats.memory.shrinks);
}

TEST_F(MemoryPressureTest, NeverGoesBelowTheFloors) {
  MakePressedShare();
  Sized& a = Join("a", {20 * kMiB});
  Join("b", {10 * kMiB});
  Fill(a, 30 * kMiB);
  for (int i = 0; i < 30; ++i) Look(500 * kMiB);
  EXPECT_EQ(a.limits().bytes, 20 * kMiB);
  EXPECT_EQ(share_->stats().limit, 30 * kMiB);
  // A floor is given in a shortage, too; and a lower maximum is no more room.
  Sized& c = Join("c", {5 * kMiB});
  EXPECT_EQ(c.limits().bytes, 5 * kMiB);
  EXPECT_EQ(share_->stats().limit, 35 * kMiB);
  EXPECT_TRUE(share_->SetMaxBytes(50 * kMiB).ok());
  EXPECT_EQ(share_->stats().limit, 35 * kMiB);
  EXPECT_TRUE(share_->SetMaxBytes(35 * kMiB).ok());
  for (int i = 0; i < 300; ++i) Look(0);
  EXPECT_EQ(share_->stats().limit, 35 * kMiB);
}

TEST_F(MemoryPressureTest, ShrinksSlowlyWhileThreadsWaitForMemory) {
  MakePressedShare();
  Fill(Join("a", {kMiB}), 59 * kMiB);
  Write("memory.pressure", Pressure(9));
  Look(0);
  EXPECT_EQ(share_->stats().limit, 60 * kMiB);
  Write("memory.pressure", Pressure(40));
  const int64_t held = Held();
  Look(0);
  EXPECT_EQ(share_->stats().limit, held - 60 * kMiB / 64);
  // A lower maximum holds in a shortage, too.
  EXPECT_TRUE(share_->SetMaxBytes(30 * kMiB).ok());
  EXPECT_EQ(share_->stats().limit, 30 * kMiB);
  EXPECT_EQ(SumOfLimits(), 30 * kMiB);
}

TEST_F(MemoryPressureTest, GoesOnWhereMemoryCannotBeRead) {
  MakePressedShare();
  Fill(Join("a", {kMiB}), 59 * kMiB);
  Look(60 * kMiB);
  const int64_t limit = share_->stats().limit;
  EXPECT_LT(limit, 60 * kMiB);
  Write("memory.current", "?");
  clock_.Advance(absl::Milliseconds(100));
  share_->RunMaintenance();
  EXPECT_EQ(share_->stats().limit, limit);
  EXPECT_EQ(share_->stats().memory.errors, 1);
}

TEST_F(MemoryPressureTest, HugeNumbersDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  using internal::LimitUnderPressure;
  const MemoryReading ample = {0, 80 * kMiB, 0};
  EXPECT_EQ(LimitUnderPressure({kHuge, 0, kHuge}, ample, 1. / 16, .1), kHuge);
  // What is free: 80 MiB, of which a sixteenth is kept, and as much again.
  EXPECT_EQ(LimitUnderPressure({kMiB, 0, kHuge}, ample, 1. / 16, 1e9),
            36 * kMiB);
}

TEST_F(MemoryPressureTest, TheCallerMayTellInstead) {
  MemoryReading reading = {50 * kMiB, 80 * kMiB, 0};
  MemoryShareOptions options = ShareOptions(60 * kMiB);
  options.pressure = MemoryPressureOptions();
  options.pressure->reserve = 0.25;
  options.pressure->read = [&] { return reading; };
  share_ = MemoryShare::Create(options).value();
  Fill(Join("a", {kMiB}), 40 * kMiB);
  Look(0);
  EXPECT_EQ(share_->stats().limit, 60 * kMiB);
  const int64_t held = Held();
  reading.used = 61 * kMiB;
  Look(0);
  EXPECT_EQ(share_->stats().limit, held - kMiB);
  // An eighth in a look, however much is missing.
  reading.used = 500 * kMiB;
  Look(0);
  EXPECT_GE(share_->stats().limit, held - kMiB - 60 * kMiB / 8 - kMiB);
  // Without a limit there is no shortage. It grows no faster for that.
  const int64_t limit = share_->stats().limit;
  reading = {500 * kMiB, kUnlimited, 0};
  Look(0);
  EXPECT_NEAR(static_cast<double>(share_->stats().limit - limit),
              60.0 * kMiB / 1200, 1);
}

// As where threads of a cgroup without a limit wait for the memory of all.
TEST_F(MemoryPressureTest, AfterAStallItGrowsSlowlyWithoutALimitToo) {
  MemoryReading reading = {50 * kMiB, kUnlimited, .2};
  for (const double reserve : {0.0, .5}) {
    SCOPED_TRACE(reserve);
    const auto after = [&](double seconds) {
      return internal::LimitUnderPressure({24 * kMiB, 24 * kMiB, 64 * kMiB},
                                          reading, reserve, seconds);
    };
    reading.stalled = .2;
    EXPECT_EQ(after(.1), 23 * kMiB);
    reading.stalled = .1;
    EXPECT_EQ(after(30), 40 * kMiB);
    EXPECT_EQ(after(300), 64 * kMiB);
  }
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_GT(internal::LimitUnderPressure({1, 0, kHuge}, reading, .5, 1e9),
            kHuge / 3);
}

}  // namespace
}  // namespace wheelcache
