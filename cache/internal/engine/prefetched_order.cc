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
  main_victim_ = Victim();
  return RemovalOrder::TakeAll();
}

// RemoveVictim, where one of the tails of two lists will be the next to go.
void PrefetchedOrder::RemoveVictimOfTwo(EntryRef ref, Hash32 hash,
                                        int64_t charge) {
  Forget(ref);
  const auto expect = [this](EvictionOrder::Tail last, Victim* victim) {
    if (last.ref != 0 && last.ref != victim->ref) {
      Expect(last.ref, last.hash, victim);
    }
  };
  const auto& [window, main] = RemovalOrder::RemoveVictim(ref, hash, charge);
  expect(window, &victim_);
  expect(main, &main_victim_);
}

// Prefetches again what another thread had prefetched, and what it wrote.
void PrefetchedOrder::PrefetchForThisThread(EntryRef next) const {
  wheel().PrefetchSlot(next);
  if (evictions().front() != 0) {
    PrefetchLineToWrite(&pool().At(evictions().front()));
  }
  if (replaced() != 0) {
    PrefetchLineToWrite(&pool().At(replaced()));
    Prefetch(beside_replaced_);
  }
  for (const Victim* victim : {&victim_, &main_victim_}) {
    if (victim->ref == 0) continue;
    PrefetchLineToWrite(&pool().At(victim->ref));
    index_.Prefetch(victim->hash);
    Prefetch(victim->neighbours);
  }
  if (evictions().has_two_lists()) evictions().PrefetchForThisThread();
}

absl::Status PrefetchedOrder::CheckInvariants(
    absl::FunctionRef<void(EntryRef)> visit) {
  int missing = 0;
  for (const Victim* victim : {&victim_, &main_victim_}) {
    missing += victim->ref != 0 ? 1 : 0;
  }
  absl::Status status = RemovalOrder::CheckInvariants([&](EntryRef ref) {
    for (const Victim* victim : {&victim_, &main_victim_}) {
      if (ref != victim->ref) continue;
      const Hash32 hash = pool().operations().hash(pool().At(ref));
      missing -= victim->hash == hash ? 1 : 0;
    }
    visit(ref);
  });
  if (!status.ok() || missing == 0) return status;
  return absl::InternalError("the next victim is not in the shard");
}

}  // namespace wheelcache::internal
