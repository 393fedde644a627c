// A background thread that calls each of its clients when that has work due.
//
//   class Sessions : public wheelcache::Reaper::Client {
//    public:
//     explicit Sessions(wheelcache::Reaper& reaper) : reaper_(reaper) {
//       registered_ = reaper_.Register(this);  // Not ok: without a thread.
//     }
//     ~Sessions() override { reaper_.Unregister(this); }
//     void Open(int64_t deadline_nanos) {
//       ...
//       reaper_.WakeAt(this, deadline_nanos);
//     }
//     int64_t RunDue(int64_t now_nanos) override;  // Closes some that are due.
//     ...
//   };
//
// Guarantees. The thread sleeps until the earliest time that a client asked
// for; there is no ticker, and no wake-up while nothing is due. Clients that
// always have more to do take turns. After Unregister(client) has returned,
// `client` is no longer called.
//
// Threads. Thread-safe. RunDue() runs without any lock of the Reaper, and may
// register, unregister and destroy clients, its own included.
//
// Errors. If no thread can be created, Register returns the error and registers
// nothing. An exception from RunDue() is contained and counted, and the client
// is called again kPauseAfterException later.
//
// fork(). Waits until the RunDue that is running has returned, but not for
// longer than a second: the forking thread may have a lock that it waits for. A
// child has no background thread until its first Register or WakeAt; then each
// client is called once, and plans anew. Handlers of pthread_atfork may call
// Register and WakeAt; they must not end a Reaper.
//
// Exit. Shared() is never destroyed, so clients with static storage may
// unregister from it at any time.
//
// Cost. WakeAt is one load and one comparison unless the new time is earlier
// than planned; then, like each turn of a client, O(log clients) under a lock.
// Only Register allocates.

#ifndef WHEELCACHE_WHEEL_REAPER_H_
#define WHEELCACHE_WHEEL_REAPER_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/background_thread.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

class WHEELCACHE_EXPORT Reaper final : private internal::BackgroundThread {
 public:
  class Client;

  // The time from an exception to the client's next call.
  static constexpr absl::Duration kPauseAfterException =
      absl::Milliseconds(100);

  // The reaper of the process, on Clock::Monotonic(). Never destroyed; its
  // thread starts with the first client.
  static Reaper& Shared();

  // A reaper on `clock`, which must outlive it. Starts no thread yet.
  explicit Reaper(Clock& clock) : clock_(clock) {}

  // Ends the thread, after the RunDue that is running, if any. Clients that are
  // still registered are forgotten. REQUIRES: not called from a RunDue().
  ~Reaper();

  // Registers `client`, with nothing planned. If there is no thread and none
  // can be created, registers nothing and returns the system's error, for
  // instance kUnavailable; or kResourceExhausted if there is no memory.
  // REQUIRES: `client` is not registered, here or elsewhere.
  absl::Status Register(Client* client);

  // Forgets `client`. Blocks while its RunDue runs, unless called from within
  // that. Does nothing for a client that is not registered.
  void Unregister(Client* client);

  // Plans a call of `client` at `nanos`, unless one is planned earlier. Does
  // nothing for a client that is not registered.
  // REQUIRES: the work is visible to a RunDue that starts now; if a lock guards
  // it, this thread has taken that lock, and may still hold it; if none does,
  // the work was stored, and RunDue loads it, sequentially consistently.
  void WakeAt(Client* client, int64_t nanos);

  Clock& clock() const { return clock_; }

  // Returns how many exceptions of RunDue() were contained.
  int64_t exceptions() const;

 private:
  struct Earlier {
    bool operator()(const Client* a, const Client* b) const;
  };
  // The clients by planned time, then the longest waiting first.
  using Plan = std::set<Client*, Earlier>;

  void Run() override;
  void WakeForFork() override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OnThreadLost() override;

  // Returns false if the thread is to end.
  bool TakeTurn();
  void RunFirstLocked(int64_t now_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SleepLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void PlanEarlier(Client* client, int64_t nanos);
  void PlanLocked(Client* client, int64_t nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PlanAllLocked(int64_t nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t EarliestLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Status EnsureThreadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;

  // Never held while a client is called.
  mutable Mutex mu_;
  Plan plan_ ABSL_GUARDED_BY(mu_);
  uint64_t turns_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t exceptions_ ABSL_GUARDED_BY(mu_) = 0;

  // The client whose RunDue runs, and whether it was unregistered meanwhile:
  // then it may be destroyed already. runs_ counts the runs.
  Client* running_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool running_left_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t runs_ ABSL_GUARDED_BY(mu_) = 0;
  CondVar run_ended_;

  // The thread, which mu_ guards as well. While it is awake, sleeping_until_ is
  // less than any time. The sleeper is there before the thread and after it.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Sleeper> sleeper_ ABSL_GUARDED_BY(mu_);
  int64_t sleeping_until_ ABSL_GUARDED_BY(mu_) = kAwake;

  static constexpr int64_t kAwake = std::numeric_limits<int64_t>::min();
};

// A client of a Reaper: called when it has work due.
class WHEELCACHE_EXPORT Reaper::Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // REQUIRES: not registered.
  virtual ~Client();

  // Does a bounded part of the work that is due at `now_nanos`, so that others
  // get their turn. Returns when it wants to be called next: `now_nanos` or
  // less if there is more to do, Clock::kNever if there is nothing. A WakeAt
  // during the call counts too. Called by the reaper's thread.
  virtual int64_t RunDue(int64_t now_nanos) = 0;

 private:
  friend class Reaper;

  // Less than any time, so that WakeAt has nothing to do.
  static constexpr int64_t kUnregistered = kAwake;

  // When the next call is planned; kNever at the start of one. Written under
  // the reaper's lock.
  std::atomic<int64_t> planned_{kUnregistered};
  uint64_t turn_ = 0;  // Guarded by the reaper's lock.
};

// If a RunDue that starts meanwhile misses the work, it took the client's lock
// before this thread did, and set planned_ to kNever before that: this load
// then sees kNever or something later still. Without a lock, the total order of
// sequentially consistent operations implies the same.
inline void Reaper::WakeAt(Client* client, int64_t nanos) {
  if (nanos < client->planned_.load(std::memory_order_seq_cst)) {
    PlanEarlier(client, nanos);
  }
}

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_REAPER_H_
