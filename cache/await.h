// Loads for coroutines. Needs C++20; no header that does not includes this one.
//
//   auto user = co_await wheelcache::LoadAsync(
//       *users, id, {}, executor, [&]() -> Task<absl::StatusOr<User>> {
//         co_return Parse(co_await database.Read(id));
//       });
//   if (!user.ok()) co_return user.status();
//   Greet(**user);
//
// As FindOrLoad (cache/load.h), but whoever misses is suspended instead of
// blocked. The loader returns something to co_await: a task, say, if it is a
// coroutine itself. What that gives is what loaders return: a Value, a
// Loaded<Value>, or a StatusOr of either. LoadAsync gives a StatusOr<Handle>.
//
// Single-flight. One coroutine runs its loader; others that miss the key, and
// threads in FindOrLoad, wait for its result. Each gets a pin of its own.
//
// Executor. A coroutine is resumed, and a loader of one that takes over begins,
// in a task of the executor that it names, on any thread that that chooses.
// Without one, on the thread that ends the load; in no case under a lock. A hit
// does not suspend.
//
// Cancelled. If the loader gives kCancelled, or the coroutine that leads is
// destroyed, the first of those who wait leads instead, with its own loader.
//
// Lifetime. A coroutine may be destroyed while it is suspended here: it waits
// for the load no longer, and its loader's coroutine is destroyed first. Do
// that where nothing resumes it meanwhile: on its executor, if that is one
// thread or a strand. Key, cache and what the loader refers to outlive the
// co_await, but the cache may end while coroutines wait. What the end of a load
// calls, such as the `done` of BeginLoad or a removal listener, must not
// destroy the coroutine that leads it. An exception of the loader reaches that
// coroutine; the others get kUnknown.
//
// Waiting. LoadOptions::wait bounds the wait for other callers, by the clock of
// the cache: then maintenance resumes the coroutine. A loader that awaits its
// own key waits for ever, if `wait` has no end.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_AWAIT_H_
#define WHEELCACHE_CACHE_AWAIT_H_

#ifndef __cpp_impl_coroutine
#error "wheelcache/cache/await.h needs C++20"
#endif

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/typed_lead.h"
#include "wheelcache/cache/internal/typed_loads.h"
#include "wheelcache/cache/types/load.h"

namespace wheelcache {

// Runs tasks that resume coroutines. Must not throw; a coroutine whose task it
// drops stays suspended. As Hooks::executor.
using AwaitExecutor = std::function<void(std::function<void()> task)>;

namespace internal {

// GCC 12 destroys twice what a temporary lambda of a co_await has captured.
template <typename T>
inline constexpr bool kMayBeTemporary =
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    std::is_lvalue_reference_v<T> || std::is_trivially_destructible_v<T>;
#else
    true;
#endif

// What LoadAsync returns: awaits one load, at once.
template <typename Cache, typename K, typename Loader>
class [[nodiscard]] LoadAwaiter {
 public:
  using Handle = typename Cache::Handle;

  LoadAwaiter(Cache* cache, const K& key, const LoadOptions& options,
              AwaitExecutor executor, Loader&& loader)
      : cache_(*cache),
        key_(key),
        options_(options),
        executor_(std::move(executor)),
        loader_(std::forward<Loader>(loader)) {}
  LoadAwaiter(const LoadAwaiter&) = delete;
  LoadAwaiter& operator=(const LoadAwaiter&) = delete;
  ~LoadAwaiter() {
    if (place_ == nullptr) return;
    place_->DropResumption();
    if (!place_->Leave(State::kDestroyed) || !asked_.other) return;
    Lead::LoadOf(asked_.other).GiveUp(place_->number, Load::GivenUp());
  }

  bool await_ready() {
    asked_ = TypedLoads<Cache>(&cache_).Ask(key_, options_);
    return asked_.lead.empty() && !asked_.other;
  }

  std::coroutine_handle<> await_suspend(std::coroutine_handle<> coroutine) {
    driver_ = Drive(this);
    place_ = std::make_shared<Place>(this, coroutine);
    if (place_->executor != nullptr) {
      place_->resumption = [place = place_] { place->Continue().resume(); };
    }
    while (asked_.other) {
      // If it waits, *this may go.
      if (WaitForOther(place_)) return std::noop_coroutine();
      asked_ =
          TypedLoads<Cache>(&cache_).AskAgain(key_, options_, asked_.other);
    }
    if (!asked_.lead.empty()) return driver_.frame();
    place_->result = std::move(asked_.result);
    return place_->Continue();
  }

  absl::StatusOr<Handle> await_resume() {
    if (place_ == nullptr) return std::move(asked_.result);
    if (exception_ != nullptr) std::rethrow_exception(exception_);
    return std::move(place_->result);
  }

 private:
  using Lead = TypedLead<Cache>;

  // Of the coroutine that awaits.
  enum class State { kSuspended, kResumed, kDestroyed };

  // What it shares with those who resume it, who may come when it is gone.
  struct Place {
    Place(LoadAwaiter* of_awaiter, std::coroutine_handle<> that_awaits)
        : awaiter(of_awaiter),
          coroutine(that_awaits),
          executor(std::move(awaiter->executor_)) {}

