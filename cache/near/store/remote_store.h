// The store behind near caches: values as bytes, invalidations and leases.
//
//   wheelcache::RemoteStore& store = ...;
//   auto found = store.Fetch({"user:alice"}, absl::Milliseconds(500));
//   if (found[0].ok() && found[0]->bytes.has_value()) {
//     Show(*found[0]->bytes);
//   }
//
// RedisStore talks to a Redis; FakeStore (cache/near/fake_store.h) simulates
// one. NearCache is written over this interface alone, and its bound on
// staleness rests on the promises below. To write a store of your own, keep
// them; let Heartbeat (cache/near/heartbeat.h) compute the leases, and
// CheckRemoteStore (cache/near/testing/check_store.h) look for counterexamples.
// examples/postgres_store.h is such a store.
//
// The server must be able to tell a client of all writes on the connection on
// which it answers it: when an answer has come, all writes have been told that
// were executed before the question was sent, or the one before it. To tell
// more is right as well, OnInvalidateAll for each write at worst. If a message
// may be lost and the connection stays, there can be no lease.
//
// Sessions. For each attached listener, the store keeps a session with the
// server, or one with each of its servers: while it lasts, the store learns of
// each write to a key with the listener's prefix there, be it the store's own
// or the expiry of a value. A session that is lost is over: the next one has
// another number, and what was written in between is never told. All listeners
// may share a session.
//
// Leases. OnLease(session, until_nanos) says: of all writes to such keys that
// this server executed before until_nanos - max_staleness, the listener has
// been told, as far as they came after the first OnLease of this session. So
// what was fetched in this session, and is not invalidated, is at most
// max_staleness old until then. An unbroken session renews the lease about
// every sixth of max_staleness; whatever breaks, it runs out.
//
// Time. All times are readings of clock(). A lease and a deadline count from
// before the request was sent, so that a slow answer shortens them.
//
// Threads. Thread-safe. Any thread may call the store, and waits at most for
// the timeout it gives; an answer that comes later is given to nobody.
// Listeners are called on a thread of the store's own, its I/O thread, except
// that Attach may call the new listener itself. The calls of one listener never
// overlap.
//
// Locks. So that one process at a time loads a key that is absent
// (NearCache::GetOrLoad), a store may keep a lock beside the key: a token, for
// a time. Remove ends the lock of its key, so that nothing is written that was
// loaded before it.
//
// Errors. DeadlineExceeded: no answer within the timeout. Unavailable: there is
// no connection, or it was lost before the answer. After either, a Put or
// Remove may have happened or may still happen; those of RedisStore before its
// later writes of the key, unless the connection is lost. Where it may come
// after them, what a GetOrLoad writes late may undo a Del. ResourceExhausted:
// too much is waiting for answers. FailedPrecondition: the call is made in the
// child of a fork(), which has no I/O thread. Other codes are answers of the
// server, and the message names the command. Never Cancelled.

#ifndef WHEELCACHE_CACHE_NEAR_STORE_REMOTE_STORE_H_
#define WHEELCACHE_CACHE_NEAR_STORE_REMOTE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

class WHEELCACHE_EXPORT RemoteStore {
 public:
  class Listener;

  // What the server has under a key.
  struct Fetched {
    // None: the key is absent.
    std::optional<std::string> bytes = std::nullopt;

    // The value's end, never later than at the server: the time of sending plus
    // the TTL in the answer. kNever: it has none, or the key is absent. The
    // time of sending itself where the TTL is unknown.
    int64_t deadline_nanos = Clock::kNever;

    // The session, with the server that answered, that lasted when the request
    // was sent: read before that, and of no other server, as an old primary.
    // 0: there was none, or it is not known.
    uint64_t session = 0;
  };

  RemoteStore() = default;
  RemoteStore(const RemoteStore&) = delete;
  RemoteStore& operator=(const RemoteStore&) = delete;

  // REQUIRES: no listener is attached.
  virtual ~RemoteStore() = default;

  // The clock of all times and timeouts. Constant.
  virtual Clock& clock() const = 0;

  // How many sessions a listener may have at a time, one a server. Constant.
  virtual size_t max_sessions() const { return 1; }

  // Whether a session tells when a key is written that was absent, whichever
  // server the key has moved to. Where it does not, absence is known for
  // max_staleness at most. Constant.
  virtual bool tells_of_new_keys() const { return true; }

