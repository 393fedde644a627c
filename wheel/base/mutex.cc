#include "wheelcache/wheel/base/mutex.h"

#if defined(__APPLE__) || defined(__MINGW32__)
#include <pthread.h>

#include <cerrno>
#endif

namespace wheelcache {

namespace {

// A lock that stays with its Mutex, also where a cancelled thread unwinds.
struct Borrowed {
  explicit Borrowed(std::mutex& mu) : lock(mu, std::adopt_lock) {}
  ~Borrowed() { lock.release(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  std::unique_lock<std::mutex> lock;
};

}  // namespace

void CondVar::Wait(Mutex* mu) {
  Borrowed borrowed(mu->mu_);
  cv_.wait(borrowed.lock);
}

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  // Sums of time points do not saturate. This is as good as forever.
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  timeout = std::min(timeout, kLongest);
#if defined(__APPLE__) || defined(__MINGW32__)
  // wait_for would wait until a time of the wall clock.
  const timespec length =
      absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  return pthread_cond_timedwait_relative_np(cv_.native_handle(),
                                            mu->mu_.native_handle(),
                                            &length) == ETIMEDOUT;
#else
  Borrowed borrowed(mu->mu_);
  return cv_.wait_for(borrowed.lock, absl::ToChronoNanoseconds(timeout)) ==
         std::cv_status::timeout;
#endif
}

}  // namespace wheelcache
