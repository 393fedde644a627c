// Histories of short concurrent scripts on few keys, each of which must be
// explained by calls that took effect one after the other. The engine yields at
// its critical points, so that scripts of some microseconds
// interleave in most ways that there are.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/tests/testing/cache_history.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/linearizability.h"
#include "wheelcache/tests/testing/spin_barrier.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

// Of this thread; those that run no script do not yield.
thread_local std::minstd_rand* yield_choices = nullptr;
thread_local int64_t yields_of_thread = 0;

void MayYield(const char* /*point*/) {
  if (yield_choices == nullptr || (*yield_choices)() % 4 != 0) return;
  ++yields_of_thread;
  std::this_thread::yield();
}

constexpr absl::Duration kTick = absl::Milliseconds(1);

struct Setup {
  int threads;
  int calls;  // Of each thread.
  int shards;
  int fillers;             // Other keys in the cache, so that its index grows.
  int64_t coarse_lag = 0;  // In ticks.

  friend std::ostream& operator<<(std::ostream& out, const Setup& setup) {
    return out << setup.threads << " threads with " << setup.calls
               << " calls each, " << setup.shards << " shards, "
               << setup.fillers << " fillers, coarse by " << setup.coarse_lag;
  }
};

using Script = std::vector<HistoryCall>;

// Mostly Set and Get, and TTLs that end within the history.
HistoryCall RandomCall(std::mt19937_64* random) {
  constexpr HistoryCall::What kCalls[] = {
      HistoryCall::kSet,   HistoryCall::kSet,      HistoryCall::kSet,
      HistoryCall::kGet,   HistoryCall::kGet,      HistoryCall::kGet,
      HistoryCall::kGet,   HistoryCall::kDel,      HistoryCall::kTouch,
      HistoryCall::kClear, HistoryCall::kTick,     HistoryCall::kTick,
      HistoryCall::kTouch, HistoryCall::kMaintain, HistoryCall::kFind,
      HistoryCall::kFind,  HistoryCall::kMove,     HistoryCall::kMove};
  constexpr int64_t kTtls[] = {0, 1, 1, 2, 2, 3, kForever, kForever};
  HistoryCall call;
  call.what = kCalls[(*random)() % std::size(kCalls)];
  // Half of the calls meet on one key.
  call.key =
      static_cast<int>((*random)() % (size_t{2} * kHistoryKeys)) % kHistoryKeys;
  if ((*random)() % 2 == 0) call.key = 0;
  if (call.what == HistoryCall::kSet || call.what == HistoryCall::kTouch) {
    call.ttl = kTtls[(*random)() % std::size(kTtls)];
  }
  return call;
}

// One script for each thread; no two Sets have the same value.
std::vector<Script> RandomScripts(const Setup& setup, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Script> scripts(setup.threads);
  int value = 0;
  for (int thread = 0; thread < setup.threads; ++thread) {
    for (int i = 0; i < setup.calls; ++i) {
      HistoryCall call = RandomCall(&random);
      call.thread = thread;
      if (call.what == HistoryCall::kSet) call.value = ++value;
      scripts[thread].push_back(call);
    }
  }
  return scripts;
}

// A cache that plays scripts on several threads and records what they see.
class Stage {
 public:
  explicit Stage(const Setup& setup)
      : setup_(setup), clock_(absl::ZeroDuration(), setup.coarse_lag * kTick) {
    CacheOptions options;
    options.clock = &clock_;
    options.reaper = nullptr;
    options.jitter = 0;
    options.shards = setup.shards;
    options.tick = kTick;
    cache_ = std::move(*Cache<int, int>::Create(options));
  }

