#include "wheelcache/cache/internal/engine/removal_order.h"

#include <algorithm>

#include "wheelcache/cache/internal/engine/removal_order_impl.h"
#include "wheelcache/cache/internal/engine/two_lists.h"

namespace wheelcache::internal {

RemovalOrder::RemovalOrder(const Owner& shard, int64_t now_nanos)
    : shared_(*shard.shared),
      pool_(*shared_.pool),
      index_(*shard.index),
      recency_(*shard.recency),
      shard_(shard.number),
      wheel_(Links{&pool_, ticks()}, ticks().Floor(now_nanos),
             WheelSlots(shared_.PagesOf(shard_).slots())),
      tail_(&shared_.tails, shard_),
      one_list_(shared_.GenerationsOf(shard_),
                {&pool_, shard.recency, kOnlyList, &tail_}, shard.uses),
      two_lists_(shared_.scan_resistant
                     ? new TwoLists({&pool_, &recency_, &shared_.budget,
                                     shared_.window_target.get(),
                                     shared_.GhostMemoryOf(shard_),
                                     shared_.ShareOf(shared_.budget.limit())})
                     : nullptr) {}

RemovalOrder::~RemovalOrder() = default;

bool RemovalOrder::empty() const {
  return WithLists([](const auto& lists) { return lists.empty(); });
}

void RemovalOrder::SetShare(Room share) {
  WithLists([&](auto& lists) { lists.SetShare(share); });
}

void RemovalOrder::Substitute(EntryRef old, EntryRef copy) {
  assert(replaced_ == 0);
  ForgetTail(old);
  WithLists([&](auto& lists) { lists.Substitute(old, copy); });
  if (!At(old).timer.scheduled()) return;
  wheel_.Cancel(old);
  wheel_.Schedule(copy);
}

void RemovalOrder::MoveToFront(EntryRef ref) {
  WithLists([&](auto& lists) { lists.MoveToFront(ref); });
}

void RemovalOrder::Use(EntryRef ref) {
  EntryHeader& entry = At(ref);
  if (recency_.exact()) {
    MoveToFront(ref);
    return;
  }
  const Stamp mark = entry.stamp.load(std::memory_order_relaxed) & kMark;
  entry.stamp.store(recency_.Now(ListOf(entry)) | mark,
                    std::memory_order_relaxed);
}

bool RemovalOrder::SetDeadline(EntryRef ref, int64_t deadline_nanos,
                               const Clock& clock) {
  EntryHeader& entry = At(ref);
  if (pool_.idle().on()) {
    wheel_.Cancel(ref);
    const bool lives = pool_.ChangeDeadlines(&entry, deadline_nanos, clock);
    Schedule(ref);
    return lives;
  }
  const bool wheel_finds_out = entry.timer.scheduled() &&
                               deadline_nanos >= entry.deadline() &&
                               deadline_nanos != Clock::kNever;
  if (!wheel_finds_out && entry.timer.scheduled()) wheel_.Cancel(ref);
  entry.deadline_nanos.store(deadline_nanos, std::memory_order_relaxed);
  if (!wheel_finds_out && deadline_nanos != Clock::kNever) Schedule(ref);
  return true;
}

bool RemovalOrder::ExpiresNow(EntryRef ref, int64_t now_nanos) {
  if (EntryPool::TryExpire(&At(ref), now_nanos)) return true;
  Schedule(ref);
  return false;
}

uint64_t RemovalOrder::Advance(int64_t now_nanos, uint64_t budget,
                               absl::FunctionRef<void(EntryRef)> fire) {
  // Those that have fired last wait here while their lines come.
  std::array<EntryRef, 4> fired = {};
  size_t next = 0;
  const auto hand_out = [&](EntryRef ref) {
    if (ref != 0) fire(ref);
  };
  const auto prefetch = [&](EntryRef ref) {
    index_.Prefetch(HashOf(ref));
    PrefetchRemoval(ref);
    hand_out(std::exchange(fired[next++ % fired.size()], ref));
  };
  const uint64_t done =
      wheel_.Advance(ticks().Floor(now_nanos), budget, prefetch);
  SetDue(wheel_.NextWakeup());
  for (size_t i = 0; i < fired.size(); ++i) {
    hand_out(fired[next++ % fired.size()]);
  }
  return done;
}

std::pair<EntryRef, EntryRef> RemovalOrder::TakeAll() {
  assert(replaced_ == 0);
  wheel_.Reset();
  SetDue(std::nullopt);
  tails_ = {};
  return WithLists([](auto& lists) { return lists.TakeAll(); });
}

void RemovalOrder::SetDue(std::optional<uint64_t> tick) {
  due_nanos_ = tick.has_value() ? ticks().Nanos(*tick) : Clock::kNever;
  shared_.due.Set(shard_, due_nanos_);
}

// Prefetches again what another thread had prefetched, and what it wrote.
void RemovalOrder::PrefetchForThisThread(EntryRef next) const {
  wheel_.PrefetchSlot(next);
  if (replaced_ != 0) {
    PrefetchLineToWrite(&At(replaced_));
    Prefetch(replaced_neighbours_);
  }
  WithLists([&](const auto& lists) {
    if (lists.front() != 0) PrefetchLineToWrite(&At(lists.front()));
    for (const Tail& tail : tails_) {
      if (tail.ref == 0) continue;
      PrefetchLineToWrite(&At(tail.ref));
      index_.Prefetch(tail.hash);
      Prefetch(tail.neighbours);
      lists.PrefetchGhosts(tail.hash);
    }
  });
}

absl::Status RemovalOrder::CheckInvariants(
    absl::FunctionRef<void(EntryRef)> visit) {
  if (auto status = wheel_.CheckInvariants(); !status.ok()) return status;
  uint64_t timers = 0;
  absl::Status status = WithLists([&](auto& lists) {
    return lists.CheckInvariants([&](EntryRef ref) {
      if (At(ref).timer.scheduled()) ++timers;
      if (ref != replaced_) visit(ref);
      return CheckEntry(ref);
    });
  });
  if (!status.ok()) return status;
  if (wheel_.CountTimers() != timers) {
    return absl::InternalError("the wheel has other timers than the list");
  }
  return CheckDue();
}

absl::Status RemovalOrder::CheckEntry(EntryRef ref) const {
  const EntryHeader& entry = At(ref);
  if (HashOf(ref) != pool_.operations().hash(entry)) {
    return absl::InternalError("a tail is remembered with another hash");
  }
  if (entry.timer.scheduled() != (entry.deadline() != Clock::kNever)) {
    return absl::InternalError("an entry is wrongly in the wheel, or not");
  }
  const uint64_t tick = Links{&pool_, ticks()}.deadline(ref);
  if (entry.timer.scheduled() &&
      wheel_.NextWakeup().value() > std::max(wheel_.now(), tick)) {
    return absl::InternalError("the wheel would wake up too late");
  }
  return absl::OkStatus();
}

absl::Status RemovalOrder::CheckDue() const {
  const std::optional<uint64_t> wakeup = wheel_.NextWakeup();
  if (wakeup.has_value() && ticks().Floor(due_nanos_) > *wakeup) {
    return absl::InternalError("the shard is due later than its wheel");
  }
  if (shared_.due.Get(shard_) != due_nanos_) {
    return absl::InternalError("the board does not tell when the shard is due");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
