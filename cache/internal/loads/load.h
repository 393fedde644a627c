// A load in flight: the place where all callers of its key get its result
// (single-flight).
//
// One caller leads: it runs its loader, or has a ticket, and ends the load.
// The others block in Wait, or leave a callback.
//
// A load belongs to a placeholder (cache/internal/entry/entry.h), which has its
// key and is in the index while the load is the current one of the key. It is
// superseded by taking the placeholder out. The leader and those who wait pin
// the placeholder. One that has failed may stay in the index for a while.
//
// Loaders may load other keys, and so wait for each other. Each thread notes
// which load it waits for without a limit, over all caches of the process, and
// a wait that would close a cycle is refused.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Load final : public AnyLoad {
 public:
  // Who leads at first: the calling thread, or whoever has a ticket.
  enum class Leader { kThisThread, kTicket };

  // What a caller leaves that does not block. Called without a lock; what they
  // throw goes no further.
  struct Callbacks {
    // Is told of the end; or why it is not waited for any longer. Empty if it
    // was.
    absl::AnyInvocable<void(const absl::Status* instead)> done;
    absl::AnyInvocable<void()> lead;         // Leads from now on; may be empty.
    int64_t deadline_nanos = Clock::kNever;  // Of the wait.
    bool leads = false;   // And so does not wait for others any more.
    uint64_t number = 0;  // Among those who wait.
  };

  // A load that begins at `now_nanos`, for a cache with this pool and gates.
  Load(EntryPool* pool, std::shared_ptr<LoadGates> gates, int64_t now_nanos,
       Leader leader);
  ~Load() override;

  LoadGates& gates() const { return *gates_; }
  int64_t begin_nanos() const { return begin_nanos_; }

  // What the shard keeps of it, under its lock.
  struct InShard {
    enum State {
      kQueued,   // A refresh that nobody has begun to run.
      kJoined,   // Callers of the key get its result.
      kFailure,  // The same of a failure, which counts as an entry.
      kRetry,    // A refresh that has failed, and keeps the next one waiting.
    };
    State state = kQueued;
    // Of the shard, when it was added; see Shard::SupersedeLoads. Relaxed: to
    // readers without the lock a hint.
    std::atomic<uint32_t> era{0};
  };
  InShard in_shard;

  // Why a load has failed whose loader threw, or whose leader gave it up; and
  // why a caller waits for it no longer. Made beforehand: at that time there
  // may be no memory.
  static const absl::Status& Thrown();
  static const absl::Status& GivenUp();
  static const absl::Status& WaitedTooLong();

  // Ends the load: those who wait get the entry, of which the load takes over a
  // pin, or, if that is null, the status. Called once, by the leader. Allocates
  // nothing. Runs the callbacks, in their order; what they throw goes no
  // further.
  void End(absl::Status status, EntryRef ref);

  // Hands the load over to the one that has waited longest and can lead: to a
  // thread, or by calling its `lead`; within another `lead` on this thread,
  // that call comes after the return of the outer one. If nobody can lead, ends
  // the load with this status, and calls forget() before it tells anybody.
  void Cancel(const absl::Status& status, absl::FunctionRef<void()> forget);

  // How a wait has ended.
  enum class Waited {
    kForResult,
    kToLead,    // The load is the caller's now, who has to run and end it.
    kInVain,    // The time is up.
    kNotAtAll,  // It would be for ever: the leader waits for this thread.
  };

  // Makes the calling thread the leader of a load that has none but a ticket.
  void LeadFromThisThread();

  // Blocks until the load ends, or until `deadline_nanos`, kNever for no limit.
  Waited Wait(Clock* clock, int64_t deadline_nanos);

  // Returns a number for callbacks, larger than all before.
  uint64_t NewNumber() {
    MutexLock lock(&mu_);
    return ++waiters_;
  }

  // Registers callbacks. `done` is called at the end of the load, on the thread
  // that ends it, or now if the deadline has passed on this clock; before that,
  // `lead` may be called. Returns false, and calls neither, if the load has
  // ended already.
  bool WhenDone(uint64_t number, Callbacks callbacks, Clock* clock);

  // Tells the callbacks of that number why they wait no longer, unless they are
  // gone or lead.
  void GiveUp(uint64_t number, const absl::Status& why);

  // The result of a load that has ended: the entry, in which the load has a
  // pin; or if that is null, the failure.
  EntryRef ref() const { return ref_; }
  const absl::Status& status() const { return status_; }
  bool has_ended() const {
    MutexLock lock(&mu_);
    return ended_;
  }

 private:
  using Listed = std::vector<Callbacks>;  // By their numbers.

  // A thread that is blocked, in the order in which they came.
  struct Waiter;

  static thread_local Load* waits_for;

  Waited WaitAsListed(Waiter* waiter, Clock* clock, int64_t deadline_nanos);
  void SleepUnlocked(Sleeper* sleeper, int64_t deadline_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool WaitsForThisThread();
  Listed::iterator FindLocked(uint64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CallInTurn(absl::AnyInvocable<void()> lead);
  void LeadFromElsewhere();
  bool EndOrHandOver(const absl::Status& status, Listed* told,
                     absl::AnyInvocable<void()>* lead);
  static void Tell(Listed* told);
  void EndLocked(absl::Status status, EntryRef ref, Listed* told)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnlistLocked(Waiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  EntryPool& pool_;
  const std::shared_ptr<LoadGates> gates_;
  const int64_t begin_nanos_;

  mutable Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t waiters_ ABSL_GUARDED_BY(mu_) = 0;  // That have come.
  Waiter* first_ ABSL_GUARDED_BY(mu_) = nullptr;
  Listed told_ ABSL_GUARDED_BY(mu_);
  size_t given_up_ ABSL_GUARDED_BY(mu_) = 0;     // Of them.
  uint64_t next_heir_ ABSL_GUARDED_BY(mu_) = 0;  // Before it, none can lead.
  // What the leading thread waits for. Valid until the load has ended or was
  // handed over. Null if the leader is no thread that is known.
  Load** leader_waits_for_ ABSL_GUARDED_BY(mu_);

  // Written before the end and constant from then on.
  absl::Status status_;
  EntryRef ref_ = 0;
};

// Of a loader that returns another number of results than it got keys.
WHEELCACHE_EXPORT absl::Status WrongCount(size_t results, size_t keys);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_H_
