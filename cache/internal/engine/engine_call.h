// One call of Engine that may change the cache.
//
//   Call call(this, &shard, clock_.NowNanos());
//   shard.Touch(..., &call.departures);
//
// What it takes out gathers in `departures`. All that remains to be done, when
// no lock is held any more, is in the destructor, so that it is done where the
// call ends by an exception for want of memory, too.
//
// Not in engine.h, which every source that uses a cache includes.
//
// Threads. Thread-compatible: one thread makes and ends a call.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_CALL_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_CALL_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache::internal {

class Engine::Call {
 public:
  // Wakes the reaper for what is due in `shard`, if that is given. Ends the
  // program if another copy of the library has made the cache.
  explicit Call(Engine* engine, const Shard* shard = nullptr,
                int64_t now_nanos = 0)
      : departures(&engine->shared_),
        engine_(*engine),
        shard_(shard),
        now_nanos_(now_nanos) {
    CheckCopy(engine->shared_.copy);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  // Throws nothing.
  ~Call() {
    // First: a listener that calls Set must find the room that is left.
    departures.claim.GiveBack();
    if (ABSL_PREDICT_FALSE(engine_.tell_ != nullptr)) TellListener();
    departures.Dispose([](EntryRef, RemovalCause) {});
    // Last, for what that has left in limbo.
    if (shard_ != nullptr) engine_.WakeReaperFor(*shard_, now_nanos_);
  }

  Departures departures;

 private:
  ABSL_ATTRIBUTE_NOINLINE void TellListener();

  Engine& engine_;
  const Shard* const shard_;
  const int64_t now_nanos_;
  Call* outer_ = nullptr;  // See TellListener.
};

// Has the reaper come for what is due in the shard, or waits in limbo; or tells
// a program that does without one.
inline void Engine::WakeReaperFor(const Shard& shard, int64_t now_nanos) {
  if (options_.reaper == nullptr) {
    if (ABSL_PREDICT_FALSE(options_.on_earlier_deadline != nullptr)) {
      TellEarlierDeadline(shared_.due.Get(shard.number()));
    }
    return;
  }
  int64_t due =
      Clock::NanosAfter(shared_.due.Get(shard.number()), reclaim_delay_nanos_);
  if (shared_.limbo.HasOwn()) due = std::min(due, LimboDue(now_nanos));
  if (ABSL_PREDICT_FALSE(compactor_.needed())) {
    due = std::min(due, Clock::NanosAfter(now_nanos, reclaim_delay_nanos_));
  }
  options_.reaper->WakeAt(&client_, due);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_CALL_H_
