// Reusable barrier for a fixed number of threads, with a completion function as
// in C++20's std::barrier.
//
//   Barrier barrier(threads);
//   ...
//   barrier.Pass([&] { clock.AdvanceTo(time); });  // On each thread.
//
// Guarantees: the completion function runs once for all threads, on the last
// one to arrive, before any of them is released.
//
// Threads: thread-safe.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_BARRIER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_BARRIER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace replay {

class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  // Blocks until all `threads` threads have called this. The function is that
  // of the last caller.
  void Pass() {
    Pass([] {});
  }
  template <typename Completion>
  void Pass(Completion completion) {
    MutexLock lock(&mu_);
    if (++waiting_ == threads_) {
      completion();
      waiting_ = 0;
      ++generation_;
      all_arrived_.SignalAll();
      return;
    }
    const int64_t generation = generation_;
    while (generation == generation_) all_arrived_.Wait(&mu_);
  }

 private:
  const int threads_;

  Mutex mu_;
  CondVar all_arrived_;
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_BARRIER_H_
