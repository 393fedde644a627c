// A listener of a RemoteStore that remembers what it is told.
//
//   RecordingListener listener;
//   ...
//   EXPECT_TRUE(listener.Await([&] { return listener.keys.count("p:1"); }));
//
// Threads. Thread-safe; the members are read within Await only, whose predicate
// runs under the lock.

#ifndef WHEELCACHE_TESTS_TESTING_RECORDING_LISTENER_H_
#define WHEELCACHE_TESTS_TESTING_RECORDING_LISTENER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::testing {

class RecordingListener : public RemoteStore::Listener {
 public:
  void OnInvalidate(absl::Span<const absl::string_view> invalidated) override {
    MutexLock lock(&mu_);
    for (const absl::string_view key : invalidated) ++keys[std::string(key)];
    changed_.SignalAll();
  }
  void OnInvalidateAll() override {
    MutexLock lock(&mu_);
    ++flushes;
    changed_.SignalAll();
  }
  void OnLease(uint64_t new_session, int64_t new_until) override {
    MutexLock lock(&mu_);
    went_back |= session == new_session && new_until < until;
    if (new_session != session) begun = new_until;
    session = new_session;
    until = new_until;
    ++leases;
    changed_.SignalAll();
  }
  void OnLoss(uint64_t, const absl::Status& why) override {
    MutexLock lock(&mu_);
    session = 0;
    // Not a copy, whose references two threads would count.
    losses.emplace_back(why.code(), why.message());
    changed_.SignalAll();
  }

  // Waits for the condition, generously; returns whether it came.
  bool Await(const std::function<bool()>& condition,
             absl::Duration limit = absl::Seconds(30)) {
    const absl::Time end = absl::Now() + limit;
    MutexLock lock(&mu_);
    while (!condition()) {
      const absl::Duration left = end - absl::Now();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitWithTimeout(&mu_, left);
    }
    return true;
  }

  // Waits for a lease that a PONG has certified, of a session after `after`.
  bool AwaitLease(uint64_t after = 0) {
    return Await([&] { return session > after && until > begun; });
  }

  uint64_t Session() {
    MutexLock lock(&mu_);
    return session;
  }

  // Waits for a loss, and returns its reason.
  absl::Status AwaitLoss() {
    absl::Status why;
    Await([&] {
      if (losses.empty()) return false;
      why = losses.back();
      return true;
    });
    return why;
  }

  // Forgets all but the session.
  void Clear() {
    MutexLock lock(&mu_);
    keys.clear();
    losses.clear();
    flushes = 0;
  }

  std::map<std::string, int> keys;  // How often each was invalidated.
  int flushes = 0;
  int leases = 0;
  uint64_t session = 0;
  int64_t begun = 0;  // The session's first `until`.
  int64_t until = 0;
  bool went_back = false;
  std::vector<absl::Status> losses;

 private:
  Mutex mu_;
  CondVar changed_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_RECORDING_LISTENER_H_
