// The nodes of a Redis Cluster, and which of them is believed to serve which
// slot.
//
// A slot belongs to a primary, and nodes say who serves what. They are asked
// when something has failed, until believed nodes serve all slots. Seeds are
// asked first, and again when nobody is believed any more; any node will do for
// that, a replica too.
//
// Which nodes are believed. A primary that was stopped, and replaced meanwhile,
// does not know it when it goes on. So a node serves only once enough others
// call it a primary, asked after the connection to it came about, to be a
// majority of the primaries with it: a successor has the votes of a majority,
// so one of them would know it. It is believed until a connection to it is
// lost, or silent for `unanswered_limit`, which must be shorter than the time
// after which the cluster replaces a node. Its session ends when it sees no
// majority of the cluster: see SessionLink. docs/near_cache.md has the proof.
//
// A node that no believed one has named for a while has left, and is forgotten.
//
// Threads. Thread-safe.
//
// Errors. Unavailable: no node that is believed serves the slot.
//
// Redis Cluster: https://redis.io/docs/latest/operate/oss_and_stack/reference/
// cluster-spec.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_NODES_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_NODES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/node.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

constexpr size_t kSlots = 16384;

class WHEELCACHE_EXPORT ClusterNodes final : private Node::Owner, private Link {
 public:
  // Whom to send to. A belief of 0 is that of a node which serves no slot yet,
  // to which one is going: what it says has no session.
  struct Target {
    std::shared_ptr<Node> node;
    uint64_t belief;
  };

  // The hosts of `seeds` are nodes of the cluster.
  ClusterNodes(ServerUrl seeds, const DataLinkSettings& settings, Clock& clock);
  ~ClusterNodes() override;

  absl::Status Start();
  bool lost_thread() const { return io_.lost_thread(); }
  absl::Status Attach(const SessionLink::Subject& subject);
  void Detach(RemoteStore::Listener* listener);

  // Returns who serves the slot; nothing if nobody does who is believed.
  std::optional<Target> OwnerOf(size_t slot);

  // Waits for it.
  absl::StatusOr<Target> AwaitOwner(size_t slot, int64_t deadline_nanos);

  // Waits until the node with that address may be asked for a slot that is
  // going there.
  absl::StatusOr<Target> AwaitBelief(const std::string& address,
                                     int64_t deadline_nanos);

  // The same without waiting: nothing if it may not be asked now.
  std::optional<Target> BelievedAt(const std::string& address);

  // Has the I/O thread call a function once, when another node may be believed
  // or serve a slot, or with false when it is too late.
  void WhenChanged(int64_t deadline_nanos,
                   std::function<void(bool is_in_time)> go_on);

  // Whether it has been believed ever since.
  bool StillBelieves(const Target& target);

  // A node has said that the one with that address serves the slot.
  void SetOwner(size_t slot, const std::string& address);

  // Something failed: others may serve its slots now.
  void Suspect();

 private:
  // A node, and what is known of it.
  struct Member {
    std::shared_ptr<Node> node;
    bool is_open = false;      // The connection for sessions, to a primary.
    int64_t opened_nanos = 0;  // When it came about.
    // Grows whenever it is believed anew; 0 while it is not.
    uint64_t belief = 0;
    // Whom it last called primaries, and when it was asked.
    std::set<std::string> primaries;
    int64_t asked_nanos = 0;
    // When somebody last named it who is believed, or wanted it.
    int64_t named_nanos = 0;
  };

  void OnSessionOpen(Node* node, int64_t now_nanos) override;
  void OnSessionClose(Node* node, int64_t now_nanos) override;
  void OnSlots(Node* node, const Reply& slots, int64_t asked_nanos) override;

  // As a link without a connection, it asks for the slots from time to time,
  // while nobody who is believed serves some of them, or somebody may have
  // left.
  PollRequest Request() const override;
  void Handle(PollEvents revents, int64_t now_nanos) override;
  const std::string* server_id() const override { return nullptr; }
  void Drop(const absl::Status&, int64_t) override {}
  void Hurry(int64_t) override {}

  void AddSeedsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Member& MemberAtLocked(const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Null if it is forgotten.
  Member* FindLocked(const Node* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AskAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<std::shared_ptr<Node>> ForgetLocked(int64_t now_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static std::optional<Target> TargetOf(const Member* member);
  std::optional<Target> BelievedAtLocked(const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunAwaiting(int64_t now_nanos);

  const ServerUrl seeds_;
  const DataLinkSettings settings_;
  Clock& clock_;
  std::atomic<uint64_t> sessions_{0};
  IoThread io_;
  std::atomic<int64_t> next_question_nanos_{Clock::kNever};
  // Whether slots are to be served that were not when it last looked.
  std::atomic<bool> is_searching_{false};

  // When to look at who awaits a change: at once after one.
  std::atomic<int64_t> next_awaiting_nanos_{Clock::kNever};

  // Of the I/O thread: between questions, and who has left in this turn.
  absl::Duration interval_;
  std::vector<std::shared_ptr<Node>> left_;

  Mutex mu_;
  CondVar changed_;
  std::map<std::string, Member> members_ ABSL_GUARDED_BY(mu_);  // By address.
  std::array<Member*, kSlots> owners_ ABSL_GUARDED_BY(mu_) = {};
  int64_t owners_nanos_ ABSL_GUARDED_BY(mu_) = 0;  // When they were asked for.
  uint64_t beliefs_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<SessionLink::Subject> subjects_ ABSL_GUARDED_BY(mu_);
  struct Awaiting {
    int64_t deadline_nanos;
    std::function<void(bool is_in_time)> go_on;
  };
  std::vector<Awaiting> awaiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_NODES_H_