  // Plays one history for each seed from `first` on.
  std::vector<CacheHistory> Play(uint64_t first, size_t count) {
    std::vector<std::vector<Script>> scripts;
    for (size_t i = 0; i < count; ++i) {
      scripts.push_back(RandomScripts(setup_, first + i));
    }
    std::vector<std::vector<CacheHistory>> parts(
        setup_.threads, std::vector<CacheHistory>(count));
    SpinBarrier barrier(setup_.threads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < setup_.threads; ++thread) {
      threads.emplace_back([&, thread] {
        std::minstd_rand choices(static_cast<uint32_t>(first) + thread + 1);
        for (size_t i = 0; i < count; ++i) {
          barrier.Pass([this] { Reset(); });
          yield_choices = &choices;
          parts[thread][i] = Perform(scripts[i][thread]);
          yield_choices = nullptr;
        }
        yields_ += yields_of_thread;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return Joined(parts);
  }

  int64_t yields() const { return yields_; }
  absl::Status CheckInvariants() { return cache_->CheckInvariants(); }
  absl::Status CheckMemory() { return testing::CheckMemory(cache_.get()); }

 private:
  // Handles, and what each has shown.
  using Pins = std::vector<std::pair<Cache<int, int>::Handle, int>>;

  int64_t Time() const { return clock_.NowNanos() / ToInt64Nanoseconds(kTick); }

  // Each history begins with an empty cache, but for the fillers.
  void Reset() {
    cache_->Clear();
    for (int i = 0; i < setup_.fillers; ++i) cache_->Set(1000 + i, i);
  }

  CacheHistory Perform(const Script& script) {
    CacheHistory history;
    Pins pins;
    history.reserve(script.size());
    for (HistoryCall call : script) {
      call.time_before = Time();
      const uint64_t began = ticks_.fetch_add(1);
      Perform(&call, &pins);
      history.push_back({call, began, ticks_.fetch_add(1)});
    }
    for (const auto& [handle, value] : pins) EXPECT_EQ(*handle, value);
    return history;
  }

  void Perform(HistoryCall* call, Pins* pins) {
    const absl::Duration ttl =
        call->ttl == kForever ? absl::InfiniteDuration() : call->ttl * kTick;
    switch (call->what) {
      case HistoryCall::kSet:
        cache_->Set(call->key, call->value, ttl);
        break;
      case HistoryCall::kGet:
        call->value = cache_->Get(call->key).value_or(0);
        break;
      case HistoryCall::kFind: {
        auto handle = cache_->Find(call->key);
        call->value = handle ? *handle : 0;
        if (handle) pins->emplace_back(std::move(handle), call->value);
        break;
      }
      case HistoryCall::kDel:
        call->value = cache_->Del(call->key) ? 1 : 0;
        break;
      case HistoryCall::kTouch:
        call->value = cache_->Touch(call->key, ttl) ? 1 : 0;
        break;
      case HistoryCall::kClear:
        cache_->Clear();
        break;
      case HistoryCall::kTick:
        clock_.Advance(kTick);
        break;
      case HistoryCall::kMaintain:
        cache_->RunMaintenance();
        break;
      case HistoryCall::kMove:
        // Some shards now, the others in other calls.
        testing::RequireRound(cache_.get());
        cache_->RunMaintenance(1 + 4 * call->key);
        break;
    }
  }

  static std::vector<CacheHistory> Joined(
      const std::vector<std::vector<CacheHistory>>& parts) {
    std::vector<CacheHistory> histories(parts[0].size());
    for (const auto& of_thread : parts) {
      for (size_t i = 0; i < histories.size(); ++i) {
        histories[i].insert(histories[i].end(), of_thread[i].begin(),
                            of_thread[i].end());
      }
    }
    return histories;
  }

  const Setup setup_;
  SimulatedClock clock_;
  std::unique_ptr<Cache<int, int>> cache_;
  std::atomic<uint64_t> ticks_{0};
  std::atomic<int64_t> yields_{0};
};

// The time at which a history begins.
CacheState InitialState(const CacheHistory& history) {
  CacheState state;
  state.now = kForever;
  for (const auto& recorded : history) {
    state.now = std::min(state.now, recorded.call.time_before);
  }
  return state;
}

class CacheLinearizabilityTest : public ::testing::TestWithParam<Setup> {};

TEST_P(CacheLinearizabilityTest, EachHistoryIsThatOfCallsOneAfterTheOther) {
#ifdef NDEBUG
  GTEST_SKIP() << "an engine that does not yield";
#endif
  internal::SetInterleaving(&MayYield);
  constexpr size_t kBatch = 100;
  const uint64_t histories = TestHistories();
  int64_t yields = 0;
  for (uint64_t done = 0; done < histories; done += kBatch) {
    const uint64_t seed = TestSeed() + done;
    Stage stage(GetParam());
    const std::vector<CacheHistory> batch = stage.Play(seed, kBatch);
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_TRUE(IsLinearizable(batch[i], InitialState(batch[i]), AfterCall))
          << "the scripts are those of WHEELCACHE_TEST_SEED=" << seed + i
          << "\n"
          << batch[i];
    }
    ASSERT_TRUE(stage.CheckInvariants().ok()) << stage.CheckInvariants();
    ASSERT_TRUE(stage.CheckMemory().ok()) << stage.CheckMemory();
    yields += stage.yields();
  }
  // Otherwise the engine was not built for this.
  EXPECT_GT(yields, static_cast<int64_t>(histories));
}

INSTANTIATE_TEST_SUITE_P(Setups, CacheLinearizabilityTest,
                         ::testing::Values(Setup{2, 6, 1, 0},
                                           Setup{2, 6, 1, 6, 4},
                                           Setup{3, 5, 1, 0}, Setup{3, 5, 4, 0},
                                           Setup{4, 4, 1, 6},
                                           Setup{4, 4, 8, 0, 4}));

}  // namespace
}  // namespace wheelcache
