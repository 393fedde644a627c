#include "wheelcache/cache/internal/loads/load.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// Guards what each thread of the process waits for. Taken before the lock of a
// load, and only by threads that are about to wait for one. Never destroyed:
// threads may outlive static objects.
Mutex* WaitsMutex() {
  static auto* const mu = new Mutex;
  return mu;
}

[[maybe_unused]] const absl::Status* const kMadeAtLoad[] = {
    &Load::Thrown(), &Load::GivenUp(), &Load::WaitedTooLong()};

}  // namespace

// Lives on the stack of its thread. All fields belong to the lock of the load.
struct Load::Waiter {
  void Wake() {
    if (sleeper != nullptr) {
      sleeper->Wake();
    } else {
      woken.Signal();
    }
  }

  std::unique_ptr<Sleeper> sleeper;  // Null for a wait without a limit.
  CondVar woken;
  uint64_t number = 0;  // Among those who wait.
  bool leads = false;   // From now on.
  Waiter* next = nullptr;
};

// The load that this thread waits for without a limit, or null. Guarded by
// WaitsMutex. A wait that would close a cycle is refused, so that there never
// is one.
thread_local Load* Load::waits_for = nullptr;

Load::Load(EntryPool* pool, std::shared_ptr<LoadGates> gates, int64_t now_nanos,
           Leader leader)
    : pool_(*pool),
      gates_(std::move(gates)),
      begin_nanos_(now_nanos),
      leader_waits_for_(leader == Leader::kThisThread ? &waits_for : nullptr) {}

Load::~Load() {
  if (ref_ != 0) pool_.UnpinOutside(ref_);
}

const absl::Status& Load::Thrown() {
  static const auto* const thrown =
      new absl::Status(absl::UnknownError("the loader threw an exception"));
  return *thrown;
}

const absl::Status& Load::GivenUp() {
  static const auto* const given_up =
      new absl::Status(absl::CancelledError("the load was given up"));
  return *given_up;
}

const absl::Status& Load::WaitedTooLong() {
  static const auto* const too_long =
      new absl::Status(absl::DeadlineExceededError(
          "another caller loads this key, for longer than LoadOptions::wait"));
  return *too_long;
}

void Load::EndLocked(absl::Status status, EntryRef ref, Listed* told) {
  status_ = std::move(status);
  ref_ = ref;
  ended_ = true;
  for (Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next) {
    waiter->Wake();
  }
  first_ = nullptr;
  told->swap(told_);
}

void Load::Tell(Listed* told) {
  for (Callbacks& callbacks : *told) {
    if (callbacks.done == nullptr) continue;
    Contain([&] { callbacks.done(nullptr); });
  }
}

void Load::End(absl::Status status, EntryRef ref) {
  Listed told;
  {
    MutexLock lock(&mu_);
    EndLocked(std::move(status), ref, &told);
  }
  Tell(&told);
}

void Load::Cancel(const absl::Status& status,
                  absl::FunctionRef<void()> forget) {
  Listed told;
  absl::AnyInvocable<void()> lead;
  if (EndOrHandOver(status, &told, &lead)) {
    Interleave("load: cancelled");
    forget();
    Tell(&told);
  } else if (lead != nullptr) {
    CallInTurn(std::move(lead));
  }
}

// Calls the heir's callback: within another such call on this thread, after
// that. So a chain of loads that are cancelled at once takes no stack.
void Load::CallInTurn(absl::AnyInvocable<void()> lead) {
  struct Heir {
    Load* load = nullptr;  // Pinned by the callback.
    absl::AnyInvocable<void()> lead;
  };
  thread_local std::vector<Heir>* waiting = nullptr;
  if (waiting != nullptr) {
    // Whoever waits for this thread must not wait for the load.
    LeadFromThisThread();
    if (Contain([&] { waiting->emplace_back(); })) {
      waiting->back() = {this, std::move(lead)};
      return;
    }
    LeadFromElsewhere();  // Without memory it takes stack.
  }
  std::vector<Heir> heirs;
  const absl::Cleanup end = [outer = std::exchange(waiting, &heirs)] {
    waiting = outer;
  };
  Contain([&] { lead(); });
  for (size_t next = 0; next < heirs.size();) {
    Heir heir = std::move(heirs[next++]);
    if (next == heirs.size()) {
      heirs.clear();
      next = 0;
    }
    heir.load->LeadFromElsewhere();
    Contain([&] { heir.lead(); });
  }
}

// Returns whether the load has ended; if not, *lead is to be called, unless a
// thread leads.
bool Load::EndOrHandOver(const absl::Status& status, Listed* told,
                         absl::AnyInvocable<void()>* lead) {
  MutexLock lock(&mu_);
  Waiter* const thread = first_;
  const auto callbacks =
      std::find_if(FindLocked(next_heir_), told_.end(),
                   [](const auto& c) { return c.lead != nullptr; });
  if (callbacks != told_.end()) next_heir_ = callbacks->number;
  if (thread == nullptr && callbacks == told_.end()) {
    EndLocked(status, 0, told);
    return true;
  }
  leader_waits_for_ = nullptr;  // Until the heir has taken it up.
  if (thread == nullptr ||
      (callbacks != told_.end() && callbacks->number < thread->number)) {
    *lead = std::exchange(callbacks->lead, nullptr);
    callbacks->leads = true;
    return false;
  }
  UnlistLocked(thread);
  thread->leads = true;
  thread->Wake();
  return false;
}

