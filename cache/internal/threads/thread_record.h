// A record for each thread that uses a cache: a small number, by which the
// thread picks its stripes, and a word in which it announces its epoch.
//
// No two threads have the same record at a time. A thread gives its record back
// when it ends; the next thread that takes it sees all that was written under
// it. The list of records only grows: it is as long as the most threads that
// ever used caches at one time.
//
// Threads. Thread-safe. In the child of fork() the records of other threads are
// free again; the forking thread keeps its own, also at its very end.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_RECORD_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_RECORD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"

namespace wheelcache::internal {

struct alignas(ABSL_CACHELINE_SIZE) ThreadRecord {
  // What the thread is reading; 0 for nothing. An epoch: see
  // cache/internal/epoch/epoch.h. In the record, so that a read touches one
  // cache line of its thread's.
  std::atomic<uint64_t> announced{0};

  // Whether a thread has the record. Given back with release and taken with
  // acquire: the next owner sees all that the last one wrote here, and wherever
  // the index is used.
  std::atomic<bool> taken{false};

  // Tells threads apart: what the child of fork() finds with the forking
  // thread's own is that thread's. Null while no thread has the record.
  std::atomic<const void*> owner{nullptr};

  // Constant once the record is in the list. Indexes count from 0.
  size_t index = 0;
  ThreadRecord* next = nullptr;
};

// The calling thread's record, once it has one.
inline thread_local ThreadRecord* thread_record = nullptr;

// Gives the calling thread a record; at the very end of the thread, one that it
// must give back by LeaveThreadRecord. Throws std::bad_alloc, or ends a program
// without exceptions, where there is no memory for one.
ThreadRecord* TakeThreadRecord();

// As TakeThreadRecord, but returns null where there is no memory.
ThreadRecord* TryTakeThreadRecord();

// Gives back a record.
void LeaveThreadRecord(ThreadRecord* record);

// The first of all records, in use or not; the others follow by `next`.
ThreadRecord* FirstThreadRecord();

// Whether no other thread has a record. If so, what other threads did with
// theirs comes before this call.
bool NoOtherThreadHasRecord();

// For tests: the number of records, in use or not.
int CountThreadRecords();

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_RECORD_H_
