// Locks and condition variables under many threads, and what is told of a
// fork(). The guarded variables are plain integers: built with --config=tsan,
// these tests fail as soon as ThreadSanitizer no longer sees the locks.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/base/at_fork.h"
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

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsTheLock) {
  Mutex mu;
  MutexLock lock(&mu);
  bool refused = true;
  std::thread([&mu, &refused] {
    if (mu.TryLock()) {
      refused = false;
      mu.Unlock();
    }
  }).join();
  EXPECT_TRUE(refused);
}

struct ManyCounters {
  static constexpr int kCounters = 300;

  void LockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Counter& counter : counters) counter.mu.LockAmongMany();
  }
  void UnlockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Counter& counter : counters) counter.mu.UnlockAmongMany();
  }
  void UnlockAllInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Counter& counter : counters) counter.mu.UnlockInChild();
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
    many.LockAll();
    const auto use = [&many] {
      many.UnlockAllInChild();
      for (int i = 0; i < 3; ++i) many.CountAll();
      for (Counter& counter : many.counters) {
        MutexLock lock(&counter.mu);
        if (counter.value != 3) return false;
      }
      many.LockAll();
      const auto use_again = [&many] {
        many.UnlockAllInChild();
        many.CountAll();
        return true;
      };
      const bool held = HoldsInChild(use_again);
      many.UnlockAll();
      return held;
    };
    EXPECT_TRUE(HoldsInChild(use)) << several_threads;
    many.UnlockAll();
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
  Counter counter;
  CondVar never;
  RunInThreads([&] {
    for (int i = 0; i < 1000; ++i) {
      MutexLock lock(&counter.mu);
      never.WaitWithTimeout(&counter.mu, absl::ZeroDuration());
      ++counter.value;
    }
  });
  MutexLock lock(&counter.mu);
  EXPECT_EQ(counter.value, kThreads * 1000);
}

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

// Writes down its name and what it is told.
class Witness {
 public:
  Witness(std::string name, std::string& story)
      : name_(std::move(name)), story_(story) {}

 private:
  friend class internal::ForkRegistration;
  void BeforeFork() { story_ += name_ + " before, "; }
  void AfterForkInParent() { story_ += name_ + " in parent, "; }
  void AfterForkInChild() { story_ += name_ + " in child, "; }

  const std::string name_;
  std::string& story_;
  internal::ForkRegistration fork_registration_{this};
};

TEST(ForkRegistration, TheYoungestIsTheFirstBeforeAForkAndTheLastAfterIt) {
  std::string story;
  const Witness a("a", story), b("b", story), c("c", story);
  EXPECT_TRUE(HoldsInChild([&] {
    return story ==
           "c before, b before, a before, a in child, b in child, c in child, ";
  }));
  EXPECT_EQ(story,
            "c before, b before, a before, "
            "a in parent, b in parent, c in parent, ");
}

TEST(ForkRegistration, WhoHasGoneIsNotCalled) {
  for (int gone = 0; gone < 3; ++gone) {
    std::string story;
    std::unique_ptr<Witness> witnesses[] = {
        std::make_unique<Witness>("a", story),
        std::make_unique<Witness>("b", story),
        std::make_unique<Witness>("c", story)};
    witnesses[gone] = nullptr;
    EXPECT_TRUE(HoldsInChild([] { return true; }));
    EXPECT_EQ(story.find("abc"[gone] + std::string(" before")),
              std::string::npos);
    for (int i = 0; i < 3; ++i) {
      if (i == gone) continue;
      EXPECT_NE(story.find("abc"[i] + std::string(" in parent")),
                std::string::npos);
    }
  }
}

TEST(ForkRegistration, TheChildMayForkToo) {
  std::string story;
  const Witness a("a", story);
  EXPECT_TRUE(HoldsInChild([&] { return HoldsInChild([] { return true; }); }));
}

}  // namespace
}  // namespace wheelcache
