// Tells when nobody can be looking any more at what was unlinked from a
// structure that is read without a lock.
//
// A reader opens a ReadSection before it follows the first link and closes it
// after its last look. A writer unlinks, calls AdvanceEpoch(), and may destroy
// what it unlinked as soon as NewestReaderUpTo() of the epoch that it got finds
// nobody. (K. Fraser, "Practical lock-freedom", 2004, chapter 5.)
//
// Epochs are numbers that writers count up. A section announces the epoch in
// which it was opened, in its thread's own record; so opening and closing one
// costs a few instructions and no shared write. All caches of a process share
// the records: a thread has one, whatever it reads, and a cache may come and go
// without a word to the threads.
//
// A thread that stalls in a section holds back what was unlinked since. To
// bound that by what existed when it stalled, each object carries the epoch of
// its birth (Birth below, coarse), and a section looks at no object without
// having made sure that Covers() it. What was born after the newest section
// that could hold it back may then go at once. (H. Wen et al., "Interval-based
// memory reclamation", PPoPP 2018.)
//
// The fence. Between announcing and the first look a reader needs a full fence,
// or a writer might miss the announcement and the reader the unlinking. Where
// Linux offers membarrier(2), AdvanceEpoch() makes all running threads execute
// that fence, and readers do without. Elsewhere, and under ThreadSanitizer,
// which does not know of it, both sides have a fence of their own.
//
// Threads. Thread-safe; a section belongs to the thread that opened it. In the
// child of fork() the sections of other threads are forgotten.

#ifndef WHEELCACHE_CACHE_INTERNAL_EPOCH_EPOCH_H_
#define WHEELCACHE_CACHE_INTERNAL_EPOCH_EPOCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/base/config.h"
#include "absl/base/optimization.h"

namespace wheelcache {
namespace internal {

using Epoch = uint64_t;  // From 1; 0 for none.

// The epoch in which an object was made, rounded down, in 32 bits. The largest
// value stands for all that is too late for them; such objects are only freed
// later than need be.
using Birth = uint32_t;

inline constexpr int kEpochsPerBirthBits = 8;

// The record of a thread.
struct alignas(ABSL_CACHELINE_SIZE) EpochRecord {
  // The epoch of the thread's open section, or 0. Stored with release and
  // loaded by writers with acquire, so that what a section looked at comes
  // before its destruction; that a writer does not miss a store is the fences'
  // matter.
  std::atomic<Epoch> announced{0};

  // Whether a thread has the record; a thread's end makes it free for another.
  // Given back with release and taken with acquire: the next owner sees all
  // that the last one wrote here, and wherever the index is used.
  std::atomic<bool> taken{false};

  // Both constant once the record is in the list. Indexes count from 0; no two
  // threads have the same at a time.
  size_t index = 0;
  EpochRecord* next = nullptr;
};

struct EpochState {
  // Counted up after unlinking, and acquired by Announce(): who announces the
  // later epoch sees the unlinking. All changes are read-modify-writes, so that
  // this holds for each earlier epoch, too.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<Epoch> current{1};

  // Whether AdvanceEpoch() uses membarrier, so that readers need no fence.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<bool> readers_need_no_fence{false};
};

inline EpochState epoch_state;

// The calling thread's record, once it has one.
inline thread_local EpochRecord* epoch_record = nullptr;

// Gives the calling thread a record; at its very end, one to give back at once.
// Throws std::bad_alloc, or ends a program without exceptions, where there is
// no memory for one.
EpochRecord* TakeEpochRecord();

// The same, but null where there is no memory.
EpochRecord* TryTakeEpochRecord();

// Gives the record back at the end of a section, if the thread is so near its
// end that nobody else would.
void LeaveEpochRecord(EpochRecord* record);

class ReadSection {
 public:
  ReadSection()
      : record_(ABSL_PREDICT_TRUE(epoch_record != nullptr) ? epoch_record
                                                           : TakeEpochRecord()),
        // Relaxed: the thread's own.
        nested_(record_->announced.load(std::memory_order_relaxed) != 0) {
    if (!nested_) Announce();
  }
  ~ReadSection() {
    if (nested_) return;
    // Release: the last look comes before the writer's knowledge of the end.
    record_->announced.store(0, std::memory_order_release);
    if (ABSL_PREDICT_FALSE(epoch_record == nullptr)) LeaveEpochRecord(record_);
  }

  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;

  // Whether this section is inside another one of the thread, whose
  // announcement it must not change.
  bool nested() const { return nested_; }

  // Whether an object whose link was loaded before the call is protected by
  // this section. If not, Announce() and load the link again.
  // REQUIRES: not nested.
  bool Covers() const {
    // Relaxed: the link, which was acquired, leads to the maker's own load in
    // BirthNow(); a load after that reads no older value.
    const Epoch now = epoch_state.current.load(std::memory_order_relaxed);
    return (now ^ announced_) >> kEpochsPerBirthBits == 0;
  }

  // Announces the current epoch in the place of an earlier one; what was found
  // before that is no longer protected. REQUIRES: not nested.
  void Announce() {
    // Acquire: a section of a later epoch sees what was unlinked before it. If
    // it reads an older epoch than the current one, it holds back too much.
    announced_ = epoch_state.current.load(std::memory_order_acquire);
#ifdef ABSL_HAVE_THREAD_SANITIZER
    record_->announced.exchange(announced_, std::memory_order_seq_cst);
#else
    // Release: a writer that reads this epoch, too late to matter to it, frees
    // what the section looked at under an earlier one.
    record_->announced.store(announced_, std::memory_order_release);
    // Relaxed: who reads false has a fence that he could do without; and who
    // reads true, see TakeEpochRecord().
    if (ABSL_PREDICT_TRUE(epoch_state.readers_need_no_fence.load(
            std::memory_order_relaxed))) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
#endif
  }

 private:
  EpochRecord* const record_;
  const bool nested_;
  Epoch announced_ = 0;
};

// The birth of an object that is made now.
inline Birth BirthNow() {
  const Epoch now = epoch_state.current.load(std::memory_order_relaxed) >>
                    kEpochsPerBirthBits;
  constexpr Birth kTooLate = std::numeric_limits<Birth>::max();
  return now < kTooLate ? static_cast<Birth>(now) : kTooLate;
}

// Whether a section that announced `reader` may be looking at an object of this
// birth that has been unlinked.
inline bool MaySee(Epoch reader, Birth birth) {
  return Epoch{birth} << kEpochsPerBirthBits <= reader;
}

// Begins a new epoch and returns the one that ended with it: a section that
// announces a later one sees nothing that was unlinked before this call.
Epoch AdvanceEpoch();

// As AdvanceEpoch, and what is made from now on has a later birth than all that
// was made before.
Epoch AdvanceBirth();

// The newest epoch up to `limit` that an open section has announced, or 0.
Epoch NewestReaderUpTo(Epoch limit);

// Whether no thread but the calling one has ever read and lives, and the
// calling one has no section open; so that what it unlinked before this call
// can be destroyed at once.
bool NobodyReads();

// For tests: the number of records, in use or not.
int CountEpochRecords();

// For tests: whether AdvanceEpoch() is to use membarrier where that exists, as
// it does by default. REQUIRES: no section is open.
void UseMembarrier(bool use);

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_EPOCH_EPOCH_H_
