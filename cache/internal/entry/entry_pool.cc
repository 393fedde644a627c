#include "wheelcache/cache/internal/entry/entry_pool.h"

#include <cassert>
#include <cstring>
#include <limits>

#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/types/hash_strings.h"

namespace wheelcache::internal {
namespace {

static_assert(kChargeBytes == sizeof(uint32_t));

using HardDeadline = std::atomic<int64_t>;
static_assert(IdleTtl(1).entry_bytes() == sizeof(HardDeadline));
// Of the old block of a moved entry.
constexpr int64_t kExpired =
    IdleTtl::Final(std::numeric_limits<int64_t>::min() + 1);
// A block that has room for it behind the charge has that room aligned.
static_assert(Arena::BlockBytes(1) == alignof(HardDeadline));

// Where the charge of an entry is stored, unaligned, if it is.
std::byte* ChargeAt(EntryHeader& entry, Footprint footprint) {
  return reinterpret_cast<std::byte*>(&entry) + footprint.inside;
}

}  // namespace

EntryPool::EntryPool(const EntryOperations* operations, Charges charges,
                     uint64_t entries, IdleTtl idle)
    : operations_(*operations),
      idle_(idle),
      charge_bytes_(charges == Charges::kStored ? kChargeBytes : 0),
      tail_bytes_(charge_bytes_ + idle.entry_bytes()),
      arena_(entries *
             Arena::BlockBytes(operations->least_bytes + tail_bytes_)) {
  PrepareHashSeed();
}

int64_t EntryPool::StoredCharge(EntryRef ref, Footprint footprint) const {
  uint32_t charge;
  std::memcpy(&charge, ChargeAt(At(ref), footprint), sizeof(charge));
  return charge;
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes an entry.
void EntryPool::SetCharge(EntryRef ref, uint32_t charge) {
  assert(charge_bytes_ != 0 && "the charge follows from the sizes");
  std::memcpy(ChargeAt(At(ref), FootprintOf(ref)), &charge, sizeof(charge));
}

HardDeadline& EntryPool::HardDeadlineAt(const EntryHeader& entry) const {
  const size_t behind = operations_.footprint(entry).inside + charge_bytes_;
  auto* const begin =
      reinterpret_cast<std::byte*>(const_cast<EntryHeader*>(&entry));
  return *reinterpret_cast<HardDeadline*>(begin + Arena::BlockBytes(behind));
}

void EntryPool::SetDeadlines(EntryHeader* entry, int64_t hard_deadline,
                             int64_t now_nanos) const {
  ::new (&HardDeadlineAt(*entry)) HardDeadline(hard_deadline);
  entry->deadline_nanos.store(idle_.DeadlineAfterUse(now_nanos, hard_deadline),
                              std::memory_order_relaxed);
}

bool EntryPool::ChangeDeadlines(EntryHeader* entry, int64_t hard_deadline,
                                const Clock& clock) const {
  HardDeadlineAt(*entry).exchange(hard_deadline);
  Interleave("touch: between hard deadline and clock");
  for (;;) {
    int64_t deadline = entry->deadline();
    const int64_t now_nanos = clock.NowNanos();
    if (TryExpire(entry, now_nanos)) return false;
    if (entry->deadline_nanos.compare_exchange_strong(
            deadline, idle_.DeadlineAfterUse(now_nanos, hard_deadline))) {
      return true;
    }
  }
}

bool EntryPool::TryExtend(EntryHeader* entry, int64_t* deadline,
                          int64_t now_nanos) const {
  if (idle_.IsFresh(*deadline, now_nanos)) return true;
  const int64_t hard_deadline = HardDeadlineAt(*entry).load();
  Interleave("extend: before the deadline changes");
  return entry->deadline_nanos.compare_exchange_strong(
      *deadline, idle_.DeadlineAfterUse(now_nanos, hard_deadline));
}

bool EntryPool::TryExpire(EntryHeader* entry, int64_t now_nanos) {
  int64_t deadline = entry->deadline();
  while (deadline <= now_nanos) {
    if (IdleTtl::IsFinal(deadline)) return true;
    Interleave("expire: before the deadline is final");
    if (entry->deadline_nanos.compare_exchange_strong(
            deadline, IdleTtl::Final(deadline))) {
      return true;
    }
  }
  return false;
}

EntryRef EntryPool::Move(EntryRef ref) {
  EntryHeader& old = At(ref);
  const Footprint footprint = FootprintOf(ref);
  if (!operations_.copyable || footprint.outside != 0) return 0;
  const size_t bytes = footprint.inside + tail_bytes_;
  const EntryRef copy = arena_.TryAllocate(bytes);
  if (copy == 0) return 0;
  Interleave("move: before the entry is marked");
  uint32_t pins = 1;
  // Acquire: what handles did with the entry comes before.
  if (!old.pins.compare_exchange_strong(pins, EntryHeader::kMoved | 1,
                                        std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
    arena_.Free(copy, bytes);
    return 0;
  }
  auto* const entry = ::new (arena_.At(copy)) EntryHeader;
  // Readers may still note uses in the old one: those are lost.
  entry->stamp.store(old.stamp.load(std::memory_order_relaxed),
                     std::memory_order_relaxed);
  entry->birth = BirthNow();
  // With the list that it is in.
  entry->created_and_list.store(old.created(), std::memory_order_relaxed);
  std::memcpy(reinterpret_cast<std::byte*>(entry) + sizeof(EntryHeader),
              reinterpret_cast<const std::byte*>(&old) + sizeof(EntryHeader),
              bytes - sizeof(EntryHeader));
  int64_t deadline = old.deadline();
  if (idle_.on()) {
    ::new (&HardDeadlineAt(*entry)) HardDeadline(HardDeadlineAt(old).load());
    // A hit that is about to extend the old one fails, and finds the new one.
    deadline = old.deadline_nanos.exchange(kExpired);
  }
  entry->deadline_nanos.store(deadline, std::memory_order_relaxed);
  entry->pins.store(1, std::memory_order_relaxed);
  Count(moved_bytes_, footprint, 1);
  return copy;
}

void EntryPool::Unpin(EntryRef ref) {
  // No reader can find the entry any more, so a last pin remains the last.
  if (ABSL_PREDICT_TRUE(At(ref).pins.load(std::memory_order_acquire) == 1)) {
    Delete(ref);
  } else {
    UnpinMovedOrPinned(ref);
  }
}

void EntryPool::UnpinMovedOrPinned(EntryRef ref) {
  const Footprint footprint = FootprintOf(ref);
  if (At(ref).pins.load(std::memory_order_relaxed) > EntryHeader::kMoved) {
    // Nobody keeps a pin on it.
    Count(moved_bytes_, footprint, -1);
    Delete(ref);
    return;
  }
  // Before the pin is dropped: then another thread may delete the entry.
  Count(orphan_bytes_, footprint, 1);
  Interleave("unpin: before the pin is dropped");
  if (DropPin(ref)) {
    Count(orphan_bytes_, footprint, -1);
    DeleteAny(ref);
  } else {
    owners_.fetch_add(1, std::memory_order_relaxed);
  }
}

void EntryPool::Count(std::atomic<int64_t>& bytes, Footprint footprint,
                      int sign) const {
  const auto amount = static_cast<int64_t>(
      Arena::BlockBytes(footprint.inside + tail_bytes_) + footprint.outside);
  bytes.fetch_add(sign * amount, std::memory_order_relaxed);
}

void EntryPool::UnpinOutside(EntryRef ref) {
  if (!DropPin(ref)) return;
  Count(orphan_bytes_, FootprintOf(ref), -1);
  DeleteAny(ref);
  DropOwners(1);
}

// Returns whether that was the last.
// NOLINTNEXTLINE(readability-make-member-function-const): it changes an entry.
bool EntryPool::DropPin(EntryRef ref) {
  const uint32_t before = At(ref).pins.fetch_sub(1, std::memory_order_acq_rel);
  return (before & EntryHeader::kPins) == 1;
}

// As Delete, of an entry that may be a placeholder.
void EntryPool::DeleteAny(EntryRef ref) {
  EntryHeader& entry = At(ref);
  if (!entry.is_placeholder()) return Delete(ref);
  const Footprint footprint = FootprintOf(ref);
  delete LoadOf(ref);
  outside_.fetch_sub(static_cast<int64_t>(footprint.outside),
                     std::memory_order_relaxed);
  operations_.destroy_key(&entry);
  Free(ref, footprint.inside + kPointerBytes);
}

void EntryPool::Delete(EntryRef ref) {
  EntryHeader& entry = At(ref);
  const Footprint footprint = FootprintOf(ref);
  if (!operations_.trivial || footprint.outside != 0) {
    if (footprint.outside != 0) {
      outside_.fetch_sub(static_cast<int64_t>(footprint.outside),
                         std::memory_order_relaxed);
    }
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
