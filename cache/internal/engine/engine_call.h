// One call of the engine, from its start to what follows when no lock is held.
//
// What the call takes out of the cache gathers in `departures`. At its end,
// also if that is an exception for want of memory, a Call gives back the room
// that is left, tells the listener, retires the entries, and has the reaper
// come for what is due. None of this throws.
//
// Threads. Of one thread: a Call lives on its stack.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_CALL_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_CALL_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Has the reaper come for what is due in the shard, or waits in limbo.
inline void Engine::WakeReaperFor(const Shard& shard, int64_t now_nanos) {
  if (options_.reaper == nullptr) return;
  int64_t due =
      Clock::NanosAfter(shared_.due.Get(shard.number()), reclaim_delay_nanos_);
  if (shared_.limbo.HasOwn()) due = std::min(due, LimboDue(now_nanos));
  if (ABSL_PREDICT_FALSE(compactor_.needed())) {
    due = std::min(due, Clock::NanosAfter(now_nanos, reclaim_delay_nanos_));
  }
  options_.reaper->WakeAt(&client_, due);
}

class Engine::Call {
 public:
  // Wakes the reaper for what is due in `shard`, if that is given.
  explicit Call(Engine* engine, const Shard* shard = nullptr,
                int64_t now_nanos = 0)
      : reaper_{*engine, shard, now_nanos}, departures(&engine->shared_) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (ABSL_PREDICT_TRUE(reaper_.engine.tell_ == nullptr)) return;
    // First: a listener that calls Set must find the room that is left.
    departures.claim.GiveBack();
    reaper_.engine.TellListener(&departures);
  }

 private:
  // Wakes the reaper when all has been retired.
  struct WakesReaper {
    ~WakesReaper() {
      if (shard != nullptr) engine.WakeReaperFor(*shard, now_nanos);
    }
    Engine& engine;
    const Shard* const shard;
    const int64_t now_nanos;
  };
  const WakesReaper reaper_;

 public:
  // Ends before that: gives back and retires what is left.
  Departures departures;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_CALL_H_
