// Epoch-based reclamation: tells when no lock-free reader can still hold a
// reference to an unlinked object.
//
// A reader opens a ReadSection before it follows the first link and closes it
// after its last access. A writer unlinks, calls AdvanceEpoch(), and may
// destroy what it unlinked as soon as NewestReaderUpTo() of the returned epoch
// is 0. (K. Fraser, "Practical lock-freedom", 2004, chapter 5.)
//
// Epochs are numbers that writers increment. A section announces the epoch in
// which it was opened, in its thread's own record; so opening and closing one
// costs a few instructions and no shared write. All caches of a process share
// the records: a thread has one, whatever it reads, and a cache may come and go
// without informing the threads.
//
// A thread that stalls in a section holds back what was unlinked since. To
// bound that by what existed when it stalled, each object carries the epoch of
// its birth (Birth below, coarse), and a section accesses no object before
// Covers() holds. An object born after the newest section that could hold it
// back may then be destroyed at once. (H. Wen et al., "Interval-based memory
// reclamation", PPoPP 2018.)
//
// Between announcing and its first access a reader needs a fence, or the writer
// might miss the announcement and the reader the unlinking. It is the light one
// of an asymmetric pair; AdvanceEpoch() has the heavy one.
//
// Threads. Thread-safe; a section belongs to the thread that opened it.

#ifndef WHEELCACHE_CACHE_INTERNAL_EPOCH_EPOCH_H_
#define WHEELCACHE_CACHE_INTERNAL_EPOCH_EPOCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/base/config.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/asymmetric_fence.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

using Epoch = uint64_t;  // From 1; 0 for none.

// The epoch in which an object was made, rounded down, in 32 bits. It
// saturates; objects beyond that are only freed later than need be.
using Birth = uint32_t;

inline constexpr int kEpochsPerBirthBits = 8;

// Incremented after unlinking, and acquired by Announce(): a reader that
// announces the later epoch sees the unlinking. All changes are
// read-modify-writes, so that this holds for each earlier epoch, too.
struct alignas(ABSL_CACHELINE_SIZE) EpochCounter : std::atomic<Epoch> {
  constexpr EpochCounter() : std::atomic<Epoch>(1) {}
};
extern WHEELCACHE_EXPORT EpochCounter current_epoch;

// The epoch that a thread has announced. Out-of-line code constructs it anew
// from the record: a section whose address is never taken stays in registers.
class Announcement {
 public:
  explicit Announcement(ThreadRecord* record)
      : record_(record),
        // Relaxed: the thread's own.
        announced_(record->announced.load(std::memory_order_relaxed)) {}

  ThreadRecord* record() const { return record_; }
  Epoch announced() const { return announced_; }  // 0 for nothing.

  // Whether an object whose link was loaded before the call is protected. If
  // not, Announce() and load the link again.
  bool Covers() const {
    // Relaxed: the link, which was acquired, leads to the maker's own load in
    // BirthNow(); a load after that reads no older value.
    const Epoch now = current_epoch.load(std::memory_order_relaxed);
    return (now ^ announced_) >> kEpochsPerBirthBits == 0;
  }

  // Announces the current epoch instead of an earlier one; what was found
  // before is no longer protected.
  void Announce() {
    // Acquire: a section of a later epoch sees what was unlinked before it. If
    // it reads an older epoch than the current one, it holds back too much.
    announced_ = current_epoch.load(std::memory_order_acquire);
#ifdef ABSL_HAVE_THREAD_SANITIZER
    record_->announced.exchange(announced_, std::memory_order_seq_cst);
#else
    // Release: a writer that reads this epoch, which does not hold it back,
    // frees what the section accessed under an earlier one.
    record_->announced.store(announced_, std::memory_order_release);
#endif
    LightFence();
  }

 private:
  ThreadRecord* record_;
  Epoch announced_;
};

class ReadSection {
 public:
  // For what is not of one cache.
  ReadSection() : ReadSection(&kThisCopy) {}

  // For a read of a cache that `maker` has made. Ends the program if that is
  // another copy of the library: its writers would not see this section.
  explicit ReadSection(const LibraryCopy* maker)
      : announcement_(ABSL_PREDICT_TRUE(this_thread.record->copy == maker)
                          ? this_thread.record
                          : TakeThreadRecordFor(maker)),
        nested_(announcement_.announced() != 0) {
    if (!nested_) announcement_.Announce();
  }
  ~ReadSection() {
    if (nested_) return;
    ThreadRecord* const record = announcement_.record();
    // Release: the last access happens before a writer sees the end.
    record->announced.store(0, std::memory_order_release);
    if (ABSL_PREDICT_FALSE(record->for_one_read)) LeaveThreadRecord(record);
  }

  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;

  // Whether this section is inside another one of the thread, whose
  // announcement it must not change.
  bool nested() const { return nested_; }

  // As Announcement. REQUIRES: not nested.
  bool Covers() const { return announcement_.Covers(); }
  void Announce() { announcement_.Announce(); }

  // The record of the announcement.
  ThreadRecord* record() const { return announcement_.record(); }

 private:
  Announcement announcement_;
  const bool nested_;
};

// The birth of an object that is made now.
inline Birth BirthNow() {
  const Epoch now =
      current_epoch.load(std::memory_order_relaxed) >> kEpochsPerBirthBits;
  constexpr Birth kTooLate = std::numeric_limits<Birth>::max();
  return now < kTooLate ? static_cast<Birth>(now) : kTooLate;
}

// Whether a section that announced `reader` may hold a reference to an unlinked
// object of this birth.
inline bool MaySee(Epoch reader, Birth birth) {
  return Epoch{birth} << kEpochsPerBirthBits <= reader;
}

// Begins a new epoch and returns the one that ended with it: a section that
// announces a later one sees nothing that was unlinked before this call.
WHEELCACHE_EXPORT Epoch AdvanceEpoch();

// As AdvanceEpoch; besides, objects made from now on have a later birth than
// all that were made before.
WHEELCACHE_EXPORT Epoch AdvanceBirth();

// The newest epoch up to `limit` that an open section has announced, or 0.
WHEELCACHE_EXPORT Epoch NewestReaderUpTo(Epoch limit);

// Whether no other live thread has ever read, and the calling thread has no
// open section: then what it unlinked before this call can be destroyed at
// once.
WHEELCACHE_EXPORT bool NobodyReads();

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_EPOCH_EPOCH_H_
