// Loads of coroutines: who runs the loader, who gets what, where they are
// resumed, and what happens to those that are destroyed meanwhile. In C++20.

#include "wheelcache/cache/await.h"

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/near/await.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/failing_allocations.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/testing/thread_pool.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

using StringCache = Cache<int, std::string>;
using Handle = StringCache::Handle;
using Result = absl::StatusOr<std::string>;

// A coroutine that begins when it is awaited or started, and ends with it.
template <typename T>
class Task {
 public:
  struct promise_type {
    struct AtEnd {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(
          std::coroutine_handle<promise_type> frame) noexcept {
        return frame.promise().next;
      }
      void await_resume() noexcept {}
    };
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    AtEnd final_suspend() noexcept { return {}; }
    template <typename V>
    void return_value(V&& result) {
      value.emplace(std::forward<V>(result));
    }
    void unhandled_exception() { exception = std::current_exception(); }

    std::optional<T> value;
    std::exception_ptr exception;
    std::coroutine_handle<> next = std::noop_coroutine();
  };

  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
    frame_.promise().next = awaiting;
    return frame_;
  }
  T await_resume() { return Take(); }

  void Start() { frame_.resume(); }
  bool done() const { return frame_.done(); }
  T& value() {
    auto& promise = frame_.promise();
    if (promise.exception) std::rethrow_exception(promise.exception);
    return *promise.value;
  }
  T Take() { return std::move(value()); }

 private:
  std::coroutine_handle<promise_type> frame_;
};

// What loaders await, until the test says so.
class Event {
 public:
  auto operator co_await() {
    struct Awaiter {
      bool await_ready() const { return event.set_; }
      void await_suspend(std::coroutine_handle<> awaiting) const {
        event.awaiting_.push_back(awaiting);
      }
      void await_resume() const {}
      Event& event;
    };
    return Awaiter{*this};
  }

  void Set() {
    set_ = true;
    for (auto frame : std::exchange(awaiting_, {})) frame.resume();
  }

 private:
  bool set_ = false;
  std::vector<std::coroutine_handle<>> awaiting_;
};

std::string TextOf(const absl::StatusOr<Handle>& result) {
  return result.ok() ? std::string(**result)
                     : absl::StatusCodeToString(result.status().code());
}

template <typename Environment>
class Await : public Environment {
 protected:
  using Environment::options_;

  Await() {
    options_.shards = 1;
    cache_ = *StringCache::Create(options_);
    executor_ = [this](std::function<void()> task) {
      tasks_.push_back(std::move(task));
    };
  }

  template <typename Loader>
  Task<std::string> Ask(int key, Loader loader) {
    co_return TextOf(
        co_await LoadAsync(*cache_, key, load_, executor_, loader));
  }
  // One that is suspended until the event comes.
  Task<std::string> Ask(const char* text) {
    return Ask(1, [this, text]() -> Task<Result> {
      ++loads_;
      co_await event_;
      if (*text == 'x') co_return absl::CancelledError("not now");
      if (*text == '!') throw std::runtime_error("thrown");
      co_return std::string(text);
    });
  }
  void RunTasks() {
    while (!tasks_.empty()) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }
  // Starts coroutines one after the other.
  void Start(const std::vector<const char*>& texts) {
    for (const char* text : texts) {
      asking_.push_back(Ask(text));
      asking_.back().Start();
    }
  }
  std::vector<std::string> Answers() {
    std::vector<std::string> answers;
    for (auto& task : asking_) {
      answers.push_back(task.done() ? task.value() : "suspended");
    }
    return answers;
  }

  std::unique_ptr<StringCache> cache_;
  LoadOptions load_;
  AwaitExecutor executor_;
  std::deque<std::function<void()>> tasks_;
  Event event_;
  int loads_ = 0;
  std::vector<Task<std::string>> asking_;
};

using AwaitTest = Await<CacheEnvironment>;
using AwaitInterleavingTest = Await<InterruptedCacheEnvironment>;

Task<Result> NeverCalled() { co_return absl::InternalError("called"); }

TEST_F(AwaitTest, HitDoesNotSuspend) {
  cache_->Set(1, "one");
  auto task = Ask(1, NeverCalled);
  task.Start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.Take(), "one");
  EXPECT_TRUE(tasks_.empty());
  EXPECT_EQ(cache_->stats().hits, 1);
}

