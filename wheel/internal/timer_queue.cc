#include "wheelcache/wheel/internal/timer_queue.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/prefetch.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/internal/timer_blocks.h"

namespace wheelcache::internal {
namespace {

// The callbacks that this thread is in, the innermost first.
class CallbackScope {
 public:
  explicit CallbackScope(const TimerQueue* queue)
      : queue_(queue), outer_(innermost) {
    innermost = this;
  }
  ~CallbackScope() { innermost = outer_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  static bool Contains(const TimerQueue* queue) {
    const CallbackScope* scope = innermost;
    while (scope != nullptr && scope->queue_ != queue) scope = scope->outer_;
    return scope != nullptr;
  }

 private:
  static thread_local const CallbackScope* innermost;

  const TimerQueue* const queue_;
  const CallbackScope* const outer_;
};

thread_local const CallbackScope* CallbackScope::innermost = nullptr;

bool IsPositiveAndFinite(absl::Duration duration) {
  return duration >= absl::Nanoseconds(1) &&
         duration < absl::InfiniteDuration();
}

absl::Status ClosedError() {
  return absl::FailedPreconditionError("the timer service is closed");
}

absl::Status UnknownKeyError() {
  return absl::NotFoundError("no timer is set for this key");
}

absl::Status CheckDelay(absl::Duration delay) {
  if (delay >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "delay is ", absl::FormatDuration(delay), ": it must not be negative"));
}

}  // namespace

absl::Status CheckPeriod(absl::string_view field, absl::Duration period) {
  if (IsPositiveAndFinite(period)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", absl::FormatDuration(period),
                   ": it must be positive and finite"));
}

absl::Status CheckTimerOptions(absl::Duration interval, bool has_execute,
                               bool has_clock, bool has_reaper) {
  absl::Status status = CheckPeriod("interval", interval);
  if (!status.ok()) return status;
  if (!has_execute) return NoCallbackError("execute");
  if (has_clock && has_reaper) {
    return absl::InvalidArgumentError(
        "clock and reaper are both set: a reaper brings its own clock");
  }
  return absl::OkStatus();
}

absl::Status NoCallbackError(absl::string_view field) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is empty: it must be a function to call"));
}

struct TimerQueue::Store {
  using Ref = Entry*;
  static TimerLinks<Entry*>& links(Entry* entry) { return entry->links_; }
  static uint64_t deadline(Entry* entry) { return entry->tick_; }
};

struct alignas(64) TimerQueue::Shard {
  // In the order in which they came.
  class List {
   public:
    Entry* first() const { return first_; }

    void Append(Entry* entry) {
      entry->links_ = {nullptr, last_};
      (last_ != nullptr ? last_->links_.next : first_) = entry;
      last_ = entry;
    }

    void Remove(Entry* entry) {
      const auto [next, previous] = std::exchange(entry->links_, {});
      (previous != nullptr ? previous->links_.next : first_) = next;
      (next != nullptr ? next->links_.prev : last_) = previous;
    }

   private:
    Entry* first_ = nullptr;
    Entry* last_ = nullptr;
  };

  // Has the hash beside the entry, so that neither growth nor an entry of
  // another key costs a cache miss. Mutable, so that an entry may take the
  // place of another.
  struct Slot {
    mutable Entry* entry;
    uint32_t hash;
  };
  struct Wanted {
    uint32_t hash;
    const void* key;
    const TimerQueue* queue;
  };
  struct Hash {
    using is_transparent = void;
    template <typename T>
    size_t operator()(const T& t) const {
      return static_cast<size_t>(uint64_t{t.hash} << 32 | t.hash);
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const Slot& a, const Slot& b) const {
      return a.entry == b.entry;
    }
    bool operator()(const Slot& slot, const Wanted& wanted) const {
      return slot.hash == wanted.hash &&
             wanted.queue->HasKey(*slot.entry, wanted.key);
    }
  };
  using Index = absl::flat_hash_set<Slot, Hash, Equal, TimerAllocator<Slot>>;
  using Wheel = BasicTimingWheel<Store, BorrowedTimerSlots<Entry*>>;

