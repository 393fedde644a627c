// A reaper's client that notes when it was called and does what it is told.

#ifndef WHEELCACHE_TESTS_TESTING_RECORDING_CLIENT_H_
#define WHEELCACHE_TESTS_TESTING_RECORDING_CLIENT_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache::testing {

class RecordingClient : public Reaper::Client {
 public:
  // What RunDue does and returns, given its own argument.
  using Work = std::function<int64_t(int64_t now_nanos)>;

  RecordingClient() : RecordingClient([](int64_t) { return Clock::kNever; }) {}
  explicit RecordingClient(Work work) : work_(std::move(work)) {}

  int64_t RunDue(int64_t now_nanos) override {
    {
      MutexLock lock(&mu_);
      calls_.push_back(now_nanos);
    }
    // A copy: the work may destroy this client.
    const Work work = work_;
    return work(now_nanos);
  }

  std::vector<int64_t> calls() const {
    MutexLock lock(&mu_);
    return calls_;
  }

 private:
  const Work work_;
  mutable Mutex mu_;
  std::vector<int64_t> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_RECORDING_CLIENT_H_
