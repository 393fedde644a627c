// The connections of a store to one server: one for reads, one for writes, one
// for large writes if there are any, and one for the sessions of all listeners.
//
// One server at a time: when a connection has logged in, those that are logged
// in to another server, or to an earlier run of it, are dropped. So no session
// outlives a change of the server behind the address. Where the server does not
// tell which it is, any new connection may have reached another one: one for
// sessions drops those for data, and another one for data ends the session. The
// address must not change while the connections are made anew.
//
// Threads. Thread-safe, but for the destructor.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_NODE_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_NODE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Node final : public Link::Observer {
 public:
  // Is told, on the I/O thread, of the connection for sessions.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnSessionOpen(Node* node, int64_t now_nanos) = 0;
    virtual void OnSessionClose(Node* node, int64_t now_nanos) = 0;
    virtual void OnSlots(Node* node, const Reply& slots,
                         int64_t asked_nanos) = 0;
  };

  // What nodes of a store have in common. `owner` may be null.
  struct Surroundings {
    Clock& clock;
    IoThread& io;
    Owner* owner;
    std::function<uint64_t()> next_session;
  };

  // What it refers to must outlive it.
  Node(ServerUrl url, const DataLinkSettings& settings, Surroundings around);
  ~Node() override { Stop(); }

  // Begin to connect, for sessions and for data, and end that for good.
  void StartSessions() { io_.Add(&session_); }
  void StartData();
  void Stop();

  // The same as Stop, for the I/O thread, from whose next turn on the node may
  // be destroyed.
  void Leave(int64_t now_nanos);

  const ServerUrl& url() const { return endpoint_.url(); }

  // See SessionLink.
  uint64_t session() const { return session_.session(); }
  void AskForSlots();

  Pipeline& reads() { return reads_.pipeline(); }

  // For a write of so many bytes. A large one would keep small ones waiting.
  // Where `late`, that of a late write of its keys, is not null, it goes there.
  Pipeline& writes(size_t bytes, Pipeline* late);
  static bool IsLarge(size_t bytes);

  // A late write has had no answer in time, and may still be executed. Later
  // ones of its key go the same way, so that they are executed after it. Where
  // that is, or null.
  Pipeline* LateWriteOf(absl::string_view key);
  void AddLateWrite(absl::string_view key, Pipeline* where);

  // As RemoteStore::Attach and Detach; the latter returns whether the I/O
  // thread may be telling the listener something.
  absl::Status Attach(SessionLink::Subject subject);
  bool Detach(RemoteStore::Listener* listener) {
    return session_.Detach(listener);
  }

 private:
  void OnLogin(Link* link, int64_t now_nanos) override;
  void OnDemotion(const absl::Status& why, int64_t now_nanos) override;
  void OnClose(Link* link, int64_t now_nanos) override;
  void OnSlots(const Reply& slots, int64_t asked_nanos) override;
  void Refuse(const absl::Status& why);

  const DataLinkSettings settings_;
  Endpoint endpoint_;
  IoThread& io_;
  Owner* const owner_;
  SessionLink session_;
  DataLink reads_;
  DataLink writes_;
  DataLink large_writes_;
  // Of the I/O thread: who is logging in now, or null.
  const Link* logging_in_ = nullptr;
  bool is_stopped_ = false;
  // Of a server that does not tell which it is: the connections for data that
  // are still to be made together with that for sessions, and until when.
  std::set<const Link*> together_;
  int64_t together_until_nanos_ = 0;
  absl::once_flag has_data_;
  absl::once_flag has_large_writes_;
  // By key, until the pipeline has answered what it had sent by then.
  struct LateWrite {
    Pipeline* where;
    uint64_t sent;
  };
  Mutex mu_;
  std::map<std::string, LateWrite, std::less<>> late_ ABSL_GUARDED_BY(mu_);
  size_t most_late_ ABSL_GUARDED_BY(mu_) = 0;  // Then it is looked through.
  const std::array<Link*, 4> links_ = {&session_, &reads_, &writes_,
                                       &large_writes_};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_NODE_H_