  // Returns null if the key has no entry.
  const Slot* FindLocked(const Wanted& wanted) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    index.prefetch(wanted);
    const auto slot = index.find(wanted);
    return slot != index.end() ? &*slot : nullptr;
  }

  // An index keeps its size when it becomes empty. Returns one that was large,
  // to be freed without the lock.
  Index TakeEmptiedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    constexpr size_t kKept = 64;
    if (!index.empty() || index.capacity() <= kKept) return Index();
    return std::exchange(index, Index());
  }

  // Takes the entry out of whatever list it is in. Returns whether the caller
  // is to destroy it, if it is to go.
  bool WithdrawLocked(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const auto state = std::exchange(entry->state_, Entry::State::kLeft);
    if (state == Entry::State::kScheduled) wheel.Cancel(entry);
    if (state == Entry::State::kReady) {
      ready.Remove(entry);
      --ready_count;
    }
    if (state != Entry::State::kRunning) return true;
    running.Remove(entry);
    return false;
  }

  void ScheduleLocked(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    entry->state_ = Entry::State::kScheduled;
    wheel.Schedule(entry);
  }

  void MakeReadyLocked(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    entry->state_ = Entry::State::kReady;
    ready.Append(entry);
    ++ready_count;
  }

  Shard(void* slots, Layout layout)
      : wheel(Store(), 0, BorrowedTimerSlots<Entry*>(slots)),
        blocks(layout.bytes, layout.alignment) {}

  Mutex mu;
  bool closed ABSL_GUARDED_BY(mu) = false;
  Index index ABSL_GUARDED_BY(mu);
  Wheel wheel ABSL_GUARDED_BY(mu);
  TimerBlocks blocks ABSL_GUARDED_BY(mu);
  List ready ABSL_GUARDED_BY(mu);
  size_t ready_count ABSL_GUARDED_BY(mu) = 0;
  List running ABSL_GUARDED_BY(mu);  // Periodic entries.

  // Tasks that were started and have not yet taken an entry. More ready entries
  // than that need more tasks.
  size_t tasks ABSL_GUARDED_BY(mu) = 0;
  int callbacks ABSL_GUARDED_BY(mu) = 0;  // That are running.
  CondVar none_running;
};

// Holds the locks of all shards.
class TimerQueue::AllLocked {
 public:
  explicit AllLocked(const TimerQueue& queue) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : shards_(queue.shards_) {
    for (const auto& shard : shards_) shard->mu.Lock();
  }
  ~AllLocked() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& shard : shards_) shard->mu.Unlock();
  }
  AllLocked(const AllLocked&) = delete;
  AllLocked& operator=(const AllLocked&) = delete;

  bool closed() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return shards_[0]->closed;
  }

  size_t size() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    size_t size = 0;
    for (const auto& shard : shards_) size += shard->index.size();
    return size;
  }

  // Empties the shards. Those whose callback runs are left to that.
  void TakeAll(std::vector<Shard::Index>* taken,
               bool close) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (size_t i = 0; i < kShards; ++i) {
      Shard& shard = *shards_[i];
      while (Entry* const entry = shard.running.first()) {
        shard.index.erase(Shard::Slot{entry, entry->hash_});
        shard.WithdrawLocked(entry);
      }
      std::swap((*taken)[i], shard.index);
      shard.wheel.Reset();
      shard.ready = {};
      shard.ready_count = 0;
      shard.closed = close;
    }
  }

 private:
  const std::vector<std::unique_ptr<Shard>>& shards_;
};

void TimerQueue::FreeSlots::operator()(void* slots) const { std::free(slots); }

TimerQueue::TimerQueue(absl::Duration interval, const Executor& executor,
                       Reaper& reaper, Layout most_entries)
    : interval_(static_cast<uint64_t>(absl::ToInt64Nanoseconds(interval))),
      executor_(executor),
      reaper_(reaper),
      start_nanos_(reaper.clock().NowNanos()),
      slots_(std::calloc(kShards, BorrowedTimerSlots<Entry*>::kBytes)) {
  if (slots_ == nullptr) ThrowBadAlloc();
  for (size_t i = 0; i < kShards; ++i) {
    shards_.push_back(
        std::make_unique<Shard>(static_cast<std::byte*>(slots_.get()) +
                                    i * BorrowedTimerSlots<Entry*>::kBytes,
                                most_entries));
  }
}

