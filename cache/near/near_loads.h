// The loads of NearCache::GetOrLoad that run in this process: which of them a
// Set or Del has superseded, and who waits for a load of another process.
//
// A load may be overtaken: its loader reads, a Del deletes what is not there
// yet, and the load writes what is old. So Supersede, with which each Set and
// Del begins, has the loads of the key that run write nothing any more, and
// waits for one that is writing. A lock in the store does the same for the Dels
// of other processes.
//
// Threads. Thread-safe.
//
// Cost. Where no load runs or waits, Supersede and Wake read one word.

#ifndef WHEELCACHE_CACHE_NEAR_NEAR_LOADS_H_
#define WHEELCACHE_CACHE_NEAR_NEAR_LOADS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT NearLoads final {
 public:
  class Running;
  class Waiting;

  explicit NearLoads(Clock& clock) : clock_(clock) {}

  // Supersedes the loads of the key that run. Waits for those that write, until
  // the deadline at most.
  void Supersede(absl::string_view key, int64_t deadline_nanos);

  // Wakes those who wait for the key, or for its lock.
  void Wake(absl::string_view key);
  void WakeAll();

 private:
  using RunningByKey = std::multimap<std::string, Running*, std::less<>>;
  using WaitingByKey = std::multimap<std::string, Sleeper*, std::less<>>;

  // The running load of the key that writes, of a thread other than this; null
  // if there is none.
  const Running* FindWriterLocked(absl::string_view key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  std::atomic<int> count_{0};  // Of what is in the two maps.
  Mutex mu_;
  CondVar ended_;
  RunningByKey running_ ABSL_GUARDED_BY(mu_);
  WaitingByKey waiting_ ABSL_GUARDED_BY(mu_);
};

// A load that runs, from before its loader is called until it has written.
class WHEELCACHE_EXPORT NearLoads::Running final {
 public:
  Running(NearLoads* loads, absl::string_view key);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Whether it may write: nothing has superseded it. Until it ends, Sets and
  // Dels of the key wait.
  bool BeginWrite();

 private:
  friend class NearLoads;

  NearLoads& loads_;
  RunningByKey::iterator place_;
  // Under the lock of the loads.
  bool is_superseded_ = false;
  std::thread::id writer_;  // None while it does not write.
};

// A thread that waits for what another process does with a key. What has
// happened since it was made ends the next wait.
class WHEELCACHE_EXPORT NearLoads::Waiting final {
 public:
  // The names of a key and of its lock in the store.
  Waiting(NearLoads* loads, const std::string& key, const std::string& lock);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void SleepUntil(int64_t deadline_nanos) {
    sleeper_->SleepUntil(deadline_nanos);
  }

 private:
  NearLoads& loads_;
  const std::unique_ptr<Sleeper> sleeper_;
  WaitingByKey::iterator key_;
  WaitingByKey::iterator lock_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_NEAR_LOADS_H_
