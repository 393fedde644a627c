#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {

void CondVar::Wait(Mutex* mu) {
  std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
  cv_.wait(lock);
  lock.release();
}

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  // Sums of time points do not saturate. This is as good as forever.
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
  const std::cv_status status = cv_.wait_for(
      lock, absl::ToChronoNanoseconds(std::min(timeout, kLongest)));
  lock.release();
  return status == std::cv_status::timeout;
}

}  // namespace wheelcache
