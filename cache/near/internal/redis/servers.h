// What a RedisStore needs of its server, or of the nodes of a cluster.
//
// Threads. Thread-safe.
// Errors. Those of RemoteStore.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVERS_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
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

class Servers {
 public:
  using Fetched = RemoteStore::Fetched;

  // One command that writes a key, and about how many bytes.
  struct Write {
    absl::string_view key;
    size_t bytes;
    absl::Span<const absl::string_view> arguments;
  };

  virtual ~Servers() = default;

  // Starts the thread, which connects. REQUIRES: called once, before all else.
  virtual absl::Status Start() = 0;

  // See IoThread.
  virtual bool lost_thread() const = 0;

  // Returns the reply, no error.
  virtual absl::StatusOr<Reply> Run(const Write& write,
                                    absl::Duration timeout) = 0;

  // As those of RemoteStore.
  virtual std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys, absl::Duration timeout) = 0;
  virtual absl::Status Attach(const SessionLink::Subject& subject) = 0;
  virtual void Detach(RemoteStore::Listener* listener) = 0;
};

class WHEELCACHE_EXPORT OneServer final : public Servers {
 public:
  OneServer(ServerUrl url, const DataLinkSettings& settings, Clock& clock);

  absl::Status Start() override;
  bool lost_thread() const override { return io_.lost_thread(); }
  absl::StatusOr<Reply> Run(const Write& write,
                            absl::Duration timeout) override;
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
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

// Runs a command that writes, and returns its reply, be it an error.
absl::StatusOr<Reply> RunOn(Pipeline& pipeline,
                            absl::Span<const absl::string_view> arguments,
                            absl::Duration timeout);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVERS_H_
