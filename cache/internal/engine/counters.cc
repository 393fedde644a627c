#include "wheelcache/cache/internal/engine/counters.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace wheelcache::internal {

Counters::~Counters() {
  for (const auto& stripe : own_) delete stripe.load(std::memory_order_relaxed);
}

int64_t Counters::AddShared(Count what) {
  return 1 + shared_.counts[static_cast<size_t>(what)].fetch_add(
                 1, std::memory_order_relaxed);
}

int64_t Counters::AddFirst(size_t thread, Count what) {
  auto* const stripe = new (std::nothrow) Stripe;
  if (stripe == nullptr) return AddShared(what);
  stripe->counts[static_cast<size_t>(what)].store(1, std::memory_order_relaxed);
  own_[thread].store(stripe, std::memory_order_release);
  return 1;
}

int64_t Counters::Sum(Count what) const {
  const auto index = static_cast<size_t>(what);
  int64_t sum = shared_.counts[index].load(std::memory_order_relaxed);
  for (const auto& own : own_) {
    const Stripe* const stripe = own.load(std::memory_order_acquire);
    if (stripe != nullptr) {
      sum += stripe->counts[index].load(std::memory_order_relaxed);
    }
  }
  return sum;
}

}  // namespace wheelcache::internal
