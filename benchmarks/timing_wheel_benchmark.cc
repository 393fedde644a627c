// The timing wheel and other structures that can hold a million timers.
//
// A million timers are pending, with delays uniform over 3.6 million ticks. All
// subjects get the same timers in the same random order, generated before the
// measurement. Times are per timer or, for NextWakeup and IdleJump, per call.
// Compare subjects within one run only:
//
//   timing_wheel_benchmark --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=9 --benchmark_report_aggregates_only=true

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/baselines/btree_timers.h"
#include "wheelcache/benchmarks/baselines/heap_timers.h"
#include "wheelcache/benchmarks/baselines/multimap_timers.h"
#include "wheelcache/benchmarks/baselines/rounds_timers.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache {
namespace {

constexpr size_t kPending = 1'000'000;
constexpr size_t kExtra = 100'000;  // Added to these, or cancelled of them.
constexpr size_t kTimers = kPending + kExtra;
constexpr uint64_t kLongestDelay = 3'600'000;

// The wheel of wheel/timing_wheel.h: timers inside objects, linked by pointers.
class PointerWheel {
 public:
  explicit PointerWheel(size_t timers) : timers_(timers) {}

  void Add(uint32_t timer, uint64_t deadline) {
    wheel_.Schedule(&timers_[timer], deadline);
  }
  void Move(uint32_t timer, uint64_t deadline) { Add(timer, deadline); }
  void Cancel(uint32_t timer) { wheel_.Cancel(&timers_[timer]); }

  template <typename Fire>
  void Advance(uint64_t now, Fire&& fire) {
    wheel_.Advance(now, kNoBudget, [&](Timer* timer) {
      fire(static_cast<uint32_t>(timer - timers_.data()));
    });
  }

  uint64_t NextWakeup() const { return *wheel_.NextWakeup(); }

 private:
  TimingWheel wheel_;
  std::vector<Timer> timers_;
};

// The wheel as the cache uses it: linked by 32-bit references into an array.
class CompactWheel {
 public:
  explicit CompactWheel(size_t timers)
      : timers_(timers + 1), wheel_(Store{timers_.data()}) {}

  void Add(uint32_t timer, uint64_t deadline) {
    timers_[timer + 1].deadline = deadline;
    wheel_.Schedule(timer + 1);
  }

  void Move(uint32_t timer, uint64_t deadline) {
    if (deadline >= timers_[timer + 1].deadline) {
      timers_[timer + 1].deadline = deadline;
      return;
    }
    wheel_.Cancel(timer + 1);
    Add(timer, deadline);
  }

  void Cancel(uint32_t timer) { wheel_.Cancel(timer + 1); }

  template <typename Fire>
  void Advance(uint64_t now, Fire&& fire) {
    wheel_.Advance(now, kNoBudget, [&](uint32_t ref) { fire(ref - 1); });
  }

  uint64_t NextWakeup() const { return *wheel_.NextWakeup(); }

 private:
  struct ArrayTimer {
    TimerLinks<uint32_t> links;
    uint64_t deadline = 0;
  };

  struct Store {
    using Ref = uint32_t;
    TimerLinks<Ref>& links(Ref ref) const { return timers[ref].links; }
    uint64_t deadline(Ref ref) const { return timers[ref].deadline; }
    ArrayTimer* timers;
  };

  std::vector<ArrayTimer> timers_;  // Reference 0 is null.
  BasicTimingWheel<Store> wheel_;
};

// A timer and its delay.
struct Draw {
  uint32_t timer;
  uint64_t delay;
};

// All timers, in random order, with random delays.
std::vector<Draw> DrawTimers(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Draw> draws(kTimers);
  for (uint32_t timer = 0; timer < kTimers; ++timer) {
    draws[timer] = {timer, 1 + random() % kLongestDelay};
  }
  std::shuffle(draws.begin(), draws.end(), random);
  return draws;
}

// The timers that are pending first, and the operations on them: drawn before
// the measurement, the same for all subjects.
const std::vector<Draw>& FirstDraws() {
  static const auto* const draws = new std::vector<Draw>(DrawTimers(1));
  return *draws;
}
const std::vector<Draw>& SecondDraws() {
  static const auto* const draws = new std::vector<Draw>(DrawTimers(2));
  return *draws;
}

// Makes malloc keep freed memory, so that all pages are touched before the
// measurement, and coalesce it, so that subjects that allocate nodes get them
// at adjacent addresses.
void SettleMemory() {
  constexpr int kAll = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kAll);
  mallopt(M_TRIM_THRESHOLD, kAll);
  std::vector<char> touched(256 << 20, 1);
  benchmark::DoNotOptimize(touched.data());
}

