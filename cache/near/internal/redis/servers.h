// What a RedisStore needs of its server, or of the nodes of a cluster.
//
// Threads. Thread-safe.
// Errors. Those of RemoteStore.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVERS_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVERS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/node.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Commands that write a key, sent one right after the other.
struct WriteCommands {
  absl::string_view key;
  absl::string_view name;             // Of the last one, for errors.
  std::vector<std::string> commands;  // As they are sent.
};

class Servers {
 public:
  using Fetched = RemoteStore::Fetched;

  virtual ~Servers() = default;

  // Starts the thread, which connects. REQUIRES: called once, before all else.
  virtual absl::Status Start() = 0;

  // See IoThread.
  virtual bool lost_thread() const = 0;

  // Executes all, those of equal keys in their order. Returns the reply to the
  // last command of each, which is no error. May take what `writes` has.
  virtual std::vector<absl::StatusOr<Reply>> Run(
      absl::Span<WriteCommands> writes, absl::Duration timeout) = 0;

  // As those of RemoteStore.
  virtual std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys, absl::Duration timeout) = 0;
  virtual void BeginFetch(absl::string_view key, absl::Duration timeout,
                          RemoteStore::FetchDone done) = 0;
  virtual absl::Status Attach(const SessionLink::Subject& subject) = 0;
  virtual void Detach(RemoteStore::Listener* listener) = 0;
};

class WHEELCACHE_EXPORT OneServer final : public Servers {
 public:
  OneServer(ServerUrl url, const DataLinkSettings& settings, Clock& clock);

  absl::Status Start() override;
  bool lost_thread() const override { return io_.lost_thread(); }
  std::vector<absl::StatusOr<Reply>> Run(absl::Span<WriteCommands> writes,
                                         absl::Duration timeout) override;
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  void BeginFetch(absl::string_view key, absl::Duration timeout,
                  RemoteStore::FetchDone done) override;
  absl::Status Attach(const SessionLink::Subject& subject) override {
    return node_.Attach(subject);
  }
  void Detach(RemoteStore::Listener* listener) override {
    if (node_.Detach(listener)) io_.AwaitTurn();
  }

 private:
  Clock& clock_;
  std::atomic<uint64_t> sessions_{0};
  IoThread io_;
  Node node_;
};

// Returns the last of the replies, or why there is none, or what error it is,
// with the name of its command.
absl::StatusOr<Reply> LastReply(absl::string_view name,
                                absl::StatusOr<std::vector<Reply>> replies);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVERS_H_
