// A simulated Redis server, for tests without one: keys with TTLs, and what
// tracking clients are told, in the order in which Redis tells it.
//
//   wheelcache::SimulatedClock clock;
//   wheelcache::FakeServer server(&clock);
//   wheelcache::FakeStore store(&server);  // cache/near/fake_store.h
//   ...
//   server.Set("user:alice", "Alice");  // As another process does.
//
// Turns. The server works in turns of an event loop. Within a turn it executes
// commands and answers PINGs at once; it tells of writes at the end. So a PONG
// comes before the message of a write of the same turn. Each call here is a
// turn of its own, except between BeginTurn and EndTurn.
//
// Time. What is due happens in RunDue, which each call here and of a store
// begins with, or on the thread of a reaper. With a Reaper on a SimulatedClock,
// RunFor of the clock lets sessions live as they do with a real server; a jump
// by Advance is like a pause of the process.
//
// Faults. Stop is SIGSTOP: requests get no answer, and fail at once with
// DeadlineExceeded, without waiting for the timeout; writes happen when the
// server continues. Restart is a kill and a start without data. Those of one
// client's connections are FakeStore's.
//
// Threads. Thread-safe. Listeners are called by the thread whose call finds
// something due, without a lock, one at a time.

#ifndef WHEELCACHE_CACHE_NEAR_TESTING_FAKE_SERVER_H_
#define WHEELCACHE_CACHE_NEAR_TESTING_FAKE_SERVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/store/heartbeat.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {

class FakeStore;

class WHEELCACHE_EXPORT FakeServer final : private Reaper::Client {
 public:
  // The clock, and the reaper if there is one, must outlive the server, and the
  // reaper run on that clock.
  explicit FakeServer(Clock* clock, Reaper* reaper = nullptr);

  // REQUIRES: its stores are destroyed.
  ~FakeServer() override;

  // What another client does, which no fault concerns.
  void Set(absl::string_view key, absl::string_view bytes,
           absl::Duration ttl = absl::InfiniteDuration());
  bool Del(absl::string_view key);
  std::optional<std::string> Get(absl::string_view key);
  void FlushAll();

  // Everything in between belongs to one turn. Not to be nested.
  void BeginTurn();
  void EndTurn();

  void Stop();
  void Continue();
  void Restart();

  // Does what is due. Returns when there is more to do; kNever for never.
  int64_t RunDue();

  Clock& clock() const { return clock_; }

 private:
  friend class FakeStore;

  struct Entry {
    std::string bytes;
    int64_t deadline_nanos;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  // What the server sends to a tracking client.
  struct Message {
    enum class Kind { kInvalidate, kInvalidateAll, kPong };
    Kind kind;
    std::vector<std::string> keys;
    int64_t due_nanos;
  };

  // A listener, its connection, and what its client knows of that.
  struct Session {
    std::string prefix;
    absl::Duration max_staleness;
    RemoteStore::Listener* listener;
    FakeStore* store;

    uint64_t number = 0;  // 0: no connection.
    int64_t retry_nanos;  // When the next attempt is due.
    absl::Duration pause;
    std::optional<Heartbeat> heartbeat;
    absl::Status broken;  // Why the connection is to be lost, if it is.

    // On the way. What is lost stays so until the connection ends.
    int pings = 0;
    bool loses_messages = false;
    std::deque<Message> messages;

    // Of the server's turn.
    int pongs = 0;
    bool all = false;
    std::vector<std::string> keys;
  };

  int64_t RunDue(int64_t now_nanos) override;

  // Lets what is due happen, and tells listeners, for which it releases the
  // lock. At most one thread does so at a time; others wait for it.
  void PumpLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool StepLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool StepOf(Session* session, int64_t now_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool DeliverTo(Session* session, int64_t now_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t NextDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void ConnectLocked(Session* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LoseLocked(Session* session, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Breaks the connections of a store, or of all.
  void BreakLocked(const FakeStore* of, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Parts of a turn, and its end, if no other one is open.
  void SetLocked(absl::string_view key, Entry entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool DelLocked(absl::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Entries::iterator FindLiveLocked(absl::string_view key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsLiveLocked(absl::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Deletes the lock if it has that token. Returns whether it had.
  bool EndLockLocked(absl::string_view name, absl::string_view token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ExpireLocked(int64_t now_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecordLocked(absl::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The session that tells a store of that key; 0 for none.
  uint64_t SessionOfLocked(const FakeStore* store, absl::string_view key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MaybeEndTurnLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendLocked(Session* session, Message message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  Reaper* const reaper_;

  mutable Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<int64_t, std::string>> deadlines_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Session>> sessions_ ABSL_GUARDED_BY(mu_);
  uint64_t latest_session_ ABSL_GUARDED_BY(mu_) = 0;
  bool in_turn_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // Writes that wait for Continue.
  std::vector<std::function<void()>> late_writes_ ABSL_GUARDED_BY(mu_);

  // Whoever pumps now.
  bool pumping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id pumper_ ABSL_GUARDED_BY(mu_);
  CondVar pumped_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_TESTING_FAKE_SERVER_H_
