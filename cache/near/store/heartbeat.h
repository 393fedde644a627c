// When a session of a RemoteStore (cache/near/store/remote_store.h) sends its
// next PING, or what stands for one, and what an answer certifies.
//
//   wheelcache::Heartbeat heartbeat(max_staleness, now_nanos);
//   ...
//   if (now_nanos >= heartbeat.next_nanos()) {
//     heartbeat.Send(now_nanos);  // The reading before the PING is written.
//     ...
//   }
//   ...
//   if (auto certified_nanos = heartbeat.Answer()) {
//     listener->OnLease(session,
//                       Clock::NanosAfter(*certified_nanos, max_staleness));
//   }
//
// The two-PING rule. A Redis server makes the messages of BCAST tracking at the
// end of a turn of its event loop, and answers a PING within the turn. So a
// PONG may come before the message of a write that was executed earlier in the
// same turn. The next PING is sent only after that PONG, and so is read in a
// later turn: when its own PONG comes, all messages of the earlier turn have
// come. So PONG n certifies the writes executed before PING n - 1 was sent, and
// never is more than one PING unanswered. docs/near_cache.md has the proof. A
// server whose answer stands behind all messages is certified for as well, by a
// sixth of max_staleness less than it could be.
//
// Threads. Thread-compatible. Knows no clock, connection or thread.

#ifndef WHEELCACHE_CACHE_NEAR_STORE_HEARTBEAT_H_
#define WHEELCACHE_CACHE_NEAR_STORE_HEARTBEAT_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

// Belongs to one session, from the confirmation of its subscription on.
class WHEELCACHE_EXPORT Heartbeat {
 public:
  // `max_staleness` is the shortest of the session's listeners.
  // REQUIRES: it is more than zero, here and below.
  Heartbeat(absl::Duration max_staleness, int64_t now_nanos);

  // From now on.
  void SetMaxStaleness(absl::Duration max_staleness);

  // When the next PING is due; kNever while one is unanswered. They are a sixth
  // of max_staleness apart; but the second follows the first at once, so that
  // the first lease comes soon, and so does the one after a pause of the
  // process that outlasted the lease.
  int64_t next_nanos() const {
    return unanswered_.has_value() ? Clock::kNever : next_;
  }

  // When an unanswered PING means that the connection is dead: max_staleness
  // after it was sent. kNever while there is none.
  int64_t dead_nanos() const;

  // Records that a PING is sent, with the reading before it.
  // REQUIRES: none is unanswered.
  void Send(int64_t now_nanos);

  // Records the answer. Returns a reading before which all writes that the
  // server executed have been told, or nothing after the first answer.
  // REQUIRES: a PING is unanswered.
  std::optional<int64_t> Answer();

 private:
  absl::Duration Interval() const;

  int64_t max_staleness_nanos_ = 0;
  int64_t next_;

  // When the PING that has no answer yet was sent, and the one before it.
  std::optional<int64_t> unanswered_ = {};
  std::optional<int64_t> answered_ = {};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_STORE_HEARTBEAT_H_
