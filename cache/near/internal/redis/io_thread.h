// A thread that waits, by poll(), for all links of a store, and lets those go
// on for which something has happened.
//
// Guarantees. Links go on in the order in which they were added. After
// Remove(link) has returned, `link` is no longer called.
//
// Threads. Thread-safe. Remove may not be called by a link.
//
// Errors. Where there is no memory for what a link does, the link is dropped.
//
// Cost. Wake is a system call, or none if the thread is awake.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_IO_THREAD_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_IO_THREAD_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/base/background_thread.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// A connection that a store keeps, and opens again whenever it is lost. All
// methods are called on the I/O thread.
class WHEELCACHE_EXPORT Link {
 public:
  class Observer;

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  // What to wait for.
  virtual PollRequest Request() const = 0;

  // Goes on as far as it can, without waiting.
  virtual void Handle(PollEvents revents, int64_t now_nanos) = 0;

  // The server that it is logged in to. Null: none. Empty: one that does not
  // tell which it is.
  virtual const std::string* server_id() const = 0;

  // Gives up the connection, if there is one, and opens another one.
  virtual void Drop(const absl::Status& why, int64_t now_nanos) = 0;

  // Ends a pause before the next attempt to connect.
  virtual void Hurry(int64_t now_nanos) = 0;
};

// Is told what one link learns that matters to others.
class Link::Observer {
 public:
  virtual ~Observer() = default;

  // `link` has logged in to its server_id(), and is not used before this call
  // returns.
  virtual void OnLogin(Link* link, int64_t now_nanos) = 0;

  // The server is no primary any more.
  virtual void OnDemotion(const absl::Status& why, int64_t now_nanos) = 0;

  // The connection of `link` is gone.
  virtual void OnClose(Link* link, int64_t now_nanos) = 0;

  // A node of a cluster has said who serves which slots, when it was asked at
  // `asked_nanos`.
  virtual void OnSlots(const Reply& slots, int64_t asked_nanos) = 0;
};

class WHEELCACHE_EXPORT IoThread final : private BackgroundThread {
 public:
  explicit IoThread(Clock& clock) : clock_(clock) {}

  // Ends the thread. REQUIRES: no link is there.
  ~IoThread();

  // Starts the thread; returns the system's error if there can be none.
  // REQUIRES: called once, before all else.
  absl::Status Start();

  // Whether this is the child of a fork(), which does not have the thread.
  bool lost_thread() const {
    return lost_thread_.load(std::memory_order_relaxed);
  }

  void Add(Link* link);

  // Blocks until the thread is done with `link`; or leaves it to the caller, on
  // the thread itself, to keep it until the next turn.
  void Remove(Link* link);
  void RemoveFromNextTurn(Link* link);

  // Blocks until what the thread is doing has ended. REQUIRES: not called by a
  // link.
  void AwaitTurn();

  // Makes the thread ask all links anew what they wait for.
  void Wake();

 private:
  void Run() override;
  void WakeForFork() override { Wake(); }
  void OnThreadLost() override {
    lost_thread_.store(true, std::memory_order_relaxed);
  }

  void TakeTurn(std::vector<Link*>& links);
  void Handle(Link* link, PollEvents revents);
  void DrainWakeUps();

  Clock& clock_;
  std::atomic<bool> lost_thread_{false};

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
