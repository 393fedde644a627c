#include "wheelcache/cache/internal/threads/interleave.h"

#include <atomic>

namespace wheelcache::internal {
namespace {

std::atomic<void (*)(const char* point)> interleaving{nullptr};

}  // namespace

void CallInterleaving(const char* point) {
  auto* const function = interleaving.load(std::memory_order_acquire);
  if (function != nullptr) function(point);
}

void SetInterleaving(void (*function)(const char* point)) {
  interleaving.store(function, std::memory_order_release);
}

}  // namespace wheelcache::internal
