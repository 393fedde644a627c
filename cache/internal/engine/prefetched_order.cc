#include "wheelcache/cache/internal/engine/prefetched_order.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/removal_order.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

uint64_t PrefetchedOrder::Advance(int64_t now_nanos, uint64_t budget,
                                  absl::FunctionRef<void(EntryRef)> fire) {
  std::array<EntryRef, 4> fired = {};
  size_t next = 0;
  const auto hand_out = [&](EntryRef ref) {
    if (ref != 0) fire(ref);
  };
  const uint64_t done =
      RemovalOrder::Advance(now_nanos, budget, [&](EntryRef ref) {
        index_.Prefetch(HashOf(ref));
        ExpectRemoval(ref);
        hand_out(std::exchange(fired[next++ % fired.size()], ref));
      });
  for (size_t i = 0; i < fired.size(); ++i) {
    hand_out(fired[next++ % fired.size()]);
  }
  return done;
}

std::pair<EntryRef, EntryRef> PrefetchedOrder::TakeAll() {
  victim_ = Victim();
  return RemovalOrder::TakeAll();
}

// Prefetches again what another thread had prefetched, and what it wrote.
void PrefetchedOrder::PrefetchForThisThread(EntryRef next) const {
  wheel().PrefetchSlot(next);
  if (list().front() != 0) PrefetchLineToWrite(&pool().At(list().front()));
  if (replaced() != 0) {
    PrefetchLineToWrite(&pool().At(replaced()));
    Prefetch(beside_replaced_);
  }
  if (victim_.ref != 0) {
    PrefetchLineToWrite(&pool().At(victim_.ref));
    index_.Prefetch(victim_.hash);
    Prefetch(victim_.neighbours);
  }
}

absl::Status PrefetchedOrder::CheckInvariants(
    absl::FunctionRef<void(EntryRef)> visit) {
  bool has_victim = victim_.ref == 0;
  absl::Status status = RemovalOrder::CheckInvariants([&](EntryRef ref) {
    const auto& hash = pool().operations().hash;
    if (ref == victim_.ref) has_victim = victim_.hash == hash(pool().At(ref));
    visit(ref);
  });
  if (!status.ok() || has_victim) return status;
  return absl::InternalError("the next victim is not in the shard");
}

}  // namespace wheelcache::internal
