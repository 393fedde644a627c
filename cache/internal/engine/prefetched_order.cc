#include "wheelcache/cache/internal/engine/prefetched_order.h"

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
        PrefetchRemoval(ref);
        hand_out(std::exchange(fired[next++ % fired.size()], ref));
      });
  for (size_t i = 0; i < fired.size(); ++i) {
    hand_out(fired[next++ % fired.size()]);
  }
  return done;
}

// RemoveVictim, where the tail of either of two lists will be the next to go.
void PrefetchedOrder::RemoveVictimOfTwo(EntryRef ref, Hash32 hash,
                                        int64_t charge) {
  RemovalOrder::RemoveVictim(ref, hash, charge);
  PrefetchVictim(/*in_main=*/false);
  PrefetchVictim(/*in_main=*/true);
}

// Prefetches again what another thread had prefetched, and what it wrote.
void PrefetchedOrder::PrefetchForThisThread(EntryRef next) const {
  wheel().PrefetchSlot(next);
  if (evictions().front() != 0) {
    PrefetchLineToWrite(&pool().At(evictions().front()));
  }
  if (replaced() != 0) {
    PrefetchLineToWrite(&pool().At(replaced()));
    Prefetch(replaced_neighbours_);
  }
  for (size_t i = 0; i < tail_neighbours_.size(); ++i) {
    const auto [ref, hash] = evictions().tails()[i];
    if (ref == 0) continue;
    PrefetchLineToWrite(&pool().At(ref));
    index_.Prefetch(hash);
    Prefetch(tail_neighbours_[i]);
  }
  if (evictions().has_two_lists()) evictions().PrefetchForThisThread();
}

}  // namespace wheelcache::internal
