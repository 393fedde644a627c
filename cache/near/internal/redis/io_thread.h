// A thread that waits, by poll(), for all links of a store, and lets those go
// on for which something has happened.
//
// Guarantees. Links that were added with kFirst go on before the others. After
// Remove(link) has returned, `link` is no longer called. The thread has all
// signals blocked.
//
// Threads. Thread-safe. Add and Remove may not be called by a link.
//
// Errors. Where there is no memory for what a link does, the link is dropped.
//
// Cost. Wake is a system call, or none if the thread is awake.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_IO_THREAD_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_IO_THREAD_H_

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "wheelcache/cache/near/internal/redis/link.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT IoThread final {
 public:
  enum Place { kFirst, kLast };

  explicit IoThread(Clock& clock) : clock_(clock) {}

  // Ends the thread. REQUIRES: no link is there.
  ~IoThread();

  // Starts the thread; returns the system's error if there can be none.
  // REQUIRES: called once, before all else.
  absl::Status Start();

  void Add(Link* link, Place place);

  // Blocks until the thread is done with `link`.
  void Remove(Link* link);

  // Makes the thread ask all links anew what they wait for.
  void Wake();

  // Calls `function` with each link, on the I/O thread itself.
  // REQUIRES: called by a link.
  void ForEachLink(const std::function<void(Link*)>& function);

 private:
  static void* ThreadMain(void* self);

  void Run();
  void TakeTurn(std::vector<Link*>& links);
  void Handle(Link* link, PollEvents revents);
  void DrainWakeUps();

  Clock& clock_;
  pthread_t thread_ = {};
  bool has_thread_ = false;

  // Readable while Wake() has been called since the last turn began.
  int wake_fd_ = -1;
  std::atomic<bool> is_woken_{false};

  Mutex mu_;
  std::vector<Link*> links_ ABSL_GUARDED_BY(mu_);
  uint64_t turns_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  CondVar turn_began_;

  // Of the thread alone.
  std::vector<Link*> links_of_turn_;
  std::vector<pollfd> requests_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_IO_THREAD_H_
