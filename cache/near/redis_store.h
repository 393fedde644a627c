// The remote store of near caches in a Redis server.
//
//   wheelcache::RedisStoreOptions options;
//   options.url = "redis://127.0.0.1:6379/0";
//   auto store = wheelcache::RedisStore::Create(options);
//   if (!store.ok()) return store.status();
//
// The server is Redis 6.0 or later, or Valkey: one primary, or a cluster. The
// login needs the rights +get +mget +pttl +set +del ~<key_prefix>* of ACL
// SETUSER, and to be told of writes +ping +client|tracking; for the rest of the
// options +select +client|setname. With +info, a session outlives lost
// connections for data. Where the server does not know HELLO, RESP2 needs also
// +role +client|id +subscribe &__redis__:invalidate; a cluster, which needs
// RESP3, +cluster|info +cluster|slots +asking; locks of loads +eval +exists.
//
// Connections: one for all reads, one for writes, one for those of values above
// 128 KiB, so that they do not hold up the others, and one for the sessions of
// all listeners, which get the invalidations of their prefixes in BCAST mode. A
// lost connection is opened again after up to 50 ms, after failures up to 5 s.
// The sessions end when their connection is lost, when the server is no primary
// any more, or when reads or writes reach another server. All connections go to
// one address of a name, and to another one when no connection comes about.
//
// Redis Cluster. The same connections to each primary. Slots that move are
// followed; a Fetch asks all nodes at a time. A node is used once a majority of
// the primaries confirms it, and a session ends with any connection to its
// node. Of more than 256 primaries, the rest have no sessions.
//
// Guarantees. Those of RemoteStore. A timeout closes no connection; a reply
// that comes late is discarded. Reads in flight when their connection is lost
// are sent once more within their timeout. No SIGPIPE is raised.
//
// Threads. As for RemoteStore. A store has one I/O thread, which calls the
// listeners; replies are read by the threads that wait for them.
//
// Errors. Create returns InvalidArgument for a bad option, naming it. It does
// not wait for the server: what is wrong with that, calls and OnLoss say.
// Beyond the codes of RemoteStore: Unauthenticated and PermissionDenied of the
// login; InvalidArgument for a key whose value is no string; Unimplemented
// where the server is too old, or `cluster` is wrong; Unavailable while no node
// that is confirmed serves the key; Unknown for the server's other errors.
// Messages contain no password, and stay in one line.
//
// Limits. Replies: 512 MiB a string, 1 GiB a reply, 2^16 parts of one, and 2^20
// keys of a message of invalidations; a server that exceeds them loses the
// connection. Commands: max_in_flight, and 64 MiB that have not left, unless
// they are of one call.
//
// fork(). In a child, all calls return FailedPrecondition, and destroying the
// store leaks it. Create a store there.
//
// Cost. A call takes one round trip, and no other thread is on its way. Where
// the URL has a name instead of an address, the I/O thread asks the resolver
// for each new connection, and leases run out if it does not answer.

#ifndef WHEELCACHE_CACHE_NEAR_REDIS_STORE_H_
#define WHEELCACHE_CACHE_NEAR_REDIS_STORE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

namespace internal {
class Servers;
class StreamMaker;
struct Reply;
struct WriteCommands;
}  // namespace internal

struct RedisStoreOptions {
  // redis://[user[:password]@]host[:port][/database], the same as rediss:// for
  // TLS, unix://[user[:password]@]/path/of/the/socket[?db=database], or for the
  // primary that Sentinels know by a name, which are asked without a password,
  // redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/name
  // [/database]. Of a cluster, any of its nodes, or several as those of
  // Sentinels. In user and password, %40 stands for "@", and so on.
  std::string url = "redis://127.0.0.1:6379";

  // For rediss://, and for no other URL: LoadTls of cache/near/tls/tls.h.
  std::shared_ptr<const internal::StreamMaker> tls = {};

  // Whether the URL is that of nodes of a Redis Cluster.
  bool cluster = false;

  // Of a cluster, the cluster-node-timeout of its nodes: the promise of a near
  // cache holds after a failover with so much more than max_staleness.
  absl::Duration cluster_node_timeout = absl::Seconds(15);

  // Of leases, deadlines and timeouts: Clock::Monotonic(), or
  // Clock::SinceBoot(), by which the promise holds although the computer is
  // suspended, and a local hit takes some nanoseconds more. The local tiers
  // have the same.
  Clock* clock = &Clock::Monotonic();

  // How CLIENT LIST shows the connections: printable ASCII without spaces.
  std::string client_name = "wheelcache";

  // The limit of an attempt to connect and to log in.
  absl::Duration connect_timeout = absl::Seconds(2);

  // A connection on which the server leaves a command unanswered for so long is
  // opened anew. Longer than the server's longest pause. In a cluster at most
  // half of cluster_node_timeout.
  absl::Duration unanswered_limit = absl::Seconds(5);

  // Beyond so many commands without a reply, calls return ResourceExhausted. Of
  // a Fetch, each key counts as one or two commands; it reads many keys in
  // rounds of at most half as many. At least 2, in a cluster 4.
  int max_in_flight = 10'000;
};

class WHEELCACHE_EXPORT RedisStore final : public RemoteStore {
 public:
  static absl::StatusOr<std::unique_ptr<RedisStore>> Create(
      const RedisStoreOptions& options = {});

  ~RedisStore() override;

  Clock& clock() const override { return clock_; }
  size_t max_sessions() const override { return is_cluster_ ? 256 : 1; }
  // In a cluster, a slot may have moved before the key was written.
  bool tells_of_new_keys() const override { return !is_cluster_; }

  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  void BeginFetch(absl::string_view key, absl::Duration timeout,
                  FetchDone done) override;
  absl::Status Put(const Write& write, absl::Duration timeout) override;
  absl::StatusOr<bool> Remove(absl::string_view key,
                              absl::Duration timeout) override;
  std::vector<absl::Status> PutMany(absl::Span<const Write> writes,
                                    absl::Duration timeout) override;
  std::vector<absl::StatusOr<bool>> RemoveMany(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  absl::StatusOr<LockResult> TakeLock(const Lock& lock, absl::Duration life,
                                      absl::Duration timeout) override;
  absl::Status EndLock(const Lock& lock, absl::Duration timeout) override;
  std::string LockName(absl::string_view key) const override;
  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      Listener* listener) override;
  void Detach(Listener* listener) override;

 private:
  RedisStore(std::unique_ptr<internal::Servers> servers,
             const RedisStoreOptions& options);

  std::vector<absl::StatusOr<internal::Reply>> Run(
      std::vector<internal::WriteCommands> writes, absl::Duration timeout);

  internal::WriteCommands ToPut(const Write& write) const;
  internal::WriteCommands ToRemove(absl::string_view key) const;

  // Returns FailedPrecondition in the child of a fork().
  absl::Status CheckProcess() const;

  std::unique_ptr<internal::Servers> servers_;
  Clock& clock_;
  const bool is_cluster_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_REDIS_STORE_H_
