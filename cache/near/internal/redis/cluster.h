// The commands of a store to a Redis Cluster.
//
// A key belongs to one of 16,384 slots. Each command goes to the node that
// serves the key's, those of many keys to all their nodes at a time. A command
// for another node's slot is sent to that one (MOVED), or once to where the
// slot is going (ASK). What a node answers that is not believed any more when
// the answer has come is asked for again, if it is a read.
//
// Threads. Thread-safe.
//
// Errors. Unavailable: no node that is believed serves the slot, or the cluster
// moved it too often meanwhile.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/cluster_nodes.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/servers.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// The slot of a key: CRC16 of it, or of what stands between its first "{" and
// the next "}", if anything does.
WHEELCACHE_EXPORT size_t SlotOf(absl::string_view key);

// Returns the name, or one that begins with it, which has the slot of the key.
// Most names take no longer than SlotOf.
WHEELCACHE_EXPORT std::string NameInSlotOf(absl::string_view key,
                                           std::string name);

class WHEELCACHE_EXPORT Cluster final : public Servers {
 public:
  // The hosts of `seeds` are nodes of the cluster.
  Cluster(ServerUrl seeds, const DataLinkSettings& settings, Clock& clock)
      : settings_(settings),
        clock_(clock),
        nodes_(std::move(seeds), settings, clock) {}

  absl::Status Start() override { return nodes_.Start(); }
  bool lost_thread() const override { return nodes_.lost_thread(); }
  std::vector<absl::StatusOr<Reply>> Run(absl::Span<WriteCommands> writes,
                                         absl::Duration timeout) override;
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  void BeginFetch(absl::string_view key, absl::Duration timeout,
                  RemoteStore::FetchDone done) override;
  absl::Status Attach(const SessionLink::Subject& subject) override {
    return nodes_.Attach(subject);
  }
  void Detach(RemoteStore::Listener* listener) override {
    nodes_.Detach(listener);
  }

 private:
  using Replies = absl::StatusOr<std::vector<Reply>>;

  // Commands about one key, and what has become of them.
  struct Job {
    absl::string_view key;
    std::vector<std::string> commands;
    Replies replies;
    // Of the last one, where it was executed and others were redirected.
    std::optional<Reply> last = std::nullopt;
    uint64_t session = 0;    // Of the node, before they were sent.
    int64_t sent_nanos = 0;  // Or a bit before.
  };
  struct Round;
  struct Fetching;

  // What several jobs have in common.
  struct Call {
    bool are_reads;
    int64_t deadline_nanos;
  };

  // An answer of MOVED or ASK.
  struct Redirection {
    bool is_ask;
    size_t slot;
    std::string address;
  };

  void RunAll(const Call& call, absl::Span<Job> jobs);
  std::vector<size_t> RunSome(const Call& call, absl::Span<Job> jobs,
                              absl::Span<const size_t> wanted);
  bool RunByAsking(const Call& call, const std::string& address, Job* job);
  void GoOn(const std::shared_ptr<Fetching>& fetching);
  bool MustGoOn(const ClusterNodes::Target& target, const Replies& replies,
                Fetching& fetching);
  static void TakeExecuted(const Node& node, absl::Span<Reply> replies,
                           Job* job);
  static std::optional<Redirection> RedirectionOf(
      const Node& node, absl::Span<const Reply> replies);

  const DataLinkSettings settings_;
  Clock& clock_;
  ClusterNodes nodes_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_H_