// Promise: One load per key
TEST_F(AwaitTest, AllThatMissGetTheResultOfOneLoadOnTheirExecutor) {
  Start({"first", "second", "third"});
  EXPECT_EQ(loads_, 1);
  event_.Set();
  EXPECT_EQ(cache_->Get(1), "first");
  EXPECT_THAT(Answers(), ElementsAre("suspended", "suspended", "suspended"));
  EXPECT_EQ(tasks_.size(), 3U);
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("first", "first", "first"));
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(cache_->stats().load_waits, 2);
}

TEST_F(AwaitTest, WithoutAnExecutorTheThreadThatEndsTheLoadResumes) {
  executor_ = nullptr;
  Start({"first", "second"});
  event_.Set();
  EXPECT_THAT(Answers(), ElementsAre("first", "first"));
  auto task = Ask(2, []() -> Task<std::string> { co_return "at once"; });
  task.Start();
  EXPECT_EQ(task.Take(), "at once");
}

// Each handle pins the value, whatever becomes of the cache.
TEST_F(AwaitTest, EachCoroutineHasAPinOfItsOwn) {
  const auto keep = [&]() -> Task<absl::StatusOr<Handle>> {
    co_return co_await LoadAsync(*cache_, 1, load_, executor_,
                                 [&]() -> Task<std::string> {
                                   co_await event_;
                                   co_return "kept";
                                 });
  };
  Task<absl::StatusOr<Handle>> tasks[] = {keep(), keep()};
  for (auto& task : tasks) task.Start();
  event_.Set();
  RunTasks();
  const auto first = tasks[0].Take();
  const auto second = tasks[1].Take();
  cache_.reset();
  EXPECT_EQ(TextOf(first), "kept");
  EXPECT_EQ(TextOf(second), "kept");
}

TEST_F(AwaitTest, LoadersGiveWhateverConvertsToAResult) {
  executor_ = nullptr;
  int key = 0;
  const auto answer = [&](auto loader) {
    auto task = Ask(++key, loader);
    task.Start();
    return task.Take();
  };
  const auto loaded = []() -> Task<Loaded<std::string>> {
    co_return Loaded<std::string>{"loaded", absl::Seconds(1)};
  };
  EXPECT_EQ(answer([]() -> Task<std::string> { co_return "value"; }), "value");
  EXPECT_EQ(answer(loaded), "loaded");
  EXPECT_EQ(cache_->TimeToLive(key), absl::Seconds(1));
  EXPECT_EQ(answer([]() -> Task<StringCache::LoadResult> {
              co_return absl::NotFoundError("none");
            }),
            "NOT_FOUND");
  struct Ready {  // No coroutine.
    bool await_ready() const { return true; }
    void await_suspend(std::coroutine_handle<>) const {}
    const char* await_resume() const { return "ready"; }
  };
  EXPECT_EQ(answer([] { return Ready(); }), "ready");
}

Task<std::string> FromFunction() { co_return "of a function"; }

// Keys that are temporary, loaders that only move, and loads within loads.
TEST_F(AwaitTest, LoadersMayOwnWhatTheyNeedAndLoadOtherKeys) {
  using Pointers = Cache<std::string, std::unique_ptr<int>>;
  const auto pointers = *Pointers::Create(options_);
  const auto load = [&]() -> Task<std::string> {
    auto loader = [owned = std::make_unique<int>(7),
                   this]() mutable -> Task<std::unique_ptr<int>> {
      const auto inner = co_await LoadAsync(*cache_, 1, {}, FromFunction);
      EXPECT_EQ(TextOf(inner), "of a function");
      co_return std::move(owned);
    };
    const auto pointer =
        co_await LoadAsync(*pointers, std::string("temporary"), {}, loader);
    const auto hit = co_await LoadAsync(
        *pointers, "temporary", {.wait = absl::ZeroDuration()},
        []() -> Task<std::unique_ptr<int>> { co_return nullptr; });
    EXPECT_EQ(hit->value().get(), pointer->value().get());
    for (const short key : {1, 2, 1, 2}) {
      const auto found = co_await LoadAsync(*cache_, key, {}, FromFunction);
      EXPECT_EQ(TextOf(found), "of a function");
    }
    co_return std::to_string(*pointer->value());
  };
  auto task = load();
  task.Start();
  EXPECT_EQ(task.Take(), "7");
}

