// A record for each thread that uses a cache: a small number, by which the
// thread picks its stripes, and a word in which it announces its epoch.
//
// No two threads have the same record at a time. A thread gives its record back
// when it ends; the next thread that takes it sees all that was written under
// it. The list of records only grows: it is as long as the most threads that
// ever used caches at one time.
//
// Threads. Thread-safe. In the child of a fork() the records of other threads
// are free again.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_RECORD_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_RECORD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/base/optimization.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// A copy of the library in the process, known by its address.
//
// A process has one, in the program or in a shared object, unless several
// shared objects link it statically and hide its symbols. Each copy has its own
// thread records and epochs, and knows nothing of the readers of another one.
// So a cache may be used through the copy that made it alone; any other use
// ends the program.
struct LibraryCopy {
  char anything;
};

// The one that the calling code belongs to.
extern WHEELCACHE_EXPORT const LibraryCopy kThisCopy;

// Ends the program with a message.
[[noreturn]] WHEELCACHE_EXPORT void EndForOtherCopy();

// Ends the program unless the copy that made a cache is the caller's own.
inline void CheckCopy(const LibraryCopy* maker) {
  if (ABSL_PREDICT_FALSE(maker != &kThisCopy)) EndForOtherCopy();
}

struct alignas(ABSL_CACHELINE_SIZE) ThreadRecord {
  // What the thread is reading; 0 for nothing. An epoch: see
  // cache/internal/epoch/epoch.h. In the record, so that a read touches one
  // cache line of its thread's.
  std::atomic<uint64_t> announced{0};

  // Whether a thread has the record. Given back with release and taken with
  // acquire: the next owner sees all that the last one wrote here, and wherever
  // the index is used.
  std::atomic<bool> taken{false};

  // Whether its thread is at its very end, and gives it back after each read.
  // The thread's own.
  bool for_one_read = false;

  // Constant once the record is in the list. Indexes count from 0.
  size_t index = 0;
  ThreadRecord* next = nullptr;

  // The copy of the library that has made the record: one comparison with a
  // cache's tells whether a thread may read that cache with this record.
  const LibraryCopy* copy = nullptr;
};

// The number shared by all threads without one of their own: those at their
// very end, and those without memory for a record.
inline constexpr size_t kSharedThreadIndex = std::numeric_limits<size_t>::max();

// Stands for no record. No copy of the library has made it.
extern WHEELCACHE_EXPORT ThreadRecord no_thread_record;

// What a thread knows of itself.
struct ThisThread {
  ThreadRecord* record = &no_thread_record;
  size_t index = kSharedThreadIndex;  // Of the record: saves a load.
};

// Of the calling thread. Not thread_local: compilers call a function at each
// use of such a variable of another file, which might need initialization.
extern WHEELCACHE_EXPORT __thread ThisThread this_thread;

// Whether the calling thread has a record.
inline bool HasThreadRecord() {
  return this_thread.record != &no_thread_record;
}

// Gives the calling thread a record; at the very end of the thread, one that it
// must give back by LeaveThreadRecord. Throws std::bad_alloc, or ends a program
// without exceptions, where there is no memory for one.
WHEELCACHE_EXPORT ThreadRecord* TakeThreadRecord();

// As TakeThreadRecord, for a read of a cache that `maker` has made. Ends the
// program if that is another copy of the library.
WHEELCACHE_EXPORT ThreadRecord* TakeThreadRecordFor(const LibraryCopy* maker);

// As TakeThreadRecord, but returns null where there is no memory.
WHEELCACHE_EXPORT ThreadRecord* TryTakeThreadRecord();

// Gives back a record.
WHEELCACHE_EXPORT void LeaveThreadRecord(ThreadRecord* record);

// The first of all records, in use or not; the others follow by `next`.
WHEELCACHE_EXPORT ThreadRecord* FirstThreadRecord();

// Whether no other thread has a record, given that of the calling one or
// no_thread_record. If so, what other threads did with theirs comes before this
// call.
WHEELCACHE_EXPORT bool NoOtherRecordIsTaken(const ThreadRecord& own);

// A small number for the calling thread, by which it picks its stripe: that of
// its record. Without memory for a record, kSharedThreadIndex.
WHEELCACHE_EXPORT size_t FirstThreadIndex();  // Without a record yet.
inline size_t ThreadIndex() {
  const size_t index = this_thread.index;
  return ABSL_PREDICT_TRUE(index != kSharedThreadIndex) ? index
                                                        : FirstThreadIndex();
}

// For tests: the number of records, in use or not.
WHEELCACHE_EXPORT int CountThreadRecords();

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_RECORD_H_
