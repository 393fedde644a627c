#include "wheelcache/cache/internal/engine/removal_order.h"

#include <algorithm>

namespace wheelcache::internal {

RemovalOrder::RemovalOrder(const Owner& shard, int64_t now_nanos)
    : shared_(*shard.shared),
      pool_(*shared_.pool),
      shard_(shard.number),
      evictions_(shard),
      wheel_(Links{&pool_, ticks()}, ticks().Floor(now_nanos),
             WheelSlots(shared_.PagesOf(shard_).slots())) {}

void RemovalOrder::Substitute(EntryRef old, EntryRef copy) {
  assert(replaced_ == 0);
  evictions_.Substitute(old, copy);
  if (!At(old).timer.scheduled()) return;
  wheel_.Cancel(old);
  wheel_.Schedule(copy);
}

void RemovalOrder::SetDeadline(EntryRef ref, int64_t deadline_nanos) {
  EntryHeader& entry = At(ref);
  const bool wheel_finds_out = entry.timer.scheduled() &&
                               deadline_nanos >= entry.deadline() &&
                               deadline_nanos != Clock::kNever;
  if (!wheel_finds_out && entry.timer.scheduled()) wheel_.Cancel(ref);
  entry.deadline_nanos.store(deadline_nanos, std::memory_order_relaxed);
  if (!wheel_finds_out && deadline_nanos != Clock::kNever) Schedule(ref);
}

uint64_t RemovalOrder::Advance(int64_t now_nanos, uint64_t budget,
                               absl::FunctionRef<void(EntryRef)> fire) {
  const uint64_t done = wheel_.Advance(ticks().Floor(now_nanos), budget, fire);
  SetDue(wheel_.NextWakeup());
  return done;
}

std::pair<EntryRef, EntryRef> RemovalOrder::TakeAll() {
  assert(replaced_ == 0);
  wheel_.Reset();
  SetDue(std::nullopt);
  return evictions_.TakeAll();
}

void RemovalOrder::SetDue(std::optional<uint64_t> tick) {
  due_nanos_ = tick.has_value() ? ticks().Nanos(*tick) : Clock::kNever;
  shared_.due.Set(shard_, due_nanos_);
}

absl::Status RemovalOrder::CheckInvariants(
    absl::FunctionRef<void(EntryRef)> visit) {
  if (auto status = wheel_.CheckInvariants(); !status.ok()) return status;
  uint64_t timers = 0;
  absl::Status status = evictions_.CheckInvariants([&](EntryRef ref) {
    if (At(ref).timer.scheduled()) ++timers;
    if (ref != replaced_) visit(ref);
    return CheckEntry(ref);
  });
  if (!status.ok()) return status;
  if (wheel_.CountTimers() != timers) {
    return absl::InternalError("the wheel has other timers than the list");
  }
  return CheckDue();
}

absl::Status RemovalOrder::CheckEntry(EntryRef ref) const {
  const EntryHeader& entry = At(ref);
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
