// A point that threads pass together, after one of them has done a piece of
// work that must not overlap with theirs.
//
//   Barrier barrier(threads);
//   ...
//   barrier.Pass([&] { clock.AdvanceTo(time); });  // On each of the threads.
//
// Guarantees: the work runs once, on the thread that arrives last, after all
// have arrived and before any goes on.
//
// Threads: thread-safe.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_BARRIER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_BARRIER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/mutex.h"

namespace wheelcache {
namespace replay {

class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  // Blocks until as many threads as the barrier was made for have called this.
  void Pass() {
    Pass([] {});
  }
  template <typename Work>
  void Pass(Work work) {
    MutexLock lock(&mu_);
    if (++waiting_ == threads_) {
      work();
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
