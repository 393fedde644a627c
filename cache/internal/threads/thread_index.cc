#include "wheelcache/cache/internal/threads/thread_index.h"

#include <cstddef>

#include "wheelcache/cache/internal/threads/thread_record.h"

namespace wheelcache::internal {

size_t FirstThreadIndex() {
  ThreadRecord* const record = TryTakeThreadRecord();
  if (HasThreadRecord()) return this_thread.index;
  if (record != nullptr) LeaveThreadRecord(record);
  return kSharedThreadIndex;
}

}  // namespace wheelcache::internal
