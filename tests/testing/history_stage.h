// A cache that plays scripts on several threads at once, and records what each
// call found and when it ran.
//
//   internal::SetInterleaving(&HistoryStage::MayYield);
//   HistoryStage stage(setup);
//   for (const CacheHistory& history : stage.Play(seed, /*count=*/100)) {
//     EXPECT_TRUE(IsLinearizable(history, InitialState(history), AfterCall));
//   }
//
// The engine yields at its critical points, so that scripts of some
// microseconds interleave in most ways that there are.

#ifndef WHEELCACHE_TESTS_TESTING_HISTORY_STAGE_H_
#define WHEELCACHE_TESTS_TESTING_HISTORY_STAGE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_history.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/history_script.h"
#include "wheelcache/tests/testing/spin_barrier.h"
#include "wheelcache/wheel/simulated_clock.h"

#ifdef __cpp_impl_coroutine
#include <coroutine>
#include <exception>

#include "wheelcache/cache/await.h"
#endif

namespace wheelcache {

class HistoryStage {
 public:
  // For SetInterleaving: makes threads yield, now and then, that play a script.
  static void MayYield(const char* /*point*/) {
    if (yield_choices == nullptr || (*yield_choices)() % 4 != 0) return;
    ++yields_of_thread;
    std::this_thread::yield();
  }

  explicit HistoryStage(const HistorySetup& setup)
      : setup_(setup), clock_(absl::ZeroDuration(), setup.coarse_lag * kTick) {
    CacheOptions options;
    options.clock = &clock_;
    options.reaper = nullptr;
    options.jitter = 0;
    options.shards = setup.shards;
    if (setup.scan_resistant) options.policy = EvictionPolicy::kScanResistant;
    options.advise = setup.advise;
    options.max_entries = setup.max_entries;
    options.tick = kTick;
    if (setup.idle_ttl != kForever) options.idle_ttl = setup.idle_ttl * kTick;
    Cache<int, int>::Hooks hooks;
    hooks.reload = [](int, int) -> absl::StatusOr<Loaded<int>> {
      return Loaded<int>{std::exchange(value_to_reload, 0)};
    };
    hooks.on_removal = [this](int key, int value, RemovalCause cause) {
      if (cause == RemovalCause::kEvicted) NoteEviction(key, value);
    };
    hooks.executor = [](std::function<void()> task) {
      *queued_task = std::move(task);
    };
    cache_ = std::move(*Cache<int, int>::Create(options, std::move(hooks)));
  }

