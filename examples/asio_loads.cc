// Loads in coroutines of Asio: a hundred sessions want the same user at once,
// and one of them reads it for all. No thread is blocked.
//
//   ./bazelw run --config=http //examples:asio_loads
//
// Coroutines of Asio await nothing but operations of Asio, and nobody else may
// await them. FromAsio and Load are the doors between them and LoadAsync: copy
// them.

#include <asio.hpp>
#include <chrono>
#include <coroutine>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/await.h"
#include "wheelcache/cache/cache.h"

namespace {

using Users = wheelcache::Cache<int, std::string>;

// Awaits a coroutine of Asio in any other. Must not be destroyed before that
// has ended.
template <typename T>
class FromAsio {
 public:
  FromAsio(asio::any_io_executor executor, asio::awaitable<T> operation)
      : executor_(std::move(executor)), operation_(std::move(operation)) {}

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    asio::co_spawn(executor_, std::move(operation_),
                   [this, awaiting](std::exception_ptr exception, T result) {
                     exception_ = exception;
                     result_ = std::move(result);
                     awaiting.resume();
                   });
  }
  T await_resume() {
    if (exception_ != nullptr) std::rethrow_exception(exception_);
    return std::move(result_);
  }

 private:
  asio::any_io_executor executor_;
  asio::awaitable<T> operation_;
  std::exception_ptr exception_;
  T result_;
};

// A coroutine that nobody awaits.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// As wheelcache::LoadAsync, in a coroutine of Asio, which is resumed on its own
// executor. The loader must not throw.
template <typename Cache, typename Key, typename Loader>
auto Load(asio::any_io_executor executor, Cache& cache, const Key& key,
          wheelcache::LoadOptions options, Loader loader) {
  using Result = absl::StatusOr<typename Cache::Handle>;
  const auto post = [executor](std::function<void()> task) {
    asio::post(executor, std::move(task));
  };
  return asio::async_initiate<const asio::use_awaitable_t<>, void(Result)>(
      [](auto handler, auto on, Cache* from, Key of,
         wheelcache::LoadOptions how, auto by, Loader loads) -> Detached {
        Result result =
            co_await wheelcache::LoadAsync(*from, of, how, by, loads);
        asio::post(on, [handler = std::move(handler),
                        result = std::move(result)]() mutable {
          std::move(handler)(std::move(result));
        });
      },
      asio::use_awaitable, executor, &cache, key, options, post,
      std::move(loader));
}

int reads = 0;

// From a database that takes its time.
asio::awaitable<absl::StatusOr<std::string>> ReadUser(int id) {
  ++reads;
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           std::chrono::milliseconds(20));
  co_await timer.async_wait(asio::use_awaitable);
  co_return "user " + std::to_string(id);
}

asio::awaitable<void> Session(Users& users, int id, int* answers) {
  const auto executor = co_await asio::this_coro::executor;
  wheelcache::LoadOptions options;
  options.wait = absl::Seconds(10);
  const auto user = co_await Load(executor, users, id, options, [=] {
    return FromAsio(executor, ReadUser(id));
  });
  if (user.ok() && **user == "user 7") ++*answers;
}

}  // namespace

int main() {
  const auto users = *Users::Create({});
  asio::io_context context(1);
  int answers = 0;
  for (int i = 0; i < 100; ++i) {
    asio::co_spawn(context, Session(*users, 7, &answers), asio::detached);
  }
  context.run();
  std::cout << answers << " answers, " << reads << " read\n";
  return answers == 100 && reads == 1 ? 0 : 1;
}
