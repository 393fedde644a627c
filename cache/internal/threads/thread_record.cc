#include "wheelcache/cache/internal/threads/thread_record.h"

#include <cstdio>
#include <cstdlib>

#include "absl/base/attributes.h"
#include "wheelcache/cache/internal/threads/asymmetric_fence.h"
#include "wheelcache/wheel/base/background_thread.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// Never destroyed: threads may outlive static objects. Pushed with release and
// read with acquire, for the constants of a record; the fences ensure that a
// writer does not miss the record of a new reader.
std::atomic<ThreadRecord*> all_records{nullptr};

// How many records are taken. Counted down with release: a thread that acquires
// the count and finds no other comes after all that those did. Counted up
// before a fence; see TakeThreadRecord().
std::atomic<int> taken_records{0};

ThreadRecord* TakeAnyRecord() {
  for (ThreadRecord* record = FirstThreadRecord(); record != nullptr;
       record = record->next) {
    bool taken = false;
    if (record->taken.compare_exchange_strong(taken, true,
                                              std::memory_order_acquire)) {
      return record;
    }
  }
  auto* record = new ThreadRecord;
  record->copy = &kThisCopy;
  record->taken.store(true, std::memory_order_relaxed);
  record->next = FirstThreadRecord();
  do {
    record->index = record->next == nullptr ? 0 : record->next->index + 1;
  } while (!all_records.compare_exchange_weak(record->next, record,
                                              std::memory_order_acq_rel));
  return record;
}

// Gives the record back at the end of its thread.
class ThreadEnd {
 public:
  void Expect() { expected_ = true; }
  ~ThreadEnd() {
    // From here on, destructors of other thread-local objects that read a cache
    // take a record for each read.
    ended = true;
    if (!expected_ || !HasThreadRecord()) return;
    LeaveThreadRecord(this_thread.record);
    this_thread = ThisThread();
  }

  static thread_local bool ended;

 private:
  bool expected_ = false;
};

thread_local bool ThreadEnd::ended = false;
thread_local ThreadEnd thread_end;

// In the child of a fork() the records of other threads are free again. These
// were outside all calls, with nothing announced. At its very end, the forking
// thread may have several records, one for each read that it is in.
void FreeIdleRecords() {
  int taken = 0;
  for (ThreadRecord* record = FirstThreadRecord(); record != nullptr;
       record = record->next) {
    const bool stays = record == this_thread.record ||
                       record->announced.load(std::memory_order_relaxed) != 0;
    record->taken.store(stays, std::memory_order_relaxed);
    if (stays) ++taken;
  }
  taken_records.store(taken, std::memory_order_relaxed);
}

}  // namespace

const LibraryCopy kThisCopy = {};

void EndForOtherCopy() {
  std::fputs(
      "wheelcache: a cache was made by one copy of the library and is used "
      "through another. Link the library into one module of the program, and "
      "do not hide its symbols.\n",
      stderr);
  std::abort();
}

ABSL_CONST_INIT ThreadRecord no_thread_record;
__thread ThisThread this_thread;

ThreadRecord* TakeThreadRecordFor(const LibraryCopy* maker) {
  CheckCopy(maker);
  return TakeThreadRecord();
}

ThreadRecord* TakeThreadRecord() {
  BackgroundThread::CallInChild(&FreeIdleRecords);
  PrepareFences();
  ThreadRecord* record = TakeAnyRecord();
  // A writer that misses this record, or that light fences are free, has
  // unlinked before this thread's first look: its own fence comes before its
  // check.
  taken_records.fetch_add(1, std::memory_order_relaxed);
  FullFence();
  record->for_one_read = ThreadEnd::ended;
  if (!ThreadEnd::ended) {
    this_thread = {record, record->index};
    thread_end.Expect();
  }
  return record;
}

ThreadRecord* TryTakeThreadRecord() {
  ThreadRecord* record = nullptr;
  Contain([&record] { record = TakeThreadRecord(); });
  return record;
}

void LeaveThreadRecord(ThreadRecord* record) {
  record->taken.store(false, std::memory_order_release);
  taken_records.fetch_sub(1, std::memory_order_release);
}

ThreadRecord* FirstThreadRecord() {
  return all_records.load(std::memory_order_acquire);
}

bool NoOtherRecordIsTaken(const ThreadRecord& own) {
  const int expected = own.taken.load(std::memory_order_relaxed) ? 1 : 0;
  // The usual answer needs no fence.
  if (taken_records.load(std::memory_order_relaxed) > expected) return false;
  FullFence();
  return taken_records.load(std::memory_order_acquire) == expected;
}

size_t FirstThreadIndex() {
  ThreadRecord* const record = TryTakeThreadRecord();
  if (HasThreadRecord()) return this_thread.index;
  if (record != nullptr) LeaveThreadRecord(record);
  return kSharedThreadIndex;
}

int CountThreadRecords() {
  int count = 0;
  for (const ThreadRecord* record = FirstThreadRecord(); record != nullptr;
       record = record->next) {
    ++count;
  }
  return count;
}

}  // namespace wheelcache::internal
