#include "wheelcache/cache/internal/epoch/epoch.h"

#include <algorithm>

#include "absl/base/attributes.h"
#include "wheelcache/cache/internal/threads/interleave.h"

namespace wheelcache::internal {

ABSL_CONST_INIT EpochCounter current_epoch;

namespace {

Epoch AdvanceBy(Epoch epochs) {
  const Epoch before =
      current_epoch.fetch_add(epochs, std::memory_order_seq_cst);
  HeavyFence();
  Interleave("epoch: after its end");
  return before + epochs - 1;
}

}  // namespace

Epoch AdvanceEpoch() { return AdvanceBy(1); }

Epoch AdvanceBirth() { return AdvanceBy(Epoch{1} << kEpochsPerBirthBits); }

Epoch NewestReaderUpTo(Epoch limit) {
  Epoch newest = 0;
  for (const ThreadRecord* record = FirstThreadRecord(); record != nullptr;
       record = record->next) {
    const Epoch reader = record->announced.load(std::memory_order_acquire);
    if (reader <= limit) newest = std::max(newest, reader);
  }
  return newest;
}

bool NobodyReads() {
  const ThreadRecord& own = *this_thread.record;
  const bool reads_itself = own.announced.load(std::memory_order_relaxed) != 0;
  return !reads_itself && NoOtherRecordIsTaken(own);
}

}  // namespace wheelcache::internal
