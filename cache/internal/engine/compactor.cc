#include "wheelcache/cache/internal/engine/compactor.h"

#include <limits>
#include <thread>

#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {

uint64_t Compactor::Step(uint64_t budget, Departures* departures) {
  FlushLimbo();
  if (!mu_.TryLock()) return 0;
  return StepAndUnlock(budget, departures);
}

uint64_t Compactor::StepAfterOthers(uint64_t budget, Departures* departures) {
  FlushLimbo();
  Interleave("move: before the wait for others");
  mu_.Lock();
  return StepAndUnlock(budget, departures);
}

// Under no lock: it destroys values.
void Compactor::FlushLimbo() {
  if (!waits_for_limbo_.load(std::memory_order_relaxed) &&
      !TooMuchIsInLimbo()) {
    return;
  }
  // A reader that has lost its core: lets it run.
  if (waits_for_readers()) std::this_thread::yield();
  limbo_.Flush();
}

uint64_t Compactor::StepAndUnlock(uint64_t budget, Departures* departures) {
  uint64_t done = 0;
  // An entry whose hash throws stays where it is.
  Contain([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    done = StepLocked(budget, departures);
  });
  mu_.Unlock();
  return done;
}

uint64_t Compactor::StepLocked(uint64_t budget, Departures* departures) {
  Arena& arena = pool_.arena();
  if (!in_round_.load(std::memory_order_relaxed)) {
    if (!arena.needs_round() || !arena.BeginRound()) return 0;
    in_round_.store(true, std::memory_order_relaxed);
    shard_ = bucket_ = 0;
    waits_ = 0;
    nobody_sees_ = false;
  }
  if (shard_ < shards_.size()) {
    if (TooMuchIsInLimbo()) return 0;
    Interleave("move: between condemning and moving");
    const uint64_t moved =
        shards_[shard_].MoveCondemned(&bucket_, budget, departures);
    if (bucket_ == std::numeric_limits<size_t>::max()) {
      ++shard_;
      bucket_ = 0;
    }
    waits_for_limbo_.store(shard_ == shards_.size(), std::memory_order_relaxed);
    return moved + 1;
  }
  WaitLocked();
  return 1;
}

// Ends the round once limbo has been flushed after the last reader of an old
// block: then whole units are free. Or else after a while.
void Compactor::WaitLocked() {
  constexpr int kAtOnce = 4;
  constexpr int kMostWaits = 16;
  // What was retired before is in batches of earlier epochs: Step has flushed
  // limbo.
  if (waits_ == 0) {
    last_epoch_ = current_epoch.load(std::memory_order_relaxed) - 1;
  }
  const bool all_is_free =
      nobody_sees_ || (limbo_.empty() && !limbo_.at_work());
  if (all_is_free || ++waits_ > kMostWaits) {
    pool_.arena().EndRound();
    waits_for_limbo_.store(false, std::memory_order_relaxed);
    waits_for_readers_.store(false, std::memory_order_relaxed);
    in_round_.store(false, std::memory_order_relaxed);
    return;
  }
  nobody_sees_ = NewestReaderUpTo(last_epoch_) == 0 && !limbo_.at_work();
  waits_for_readers_.store(!nobody_sees_ && waits_ >= kAtOnce,
                           std::memory_order_relaxed);
}

// Where a reader stalls, moving takes memory and gives none.
bool Compactor::TooMuchIsInLimbo() const {
  constexpr int64_t kMost = 4 << 20;
  return pool_.moved_bytes() > kMost;
}

}  // namespace wheelcache::internal
