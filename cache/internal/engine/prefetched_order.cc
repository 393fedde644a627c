#include "wheelcache/cache/internal/engine/prefetched_order.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/engine/removal_order.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

EntryRef PrefetchedOrder::Settle() {
  last_writer_ = ThreadIndex();
  return RemovalOrder::Settle();
}

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
        Announce(ref);
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

void PrefetchedOrder::PrefetchWhatAnotherThreadDid(EntryRef next) const {
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

}  // namespace wheelcache::internal
