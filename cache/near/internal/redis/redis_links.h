// All links of a store, and the thread that serves them.
//
// One server at a time: when a link has logged in, those that are logged in to
// another server, or to an earlier run of it, are dropped. So no session
// outlives a change of the server behind the address.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REDIS_LINKS_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REDIS_LINKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/subscription.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT RedisLinks final : public Link::Observer {
 public:
  RedisLinks(const DataLinkSettings& settings, Clock& clock);
  ~RedisLinks() override;

  // Starts the thread, which connects. REQUIRES: called once, before all else.
  absl::Status Start();

  // See IoThread.
  bool lost_thread() const { return io_.lost_thread(); }

  Pipeline& reads() { return reads_.pipeline(); }
  Pipeline& writes() { return writes_.pipeline(); }

  // As RemoteStore::Attach and Detach.
  absl::Status Attach(Subscription::Subject subject);
  void Detach(RemoteStore::Listener* listener);

 private:
  void OnLogin(Link* link, int64_t now_nanos) override;
  void OnDemotion(const absl::Status& why, int64_t now_nanos) override;

  const DataLinkSettings settings_;
  std::atomic<uint64_t> sessions_{0};
  IoThread io_;
  DataLink reads_;
  DataLink writes_;

  Mutex mu_;
  std::vector<std::unique_ptr<Subscription>> subscriptions_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REDIS_LINKS_H_
