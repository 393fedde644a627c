// A Redis Cluster of the test's own: primaries that share the slots evenly, and
// a replica for each if that is asked for.
//
//   absl::StatusOr<std::unique_ptr<RedisCluster>> cluster =
//       RedisCluster::Start(RedisCluster::kWithReplicas);
//   ASSERT_TRUE(cluster.ok()) << cluster.status();
//   options.url = (*cluster)->url();
//   options.cluster = true;
//   options.cluster_node_timeout = RedisCluster::kNodeTimeout;

//
// Threads. Thread-safe, but for Start.

#ifndef WHEELCACHE_TESTS_TESTING_REDIS_CLUSTER_H_
#define WHEELCACHE_TESTS_TESTING_REDIS_CLUSTER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::testing {

class RedisCluster final {
 public:
  static constexpr size_t kPrimaries = 3;
  static constexpr absl::Duration kNodeTimeout = absl::Seconds(1);

  enum Replicas { kWithoutReplicas, kWithReplicas };

  // Returns once all nodes, which have further options, call the cluster up.
  static absl::StatusOr<std::unique_ptr<RedisCluster>> Start(
      Replicas replicas, const std::vector<std::string>& more = {});

  // The primaries come first, in the order of their slots, as they were at the
  // start; then their replicas in the same order.
  RedisServer& node(size_t i) { return *nodes_[i]; }

  // What all clients of that node go through.
  Relay& relay(size_t i) { return *relays_[i]; }

  // Of a node, for a client.
  std::string url() const { return relays_[0]->url(); }
  size_t size() const { return nodes_.size(); }

  // Runs a command on a node.
  std::string Run(size_t i, const std::vector<absl::string_view>& arguments);

  // Runs it where it belongs, whichever node serves its key now, and returns
  // the reply; empty if none does within 30 s.
  std::string RunForKey(const std::vector<absl::string_view>& arguments);

  // Returns which node serves the slot, by its own account.
  size_t OwnerOf(size_t slot);

  // Moves a slot with its keys from the node that serves it, the usual way.
  void MoveSlot(size_t slot, size_t to);

 private:
  RedisCluster() = default;

  absl::Status Join();
  std::string RunLocked(size_t i,
                        const std::vector<absl::string_view>& arguments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::unique_ptr<Relay>> relays_;
  std::vector<std::string> ids_;
  Mutex mu_;
  std::vector<std::unique_ptr<RedisClient>> clients_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REDIS_CLUSTER_H_