TimerQueue::~TimerQueue() = default;

bool TimerQueue::InCallback() const { return CallbackScope::Contains(this); }

void TimerQueue::Join() {
  reaper_.Unregister(this);
  for (const auto& shard : shards_) {
    MutexLock lock(&shard->mu);
    while (shard->callbacks > 0) shard->none_running.Wait(&shard->mu);
  }
}

size_t TimerQueue::size() const { return AllLocked(*this).size(); }

void* TimerQueue::Allocate(size_t shard) {
  Shard& s = *shards_[shard];
  MutexLock lock(&s.mu);
  return s.blocks.Allocate();
}

void TimerQueue::Free(size_t shard, void* block) {
  Shard& s = *shards_[shard];
  MutexLock lock(&s.mu);
  s.blocks.Free(block);
}

absl::StatusOr<void*> TimerQueue::UpdateOrAllocate(
    size_t hash, const void* key, absl::Duration delay,
    absl::FunctionRef<void(Entry&)> update) {
  absl::Status status = CheckDelay(delay);
  if (!status.ok()) return status;
  const uint64_t tick = TickOfSet(delay);
  Shard& shard = *shards_[ShardOf(hash)];
  const Shard::Wanted wanted{static_cast<uint32_t>(hash), key, this};
  MutexLock lock(&shard.mu);
  if (shard.closed) return ClosedError();
  const Shard::Slot* const slot = shard.FindLocked(wanted);
  if (slot == nullptr || slot->entry->is_periodic_) {
    return shard.blocks.Allocate();
  }
  update(*slot->entry);
  SetTickLocked(shard, *slot->entry, tick);
  return nullptr;
}

absl::Status TimerQueue::Insert(Owner entry, const void* key,
                                absl::Duration delay, bool replaces) {
  absl::Status status = CheckDelay(delay);
  if (!status.ok()) return status;
  if (entry->is_periodic_) {
    SetDue(static_cast<PeriodicEntry&>(*entry), TickAfter(delay));
  } else {
    entry->tick_ = TickOfSet(delay);
  }
  Shard& shard = *shards_[entry->shard()];
  const Shard::Wanted wanted{entry->hash_, key, this};
  Owner replaced = Own(nullptr);
  MutexLock lock(&shard.mu);
  if (shard.closed) return ClosedError();
  shard.wheel.PrefetchSlot(entry.get());
  shard.index.prefetch(wanted);
  bool is_new = false;
  const auto slot =
      shard.index.lazy_emplace(wanted, [&](const auto& construct) {
        construct(Shard::Slot{entry.get(), entry->hash_});
        is_new = true;
      });
  if (!is_new) {
    if (!replaces) return absl::AlreadyExistsError("the key has a timer");
    Entry* const old = std::exchange(slot->entry, entry.get());
    if (shard.WithdrawLocked(old)) replaced.reset(old);
  }
  shard.ScheduleLocked(entry.get());
  reaper_.WakeAt(this, NanosAt(entry.release()->tick_));
  return absl::OkStatus();
}

absl::Status TimerQueue::Move(size_t hash, const void* key,
                              absl::Duration delay) {
  absl::Status status = CheckDelay(delay);
  if (!status.ok()) return status;
  const uint64_t due = TickAfter(delay);
  const uint64_t tick =
      delay < absl::Nanoseconds(interval_) ? due : EndOfInterval(due);
  Shard& shard = *shards_[ShardOf(hash)];
  MutexLock lock(&shard.mu);
  if (shard.closed) return ClosedError();
  const Shard::Slot* const slot =
      shard.FindLocked({static_cast<uint32_t>(hash), key, this});
  if (slot == nullptr) return UnknownKeyError();
  Entry* const entry = slot->entry;
  if (entry->is_periodic_) static_cast<PeriodicEntry*>(entry)->due_ = due;
  SetTickLocked(shard, *entry, tick);
  return absl::OkStatus();
}

