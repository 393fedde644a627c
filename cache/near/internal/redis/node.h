// The connections of a store to its server, and the thread that serves them:
// one for reads, one for writes, one for large writes if there are any, and one
// for the sessions of all listeners.
//
// One server at a time: when a connection has logged in, those that are logged
// in to another server, or to an earlier run of it, are dropped. Where the
// server does not tell which it is, each new connection for data may have
// reached another one, and ends the session. So no session outlives a change of
// the server behind the address.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_NODE_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_NODE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Node final : public Link::Observer {
 public:
  Node(ServerUrl url, const DataLinkSettings& settings, Clock& clock);
  ~Node() override;

  // Starts the thread, which connects. REQUIRES: called once, before all else.
  absl::Status Start();

  // See IoThread.
  bool lost_thread() const { return io_.lost_thread(); }

  Pipeline& reads() { return reads_.pipeline(); }

  // For a write of so many bytes. A large one would keep small ones waiting.
  Pipeline& writes(size_t bytes);

  // As RemoteStore::Attach and Detach.
  absl::Status Attach(SessionLink::Subject subject);
  void Detach(RemoteStore::Listener* listener);

 private:
  void OnLogin(Link* link, int64_t now_nanos) override;
  void OnDemotion(const absl::Status& why, int64_t now_nanos) override;

  const DataLinkSettings settings_;
  std::atomic<uint64_t> sessions_{0};
  Endpoint endpoint_;
  IoThread io_;
  SessionLink session_;
  DataLink reads_;
  DataLink writes_;
  DataLink large_writes_;
  absl::once_flag has_large_writes_;
  const std::array<Link*, 4> links_ = {&session_, &reads_, &writes_,
                                       &large_writes_};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_NODE_H_
