// The nodes of a Redis Cluster, and which of them serves which key.
//
// A key belongs to one of 16,384 slots, and a slot to a primary. Nodes say who
// serves what; a command for another node's slot is sent to that one (MOVED),
// or once to where the slot is going (ASK).
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
// Threads. Thread-safe.
//
// Errors. Unavailable: no node that is believed serves the slot, or the cluster
// moved it too often meanwhile.
//
// Redis Cluster: https://redis.io/docs/latest/operate/oss_and_stack/reference/
// cluster-spec.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
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
#include "wheelcache/cache/near/internal/redis/servers.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

constexpr size_t kSlots = 16384;

// The slot of a key: CRC16 of it, or of what stands between its first "{" and
// the next "}", if anything does.
WHEELCACHE_EXPORT size_t SlotOf(absl::string_view key);

class WHEELCACHE_EXPORT Cluster final : public Servers,
                                        private Node::Owner,
                                        private Link {
 public:
  // `seed` is a primary of the cluster.
  Cluster(ServerUrl seed, const DataLinkSettings& settings, Clock& clock);
  ~Cluster() override;

  absl::Status Start() override;
  bool lost_thread() const override { return io_.lost_thread(); }
  absl::StatusOr<Reply> Run(const Write& write,
                            absl::Duration timeout) override;
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  absl::Status Attach(const SessionLink::Subject& subject) override;
  void Detach(RemoteStore::Listener* listener) override;

 private:
  // A node, and what is known of it.
  struct Member {
    std::unique_ptr<Node> node;
    bool is_open = false;      // The connection for sessions.
    int64_t opened_nanos = 0;  // When it came about.
    // Grows whenever it is believed anew; 0 while it is not.
    uint64_t belief = 0;
    // Whom it last called primaries, and when it was asked.
    std::set<std::string> primaries;
    int64_t asked_nanos = 0;
  };

  // Whom to send to. A belief of 0 is that of a node which serves no slot yet,
  // to which one is going: what it says has no session.
  struct Target {
    Node* node;
    uint64_t belief;
  };

  // An answer of MOVED or ASK.
  struct Redirection {
    bool is_ask;
    size_t slot;
    std::string address;
  };

  struct FetchRound;

  void OnSessionOpen(Node* node, int64_t now_nanos) override;
  void OnSessionClose(Node* node, int64_t now_nanos) override;
  void OnSlots(Node* node, const Reply& slots, int64_t asked_nanos) override;

  // As a link without a connection, it asks for the slots from time to time,
  // while nobody who is believed serves some of them.
  PollRequest Request() const override;
  void Handle(PollEvents revents, int64_t now_nanos) override;
  const std::string* server_id() const override { return nullptr; }
  void Drop(const absl::Status&, int64_t) override {}
  void Hurry(int64_t) override {}

  Member& MemberAtLocked(const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Member& MemberOfLocked(const Node* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AskAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  static std::optional<Target> TargetOfLocked(const Member* member);
  std::optional<Target> OwnerOf(size_t slot);
  absl::StatusOr<Target> AwaitOwner(size_t slot, int64_t deadline_nanos);
  absl::StatusOr<Target> AwaitBelief(const std::string& address,
                                     int64_t deadline_nanos);
  bool StillBelieves(const Target& target);
  std::optional<Redirection> RedirectionOf(const Reply& reply) const;
  void Follow(const Redirection& moved);
  void Suspect();

  absl::Duration TimeLeft(int64_t deadline_nanos) const;
  std::vector<size_t> FetchSome(absl::Span<const absl::string_view> keys,
                                absl::Span<const size_t> wanted,
                                int64_t deadline_nanos,
                                std::vector<absl::StatusOr<Fetched>>* results);
  bool FetchByAsking(absl::string_view key, const std::string& address,
                     int64_t deadline_nanos, absl::StatusOr<Fetched>* result);

  const ServerUrl seed_;
  const DataLinkSettings settings_;
  Clock& clock_;
  std::atomic<uint64_t> sessions_{0};
  IoThread io_;
  std::atomic<int64_t> next_question_nanos_{Clock::kNever};
  absl::Duration interval_;  // Between questions. Of the I/O thread.

  Mutex mu_;
  CondVar changed_;
  // By address. None is ever removed: threads use them.
  std::map<std::string, Member> members_ ABSL_GUARDED_BY(mu_);
  std::array<Member*, kSlots> owners_ ABSL_GUARDED_BY(mu_) = {};
  int64_t owners_nanos_ ABSL_GUARDED_BY(mu_) = 0;  // When they were asked for.
  uint64_t beliefs_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<SessionLink::Subject> subjects_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CLUSTER_H_