// Makes a subject with `pending` timers, whose delays count from `base`.
template <typename Timers>
std::unique_ptr<Timers> Make(size_t pending, uint64_t base = 0) {
  SettleMemory();
  auto timers = std::make_unique<Timers>(kTimers);
  for (size_t i = 0; i < pending; ++i) {
    timers->Add(FirstDraws()[i].timer, base + FirstDraws()[i].delay);
  }
  return timers;
}

// Runs `operations` once per batch, on a new subject with `pending` timers.
template <typename Timers, typename Operations>
void Measure(benchmark::State& state, size_t batch, size_t pending,
             Operations operations) {
  const benchmarks::StolenTime stolen;
  while (state.KeepRunningBatch(static_cast<int64_t>(batch))) {
    state.PauseTiming();
    std::unique_ptr<Timers> timers = Make<Timers>(pending);
    state.ResumeTiming();
    operations(*timers);
    state.PauseTiming();
    timers.reset();
    state.ResumeTiming();
  }
  state.counters["stolen"] = stolen.share();
}

// Adds a million timers to an empty subject, in the order of their addresses.
template <typename Timers>
void BM_Fill(benchmark::State& state) {
  const std::vector<Draw>& draws = FirstDraws();
  Measure<Timers>(state, kPending, 0, [&](Timers& timers) {
    for (uint32_t timer = 0; timer < kPending; ++timer) {
      timers.Add(timer, draws[timer].delay);
    }
  });
}

// Adds timers in random order to a million pending ones.
template <typename Timers>
void BM_Add(benchmark::State& state) {
  const std::vector<Draw>& draws = FirstDraws();
  Measure<Timers>(state, kExtra, kPending, [&](Timers& timers) {
    for (size_t i = kPending; i < kTimers; ++i) {
      timers.Add(draws[i].timer, draws[i].delay);
    }
  });
}

// Moves each of a million timers, in random order, to a new random deadline.
template <typename Timers>
void BM_Move(benchmark::State& state) {
  const std::vector<Draw>& draws = SecondDraws();
  Measure<Timers>(state, kTimers, kTimers, [&](Timers& timers) {
    for (const Draw& draw : draws) timers.Move(draw.timer, draw.delay);
  });
}

// Cancels randomly chosen timers.
template <typename Timers>
void BM_Cancel(benchmark::State& state) {
  const std::vector<Draw>& draws = SecondDraws();
  Measure<Timers>(state, kExtra, kTimers, [&](Timers& timers) {
    for (size_t i = 0; i < kExtra; ++i) timers.Cancel(draws[i].timer);
  });
}

// Advances to `until` in steps of `step` and counts what fires.
template <typename Timers>
size_t Expire(Timers& timers, uint64_t step, uint64_t until) {
  size_t fired = 0;
  uint64_t sum = 0;
  for (uint64_t now = step; now < until + step; now += step) {
    timers.Advance(std::min(now, until), [&](uint32_t timer) {
      ++fired;
      sum += timer;
    });
  }
  benchmark::DoNotOptimize(sum);
  return fired;
}

// Expires a million timers: advances in steps of the first argument up to the
// tick of the second.
template <typename Timers>
void BM_Expire(benchmark::State& state) {
  const auto step = static_cast<uint64_t>(state.range(0));
  const auto until = static_cast<uint64_t>(state.range(1));
  const std::vector<Draw>& draws = FirstDraws();
  const auto due = static_cast<size_t>(
      std::count_if(draws.begin(), draws.begin() + kPending,
                    [&](const Draw& draw) { return draw.delay <= until; }));
  Measure<Timers>(state, due, kPending, [&](Timers& timers) {
    if (Expire(timers, step, until) != due) state.SkipWithError("lost timers");
  });
}

// The same after each timer has moved once.
template <typename Timers>
void BM_ExpireMoved(benchmark::State& state) {
  const auto step = static_cast<uint64_t>(state.range(0));
  Measure<Timers>(state, kTimers, kTimers, [&](Timers& timers) {
    state.PauseTiming();
    for (const Draw& draw : SecondDraws()) timers.Move(draw.timer, draw.delay);
    state.ResumeTiming();
    if (Expire(timers, step, kLongestDelay) != kTimers) {
      state.SkipWithError("lost timers");
    }
  });
}

