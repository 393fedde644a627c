#include "wheelcache/cache/internal/entry/entry_pool.h"

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/index/hash_strings.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/weigh.h"

namespace wheelcache::internal {
namespace {

static_assert(kChargeBytes == sizeof(uint32_t));

// Where the charge of an entry is stored, unaligned, if it is.
std::byte* ChargeAt(EntryHeader& entry, Footprint footprint) {
  return reinterpret_cast<std::byte*>(&entry) + footprint.inside;
}

}  // namespace

EntryPool::EntryPool(const EntryOperations* operations, Charges charges,
                     uint64_t entries)
    : operations_(*operations),
      charge_bytes_(charges == Charges::kStored ? kChargeBytes : 0),
      arena_(operations->one_size ? Arena::Sizes::kOne : Arena::Sizes::kMany,
             entries *
                 Arena::BlockBytes(operations->least_bytes + charge_bytes_)) {
  PrepareHashSeed();
}

int64_t EntryPool::StoredCharge(EntryRef ref, Footprint footprint) const {
  uint32_t charge;
  std::memcpy(&charge, ChargeAt(At(ref), footprint), sizeof(charge));
  return charge;
}

void EntryPool::SetCharge(EntryRef ref, uint32_t charge) {
  assert(charge_bytes_ != 0 && "the charge follows from the sizes");
  std::memcpy(ChargeAt(At(ref), FootprintOf(ref)), &charge, sizeof(charge));
}

void EntryPool::Unpin(EntryRef ref) {
  // No reader can find the entry any more, so a last pin remains the last.
  if (At(ref).pins.load(std::memory_order_acquire) == 1 || DropPin(ref)) {
    Delete(ref);
  } else {
    owners_.fetch_add(1, std::memory_order_relaxed);
  }
}

void EntryPool::UnpinOutside(EntryRef ref) {
  if (!DropPin(ref)) return;
  Delete(ref);
  DropOwners(1);
}

// Returns whether that was the last.
bool EntryPool::DropPin(EntryRef ref) {
  return At(ref).pins.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void EntryPool::Delete(EntryRef ref) {
  EntryHeader& entry = At(ref);
  const Footprint footprint = FootprintOf(ref);
  if (!operations_.trivial || footprint.outside != 0) {
    operations_.destroy(&entry);
  }
  Free(ref, footprint.inside);
}

void EntryPool::DropOwners(int64_t owners) {
  if (owners_.fetch_sub(owners, std::memory_order_acq_rel) == owners) {
    delete this;
  }
}

}  // namespace wheelcache::internal