// Of an entry in the index.
void TimerQueue::SetTickLocked(Shard& shard, Entry& entry, uint64_t tick) {
  shard.mu.AssertHeld();
  const uint64_t before = std::exchange(entry.tick_, tick);
  if (entry.state_ == Entry::State::kRunning) return;
  // The wheel reads a later one at the tick of the one before.
  if (entry.state_ != Entry::State::kScheduled || tick < before) {
    shard.WithdrawLocked(&entry);
    shard.ScheduleLocked(&entry);
  }
  reaper_.WakeAt(this, NanosAt(tick));
}

absl::Status TimerQueue::Remove(size_t hash, const void* key) {
  Shard& shard = *shards_[ShardOf(hash)];
  Owner removed = Own(nullptr);
  Shard::Index emptied;
  MutexLock lock(&shard.mu);
  if (shard.closed) return ClosedError();
  const Shard::Slot* const slot =
      shard.FindLocked({static_cast<uint32_t>(hash), key, this});
  if (slot == nullptr) return UnknownKeyError();
  Entry* const entry = slot->entry;
  shard.index.erase(*slot);
  if (shard.WithdrawLocked(entry)) removed.reset(entry);
  emptied = shard.TakeEmptiedLocked();
  return absl::OkStatus();
}

absl::StatusOr<size_t> TimerQueue::Drain(
    absl::FunctionRef<void(Entry&)> drained) {
  std::vector<Shard::Index> taken(kShards);
  {
    AllLocked all(*this);
    if (all.closed()) return ClosedError();
    all.TakeAll(&taken, /*close=*/false);
  }
  size_t count = 0;
  for (const Shard::Index& index : taken) {
    for (const Shard::Slot& slot : index) {
      const Owner entry = Own(slot.entry);
      ContainAndCount([&] { drained(*entry); });
    }
    count += index.size();
  }
  return count;
}

void TimerQueue::Close() {
  std::vector<Shard::Index> taken(kShards);
  AllLocked(*this).TakeAll(&taken, /*close=*/true);
  for (const Shard::Index& index : taken) {
    for (const Shard::Slot& slot : index) Destroy(slot.entry);
  }
}

// Makes ready what is due, up to a budget for each shard, and starts tasks.
int64_t TimerQueue::RunDue(int64_t now_nanos) {
  // Timers of different shards fire in the order of their ticks.
  uint64_t until = TickAt(now_nanos);
  for (const auto& shard : shards_) {
    MutexLock lock(&shard->mu);
    until = std::min(until, shard->wheel.NextWakeup().value_or(kNoDeadline));
  }
  constexpr uint64_t kBudget = 8;  // Fired or cascaded in one hold of a lock.
  int64_t next = Clock::kNever;
  bool accepts = true;
  for (const auto& shard : shards_) {
    {
      MutexLock lock(&shard->mu);
      shard->wheel.Advance(until, kBudget,
                           [&](Entry* entry) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                             shard->MakeReadyLocked(entry);
                           });
      const std::optional<uint64_t> tick = shard->wheel.NextWakeup();
      if (tick.has_value()) next = std::min(next, NanosAt(*tick));
    }
    while (accepts && ClaimTask(*shard)) accepts = StartTask(*shard);
  }
  if (accepts) return next;
  return std::min(
      next, Clock::NanosAfter(now_nanos, static_cast<int64_t>(interval_)));
}

// Returns whether a ready entry lacks a task, and counts one for it.
bool TimerQueue::ClaimTask(Shard& shard) {
  MutexLock lock(&shard.mu);
  if (shard.ready_count <= shard.tasks) return false;
  ++shard.tasks;
  return true;
}

// Returns false if the executor did not take the task.
bool TimerQueue::StartTask(Shard& shard) {
  if (!executor_) {
    RunTask(shard);
    return true;
  }
  const bool accepted = ContainAndCount([&] {
    executor_([weak = weak_from_this(), &shard] {
      if (const auto queue = weak.lock()) queue->RunTask(shard);
    });
  });
  if (accepted) return true;
  MutexLock lock(&shard.mu);
  if (shard.tasks > 0) --shard.tasks;
  return false;
}