// Expires a million timers that share one deadline, the argument.
template <typename Timers>
void BM_ExpireOneSlot(benchmark::State& state) {
  const auto deadline = static_cast<uint64_t>(state.range(0));
  Measure<Timers>(state, kPending, 0, [&](Timers& timers) {
    state.PauseTiming();
    for (size_t i = 0; i < kPending; ++i) {
      timers.Add(FirstDraws()[i].timer, deadline);
    }
    state.ResumeTiming();
    if (Expire(timers, deadline, deadline) != kPending) {
      state.SkipWithError("lost timers");
    }
  });
}

// Asks for the next wake-up; the argument is the number of pending timers.
template <typename Timers>
void BM_NextWakeup(benchmark::State& state) {
  const auto timers = Make<Timers>(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(timers->NextWakeup());
    benchmark::ClobberMemory();
  }
}

// Advances by as many ticks as the argument says, with a million timers pending
// that are too far away to fire.
template <typename Timers>
void BM_IdleJump(benchmark::State& state) {
  const auto timers = Make<Timers>(kPending, uint64_t{1} << 62);
  uint64_t now = 0;
  size_t fired = 0;
  for (auto _ : state) {
    now += static_cast<uint64_t>(state.range(0));
    timers->Advance(now, [&](uint32_t) { ++fired; });
    benchmark::ClobberMemory();
  }
  if (fired != 0) state.SkipWithError("not idle");
}

constexpr int64_t kAllTicks = kLongestDelay;
constexpr int64_t kRevolution = 300;  // Of the wheel with rounds.

void Batches(benchmark::internal::Benchmark* benchmark) {
  benchmark->Iterations(1);  // One batch.
}

void Steps(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"step", "until"})->Iterations(1);
  benchmark->Args({1, kAllTicks})->Args({1000, kAllTicks});
}

void LongStep(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("step")->Iterations(1)->Arg(1000);
}

void Deadlines(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("tick")->Iterations(1)->Arg(kRevolution)->Arg(kAllTicks);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("pending")->Iterations(1 << 20);
  benchmark->Arg(1'000)->Arg(30'000)->Arg(kPending);
}

void Jumps(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("ticks")->Iterations(1 << 20);
  benchmark->Arg(1)->Arg(1'000)->Arg(100'000'000);
}

// The subjects of an operation run next to each other, so that a slow minute of
// the machine slows all of them.
#define BENCHMARK_TIMERS(Operation, Arguments)                     \
  BENCHMARK_TEMPLATE(Operation, PointerWheel)->Apply(Arguments);   \
  BENCHMARK_TEMPLATE(Operation, CompactWheel)->Apply(Arguments);   \
  BENCHMARK_TEMPLATE(Operation, MultimapTimers)->Apply(Arguments); \
  BENCHMARK_TEMPLATE(Operation, BtreeTimers)->Apply(Arguments);    \
  BENCHMARK_TEMPLATE(Operation, HeapTimers)->Apply(Arguments)

BENCHMARK_TIMERS(BM_Fill, Batches);
BENCHMARK_TEMPLATE(BM_Fill, RoundsTimers)->Apply(Batches);
BENCHMARK_TIMERS(BM_Add, Batches);
BENCHMARK_TEMPLATE(BM_Add, RoundsTimers)->Apply(Batches);
BENCHMARK_TIMERS(BM_Move, Batches);
BENCHMARK_TEMPLATE(BM_Move, RoundsTimers)->Apply(Batches);
BENCHMARK_TIMERS(BM_Cancel, Batches);
BENCHMARK_TEMPLATE(BM_Cancel, RoundsTimers)->Apply(Batches);
BENCHMARK_TIMERS(BM_Expire, Steps);
BENCHMARK_TIMERS(BM_ExpireMoved, LongStep);
BENCHMARK_TIMERS(BM_ExpireOneSlot, Deadlines);
BENCHMARK_TIMERS(BM_NextWakeup, Sizes);
BENCHMARK_TIMERS(BM_IdleJump, Jumps);

// The wheel with rounds visits every timer once per revolution, so it runs one
// revolution only: 3.6 million ticks, or one jump of 1e8, would take hours.
BENCHMARK_TEMPLATE(BM_Expire, RoundsTimers)
    ->ArgNames({"step", "until"})
    ->Args({1, kRevolution})
    ->Apply(Batches);
BENCHMARK_TEMPLATE(BM_ExpireOneSlot, RoundsTimers)
    ->ArgName("tick")
    ->Arg(kRevolution)
    ->Apply(Batches);
BENCHMARK_TEMPLATE(BM_IdleJump, RoundsTimers)
    ->ArgName("ticks")
    ->Arg(1)
    ->Arg(1'000)
    ->Iterations(1);

}  // namespace
}  // namespace wheelcache