TEST_F(AwaitTest, ExceptionReachesTheCoroutineThatLeads) {
  Start({"!", "second"});
  event_.Set();
  RunTasks();
  EXPECT_THROW(asking_[0].Take(), std::runtime_error);
  EXPECT_EQ(asking_[1].Take(), "UNKNOWN");
  EXPECT_EQ(loads_, 1);
}

TEST_F(AwaitTest, CancelledLoadGoesToTheNextThatWaits) {
  Start({"x", "second", "third"});
  event_.Set();
  EXPECT_EQ(loads_, 1) << "the next loader begins on the executor";
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("CANCELLED", "second", "second"));
  EXPECT_EQ(loads_, 2);
  Start({"fourth"});
  EXPECT_EQ(asking_.back().Take(), "second");
}

TEST_F(AwaitTest, CancelledLoadOfNobodyElseLeavesNothingBehind) {
  Start({"x"});
  event_.Set();
  RunTasks();
  EXPECT_EQ(asking_[0].Take(), "CANCELLED");
  EXPECT_EQ(*cache_->GetOrLoad(1, [] { return "next"; }), "next");
}

TEST_F(AwaitTest, DestroyedLeaderHandsOver) {
  Start({"first", "second", "third"});
  asking_.erase(asking_.begin());
  RunTasks();
  EXPECT_EQ(loads_, 2);
  Event never;
  std::swap(event_, never);  // The first one's loader is gone, too.
  asking_.erase(asking_.begin());
  event_.Set();
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("third"));
}

TEST_F(AwaitTest, DestroyedWaiterIsNeitherToldNorAskedToLoad) {
  Start({"x", "second", "third", "fourth"});
  asking_.erase(asking_.begin() + 1);  // Before the end of the load.
  event_.Set();
  ASSERT_EQ(tasks_.size(), 2U);
  asking_.erase(asking_.begin() + 1);  // Before the task by which it leads.
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("CANCELLED", "fourth"));
  Start({"hit"});
  cache_->Del(1);
  event_ = Event();
  Start({"first", "second"});
  event_.Set();
  asking_.pop_back();  // Before the task that would resume it.
  RunTasks();
  EXPECT_EQ(asking_.back().Take(), "first");
}

