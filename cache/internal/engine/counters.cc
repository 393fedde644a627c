#include "wheelcache/cache/internal/engine/counters.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/cache/internal/threads/thread_record.h"

namespace wheelcache::internal {

Counters::~Counters() {
  for (const auto& stripe : own_) delete stripe.load(std::memory_order_relaxed);
}

int64_t Counters::AddShared(Count what, int64_t times) {
  return times + shared_.counts[static_cast<size_t>(what)].fetch_add(
                     times, std::memory_order_relaxed);
}

Counters::Stripe* Counters::MakeOwn(size_t thread) {
  if (thread == kSharedThreadIndex) thread = ThreadIndex();
  if (thread >= kOwnStripes) return nullptr;
  // Of a thread that had the index before.
  Stripe* const inherited = own_[thread].load(std::memory_order_relaxed);
  if (inherited != nullptr) return inherited;
  auto* const stripe = new (std::nothrow) Stripe;
  if (stripe != nullptr) {
    own_[thread].store(stripe, std::memory_order_release);
  }
  return stripe;
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