  // Plays one history for each seed from `first` on.
  std::vector<CacheHistory> Play(uint64_t first, size_t count) {
    std::vector<std::vector<HistoryScript>> scripts;
    for (size_t i = 0; i < count; ++i) {
      scripts.push_back(RandomScripts(setup_, first + i));
    }
    std::vector<std::vector<CacheHistory>> parts(
        setup_.threads, std::vector<CacheHistory>(count));
    std::vector<Told> told(count);
    SpinBarrier barrier(setup_.threads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < setup_.threads; ++thread) {
      threads.emplace_back([&, thread] {
        std::minstd_rand choices(static_cast<uint32_t>(first) + thread + 1);
        for (size_t i = 0; i < count; ++i) {
          barrier.Pass([this] { Reset(); });
          yield_choices = &choices;
          Performance performance(&told[i]);
          performing = &performance;
          for (const HistoryCall& call : scripts[i][thread]) {
            performance.began = ticks_.fetch_add(1);
            Perform(call, &performance);
          }
          EndAll(&performance);
          performing = nullptr;
          yield_choices = nullptr;
          parts[thread][i] = std::move(performance.history);
        }
        yields_ += yields_of_thread;
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<CacheHistory> histories = Joined(parts);
    for (size_t i = 0; i < count; ++i) {
      for (auto& recorded : histories[i]) SetTold(told[i], &recorded.call);
    }
    return histories;
  }

  int64_t yields() const { return yields_; }
  int64_t evictions() const { return evictions_; }
  absl::Status CheckInvariants() { return cache_->CheckInvariants(); }
  absl::Status CheckMemory() { return testing::CheckMemory(cache_.get()); }

 private:
  using Handle = Cache<int, int>::Handle;
  using Handles = std::array<Handle, kHistoryKeys>;  // By key.

  static constexpr absl::Duration kTick = absl::Milliseconds(1);

  // What a thread has begun to load, and has still to end.
  struct Pending {
    Cache<int, int>::Ticket ticket;  // Or:
    std::function<void()> task;
    HistoryCall call;  // That began it.
  };

  // What callbacks were told in a history, by the number of the call: 0 for
  // nothing so far, or a failure.
  using Told = std::array<std::atomic<int>, 32>;

  int64_t Time() const { return clock_.NowNanos() / ToInt64Nanoseconds(kTick); }

  // Each history begins with an empty cache, but for the fillers.
  void Reset() {
    cache_->Clear();
    for (int i = 0; i < setup_.fillers; ++i) cache_->Set(1000 + i, i);
  }

  // Of a script, by one thread.
  struct Performance {
    explicit Performance(Told* told_by_callbacks) : told(*told_by_callbacks) {}

    Told& told;
    CacheHistory history;
    uint64_t began = 0;  // The present call, at the latest.
    std::deque<Pending> tickets;
    std::deque<Pending> tasks;
    Handles found;
    int dropped = 0;  // The load whose ticket goes, unless a coroutine loads.
  };

  // Of this thread, while it plays a script: its performance, when it yields,
  // the refresh that was queued last, and what reload returns.
  static thread_local inline Performance* performing = nullptr;
  static thread_local inline std::minstd_rand* yield_choices = nullptr;
  static thread_local inline int64_t yields_of_thread = 0;
  static thread_local inline std::function<void()>* queued_task = nullptr;
  static thread_local inline int value_to_reload = 0;

  // What the present call has evicted.
  void NoteEviction(int key, int value) {
    if (performing == nullptr || key >= kHistoryKeys) return;
    HistoryCall evict;
    evict.what = HistoryCall::kEvict;
    evict.key = key;
    evict.value = value;
    evict.time_before = Time();
    performing->history.push_back(
        {evict, performing->began, ticks_.fetch_add(1)});
    ++evictions_;
  }

  // Calls `function` with the call, and records it as it is then.
  template <typename Function>
  void Record(HistoryCall call, Performance* performance, Function&& function) {
    call.time_before = Time();
    const uint64_t began = ticks_.fetch_add(1);
    function(&call);
    performance->history.push_back({call, began, ticks_.fetch_add(1)});
  }

  void Perform(const HistoryCall& call, Performance* performance) {
    switch (call.what) {
      case HistoryCall::kBegin:
        Record(call, performance,
               [&](HistoryCall* made) { Begin(made, performance); });
        break;
      case HistoryCall::kFinish:
      case HistoryCall::kDrop:
        if (!performance->tickets.empty()) End(call, performance);
        break;
      case HistoryCall::kRefresh:
        Record(call, performance,
               [&](HistoryCall* made) { Refresh(made, performance); });
        break;
      case HistoryCall::kRunTask:
        if (!performance->tasks.empty()) RunTask(call.what, performance);
        break;
      case HistoryCall::kLoad:
        Load(call, performance);
        break;
      case HistoryCall::kLoadAsync:
        LoadAsCoroutine(call, performance);
        break;
      case HistoryCall::kFindMany:
        FindMany(call, performance);
        break;
      case HistoryCall::kForEach:
      case HistoryCall::kEraseIf: {
        HistoryCall iterated = call;
        iterated.time_before = Time();
        Iterate(iterated, ticks_.fetch_add(kHistoryKeys),
                &performance->history);
        break;
      }
      default:
        Record(call, performance,
               [&](HistoryCall* made) { Perform(made, &performance->found); });
    }
  }

  void Begin(HistoryCall* call, Performance* performance) {
    Pending pending;
    std::atomic<int>& told = performance->told[call->load];
    pending.ticket = cache_->BeginLoad(
        call->key, {},
        [&told](const auto& result) { told = result.ok() ? **result : 0; });
    if (!pending.ticket) {
      // What it was not told yet is that of another load, which goes on.
      call->value = told.load();
      call->found =
          call->value != 0 ? HistoryCall::kValue : HistoryCall::kAnotherLoad;
      return;
    }
    call->found = HistoryCall::kNothing;
    pending.call = *call;
    performance->tickets.push_back(std::move(pending));
  }

  // Records what a callback was told after its call.
  static void SetTold(const Told& told, HistoryCall* call) {
    if (call->what != HistoryCall::kBegin) return;
    if (call->found != HistoryCall::kAnotherLoad) return;
    call->value = told[call->load].load();
  }

  // Finishes the oldest ticket, or drops it.
  void End(const HistoryCall& call, Performance* performance) {
    Pending pending = std::move(performance->tickets.front());
    performance->tickets.pop_front();
    HistoryCall end = pending.call;
    end.what = call.what;
    end.ttl = call.ttl;
    Record(end, performance, [&](HistoryCall* made) {
      if (call.what == HistoryCall::kDrop) {
        performance->dropped = made->load;
        pending.ticket = {};
      } else {
        made->value = pending.ticket.Finish(LoadedBy(*made)) ? 1 : 0;
      }
    });
    const bool was_dropped = std::exchange(performance->dropped, 0) != 0;
    if (call.what == HistoryCall::kDrop && !was_dropped) {
      performance->history.pop_back();  // The load went on.
    }
  }
  static Loaded<int> LoadedBy(const HistoryCall& call) {
    return {call.load,
            call.ttl == kForever ? absl::InfiniteDuration() : call.ttl * kTick};
  }

  void Refresh(HistoryCall* call, Performance* performance) {
    Pending pending;
    queued_task = &pending.task;
    call->value = cache_->Refresh(call->key) ? 1 : 0;
    if (call->value == 0) return;
    pending.call = *call;
    performance->tasks.push_back(std::move(pending));
  }

  void RunTask(HistoryCall::What what, Performance* performance) {
    Pending pending = std::move(performance->tasks.front());
    performance->tasks.pop_front();
    HistoryCall run = pending.call;
    run.what = what;
    run.ttl = kForever;
    Record(run, performance, [&](HistoryCall* made) {
      value_to_reload = made->load;
      if (what == HistoryCall::kRunTask) pending.task();
      pending.task = nullptr;
      made->value = std::exchange(value_to_reload, 0) == 0 ? 1 : 0;
    });
  }

  // A load by one call begins before its loader runs, and ends after that.
  void Load(HistoryCall call, Performance* performance) {
    LoadOptions options;
    options.wait =
        absl::ZeroDuration();  // The other may be one of this thread.
    call.what = HistoryCall::kBegin;
    call.time_before = Time();
    uint64_t began = ticks_.fetch_add(1);
    const auto result = cache_->FindOrLoad(
        call.key, options, [&]() -> absl::StatusOr<Loaded<int>> {
          call.found = HistoryCall::kNothing;
          performance->history.push_back({call, began, ticks_.fetch_add(1)});
          call.what = HistoryCall::kFinish;
          call.value = 2;
          call.time_before = Time();
          began = ticks_.fetch_add(1);
          return LoadedBy(call);
        });
    if (call.what == HistoryCall::kBegin) {
      call.found =
          result.ok() ? HistoryCall::kValue : HistoryCall::kAnotherLoad;
      call.value = result.ok() ? **result : 0;
    }
    performance->history.push_back({call, began, ticks_.fetch_add(1)});
  }

#ifdef __cpp_impl_coroutine
  // A load of a coroutine. If that has to wait for another load, it is resumed
  // by the thread that ends that one, or that drops its ticket: then it loads
  // in its place, which gives the value of that load.
  struct AwaitedLoad {
    HistoryCall call;
    uint64_t began;
    const Performance* performance;  // May have ended when the load does.
    std::atomic<int>& told;
    bool is_recorded = false;
    bool has_returned = false;  // To the call that started it.

    bool IsWithinTheCall() const {
      return performing == performance && !has_returned;
    }
  };

  struct Detached {
    struct promise_type {
      Detached get_return_object() { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
  };

  struct ReadyLoad {
    bool await_ready() const { return true; }
    void await_suspend(std::coroutine_handle<>) const {}
    Loaded<int> await_resume() const { return loaded; }
    Loaded<int> loaded;
  };

  Detached Await(std::shared_ptr<AwaitedLoad> load) {
    HistoryCall call = load->call;
    uint64_t began = load->began;
    const auto loader = [&] {
      if (load->IsWithinTheCall()) {
        load->is_recorded = true;
        call.found = HistoryCall::kNothing;
        performing->history.push_back({call, began, ticks_.fetch_add(1)});
      } else {
        call.load = std::exchange(performing->dropped, 0);
        EXPECT_NE(call.load, 0) << "nobody had to be replaced";
      }
      call.what = HistoryCall::kFinish;
      call.value = 2;
      call.time_before = Time();
      began = ticks_.fetch_add(1);
      return ReadyLoad{LoadedBy(call)};
    };
    const auto result =
        co_await LoadAsync(*cache_, call.key, LoadOptions(), loader);
    const int value = result.ok() ? **result : 0;
    const bool is_within = load->IsWithinTheCall();
    if (is_within && call.what == HistoryCall::kBegin) {
      load->is_recorded = true;
      call.found =
          result.ok() ? HistoryCall::kValue : HistoryCall::kAnotherLoad;
      call.value = value;
      performing->history.push_back({call, began, ticks_.fetch_add(1)});
    }
    if (call.what == HistoryCall::kFinish) {
      performing->history.push_back({call, began, ticks_.fetch_add(1)});
    }
    if (!is_within) load->told = value;
  }

  void LoadAsCoroutine(HistoryCall call, Performance* performance) {
    call.what = HistoryCall::kBegin;
    call.time_before = Time();
    const auto load = std::make_shared<AwaitedLoad>(AwaitedLoad{
        call, ticks_.fetch_add(1), performance, performance->told[call.load]});
    Await(load);
    load->has_returned = true;
    if (load->is_recorded) return;
    call.found = HistoryCall::kAnotherLoad;
    performance->history.push_back({call, load->began, ticks_.fetch_add(1)});
  }
#else
  void LoadAsCoroutine(const HistoryCall& call, Performance* performance) {
    Load(call, performance);
  }
#endif

  // Records a call for each key.
  void FindMany(HistoryCall call, Performance* performance) {
    std::array<int, kHistoryKeys> keys;
    std::iota(keys.begin(), keys.end(), 0);
    Handles handles;
    call.what = HistoryCall::kGet;
    call.time_before = Time();
    const uint64_t began = ticks_.fetch_add(kHistoryKeys);
    const size_t found = cache_->FindMany(keys, absl::MakeSpan(handles));
    size_t values = 0;
    for (const int key : keys) {
      call.key = key;
      call.value = ValueOf(handles[key]);
      values += call.value != 0 ? 1 : 0;
      performance->history.push_back(
          {call, began + static_cast<uint64_t>(key), ticks_.fetch_add(1)});
    }
    EXPECT_EQ(found, values);
  }

  void EndAll(Performance* performance) {
    HistoryCall drop;
    drop.what = HistoryCall::kDrop;
    while (!performance->tickets.empty()) End(drop, performance);
    while (!performance->tasks.empty()) {
      RunTask(HistoryCall::kDrop, performance);
    }
  }

  void Perform(HistoryCall* call, Handles* found) {
    const absl::Duration ttl =
        call->ttl == kForever ? absl::InfiniteDuration() : call->ttl * kTick;
    Handle& handle = (*found)[call->key];
    switch (call->what) {
      case HistoryCall::kSet:
        cache_->Set(call->key, call->value, ttl);
        break;
      case HistoryCall::kGet:
        call->value = cache_->Get(call->key).value_or(0);
        break;
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
      case HistoryCall::kFind:
        handle = cache_->Find(call->key);
        call->value = ValueOf(handle);
        break;
      case HistoryCall::kSetIf:
        call->expected = ValueOf(handle);
        call->outcome = OutcomeOf(
            cache_->SetIf(call->key, handle, call->value, TtlOf(*call)));
        break;
      case HistoryCall::kDelIf:
        call->expected = ValueOf(handle);
        call->outcome = cache_->DelIf(call->key, handle) ? HistoryCall::kWon
                                                         : HistoryCall::kLost;
        break;
      case HistoryCall::kTake:
        call->value = ValueOf(cache_->Take(call->key));
        break;
      case HistoryCall::kUpdate:
      case HistoryCall::kUpdateDelete:
        Update(call);
        break;
      case HistoryCall::kErase:
      case HistoryCall::kMissing:
      case HistoryCall::kForEach:
      case HistoryCall::kEraseIf:
      default:
        break;
    }
  }

  // Records a call for each key.
  void Iterate(const HistoryCall& call, uint64_t began, CacheHistory* history) {
    std::array<int, kHistoryKeys> seen = {};
    const auto see = [&](const Cache<int, int>::Handle& handle) {
      if (handle.key() >= kHistoryKeys) return;
      EXPECT_EQ(seen[handle.key()], 0) << "the key was shown before";
      seen[handle.key()] = *handle;
    };
    int64_t erased = 0;
    if (call.what == HistoryCall::kForEach) {
      EXPECT_TRUE(cache_->ForEach([&](const auto& handle) {
        see(handle);
        return true;
      }));
    } else {
      erased = cache_->EraseIf([&](const auto& handle) {
        see(handle);
        return handle.key() == call.key;
      });
      EXPECT_LE(erased, seen[call.key] == 0 ? 0 : 1);
    }
    const int64_t time_after = Time();
    for (int key = 0; key < kHistoryKeys; ++key) {
      HistoryCall of_key = call;
      of_key.what =
          seen[key] == 0 ? HistoryCall::kMissing : HistoryCall::kShown;
      if (key == call.key && erased > 0) of_key.what = HistoryCall::kErase;
      of_key.time_after = time_after;
      of_key.key = key;
      of_key.value = seen[key];
      history->push_back(
          {of_key, began + static_cast<uint64_t>(key), ticks_.fetch_add(1)});
    }
  }

  static int ValueOf(const Handle& handle) {
    if (!handle) return 0;
    EXPECT_NE(*handle, 0) << "which no script stores";
    return *handle;
  }

  static HistoryCall::Outcome OutcomeOf(Put put) {
    return put == Put::kStored ? HistoryCall::kWon
           : put == Put::kLost ? HistoryCall::kLost
                               : HistoryCall::kRefused;
  }

  static std::optional<absl::Duration> TtlOf(const HistoryCall& call) {
    if (call.ttl == kKept) return std::nullopt;
    return call.ttl == kForever ? absl::InfiniteDuration() : call.ttl * kTick;
  }

  void Update(HistoryCall* call) {
    using Decision = Cache<int, int>::Decision;
    const bool deletes = call->what == HistoryCall::kUpdateDelete;
    const bool done = cache_->Update(call->key, [&](const Handle& old) {
      call->expected = ValueOf(old);
      return deletes ? Decision::Delete()
                     : Decision::Set(call->value, TtlOf(*call));
    });
    call->outcome = done      ? HistoryCall::kWon
                    : deletes ? HistoryCall::kLost
                              : HistoryCall::kRefused;
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

  const HistorySetup setup_;
  SimulatedClock clock_;
  std::unique_ptr<Cache<int, int>> cache_;
  std::atomic<uint64_t> ticks_{0};
  std::atomic<int64_t> yields_{0};
  std::atomic<int64_t> evictions_{0};  // Of keys of the scripts.
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_HISTORY_STAGE_H_
