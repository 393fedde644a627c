#include "wheelcache/cache/internal/epoch/epoch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "absl/base/config.h"
#include "wheelcache/wheel/base/at_fork.h"
#include "wheelcache/wheel/base/contain.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace wheelcache {
namespace internal {
namespace {

// The list of all records, which only grows; as long as the most threads that
// ever read at one time. Never destroyed: threads may outlive static objects.
// Pushed with release and read with acquire, for the constants of a record;
// that a writer does not miss a new reader's record is the fences' matter.
std::atomic<EpochRecord*> all_records{nullptr};

// How many records are taken. Counted down with release: who finds nobody else,
// acquiring, comes after the last look of all who have gone. Counted up before
// a fence; see TakeEpochRecord().
std::atomic<int> readers{0};

#if defined(__linux__) && defined(SYS_membarrier)

// From linux/membarrier.h, which older systems lack.
constexpr int kPrivateExpedited = 1 << 3;
constexpr int kRegisterPrivateExpedited = 1 << 4;

bool RegisterMembarrier() {
  return syscall(SYS_membarrier, kRegisterPrivateExpedited, 0, 0) == 0;
}

void Membarrier() {
  if (syscall(SYS_membarrier, kPrivateExpedited, 0, 0) == 0) return;
  // Forgotten, as after a fork in some kernels.
  RegisterMembarrier();
  if (syscall(SYS_membarrier, kPrivateExpedited, 0, 0) == 0) return;
  // Forbidden since, as by a sandbox. Readers rely on it: to go on without
  // would be to destroy what they look at.
  std::abort();
}

#else

bool RegisterMembarrier() { return false; }
void Membarrier() {}

#endif

void FullFence() {
#ifdef ABSL_HAVE_THREAD_SANITIZER  // Which knows no fences.
  static std::atomic<int> anything{0};
  anything.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

EpochRecord* TakeAnyRecord() {
  for (EpochRecord* record = all_records.load(std::memory_order_acquire);
       record != nullptr; record = record->next) {
    bool taken = false;
    if (record->taken.compare_exchange_strong(taken, true,
                                              std::memory_order_acquire)) {
      return record;
    }
  }
  auto* record = new EpochRecord;
  record->taken.store(true, std::memory_order_relaxed);
  record->next = all_records.load(std::memory_order_acquire);
  do {
    record->index = record->next == nullptr ? 0 : record->next->index + 1;
  } while (!all_records.compare_exchange_weak(record->next, record,
                                              std::memory_order_acq_rel));
  return record;
}

Epoch AdvanceBy(Epoch epochs) {
  const Epoch before =
      epoch_state.current.fetch_add(epochs, std::memory_order_seq_cst);
  FullFence();
  if (epoch_state.readers_need_no_fence.load(std::memory_order_relaxed)) {
    Membarrier();
  }
  return before + epochs - 1;
}

// Gives the record back at the end of its thread.
class ThreadEnd {
 public:
  void Expect() { expected_ = true; }
  ~ThreadEnd() {
    // Sections that destructors of other thread-local objects open from here
    // on borrow a record each.
    ended = true;
    if (!expected_ || epoch_record == nullptr) return;
    LeaveEpochRecord(epoch_record);
    epoch_record = nullptr;
  }

  static thread_local bool ended;

 private:
  bool expected_ = false;
};

thread_local bool ThreadEnd::ended = false;
thread_local ThreadEnd thread_end;

// In a child, no other thread reads.
class ForgetOtherThreads {
 public:
  void BeforeFork() {}
  void AfterForkInParent() {}
  void AfterForkInChild() {
    int taken = 0;
    for (EpochRecord* record = all_records.load(std::memory_order_acquire);
         record != nullptr; record = record->next) {
      if (record == epoch_record) {
        ++taken;
        continue;
      }
      record->announced.store(0, std::memory_order_relaxed);
      record->taken.store(false, std::memory_order_relaxed);
    }
    readers.store(taken, std::memory_order_relaxed);
  }

 private:
  ForkRegistration registration_{this};
};

// Returns true.
bool PrepareProcess() {
  static const bool prepared = [] {
    static auto* const forget = new ForgetOtherThreads;
    (void)forget;
    UseMembarrier(true);
    return true;
  }();
  return prepared;
}

// While the program is loaded, if nobody read earlier: a fork() that comes
// while another thread is about it would leave it half done in the child for
// ever.
[[maybe_unused]] const bool prepared_at_load = PrepareProcess();

}  // namespace

EpochRecord* TakeEpochRecord() {
  PrepareProcess();
  EpochRecord* record = TakeAnyRecord();
  // A writer that misses this reader, or its need of membarrier, has unlinked
  // before the reader's first look: it has a fence before it asks.
  readers.fetch_add(1, std::memory_order_relaxed);
  FullFence();
  if (!ThreadEnd::ended) {
    epoch_record = record;
    thread_end.Expect();
  }
  return record;
}

EpochRecord* TryTakeEpochRecord() {
  EpochRecord* record = nullptr;
  Contain([&record] { record = TakeEpochRecord(); });
  return record;
}

void LeaveEpochRecord(EpochRecord* record) {
  record->taken.store(false, std::memory_order_release);
  readers.fetch_sub(1, std::memory_order_release);
}

Epoch AdvanceEpoch() { return AdvanceBy(1); }

Epoch AdvanceBirth() { return AdvanceBy(Epoch{1} << kEpochsPerBirthBits); }

Epoch NewestReaderUpTo(Epoch limit) {
  Epoch newest = 0;
  for (const EpochRecord* record = all_records.load(std::memory_order_acquire);
       record != nullptr; record = record->next) {
    const Epoch reader = record->announced.load(std::memory_order_acquire);
    if (reader <= limit) newest = std::max(newest, reader);
  }
  return newest;
}

bool NobodyReads() {
  const int own = epoch_record != nullptr ? 1 : 0;
  if (own == 1 &&
      epoch_record->announced.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  // The answer that needs no proof comes without the fence.
  if (readers.load(std::memory_order_relaxed) > own) return false;
  FullFence();
  return readers.load(std::memory_order_acquire) == own;
}

int CountEpochRecords() {
  int count = 0;
  for (const EpochRecord* record = all_records.load(std::memory_order_acquire);
       record != nullptr; record = record->next) {
    ++count;
  }
  return count;
}

void UseMembarrier(bool use) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  use = false;
#endif
  epoch_state.readers_need_no_fence.store(use && RegisterMembarrier(),
                                          std::memory_order_seq_cst);
}

}  // namespace internal
}  // namespace wheelcache
