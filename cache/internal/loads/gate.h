// Keeps a cache alive while a ticket stores its value, and turns away tickets
// that are finished after the end of the cache.
//
//   const Gate::Visit visit(&gate);
//   if (visit.admitted()) cache->Store(value);
//
// Close() waits for the visits that run, and admits no more of them. Visitors
// may close their gate, too: they do not wait for themselves, and of two that
// do so at a time, not for each other.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_GATE_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_GATE_H_

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // A stay of the calling thread. Visits of one thread may nest. Allocates
  // nothing.
  class WHEELCACHE_EXPORT Visit {
   public:
    explicit Visit(Gate* gate);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    bool admitted() const { return admitted_; }

   private:
    friend class Gate;

    Gate& gate_;
    const std::thread::id thread_ = std::this_thread::get_id();
    bool admitted_ = false;

    // Guarded by the gate's lock.
    bool closes_ = false;    // Its thread is in Close().
    Visit* next_ = nullptr;  // In the gate's list.
  };

  // Returns when no other thread is inside, and none will be again.
  void Close();

  bool closed() const {
    MutexLock lock(&mu_);
    return closed_;
  }

 private:
  // Records whether this thread closes the gate. Returns whether it is inside.
  bool SetClosesLocked(bool closes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MustWaitLocked(bool inside) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  CondVar left_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  Visit* inside_ ABSL_GUARDED_BY(mu_) = nullptr;  // The list of visits.
};

// What the loads of a cache share, and keep beyond its end.
struct LoadGates {
  Gate whole;      // Closed when the cache ends: whoever is inside may use it.
  Gate refreshes;  // Closed when it is stopped.
  std::atomic<int> refreshes_begun{0};  // Those that run, or are queued.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_GATE_H_
