// The connection on which the server tells of writes, for all listeners of a
// store: keeps a session with the server, and tells each of its own prefix.
//
// Under RESP3, messages come between the replies, and a prefix is added while
// the session lasts. Under RESP2, the connection subscribes to its own
// messages, and then can send nothing but PING: another prefix opens it anew.
// In both, tracking is in BCAST mode. NOLOOP is never asked for: it hides the
// evictions that the store's own writes cause.
//
// The server goes on telling of the prefix of a listener that has left, until
// the connection is opened anew; nobody hears it.
//
// PINGs follow the shortest bound of the listeners. The connection is given up
// when nothing has come on it for the longest one, or for `unanswered_limit`.
//
// Of a node of a cluster, the heartbeat asks for its role and for the state of
// the cluster as well, so that one that is cut off from most others ends its
// session; and one that was silent for `unanswered_limit` is lost, whatever it
// says then. The connection is there without listeners, too, to ask the node
// who serves which slots. A replica is asked this once, and nothing else.
//
// Threads. Attach, Detach, AskForSlots and session are thread-safe; the rest is
// a Link. Listeners are called on the I/O thread.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SESSION_LINK_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SESSION_LINK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/connector.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/cache/near/store/heartbeat.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT SessionLink final : public Link {
 public:
  // Whom it tells, and of what.
  struct Subject {
    std::string prefix;
    absl::Duration max_staleness;
    RemoteStore::Listener* listener;
  };

  // `next_session` returns another number at each call. `endpoint` and
  // `observer` must outlive it.
  SessionLink(const ConnectorSettings& settings,
              absl::Duration unanswered_limit, Endpoint* endpoint,
              Observer* observer, std::function<uint64_t()> next_session);

  // Begins to tell a listener. Returns InvalidArgument if its prefix and that
  // of another overlap.
  absl::Status Attach(Subject subject);

  // Ends that; the I/O thread may be telling it something. Returns whether it
  // was attached.
  bool Detach(RemoteStore::Listener* listener);

  // Has the observer told of the slots, soon if the node is there.
  void AskForSlots() { wants_slots_ = true; }

  // The session that lasts now; 0 for none. For any thread.
  uint64_t session() const { return session_.load(std::memory_order_acquire); }

  PollRequest Request() const override;
  void Handle(PollEvents revents, int64_t now_nanos) override;
  const std::string* server_id() const override {
    return is_open() ? &connector_.login().server_id() : nullptr;
  }
  void Drop(const absl::Status& why, int64_t now_nanos) override;
  void Hurry(int64_t now_nanos) override { connector_.Hurry(now_nanos); }

 private:
  // Whether the server tells of its prefix: it has not been asked to, it has
  // been but has not answered, or it does.
  enum class State { kNew, kAsked, kTold };
  struct Attached {
    std::shared_ptr<const Subject> subject;
    State state;
    int64_t until_nanos;  // Of its lease.
  };
  enum class Question { kTracking, kSubscribe, kPing, kRole, kState, kSlots };

  bool is_open() const { return wire_ != nullptr; }
  bool has_resp3() const { return connector_.login().has_resp3(); }
  bool is_of_cluster() const {
    return settings_.mode != Login::Mode::kOneServer;
  }

  void TakeChanges(int64_t now_nanos);
  absl::Duration ShortestStaleness() const;
  absl::Duration SilenceLimit() const;
  int64_t SilentNanos() const;
  static absl::string_view NameOf(Question question);

  absl::Status Open(int64_t now_nanos);
  void Close(int64_t now_nanos);
  absl::Status HandleOpen(PollEvents revents, int64_t now_nanos);
  absl::Status Ask(Question question,
                   absl::Span<const absl::string_view> command,
                   int64_t now_nanos);
  absl::Status AskForPrefixes(int64_t now_nanos);
  absl::Status Take(const Reply& reply, int64_t now_nanos);
  absl::Status TakeTracking(int64_t now_nanos);
  void TellOfSession(Attached& to, int64_t now_nanos) const;
  absl::Status TakeMessage(const Reply& keys);
  absl::Status TakePong();
  absl::Status AskHeartbeat(int64_t now_nanos);
  absl::Status AskWhatIsDue(int64_t now_nanos);
  const Attached* Find(absl::string_view key) const;
  static void TellOf(absl::Span<const absl::string_view> keys,
                     const Attached* to);
  void TellLoss(uint64_t session, const absl::Status& why);

  const ConnectorSettings settings_;
  const absl::Duration unanswered_limit_;
  Observer* const observer_;
  const std::function<uint64_t()> next_session_;
  Connector connector_;

  Mutex mu_;
  std::vector<std::shared_ptr<const Subject>> subjects_ ABSL_GUARDED_BY(mu_);
  // Whether attached_ lacks a change of it.
  std::atomic<bool> has_changes_{false};
  std::atomic<bool> wants_slots_{false};

  // The rest is of the I/O thread. In the order of their prefixes.
  std::vector<Attached> attached_;

  // While logged in.
  std::unique_ptr<Wire> wire_;
  std::deque<Question> questions_;     // Without a reply.
  int64_t asked_nanos_ = 0;            // When the first of them was sent.
  int64_t received_nanos_ = 0;         // When something came last.
  std::deque<int64_t> slots_asked_;    // When each question for them was sent.
  std::vector<std::string> prefixes_;  // Of which the server is to tell.

  // From when the server first tells of writes.
  std::atomic<uint64_t> session_{0};
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SESSION_LINK_H_