bool Load::WhenDone(uint64_t number, Callbacks callbacks, Clock* clock) {
  callbacks.number = number;
  {
    MutexLock lock(&mu_);
    if (ended_) return false;
    const int64_t deadline = callbacks.deadline_nanos;
    // Maintenance may have looked for it before it is there.
    if (deadline == Clock::kNever || clock->NowNanos() < deadline) {
      told_.insert(FindLocked(number), std::move(callbacks));
      next_heir_ = std::min(next_heir_, number);
      return true;
    }
  }
  Contain([&] { callbacks.done(&WaitedTooLong()); });
  return true;
}

// The callbacks of the number, or else the next.
Load::Listed::iterator Load::FindLocked(uint64_t number) {
  return std::lower_bound(
      told_.begin(), told_.end(), number,
      [](const Callbacks& c, uint64_t n) { return c.number < n; });
}

void Load::GiveUp(uint64_t number, const absl::Status& why) {
  Callbacks gone;
  {
    MutexLock lock(&mu_);
    const auto found = FindLocked(number);
    if (found == told_.end() || found->number != number) return;
    if (found->leads || found->done == nullptr) return;
    // Its place stays for a while, so that not each that goes moves all that
    // have come after it.
    gone.number = number;
    std::swap(gone, *found);
    if (++given_up_ > told_.size() / 2) {
      given_up_ = 0;
      told_.erase(
          std::remove_if(told_.begin(), told_.end(),
                         [](const Callbacks& c) { return c.done == nullptr; }),
          told_.end());
    }
  }
  Contain([&] { gone.done(&why); });
}

Load::Waited Load::Wait(Clock* clock, int64_t deadline_nanos) {
  const bool limited = deadline_nanos != Clock::kNever;
  Waiter waiter;
  if (limited) {
    MutexLock lock(&mu_);
    if (ended_) return Waited::kForResult;
    if (clock->NowNanos() >= deadline_nanos) return Waited::kInVain;
  }
  if (limited) waiter.sleeper = clock->NewSleeper();
  {
    MutexLock waits(WaitsMutex());
    Interleave("load: among the waits");
    if (WaitsForThisThread()) return Waited::kNotAtAll;
    if (!limited) waits_for = this;
  }
  std::optional<Waited> waited;
  {
    // Also if the sleeper throws, or the thread is cancelled.
    const absl::Cleanup end_wait = [&] {
      if (!limited) {
        MutexLock waits(WaitsMutex());
        waits_for = nullptr;
      }
      // Those who come later find that nobody leads, and start another load.
      if (!waited.has_value() && waiter.leads) Cancel(GivenUp(), [] {});
    };
    waited = WaitAsListed(&waiter, clock, deadline_nanos);
    Interleave("load: after the wait");
  }
  // Not earlier: while this thread waits for the load, it must not lead it.
  if (waited == Waited::kToLead) LeadFromThisThread();
  return *waited;
}

void Load::LeadFromThisThread() {
  MutexLock lock(&mu_);
  leader_waits_for_ = &waits_for;
}

void Load::LeadFromElsewhere() {
  MutexLock lock(&mu_);
  leader_waits_for_ = nullptr;
}

Load::Waited Load::WaitAsListed(Waiter* waiter, Clock* clock,
                                int64_t deadline_nanos) {
  MutexLock lock(&mu_);
  if (ended_) return Waited::kForResult;
  Waiter** last = &first_;
  while (*last != nullptr) last = &(*last)->next;
  *last = waiter;
  waiter->number = ++waiters_;
  const absl::Cleanup unlist = [&] {
    mu_.AssertHeld();
    if (!ended_ && !waiter->leads) UnlistLocked(waiter);
  };
  Interleave("load: before it blocks");
  while (!ended_ && !waiter->leads) {
    if (waiter->sleeper == nullptr) {
      waiter->woken.Wait(&mu_);
    } else if (clock->NowNanos() >= deadline_nanos) {
      return Waited::kInVain;
    } else {
      SleepUnlocked(waiter->sleeper.get(), deadline_nanos);
    }
  }
  return waiter->leads ? Waited::kToLead : Waited::kForResult;
}

void Load::SleepUnlocked(Sleeper* sleeper, int64_t deadline_nanos)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mu_.Unlock();
  const absl::Cleanup lock = [&]()
                                 ABSL_NO_THREAD_SAFETY_ANALYSIS { mu_.Lock(); };
  sleeper->SleepUntil(deadline_nanos);
  Interleave("load: between sleep and lock");
}

void Load::UnlistLocked(Waiter* waiter) {
  Waiter** link = &first_;
  while (*link != waiter) link = &(*link)->next;
  *link = waiter->next;
}

// Whether this thread leads the load, or one for which the leader waits, and so
// on. A load that has ended waits for nobody.
bool Load::WaitsForThisThread() {
  for (Load* next = this; next != nullptr;) {
    Load& load = *next;
    // As long as it has not ended, its leading thread exists.
    MutexLock lock(&load.mu_);
    if (load.ended_ || load.leader_waits_for_ == nullptr) return false;
    if (load.leader_waits_for_ == &waits_for) return true;
    next = *load.leader_waits_for_;
  }
  return false;
}

absl::Status WrongCount(size_t results, size_t keys) {
  return absl::InternalError(absl::StrCat("the loader returned ", results,
                                          " results for ", keys, " keys"));
}

}  // namespace wheelcache::internal
