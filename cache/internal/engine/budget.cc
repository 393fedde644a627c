#include "wheelcache/cache/internal/engine/budget.h"

#include <algorithm>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/interleave.h"

namespace wheelcache::internal {
namespace {

// What stays of so much where there may be at most `most`.
int64_t Kept(int64_t held, int64_t most) {
  return held <= most ? held : most / 2;
}

}  // namespace

bool Quota::BeginCallIn() {
  const State state = state_.load(std::memory_order_relaxed);
  if (ABSL_PREDICT_TRUE(state == State::kShort)) return false;
  // Not again: of two that call in, each would undo what the other has ended.
  if (state == State::kCalling) return true;
  // Whoever calls in locks each shard after this, and so does who keeps a
  // credit: whoever comes to a shard later sees that room is short.
  const bool credits = Share() > 0;
  state_.store(credits ? State::kCalling : State::kShort,
               std::memory_order_relaxed);
  return credits;
}

void Quota::Raise(int64_t amount) {
  limit_.store(limit_.load(std::memory_order_relaxed) + amount,
               std::memory_order_release);
  Interleave("budget: between the limit and its room");
  Give(amount);
}

void Claim::CoverUpTo(Room most) {
  most -= held_;
  held_ += budget_.Take(Room(), most);
}

Room Claim::LowerLimits(Room most) {
  const Room room = {std::min(held_.entries, most.entries),
                     std::min(held_.bytes, most.bytes)};
  budget_.Lower(room);
  held_ -= room;
  return room;
}

void Claim::LeaveTo(Room* credit, Room most) {
  CallIn(credit);
  *credit = {Kept(held_.entries, most.entries), Kept(held_.bytes, most.bytes)};
  held_ -= *credit;
}

bool Claim::TakeFrom(Room* credit) {
  // Again where another thread has taken meanwhile what seemed to be free.
  while (!IsCovered()) {
    Room least = missing();
    least -= *credit;
    const Room lacking = budget_.LackOf(least);
    if (ABSL_PREDICT_FALSE(!(lacking == Room()))) {
      // By this one look: who evicts must not see ample room in another.
      calls_in_ = budget_.BeginCallIn(lacking);
      return false;
    }
    CallIn(credit);
    const Room ahead = budget_.most_credit();
    held_ += budget_.Take(
        least, {least.entries > 0 ? least.entries + ahead.entries : 0,
                least.bytes > 0 ? least.bytes + ahead.bytes : 0});
  }
  return true;
}

bool Limits::SetTarget(Room target) {
  MutexLock lock(&mu_);
  if (owner_ != nullptr && target.bytes != target_.bytes) return false;
  SetTargetLocked(target);
  return true;
}

void Limits::SetBytes(int64_t bytes) {
  MutexLock lock(&mu_);
  SetTargetLocked({target_.entries, bytes});
}

LimitsOwner* Limits::owner() const {
  MutexLock lock(&mu_);
  return owner_;
}

bool Limits::BeginOwner(LimitsOwner* owner) {
  MutexLock lock(&mu_);
  if (owner_ != nullptr) return false;
  owner_ = owner;
  return true;
}

void Limits::EndOwner() {
  MutexLock lock(&mu_);
  owner_ = nullptr;
}

Room Limits::Approach(Claim* claim) {
  MutexLock lock(&mu_);
  Room excess = ExcessLocked();
  claim->CoverUpTo(excess);
  excess -= claim->LowerLimits(excess);
  return excess;
}

void Limits::SetTargetLocked(Room target) {
  target_ = target;
  const Room excess = ExcessLocked();
  budget_.Raise({std::max<int64_t>(-excess.entries, 0),
                 std::max<int64_t>(-excess.bytes, 0)});
}

Room Limits::ExcessLocked() const {
  Room excess = budget_.limit();
  excess -= target_;
  return excess;
}

}  // namespace wheelcache::internal