void TimerQueue::RunTask(Shard& shard) {
  Entry* const entry = TakeReady(shard);
  if (entry == nullptr) return;
  {
    const CallbackScope scope(this);
    ContainAndCount([&] { Execute(*entry); });
    if (!Reschedule(shard, *entry)) ContainAndCount([&] { Destroy(entry); });
  }
  MutexLock lock(&shard.mu);
  if (--shard.callbacks == 0) shard.none_running.SignalAll();
}

// Returns null if all that was ready has been moved or removed since.
TimerQueue::Entry* TimerQueue::TakeReady(Shard& shard) {
  Shard::Index emptied;
  MutexLock lock(&shard.mu);
  // An executor that threw may have kept the task, which then does not count.
  if (shard.tasks > 0) --shard.tasks;
  Entry* const entry = shard.ready.first();
  if (entry == nullptr) return nullptr;
  shard.WithdrawLocked(entry);
  if (entry->is_periodic_) {
    entry->state_ = Entry::State::kRunning;
    shard.running.Append(entry);
    SetNextDue(static_cast<PeriodicEntry&>(*entry));
  } else {
    shard.index.erase(Shard::Slot{entry, entry->hash_});
    emptied = shard.TakeEmptiedLocked();
  }
  ++shard.callbacks;
  return entry;
}

// Returns false if the entry, whose callback has ended, is to be destroyed.
bool TimerQueue::Reschedule(Shard& shard, Entry& entry) {
  if (!entry.is_periodic_) return false;
  MutexLock lock(&shard.mu);
  if (entry.state_ != Entry::State::kRunning) return false;
  shard.WithdrawLocked(&entry);
  shard.ScheduleLocked(&entry);
  reaper_.WakeAt(this, NanosAt(entry.tick_));
  return true;
}

// Runs `function`; contains and counts an exception. Returns whether there was
// none.
bool TimerQueue::ContainAndCount(absl::FunctionRef<void()> function) {
  const bool returned = Contain(function);
  if (!returned) ++exceptions_;
  return returned;
}

uint64_t TimerQueue::TickAfter(absl::Duration delay) const {
  return TickAt(reaper_.clock().NanosAfter(delay));
}

uint64_t TimerQueue::TickOfSet(absl::Duration delay) const {
  const uint64_t due = TickAfter(delay);
  return delay == absl::ZeroDuration() ? due : EndOfInterval(due);
}

uint64_t TimerQueue::TickAt(int64_t nanos) const {
  if (nanos <= start_nanos_) return 0;
  return static_cast<uint64_t>(nanos) - static_cast<uint64_t>(start_nanos_);
}

// The first end of an interval at `tick` or later; the tick of kNever if none
// comes before that.
uint64_t TimerQueue::EndOfInterval(uint64_t tick) const {
  const uint64_t rest = (interval_ - tick % interval_) % interval_;
  return tick + std::min(rest, TickAt(Clock::kNever) - tick);
}

int64_t TimerQueue::NanosAt(uint64_t tick) const {
  return static_cast<int64_t>(static_cast<uint64_t>(start_nanos_) + tick);
}

// A period of less than an interval does not wait for the end of one.
void TimerQueue::SetDue(PeriodicEntry& entry, uint64_t due) const {
  entry.due_ = due;
  entry.tick_ = entry.period_ < interval_ ? due : EndOfInterval(due);
}

// The first due time that is still to come.
void TimerQueue::SetNextDue(PeriodicEntry& entry) const {
  const uint64_t now = TickAt(reaper_.clock().NowNanos());
  const uint64_t late = now > entry.due_ ? now - entry.due_ : 0;
  const uint64_t last = entry.due_ + late / entry.period_ * entry.period_;
  SetDue(entry, last + std::min(entry.period_, TickAt(Clock::kNever) - last));
}

}  // namespace wheelcache::internal
