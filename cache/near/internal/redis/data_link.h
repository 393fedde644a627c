// The connection for reads, or that for writes: keeps a Pipeline open.
//
// A question for the server's role, at each `probe_interval`, finds what no
// timeout of a caller tells: a server that has become a replica, and a
// connection that is dead but not closed, on which nothing is answered for
// `unanswered_limit`.
//
// Threads. pipeline() may be used by all threads; the rest is a Link.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_DATA_LINK_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_DATA_LINK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/internal/redis/connector.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

struct DataLinkSettings {
  ConnectorSettings connector;
  absl::Duration probe_interval;
  absl::Duration unanswered_limit;
  size_t max_in_flight;
};

class WHEELCACHE_EXPORT DataLink final : public Link {
 public:
  // `settings`, `endpoint` and `observer` must outlive it.
  DataLink(const DataLinkSettings& settings, Endpoint* endpoint, Clock& clock,
           Observer* observer, std::function<void()> wake);

  Pipeline& pipeline() { return pipeline_; }

  PollRequest Request() const override;
  void Handle(PollEvents revents, int64_t now_nanos) override;
  const std::string* server_id() const override {
    return is_open_ ? &connector_.login().server_id() : nullptr;
  }
  void Drop(const absl::Status& why, int64_t now_nanos) override;
  void Hurry(int64_t now_nanos) override { connector_.Hurry(now_nanos); }

 private:
  void Open(int64_t now_nanos);
  absl::Status HandleOpen(PollEvents revents, int64_t now_nanos);
  absl::Status CheckProbe(int64_t now_nanos);

  const DataLinkSettings& settings_;
  Observer* const observer_;
  Connector connector_;
  Pipeline pipeline_;

  // Whether the pipeline is, and then: when the latest probe was sent, and
  // whether its reply is still to come.
  bool is_open_ = false;
  int64_t probed_nanos_ = 0;
  bool is_probing_ = false;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_DATA_LINK_H_
