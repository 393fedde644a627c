// A thread of the library's own, which stands still during a fork().
//
//   class Ticker final : private internal::BackgroundThread {
//    public:
//     ~Ticker() {
//       stop_.store(true);
//       sleeper_->Wake();
//       EndThread();
//     }
//     bool Start() { return StartThread("ticker") == 0; }
//     ...
//
//    private:
//     void Run() override {
//       while (!stop_.load()) {
//         StandStillAtFork();
//         Tick();
//         sleeper_->SleepUntil(next_nanos_);
//       }
//     }
//     void WakeForFork() override { sleeper_->Wake(); }
//     void OnThreadLost() override { is_lost_ = true; }
//     ...
//   };
//
// fork(). Only the calling thread exists in the child. What another one had
// locked stays locked there, and what it was changing stays half changed. So a
// fork() waits until each background thread stands in StandStillAtFork(), where
// it holds nothing. For the program's own threads, see docs/guarantees.md.
//
// A fork() holds no lock either: the forking thread may use all objects of the
// library in handlers of pthread_atfork(), whichever come first.
//
// A turn may run code of the program, which may wait for a lock of the forking
// thread. After a second the fork() goes on without it.
//
// Threads. Thread-compatible; see each method. A background thread may fork,
// and goes on in the child.
//
// Cost. One load a turn. A fork() wakes each background thread.

#ifndef WHEELCACHE_WHEEL_BASE_BACKGROUND_THREAD_H_
#define WHEELCACHE_WHEEL_BASE_BACKGROUND_THREAD_H_

#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT BackgroundThread {
 public:
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Has a function called in the child of each fork(), before any background
  // thread works there; one for all.
  static void CallInChild(void (*function)());

 protected:
  BackgroundThread() = default;
  ~BackgroundThread() = default;

  // Starts a thread with this name, at most 15 bytes, which blocks all signals:
  // they are the program's own. Returns its error number, or 0.
  // REQUIRES: there is no thread, and no lock is held that WakeForFork takes.
  int StartThread(const char* name);

  // Waits for the end of Run(), unless called by it. Does nothing if there is
  // no thread.
  void EndThread();

  bool has_thread() const { return process_ != 0; }
  bool OnThread() const;

  // Returns when no fork() is under way. To be called by each turn of Run(),
  // with no lock held and no reader's section open.
  static void StandStillAtFork();

 private:
  friend class ForkGuard;

  static platform::ThreadResult ThreadMain(void* self);

  // What the thread does.
  virtual void Run() = 0;

  // Makes Run() begin another turn. Called by any thread, during StartThread
  // and EndThread as well.
  virtual void WakeForFork() = 0;

  // Called in the child of a fork(), which does not have the thread.
  virtual void OnThreadLost() = 0;

  const char* name_ = nullptr;
  platform::Thread thread_ = {};
  int process_ = 0;                   // Of the thread; 0 if there is none.
  BackgroundThread* next_ = nullptr;  // In the list of all.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_BASE_BACKGROUND_THREAD_H_