// A server that ends destroys them in any order.
TEST_F(AwaitTest, TensOfThousandsOfWaitersMayBeDestroyed) {
  for (const bool leader_first : {false, true}) {
    for (int i = 0; i < 10'000; ++i) Start({"text"});
    if (!leader_first) {
      while (asking_.size() > 1) asking_.pop_back();
    }
    asking_.clear();
    RunTasks();
  }
  EXPECT_EQ(*cache_->GetOrLoad(1, [] { return "next"; }), "next");
}

TEST_F(AwaitTest, ChainOfCancelledLoadsTakesNoStack) {
  executor_ = nullptr;
  Start({"x"});
  int loads = 0;
  for (int i = 0; i < 5'000; ++i) {
    asking_.push_back(Ask(1, [&]() -> Task<Result> {
      ++loads;
      co_return absl::CancelledError("the server stops");
    }));
    asking_.back().Start();
  }
  event_.Set();
  EXPECT_EQ(loads, 5'000);
  for (auto& task : asking_) EXPECT_EQ(task.Take(), "CANCELLED");
}

// The coroutine ends while the thread that suspends it is still about that.
TEST_F(AwaitInterleavingTest, LoadMayEndWhileTheNextWaiterComes) {
  for (const bool hands_over : {false, true}) {
    cache_->Del(1);
    event_ = Event();
    asking_.clear();
    executor_ = nullptr;
    load_.wait = absl::Seconds(1);
    Start({hands_over ? "x" : "first"});
    auto second = std::make_unique<Task<std::string>>(Ask("second"));
    std::string answer;
    this->At("load: after it has left callbacks", [&] {
      event_.Set();
      answer = second->Take();
      second.reset();
      this->clock_.Advance(absl::Seconds(1));  // The end of its wait.
    });
    second->Start();
    EXPECT_EQ(answer, hands_over ? "second" : "first");
  }
}

// And, with it, the cache.
TEST_F(AwaitInterleavingTest, CacheMayEndWhileTheNextWaiterComes) {
  executor_ = nullptr;
  load_.wait = absl::Seconds(1);
  Start({"first"});
  this->At("load: after it has left callbacks", [&] {
    event_.Set();
    cache_.reset();
  });
  Start({"second"});
  EXPECT_THAT(Answers(), ElementsAre("first", "first"));
}

TEST_F(AwaitInterleavingTest, LoadMayEndBeforeTheNextWaiterHasCome) {
  for (const bool is_cancelled : {false, true}) {
    cache_->Del(1);
    event_ = Event();
    asking_.clear();
    executor_ = nullptr;
    load_.wait = absl::Seconds(1);
    Start({is_cancelled ? "x" : "first"});
    this->At("load: before it leaves callbacks", [&] { event_.Set(); });
    Start({"second"});
    EXPECT_THAT(Answers(), is_cancelled ? ElementsAre("CANCELLED", "second")
                                        : ElementsAre("first", "first"));
  }
}

TEST_F(AwaitTest, TaskThatTheExecutorDropsHandsTheLoadOn) {
  Start({"x", "second", "third"});
  event_.Set();
  tasks_.pop_back();  // By which the second would lead.
  tasks_.erase(tasks_.begin());
  RunTasks();
  EXPECT_EQ(cache_->Get(1), "third");
  EXPECT_THAT(Answers(), ElementsAre("suspended", "third", "third"));
}

TEST_F(AwaitTest, WaitEndsByTheClockOfTheCache) {
  Start({"first"});
  load_.wait = absl::Seconds(1);
  Start({"second"});
  load_.wait = absl::ZeroDuration();
  Start({"third"});
  EXPECT_THAT(Answers(),
              ElementsAre("suspended", "suspended", "DEADLINE_EXCEEDED"));
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  cache_->RunMaintenance();
  EXPECT_TRUE(tasks_.empty());
  clock_.Advance(absl::Nanoseconds(1));
  cache_->RunMaintenance();
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("suspended", "DEADLINE_EXCEEDED",
                                     "DEADLINE_EXCEEDED"));
  event_.Set();
  RunTasks();
  EXPECT_EQ(asking_[0].Take(), "first");
}

TEST_F(AwaitTest, DestroyedWaiterLeavesNoDeadline) {
  Start({"first"});
  load_.wait = absl::Seconds(1);
  Start({"second"});
  EXPECT_EQ(cache_->NextDeadline(), clock_.Now() + absl::Seconds(1));
  asking_.pop_back();
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
}

TEST_F(AwaitTest, LoadsAreSharedWithTickets) {
  std::string told;
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  Start({"never"});
  EXPECT_EQ(loads_, 0);
  EXPECT_TRUE(ticket.Finish("of the ticket"));
  RunTasks();
  EXPECT_EQ(asking_[0].Take(), "of the ticket");
  cache_->Del(1);
  Start({"of the coroutine"});
  EXPECT_FALSE(cache_->BeginLoad(
      1, {}, [&](const auto& result) { told = TextOf(result); }));
  event_.Set();
  EXPECT_EQ(told, "of the coroutine");
}

TEST_F(AwaitTest, LaterWriteSupersedesTheLoad) {
  Start({"old", "second"});
  cache_->Set(1, "new");
  event_.Set();
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("old", "old"));
  EXPECT_EQ(cache_->Get(1), "new");
}

TEST_F(AwaitTest, CacheMayEndWhileCoroutinesWait) {
  load_.wait = absl::Seconds(1);
  Start({"first", "second", "third"});
  cache_.reset();
  asking_.pop_back();
  event_.Set();
  RunTasks();
  EXPECT_THAT(Answers(), ElementsAre("first", "first"));
}

TEST_F(AwaitTest, FailureIsRememberedAndOldValuesAreRefused) {
  load_.error_ttl = absl::Seconds(1);
  int loads = 0;
  const auto down = [&]() -> Task<Result> {
    ++loads;
    co_return absl::UnavailableError("down");
  };
  for (int i = 0; i < 2; ++i) {
    auto task = Ask(1, down);
    task.Start();
    RunTasks();
    EXPECT_EQ(task.Take(), "UNAVAILABLE");
  }
  EXPECT_EQ(loads, 1);
  cache_->Set(2, "old");
  clock_.Advance(absl::Minutes(1));
  load_.max_age = absl::Seconds(1);
  auto task = Ask(2, down);
  task.Start();
  RunTasks();
  EXPECT_EQ(task.Take(), "UNAVAILABLE");
  EXPECT_EQ(loads, 2);
}

class AwaitMemoryFailureTest : public AwaitTest,
                               public ::testing::WithParamInterface<bool> {};

