// Locks and condition variables under many threads, and what becomes of
// background threads at a fork(). The guarded variables are plain integers:
// built with --config=tsan, these tests fail as soon as ThreadSanitizer no
// longer sees the locks.

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/base/background_thread.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace {

using testing::HoldsInChild;

constexpr int kThreads = 4;
constexpr int kRounds = 20000;

void RunInThreads(const std::function<void()>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
}

struct Counter {
  Mutex mu;
  int value ABSL_GUARDED_BY(mu) = 0;
};

TEST(MutexTest, LockExcludesOtherThreads) {
  Counter counter;
  RunInThreads([&counter] {
    for (int i = 0; i < kRounds; ++i) {
      MutexLock lock(&counter.mu);
      ++counter.value;
    }
  });
  MutexLock lock(&counter.mu);
  EXPECT_EQ(counter.value, kThreads * kRounds);
}

TEST(MutexTest, TryLockExcludesOtherThreads) {
  Counter counter;
  RunInThreads([&counter] {
    for (int done = 0; done < kRounds;) {
      if (!counter.mu.TryLock()) continue;
      ++counter.value;
      ++done;
      counter.mu.Unlock();
    }
  });
  MutexLock lock(&counter.mu);
  EXPECT_EQ(counter.value, kThreads * kRounds);
}

// Whether another thread is refused a lock.
bool IsHeld(Mutex* mu) {
  bool refused = true;
  std::thread([mu, &refused] {
    if (mu->TryLock()) {
      refused = false;
      mu->Unlock();
    }
  }).join();
  return refused;
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsTheLock) {
  Mutex mu;
  MutexLock lock(&mu);
  EXPECT_TRUE(IsHeld(&mu));
}

struct ManyCounters {
  static constexpr int kCounters = 300;

  void LockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Counter& counter : counters) counter.mu.LockAmongMany();
  }
  void UnlockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Counter& counter : counters) counter.mu.UnlockAmongMany();
  }
  // Counts all up at one instant.
  void CountAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    LockAll();
    for (Counter& counter : counters) ++counter.value;
    UnlockAll();
  }

  Counter counters[kCounters];
};

// More than ThreadSanitizer's deadlock detector follows, which still sees what
// the locks order.
TEST(MutexTest, LocksAmongManyExcludeOtherThreads) {
  ManyCounters many;
  RunInThreads([&many] {
    for (int i = 0; i < kRounds / 100; ++i) {
      many.CountAll();
      Counter& counter = many.counters[i % ManyCounters::kCounters];
      MutexLock lock(&counter.mu);
      ++counter.value;
    }
  });
  int sum = 0;
  for (Counter& counter : many.counters) {
    MutexLock lock(&counter.mu);
    sum += counter.value;
  }
  EXPECT_EQ(sum, kThreads * kRounds / 100 * (ManyCounters::kCounters + 1));
}

// In the child of a fork() as well, which ThreadSanitizer follows only if its
// parent had one thread.
TEST(MutexTest, LocksAmongManyAreOfUseInTheChildOfOneThreadAndOfSeveral) {
  for (const bool several_threads : {false, true}) {
    testing::Notification may_end;
    std::optional<std::thread> other;
    if (several_threads) other.emplace([&may_end] { may_end.Wait(); });
    ManyCounters many;
    many.CountAll();
    EXPECT_TRUE(HoldsInChild([&many] {
      many.CountAll();
      const bool held = HoldsInChild([&many] {
        many.CountAll();
        return true;
      });
      for (Counter& counter : many.counters) {
        MutexLock lock(&counter.mu);
        if (counter.value != 2) return false;
      }
      return held;
    })) << several_threads;
    many.CountAll();
    may_end.Notify();
    if (other) other->join();
  }
}

// ThreadSanitizer would report a possible deadlock if it took the new locks for
// the old ones, which stood at the same addresses.
TEST(MutexTest, DestroyedLocksLeaveNoLockOrderBehind) {
  std::optional<Mutex> a;
  std::optional<Mutex> b;
  a.emplace();
  b.emplace();
  {
    MutexLock outer(&*a);
    MutexLock inner(&*b);
  }
  a.emplace();
  b.emplace();
  {
    MutexLock outer(&*b);
    MutexLock inner(&*a);
  }
}

// The example of mutex.h.
class Mailbox {
 public:
  void Put(int letter) {
    MutexLock lock(&mu_);
    letters_.push_back(letter);
    arrived_.Signal();
  }
  int Take() {
    MutexLock lock(&mu_);
    while (letters_.empty()) arrived_.Wait(&mu_);
    const int letter = letters_.front();
    letters_.pop_front();
    return letter;
  }

 private:
  Mutex mu_;
  CondVar arrived_;
  std::deque<int> letters_ ABSL_GUARDED_BY(mu_);
};

TEST(CondVarTest, WaitReturnsAfterEverySignal) {
  Mailbox to_echo;
  Mailbox from_echo;
  std::thread echo([&] {
    for (int i = 0; i < kRounds; ++i) from_echo.Put(to_echo.Take());
  });
  for (int i = 0; i < kRounds; ++i) {
    to_echo.Put(i);
    ASSERT_EQ(from_echo.Take(), i);
  }
  echo.join();
}

// Every thread waits for its turn in one circle, so that each SignalAll wakes
// threads that must go back to sleep.
TEST(CondVarTest, SignalAllWakesEveryWaiter) {
  Mutex mu;
  CondVar turned;
  int next_thread = 0;
  int turn = 0;
  RunInThreads([&] {
    MutexLock lock(&mu);
    const int me = next_thread++;
    for (int i = 0; i < 1000; ++i) {
      while (turn % kThreads != me) turned.Wait(&mu);
      ++turn;
      turned.SignalAll();
    }
  });
  EXPECT_EQ(turn, kThreads * 1000);
}

