// Something that happens once, for threads of a test to wait for.
//
// Built on wheelcache::Mutex because ThreadSanitizer does not see what
// absl::Notification of a prebuilt Abseil orders.

#ifndef WHEELCACHE_TESTS_TESTING_NOTIFICATION_H_
#define WHEELCACHE_TESTS_TESTING_NOTIFICATION_H_

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::testing {

class Notification {
 public:
  void Notify() {
    MutexLock lock(&mu_);
    notified_ = true;
    changed_.SignalAll();
  }

  void Wait() {
    MutexLock lock(&mu_);
    while (!notified_) changed_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool notified_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_NOTIFICATION_H_
