// When a session sends its next PING, and to when an answer extends the lease.
//
//   wheelcache::internal::Heartbeat heartbeat(max_staleness, now_nanos);
//   ...
//   if (now_nanos >= heartbeat.next_nanos()) {
//     heartbeat.Send(now_nanos);  // The reading before the PING is written.
//     ...
//   }
//   ...
//   if (auto until_nanos = heartbeat.Answer()) {
//     listener->OnLease(session, *until_nanos);
//   }
//
// The two-PING rule. A Redis server makes the messages of BCAST tracking at the
// end of a turn of its event loop, and answers a PING within the turn. So a
// PONG may come before the message of a write that was executed earlier in the
// same turn. The next PING is sent only after that PONG, and so is read in a
// later turn: when its own PONG comes, all messages of the earlier turn have
// come. So PONG n certifies the writes executed before PING n - 1 was sent, and
// never is more than one PING unanswered. docs/near_cache.md has the proof.
//
// Threads. Thread-compatible. Knows no clock, connection or thread.

#ifndef WHEELCACHE_CACHE_NEAR_STORE_HEARTBEAT_H_
#define WHEELCACHE_CACHE_NEAR_STORE_HEARTBEAT_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Belongs to one session, from the confirmation of its subscription on.
class WHEELCACHE_EXPORT Heartbeat {
 public:
  // REQUIRES: max_staleness is more than zero.
  Heartbeat(absl::Duration max_staleness, int64_t now_nanos);

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

  // Records the answer. Returns to when the lease reaches, or nothing after the
  // first. REQUIRES: a PING is unanswered.
  std::optional<int64_t> Answer();

 private:
  const int64_t max_staleness_nanos_;
  int64_t next_;

  // When the PING that has no answer yet was sent, and the one before it.
  std::optional<int64_t> unanswered_ = {};
  std::optional<int64_t> answered_ = {};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_STORE_HEARTBEAT_H_