// Promise: Failures leave the cache whole
TEST_P(AwaitMemoryFailureTest, AllocationsThatFailLeaveNoLoadBehind) {
  executor_ = nullptr;
  if (GetParam()) executor_ = [](const auto& task) { task(); };
  int failures = 0;
  for (const bool joins : {false, true}) {
    std::optional<StringCache::Ticket> other;
    const std::string value(1000, 'v');
    testing::WithEachAllocationFailing(
        [&] {
          // Not the frame of the test's own coroutine.
          auto& state = testing::failing_allocations;
          const int64_t left = std::exchange(state.left, INT64_MAX);
          if (joins) other = cache_->BeginLoad(1, {}, [](const auto&) {});
          auto task = Ask(1, [&]() -> Task<Result> { co_return value; });
          state.left = left;
          task.Start();
          if (other) other->Finish(value);
          EXPECT_TRUE(task.done());
          (void)task.Take();
        },
        [&](bool thrown) {
          failures += thrown ? 1 : 0;
          other.reset();
          cache_->Del(1);
          EXPECT_EQ(*cache_->GetOrLoad(1, [] { return "next"; }), "next");
          cache_->Del(1);
        });
  }
  EXPECT_GT(failures, 5);
}

INSTANTIATE_TEST_SUITE_P(WithAnExecutor, AwaitMemoryFailureTest,
                         ::testing::Bool());

// A coroutine that waits gets the result of the load even with no memory left.
TEST_F(AwaitTest, EndOfAWaitNeedsNoMemory) {
  executor_ = [](const auto& task) { task(); };
  auto ticket = cache_->BeginLoad(1, {}, [](const auto&) {});
  Start({"waits"});
  EXPECT_FALSE(testing::ThrowsWithoutMemory(0, /*all_that_follow=*/true, [&] {
    ticket.Finish(absl::UnavailableError(""));
  }));
  EXPECT_THAT(Answers(), ElementsAre("UNAVAILABLE"));
}

// Resumes whoever awaits it on another thread.
struct Yield {
  testing::ThreadPool& pool;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) const {
    pool.Add([awaiting] { awaiting.resume(); });
  }
  void await_resume() const {}
};

TEST_F(AwaitTest, CoroutinesOnThreadsSeeValuesOfTheirKeys) {
  constexpr int kKeys = 5;
  constexpr int kCoroutines = 20;
  const int rounds = static_cast<int>(TestOperations() / 1000);
  std::atomic<int> ended{0};
  std::atomic<int> in_flight[kKeys] = {};
  std::vector<Task<int>> clients;
  std::optional<testing::ThreadPool> pool(4);  // Ends before them.
  executor_ = [&](std::function<void()> task) { pool->Add(std::move(task)); };
  const auto client = [&](int seed) -> Task<int> {
    std::mt19937 random(seed);
    co_await Yield{*pool};
    for (int i = 0; i < rounds; ++i) {
      const int key = static_cast<int>(random() % kKeys);
      const bool cancels = random() % 8 == 0;
      const auto value = co_await LoadAsync(
          *cache_, key, load_, executor_, [&, key]() -> Task<Result> {
            // Of loads that nothing has superseded, there is one at a time.
            EXPECT_EQ(in_flight[key].fetch_add(1), 0);
            co_await Yield{*pool};
            in_flight[key].fetch_sub(1);
            if (cancels) co_return absl::CancelledError("not now");
            co_return std::to_string(key);
          });
      EXPECT_EQ(TextOf(value), value.ok() ? std::to_string(key) : "CANCELLED");
      EXPECT_TRUE(value.ok() || cancels);
      if (value.ok()) cache_->DelIf(key, *value);
    }
    ended.fetch_add(1);
    co_return 0;
  };
  for (int i = 0; i < kCoroutines; ++i) clients.push_back(client(i));
  for (auto& task : clients) task.Start();
  while (ended.load() < kCoroutines) std::this_thread::yield();
  pool.reset();
}

// The example of the header.
struct User {
  std::string name;
};
struct Database {
  Task<std::string> Read(int id) { co_return "user " + std::to_string(id); }
};
User Parse(const std::string& row) { return {row}; }
std::string* greeted = nullptr;
void Greet(const User& user) { *greeted = user.name; }

