#include "wheelcache/cache/internal/threads/asymmetric_fence.h"

#include <cstdio>
#include <cstdlib>

#include "absl/base/attributes.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace wheelcache::internal {
namespace {

#if defined(__linux__) && defined(SYS_membarrier)

// From linux/membarrier.h, which older systems lack.
constexpr int kPrivateExpedited = 1 << 3;
constexpr int kRegisterPrivateExpedited = 1 << 4;

bool RegisterMembarrier() {
  return syscall(SYS_membarrier, kRegisterPrivateExpedited, 0, 0) == 0;
}

void Membarrier() {
  if (syscall(SYS_membarrier, kPrivateExpedited, 0, 0) == 0) return;
  // Some kernels forget the registration at a fork.
  RegisterMembarrier();
  if (syscall(SYS_membarrier, kPrivateExpedited, 0, 0) == 0) return;
  // A sandbox has forbidden it since. Readers rely on it: going on without it
  // would free what they are reading.
  std::fputs(
      "wheelcache: membarrier(2), which was allowed when the program began, is "
      "forbidden now, as by a seccomp filter: add it to what that allows\n",
      stderr);
  std::abort();
}

#else

bool RegisterMembarrier() { return false; }
void Membarrier() {}

#endif

// At load time, if not earlier. Where a process has several threads, the system
// waits for all of them, which takes 10 ms and more: not in the first Set.
[[maybe_unused]] const bool kPreparedAtLoad = (PrepareFences(), true);

}  // namespace

ABSL_CONST_INIT std::atomic<bool> light_fence_is_free{false};

void PrepareFences() {
  static const bool prepared = (UseMembarrier(true), true);
  static_cast<void>(prepared);
}

void HeavyFence() {
  FullFence();
  if (light_fence_is_free.load(std::memory_order_relaxed)) Membarrier();
}

#ifdef ABSL_HAVE_THREAD_SANITIZER
void FullFence() {
  Interleave("fence: full");
  static std::atomic<int> anything{0};
  anything.fetch_add(0, std::memory_order_seq_cst);
}
#endif

void UseMembarrier(bool use) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  use = false;
#endif
  light_fence_is_free.store(use && RegisterMembarrier(),
                            std::memory_order_seq_cst);
}

}  // namespace wheelcache::internal
