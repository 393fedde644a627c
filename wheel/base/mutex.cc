#include "wheelcache/wheel/base/mutex.h"

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
  Borrowed borrowed(mu->mu_);
  const std::cv_status status = cv_.wait_for(
      borrowed.lock, absl::ToChronoNanoseconds(std::min(timeout, kLongest)));
  return status == std::cv_status::timeout;
}

}  // namespace wheelcache
