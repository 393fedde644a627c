// Reads of a near cache for coroutines, as cache/await.h has loads. Needs
// C++20.
//
//   auto user = co_await wheelcache::GetAsync(*users, "alice", executor);
//   if (!user.ok()) co_return user.status();
//   if (user->has_value()) Greet(**user);
//
// As NearCache::Get, but whoever has to ask the store is suspended instead of
// blocked, and gets what BeginGet gives.
//
// Executor. The coroutine is resumed in a task of `executor`; without one, on
// the thread that has the result, as the store's I/O thread, where it must not
// block. A local hit does not suspend.
//
// Lifetime. A coroutine may be destroyed while it is suspended here, where
// nothing resumes it meanwhile: on its executor, if that is one thread or a
// strand. The near cache must outlive the read.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_NEAR_AWAIT_H_
#define WHEELCACHE_CACHE_NEAR_AWAIT_H_

#ifndef __cpp_impl_coroutine
#error "wheelcache/cache/near/await.h needs C++20"
#endif

#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "wheelcache/cache/await.h"

namespace wheelcache {
namespace internal {

// What GetAsync returns: awaits one read, at once.
template <typename Near>
class [[nodiscard]] GetAwaiter {
 public:
  GetAwaiter(Near* near, absl::string_view key, AwaitExecutor executor)
      : near_(*near), key_(key), executor_(std::move(executor)) {}
  GetAwaiter(const GetAwaiter&) = delete;
  GetAwaiter& operator=(const GetAwaiter&) = delete;
  ~GetAwaiter() { read_->state.exchange(State::kDestroyed); }

  bool await_ready() const { return false; }

  // Returns whether the coroutine is suspended.
  bool await_suspend(std::coroutine_handle<> coroutine) {
    near_.BeginGet(key_, [read = read_, executor = std::move(executor_),
                          coroutine](typename Near::Result result) {
      read->result.emplace(std::move(result));
      if (read->state.exchange(State::kDone) != State::kSuspended) return;
      const auto resume = [read, coroutine] {
        if (read->state == State::kDone) coroutine.resume();
      };
      if (executor) {
        executor(resume);
      } else {
        resume();
      }
    });
    State begun = State::kBegun;
    return read_->state.compare_exchange_strong(begun, State::kSuspended);
  }

  typename Near::Result await_resume() { return *std::move(read_->result); }

 private:
  enum class State { kBegun, kSuspended, kDone, kDestroyed };

  // Shared with the end of the read, which may come after the coroutine's.
  struct Read {
    std::atomic<State> state{State::kBegun};
    std::optional<typename Near::Result> result;
  };

  Near& near_;
  const absl::string_view key_;
  AwaitExecutor executor_;
  const std::shared_ptr<Read> read_ = std::make_shared<Read>();
};

}  // namespace internal

// Returns what to co_await at once: gives a NearCache::Result. The key lasts
// until then. The executor may be left out.
template <typename Near, typename Executor>
internal::GetAwaiter<Near> GetAsync(Near& near, absl::string_view key,
                                    Executor&& executor) {
  static_assert(internal::kMayBeTemporary<Executor>,
                "GCC 12 destroys twice what a lambda within a co_await has "
                "captured by value: give it a name before, and pass that");
  return {&near, key, AwaitExecutor(std::forward<Executor>(executor))};
}

template <typename Near>
internal::GetAwaiter<Near> GetAsync(Near& near, absl::string_view key) {
  return {&near, key, nullptr};
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_AWAIT_H_