  // Reads keys, which are any bytes, all in one round trip. Returns a result
  // for each, in their order. The server reads after this call began; each key
  // by itself, so that writes may come between two keys. A key that has no
  // string value is an error, and no absence.
  virtual std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys, absl::Duration timeout) = 0;

  // The same for one key, for a thread that must not wait: `done` is called
  // once with the result, by this call or on the I/O thread. It must not block,
  // and may call the store as far as that does not. Here, Fetch is called,
  // which may wait.
  using FetchDone = absl::AnyInvocable<void(absl::StatusOr<Fetched> result)>;
  virtual void BeginFetch(absl::string_view key, absl::Duration timeout,
                          FetchDone done);

  // Writes a value, for `ttl`, which is more than zero and may be infinite. The
  // server counts milliseconds; a fraction counts as a whole one.
  struct Write {
    absl::string_view key = {};
    absl::string_view bytes = {};
    absl::Duration ttl = absl::InfiniteDuration();

    // Writes only if the key is absent; else Put returns AlreadyExists.
    bool if_absent = false;

    // Unless empty, writes only if the key is absent and its lock has this
    // token, and ends the lock; else Put returns Aborted.
    absl::string_view lock_token = {};
  };
  virtual absl::Status Put(const Write& write, absl::Duration timeout) = 0;

  // Deletes a key, and ends its lock. Returns whether the key was there.
  virtual absl::StatusOr<bool> Remove(absl::string_view key,
                                      absl::Duration timeout) = 0;

  // As Put or Remove for each, in one round trip where the store can. Here, one
  // after the other. Keys are different.
  virtual std::vector<absl::Status> PutMany(absl::Span<const Write> writes,
                                            absl::Duration timeout);
  virtual std::vector<absl::StatusOr<bool>> RemoveMany(
      absl::Span<const absl::string_view> keys, absl::Duration timeout);

  // The lock of a key, held by whoever knows its token.
  struct Lock {
    absl::string_view key = {};
    absl::string_view token = {};
  };
  enum class LockResult {
    kTaken,
    kHeld,        // By another token.
    kKeyIsThere,  // Not taken: somebody has written the key.
  };

  // Takes the lock for `life`, unless somebody holds it or the key is there.
  // Here: Unimplemented.
  virtual absl::StatusOr<LockResult> TakeLock(const Lock& lock,
                                              absl::Duration life,
                                              absl::Duration timeout);

  // Ends the lock if it has this token.
  virtual absl::Status EndLock(const Lock& lock, absl::Duration timeout);

  // The name under which listeners are told, as of a key, that the lock of
  // `key` has ended. It begins with the key.
  virtual std::string LockName(absl::string_view key) const;

  // Begins to keep a session for the listener, and goes on doing so after each
  // loss. Does not wait for the server. Returns InvalidArgument, and does
  // nothing, if one of this prefix and that of an attached listener is the
  // beginning of the other. max_staleness is more than zero.
  virtual absl::Status Attach(absl::string_view prefix,
                              absl::Duration max_staleness,
                              Listener* listener) = 0;

  // Ends that. After it has returned, no call of the listener runs or begins.
  // Does nothing for one that is not attached. REQUIRES: not called from a
  // listener, nor from the destructor of a value that a listener runs.
  virtual void Detach(Listener* listener) = 0;
};

// Is told what happens to the keys with a prefix. Its methods do not block, and
// those that change something have taken effect when they return. The only code
// of the user's that they run is destructors of values, which may call the
// store, except Detach.
//
// Order. The calls follow the order in which the store learned of events. So
// all writes that an OnLease certifies have been told before it, and the effect
// of each is visible to any thread that sees the effect of the OnLease.
class WHEELCACHE_EXPORT RemoteStore::Listener {
 public:
  virtual ~Listener() = default;

  // These keys, in full, with the prefix, were written, deleted, or expired.
  virtual void OnInvalidate(absl::Span<const absl::string_view> keys) = 0;

  // Any key may have been: the server has been emptied.
  virtual void OnInvalidateAll() = 0;

  // The session is there, and its lease reaches to `until_nanos`, which may
  // have passed already. Sessions are not 0, and none comes twice from one
  // store. Within one, until_nanos does not go back. The first call of a
  // session comes when the server has confirmed that it tells of writes.
  virtual void OnLease(uint64_t session, int64_t until_nanos) = 0;

  // The session was lost, or for 0 an attempt to begin one has failed, and why:
  // never OK. What was fetched in the session is not served any more, and its
  // number is not used again. Comes before the first OnLease of the next
  // session with that server. The message names the command, what the server
  // answered or what broke, and what to do, where that is known.
  // WaitUntilReady does not wait for a store whose attempts end so:
  // Unauthenticated, PermissionDenied, Unimplemented, InvalidArgument.
  virtual void OnLoss(uint64_t session, const absl::Status& why) = 0;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_STORE_REMOTE_STORE_H_
