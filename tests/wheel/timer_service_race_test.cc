// All methods from many threads at once, above all for ThreadSanitizer. Each
// value that was set comes to one end, and to one only: fired, replaced,
// removed, drained or dropped by Stop.

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 4'000;
constexpr int kKeys = 16;

// Knows its key, and counts that it is there.
class Value {
 public:
  Value(int key, std::atomic<int>& alive) : key_(key), alive_(&alive) {
    ++*alive_;
  }
  Value(Value&& other) noexcept
      : key_(other.key_), alive_(std::exchange(other.alive_, nullptr)) {}
  Value& operator=(Value&&) = delete;
  ~Value() {
    if (alive_ != nullptr) --*alive_;
  }

  int key() const { return key_; }

 private:
  const int key_;
  std::atomic<int>* alive_;
};

using Service = TimerService<int, Value>;

// Hands each task to one of two threads, which end with this.
class ThreadPool {
 public:
  ThreadPool() {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  ~ThreadPool() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(std::function<void()> task) {
    MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }

 private:
  void Work() {
    while (!stop_) {
      std::function<void()> task;
      {
        MutexLock lock(&mu_);
        if (!tasks_.empty()) {
          task = std::move(tasks_.back());
          tasks_.pop_back();
        }
      }
      if (task) task();
      std::this_thread::yield();
    }
  }

  Mutex mu_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class TimerServiceRaceTest : public ::testing::TestWithParam<bool> {
 protected:
  TimerServiceRaceTest() {
    Service::Options options;
    options.interval = absl::Nanoseconds(1);
    options.clock = &clock_;
    options.execute = [this](int key, const Value& value) {
      EXPECT_EQ(key, value.key());
      ++ended_;
      // A callback is as good a place as any to call the service from.
      if (key == 0) service_->Move(1, absl::Nanoseconds(3)).IgnoreError();
    };
    if (GetParam()) {
      pool_ = std::make_unique<ThreadPool>();
      options.executor = [this](std::function<void()> task) {
        pool_->Run(std::move(task));
      };
    }
    service_ = *Service::Create(std::move(options));
  }

  void CallAtRandom(int seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      const int key = static_cast<int>(random() % kKeys);
      const auto delay = absl::Nanoseconds(random() % 20);
      switch (random() % 10) {
        case 0:
        case 1:
        case 2:
        case 3:
          service_->Set(key, Value(key, alive_), delay).IgnoreError();
          break;
        case 4:
        case 5:
          service_->Move(key, delay).IgnoreError();
          break;
        case 6:
          if (service_->Remove(key).ok()) ++ended_;
          break;
        case 7:
          service_->After(delay, [this] { ++calls_; }).IgnoreError();
          break;
        case 8:
          service_
              ->Drain([this](int drained, const Value& value) {
                EXPECT_EQ(drained, value.key());
                ++ended_;
              })
              .IgnoreError();
          break;
        default:
          clock_.Advance(absl::Nanoseconds(1));
      }
    }
  }

  void RunThreads(const std::function<void()>& meanwhile) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t] { CallAtRandom(t); });
    }
    meanwhile();
    for (std::thread& thread : threads) thread.join();
  }

  SimulatedClock clock_;
  std::atomic<int> alive_{0};
  std::atomic<int> ended_{0};
  std::atomic<int> calls_{0};
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Service> service_;
};

TEST_P(TimerServiceRaceTest, AllTimersFireInTheEnd) {
  RunThreads([] {});
  // The threads may have drained all of theirs.
  EXPECT_TRUE(
      service_->After(absl::Nanoseconds(50), [this] { ++calls_; }).ok());
  clock_.RunFor(absl::Nanoseconds(100));
  while (service_->size() > 0 || calls_ == 0) std::this_thread::yield();
  service_->Stop();
  EXPECT_EQ(alive_, 0);
  EXPECT_GT(ended_, 0);
  EXPECT_GT(calls_, 0);
}

TEST_P(TimerServiceRaceTest, AfterStopNothingRunsAndNothingIsLeft) {
  std::atomic<int> ended{0};
  RunThreads([&] {
    while (ended_ < 100) std::this_thread::yield();
    service_->Stop();
    // Removals and drained items are counted by the threads themselves.
    EXPECT_TRUE(absl::IsFailedPrecondition(service_->Remove(0)));
    ended = calls_.load();
  });
  EXPECT_EQ(calls_, ended);
  EXPECT_EQ(service_->size(), 0);
  EXPECT_EQ(alive_, 0);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutExecutor, TimerServiceRaceTest,
                         ::testing::Bool());

}  // namespace
}  // namespace wheelcache
