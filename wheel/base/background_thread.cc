#include "wheelcache/wheel/base/background_thread.h"

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {

// Brings all background threads to a stand at a fork(). Never destroyed: they
// may outlive static objects.
//
// Whoever waits sleeps and looks again: a lock or condition variable in which a
// thread waits at the fork() would be unusable in the child.
class ForkGuard {
 public:
  static ForkGuard& Get() {
    static ForkGuard* const guard = new ForkGuard;
    return *guard;
  }

  void Add(BackgroundThread* thread) {
    MutexLock lock(&mu_);
    thread->next_ = first_;
    first_ = thread;
  }

  void Remove(BackgroundThread* thread) {
    MutexLock lock(&mu_);
    BackgroundThread** link = &first_;
    while (*link != thread) link = &(*link)->next_;
    *link = thread->next_;
  }

  void CallInChild(void (*function)()) { in_child_.store(function); }

  bool forking() const { return forks_.load() > 0; }

  // The calling thread begins to work, when no fork() is under way.
  void Enter() {
    for (;;) {
      while (forking()) Pause();
      // Either this thread sees a fork() that begins now, or that sees it.
      at_work_.fetch_add(1);
      if (!forking()) return;
      Leave();
    }
  }
  void Leave() { at_work_.fetch_sub(1); }

  static inline thread_local bool in_background = false;

  // Between a thread's start and its first step.
  void AddStarting() { starting_.fetch_add(1); }
  void RemoveStarting() {
    // None is left that began before a fork() in the child.
    int count = starting_.load();
    while (count > 0 && !starting_.compare_exchange_weak(count, count - 1)) {
    }
  }
  void AwaitStarting() { Await(starting_); }

 private:
  ForkGuard() { platform::CallAtFork(&Before, &InParent, &InChild); }

  static void Pause() {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  // Waits for zero, but not for ever.
  static void Await(const std::atomic<int>& threads) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (threads.load() > 0 && std::chrono::steady_clock::now() < deadline) {
      Pause();
    }
  }

  // Two background threads may fork at a time, and must not wait for each
  // other.
  static void Before() {
    ForkGuard& guard = Get();
    guard.forks_.fetch_add(1);
    if (in_background) guard.Leave();
    guard.WakeAll();
    Await(guard.at_work_);
  }

  static void InParent() {
    Get().forks_.fetch_sub(1);
    if (in_background) Get().Enter();
  }

  static void InChild() {
    ForkGuard& guard = Get();
    ::new (&guard.mu_) Mutex;  // Another thread may have been forking.
    if (const auto call = guard.in_child_.load()) call();
    guard.DropLost();
    guard.at_work_.store(0);  // Also of a turn that was not waited for.
    guard.starting_.store(0);
    guard.forks_.store(0);
    if (in_background) guard.Enter();
  }

  void WakeAll() {
    MutexLock lock(&mu_);
    for (BackgroundThread* t = first_; t != nullptr; t = t->next_) {
      t->WakeForFork();
    }
  }

  // Keeps the forking thread, and what a handler has started in the child.
  void DropLost() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const int process = platform::ProcessId();
    for (BackgroundThread** link = &first_; *link != nullptr;) {
      BackgroundThread& thread = **link;
      if (thread.OnThread()) thread.process_ = process;
      if (thread.process_ == process) {
        link = &thread.next_;
        continue;
      }
      *link = thread.next_;
      thread.process_ = 0;
      thread.OnThreadLost();
    }
  }

  // For code of the program, which may wait for a lock of the calling thread.
  static constexpr std::chrono::seconds kPatience{1};

  std::atomic<int> forks_{0};    // Under way.
  std::atomic<int> at_work_{0};  // Background threads that do not stand.
  std::atomic<int> starting_{0};
  std::atomic<void (*)()> in_child_{nullptr};

  Mutex mu_;
  BackgroundThread* first_ ABSL_GUARDED_BY(mu_) = nullptr;
};

void BackgroundThread::CallInChild(void (*function)()) {
  ForkGuard::Get().CallInChild(function);
}

namespace {

// A module that was closed by dlclose() stays mapped while a thread has an
// object of the module's that is still to be destroyed. A background thread has
// an AtWork from its first step on. Whoever starts it has a HoldUntilStarted,
// and waits for that step when it ends itself. Not at once: in the
// initialization of the module it holds the loader's lock, which the new thread
// needs for its AtWork.
struct HoldUntilStarted {
  HoldUntilStarted() = default;
  ~HoldUntilStarted() { ForkGuard::Get().AwaitStarting(); }
  HoldUntilStarted(const HoldUntilStarted&) = delete;
  HoldUntilStarted& operator=(const HoldUntilStarted&) = delete;
};

// A thread is at work while it has one.
struct AtWork {
  AtWork() {
    ForkGuard::in_background = true;
    ForkGuard::Get().Enter();
  }
  ~AtWork() { ForkGuard::Get().Leave(); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

}  // namespace

int BackgroundThread::StartThread(const char* name) {
  thread_local const HoldUntilStarted hold;
  ForkGuard& guard = ForkGuard::Get();
  name_ = name;
  guard.Add(this);
  guard.AddStarting();
  const int error = platform::StartThread(&thread_, &ThreadMain, this);
  if (error == 0) {
    process_ = platform::ProcessId();
  } else {
    guard.RemoveStarting();
    guard.Remove(this);
  }
  return error;
}

void BackgroundThread::EndThread() {
  if (!has_thread()) return;
  // At exit() from Run(), objects with static storage are destroyed by their
  // own thread, which then never comes back to its loop.
  if (!OnThread()) platform::JoinThread(thread_);
  ForkGuard::Get().Remove(this);
  process_ = 0;
}

bool BackgroundThread::OnThread() const {
  return has_thread() && platform::IsThisThread(thread_);
}

void BackgroundThread::StandStillAtFork() {
  ForkGuard& guard = ForkGuard::Get();
  if (!guard.forking()) return;
  guard.Leave();
  guard.Enter();
}

platform::ThreadResult BackgroundThread::ThreadMain(void* self) {
  auto* const thread = static_cast<BackgroundThread*>(self);
  platform::NameThisThread(thread->name_);
  thread_local const AtWork at_work;
  ForkGuard::Get().RemoveStarting();
  thread->Run();
  return {};
}

}  // namespace wheelcache::internal