TEST(CondVarTest, WaitWithTimeoutReportsThatTheTimeRanOut) {
  Mutex mu;
  CondVar never;
  MutexLock lock(&mu);
  EXPECT_TRUE(never.WaitWithTimeout(&mu, absl::ZeroDuration()));
  EXPECT_TRUE(never.WaitWithTimeout(&mu, absl::Milliseconds(1)));
}

TEST(CondVarTest, WaitWithTimeoutHoldsTheLockOnReturn) {
  Mutex mu;
  CondVar never;
  MutexLock lock(&mu);
  never.WaitWithTimeout(&mu, absl::ZeroDuration());
  EXPECT_TRUE(IsHeld(&mu));
}

#ifdef __GLIBC__  // Elsewhere, cancelled threads unwind nothing.
TEST(CondVarTest, CancelledWaitHoldsTheLockWhileItUnwinds) {
  for (const absl::Duration limit :
       {absl::InfiniteDuration(), absl::Hours(1)}) {
    Mutex mu;
    CondVar never;
    std::atomic<bool> waits{false};
    std::atomic<bool> was_held{false};
    std::thread thread([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      struct Looks {
        ~Looks() { was_held = IsHeld(&mu); }
        Mutex& mu;
        std::atomic<bool>& was_held;
      };
      MutexLock lock(&mu);
      const Looks looks{mu, was_held};
      waits = true;
      for (;;) {
        if (limit == absl::InfiniteDuration()) {
          never.Wait(&mu);
        } else {
          never.WaitWithTimeout(&mu, limit);
        }
      }
    });
    while (!waits) std::this_thread::yield();
    pthread_cancel(thread.native_handle());
    thread.join();
    EXPECT_TRUE(was_held);
    EXPECT_FALSE(IsHeld(&mu));
  }
}
#endif

TEST(CondVarTest, SignalEndsAWaitWithoutLimit) {
  Mutex mu;
  CondVar changed;
  bool ready = false;
  std::thread waker([&] {
    MutexLock lock(&mu);
    ready = true;
    changed.Signal();
  });
  {
    MutexLock lock(&mu);
    while (!ready) {
      EXPECT_FALSE(changed.WaitWithTimeout(&mu, absl::InfiniteDuration()));
    }
  }
  waker.join();
}

// Works all the time, by calls of a function.
class Worker final : private internal::BackgroundThread {
 public:
  explicit Worker(std::function<void()> turn) : turn_(std::move(turn)) {
    EXPECT_EQ(StartThread("worker"), 0);
  }
  ~Worker() {
    stop_.store(true);
    EndThread();
  }

  int turns() const { return turns_.load(); }
  bool is_lost() const { return is_lost_; }

 private:
  void Run() override {
    while (!stop_.load()) {
      StandStillAtFork();
      turn_();
      ++turns_;
    }
  }
  void WakeForFork() override {}
  void OnThreadLost() override { is_lost_ = true; }

  const std::function<void()> turn_;
  std::atomic<bool> stop_{false};
  std::atomic<int> turns_{0};
  bool is_lost_ = false;
};

TEST(BackgroundThreadTest, StandsOutsideItsTurnDuringAFork) {
  Counter counter;
  const auto turn = [&counter] {
    MutexLock lock(&counter.mu);
    ++counter.value;
    std::this_thread::yield();
    ++counter.value;
  };
  const Worker a(turn);
  const Worker b(turn);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(HoldsInChild(
        [&] {
          MutexLock lock(&counter.mu);
          return counter.value % 2 == 0 && a.is_lost() && b.is_lost();
        },
        testing::Others::kRun));
  }
  EXPECT_FALSE(a.is_lost());
}

TEST(BackgroundThreadTest, GoesOnAfterTheFork) {
  const Worker worker([] {});
  EXPECT_TRUE(HoldsInChild([] { return true; }, testing::Others::kRun));
  const int before = worker.turns();
  while (worker.turns() == before) std::this_thread::yield();
}

TEST(BackgroundThreadTest, MayForkWhileAnotherDoes) {
  std::atomic<int> children{0};
  std::atomic<int> well{0};
  const auto fork_once = [&] {
    thread_local bool has_forked = false;
    if (std::exchange(has_forked, true)) return;
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (testing::EndedWell(child)) ++well;
    ++children;
  };
  const Worker a(fork_once);
  const Worker b(fork_once);
  while (children.load() < 2) std::this_thread::yield();
  EXPECT_EQ(well.load(), 2);
}

// A thread may fork under a lock that code of the program waits for in the
// background.
TEST(BackgroundThreadTest, AForkDoesNotWaitForEver) {
  testing::Notification runs;
  testing::Notification has_forked;
  std::atomic<bool> first{true};
  Worker worker([&] {
    if (!first.exchange(false)) return;
    runs.Notify();
    has_forked.Wait();
  });
  runs.Wait();
  EXPECT_TRUE(HoldsInChild(
      [&] {
        if (!worker.is_lost()) return false;
        // Nor do those of the child, for a thread which that does not have.
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 10; ++i) {
          if (!HoldsInChild([] { return true; }, testing::Others::kRun)) {
            return false;
          }
        }
        return std::chrono::steady_clock::now() - begin <
               std::chrono::seconds(10);
      },
      testing::Others::kRun));
  has_forked.Notify();
}

}  // namespace
}  // namespace wheelcache