    // Whether it was suspended until now.
    bool Leave(State now) {
      State before = State::kSuspended;
      return state.compare_exchange_strong(before, now,
                                           std::memory_order_acq_rel);
    }
    std::coroutine_handle<> Continue() {
      if (Leave(State::kResumed)) return coroutine;
      return std::noop_coroutine();
    }
    // Needs no memory of its own: there may be none.
    void PostResumption() {
      if (executor == nullptr) return Continue().resume();
      if (!is_posted.exchange(true, std::memory_order_acq_rel)) {
        executor(std::exchange(resumption, nullptr));
      }
    }
    void DropResumption() {
      if (!is_posted.exchange(true, std::memory_order_acq_rel)) {
        resumption = nullptr;
      }
    }

    std::atomic<State> state{State::kSuspended};
    LoadAwaiter* const awaiter;
    const std::coroutine_handle<> coroutine;
    const AwaitExecutor executor;
    std::atomic<uint64_t> number{0};  // Among those who wait for the load.
    bool leads = false;               // After it has waited.
    absl::StatusOr<Handle> result;
    // With an executor. Keeps the place, until it is posted or dropped.
    std::function<void()> resumption;
    std::atomic<bool> is_posted{false};  // Or dropped.
  };

  // A coroutine that awaits the loader and ends the load. Lives in the awaiter.
  class Driver {
   public:
    struct promise_type {
      explicit promise_type(LoadAwaiter* of_awaiter) : awaiter(*of_awaiter) {}
      Driver get_return_object() {
        return Driver(std::coroutine_handle<promise_type>::from_promise(*this));
      }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept { return AtEnd(); }
      void return_void() {}
      void unhandled_exception() {
        awaiter.exception_ = std::current_exception();
        const typename Lead::FailOnException fail(
            absl::MakeSpan(&awaiter.asked_.lead, 1));
      }
      LoadAwaiter& awaiter;
    };

    Driver() = default;
    explicit Driver(std::coroutine_handle<promise_type> frame)
        : frame_(frame) {}
    Driver(Driver&& other) noexcept
        : frame_(std::exchange(other.frame_, nullptr)) {}
    Driver& operator=(Driver&& other) noexcept {
      std::swap(frame_, other.frame_);
      return *this;
    }
    ~Driver() {
      if (frame_) frame_.destroy();
    }

    std::coroutine_handle<> frame() const { return frame_; }

   private:
    // Continues with the coroutine that awaits, which ends this one.
    struct AtEnd {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(
          std::coroutine_handle<promise_type> frame) noexcept {
        const std::shared_ptr<Place> place = frame.promise().awaiter.place_;
        if (place->executor == nullptr) return place->Continue();
        place->PostResumption();
        return std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };

    std::coroutine_handle<promise_type> frame_;
  };

  static Driver Drive(LoadAwaiter* awaiter) {
    typename Cache::LoadResult loaded = co_await awaiter->loader_();
    awaiter->place_->result =
        awaiter->asked_.lead.FinishAndGet(std::move(loaded));
  }

  bool WaitForOther(std::shared_ptr<Place> place) {
    const uint64_t number = TypedLoads<Cache>(&cache_).template WaitFor<Lead>(
        asked_.other, options_,
        [place](absl::StatusOr<Handle> result) {
          if (place->leads) return;
          place->result = std::move(result);
          place->PostResumption();
        },
        [place](Lead lead) {
          if (place->executor == nullptr) return TakeOver(*place, &lead);
          // Dropped with the task, if that is not run.
          const auto shared = std::make_shared<Lead>(std::move(lead));
          place->executor([place, shared] { TakeOver(*place, shared.get()); });
        });
    place->number = number;
    return number != 0;
  }

  // The coroutine has waited for a load that is its own now.
  static void TakeOver(Place& place, Lead* lead) {
    if (place.state.load(std::memory_order_acquire) != State::kSuspended) {
      return;
    }
    place.leads = true;
    place.awaiter->asked_.lead = std::move(*lead);
    place.awaiter->driver_.frame().resume();
  }

  Cache& cache_;
  const K& key_;
  const LoadOptions options_;
  AwaitExecutor executor_;
  Loader loader_;  // A reference to one that is not temporary.
  typename TypedLoads<Cache>::Asked asked_;
  std::exception_ptr exception_;
  std::shared_ptr<Place> place_;
  Driver driver_;  // The last: it ends before what it refers to.
};

}  // namespace internal

template <typename Cache, typename K, typename Executor, typename Loader>
internal::LoadAwaiter<Cache, K, Loader> LoadAsync(Cache& cache, const K& key,
                                                  const LoadOptions& options,
                                                  Executor&& executor,
                                                  Loader&& loader) {
  static_assert(
      internal::kMayBeTemporary<Executor> && internal::kMayBeTemporary<Loader>,
      "GCC 12 destroys twice what a lambda within a co_await has "
      "captured by value: give it a name before, and pass that");
  return {&cache, key, options, AwaitExecutor(std::forward<Executor>(executor)),
          std::forward<Loader>(loader)};
}

// The same without an executor.
template <typename Cache, typename K, typename Loader>
internal::LoadAwaiter<Cache, K, Loader> LoadAsync(Cache& cache, const K& key,
                                                  const LoadOptions& options,
                                                  Loader&& loader) {
  return LoadAsync(cache, key, options, nullptr, std::forward<Loader>(loader));
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_AWAIT_H_