Task<absl::Status> GreetUser(Cache<int, User>* users, int id) {
  Database database;
  const std::function<void(std::function<void()>)> executor =
      [](const std::function<void()>& task) { task(); };
  auto user = co_await wheelcache::LoadAsync(
      *users, id, {}, executor, [&]() -> Task<absl::StatusOr<User>> {
        co_return Parse(co_await database.Read(id));
      });
  if (!user.ok()) co_return user.status();
  Greet(**user);
  co_return absl::OkStatus();
}

TEST_F(AwaitTest, ExampleOfTheHeaderWorks) {
  std::string name;
  greeted = &name;
  auto users = New<int, User>();
  auto task = GreetUser(users.get(), 7);
  task.Start();
  EXPECT_TRUE(task.Take().ok());
  EXPECT_EQ(name, "user 7");
}

// Reads of a near cache, of which a blocked reader is to be the first.
class AwaitNearTest : public ::testing::Test {
 protected:
  using Near = NearCache<std::string>;

  AwaitNearTest() {
    NearCacheOptions options;
    options.local.clock = &clock_;
    options.local.reaper = nullptr;
    near_ = *Near::Create(options, &store_);
    server_.Set("alice", "Alice");
  }

  Task<std::string> Read() {
    auto user = co_await GetAsync(*near_, "alice", executor_);
    co_return user.ok() ? user->value_or("(absent)") : user.status().ToString();
  }

  // Has `act` run between the answer to a Get and its end.
  void ReadAndMeanwhile(const std::function<void()>& act) {
    store_.set_interposer([&](FakeStore::Step step, const FakeStore::Request&) {
      if (step == FakeStore::Step::kExecuted) act();
      return absl::OkStatus();
    });
    EXPECT_EQ(*near_->Get("alice"), "Alice");
    store_.set_interposer(nullptr);
  }

  SimulatedClock clock_;
  FakeServer server_{&clock_};
  FakeStore store_{&server_};
  std::unique_ptr<Near> near_;
  std::deque<std::function<void()>> tasks_;
  std::function<void(std::function<void()>)> executor_ =
      [this](std::function<void()> task) { tasks_.push_back(std::move(task)); };
};

TEST_F(AwaitNearTest, AReadThatHasItsResultAtOnceDoesNotSuspend) {
  for (int i = 0; i < 2; ++i) {
    auto task = Read();
    task.Start();
    ASSERT_TRUE(task.done());
    EXPECT_EQ(task.Take(), "Alice");
  }
  EXPECT_TRUE(tasks_.empty());
  EXPECT_EQ(near_->stats().local_hits, 1);
}

TEST_F(AwaitNearTest, AReadIsResumedOnItsExecutor) {
  auto task = Read();
  ReadAndMeanwhile([&] {
    task.Start();
    EXPECT_FALSE(task.done());
  });
  EXPECT_FALSE(task.done());
  ASSERT_EQ(tasks_.size(), 1);
  tasks_.front()();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.Take(), "Alice");
  EXPECT_EQ(near_->stats().joined, 1);
}

TEST_F(AwaitNearTest, AReadWithoutAnExecutorIsResumedWhereItEnds) {
  executor_ = nullptr;
  auto task = Read();
  ReadAndMeanwhile([&] { task.Start(); });
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.Take(), "Alice");
}

TEST_F(AwaitNearTest, ACoroutineThatIsDestroyedIsNotResumed) {
  for (const bool after_the_end : {false, true}) {
    std::optional<Task<std::string>> task = Read();
    ReadAndMeanwhile([&] {
      task->Start();
      if (!after_the_end) task = std::nullopt;
    });
    task = std::nullopt;
    for (const auto& each : tasks_) each();
    EXPECT_EQ(tasks_.size(), after_the_end ? 1 : 0);
    near_->Del("alice").status().IgnoreError();
    server_.Set("alice", "Alice");
  }
}

Task<absl::Status> GreetNearUser(
    NearCache<std::string>* users, std::string* greeted,
    std::function<void(std::function<void()>)> executor) {
  const auto Greet = [&](const std::string& name) { *greeted = name; };
  auto user = co_await wheelcache::GetAsync(*users, "alice", executor);
  if (!user.ok()) co_return user.status();
  if (user->has_value()) Greet(**user);
  co_return absl::OkStatus();
}

TEST_F(AwaitNearTest, ExampleOfTheHeaderWorks) {
  std::string name;
  auto task = GreetNearUser(near_.get(), &name, executor_);
  task.Start();
  EXPECT_TRUE(task.Take().ok());
  EXPECT_EQ(name, "Alice");
}

}  // namespace
}  // namespace wheelcache
