#include "wheelcache/cache/internal/threads/asymmetric_fence.h"

#include "absl/base/attributes.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

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
  if (light_fence_is_free.load(std::memory_order_relaxed)) {
    platform::FenceInAllThreads();
  }
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
  light_fence_is_free.store(use && platform::OffersFenceInAllThreads(),
                            std::memory_order_seq_cst);
}

}  // namespace wheelcache::internal
