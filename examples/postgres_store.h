// A store of near caches in a table of PostgreSQL, whose trigger notifies of
// each key that is written. An example of RemoteStore
// (cache/near/store/remote_store.h), to copy and to change.
//
//   absl::Status status = PostgresStore::CreateTable("dbname=shop");
//   if (!status.ok()) return status;
//   PostgresStore store("dbname=shop");
//   auto users = wheelcache::NearCache<std::string>::Create(options, &store);
//
// The proof of docs/near_cache.md holds for PostgreSQL 14 and later, with these
// in the place of what it says of Redis:
//
// - What an answer certifies. The heartbeat is a NOTIFY to a channel of the
//   store's own, on the connection that listens; its notification is the
//   answer. A transaction queues its notifications before it becomes visible,
//   under a lock of all that notify, which it holds until after that; a
//   listener's process reads the queue in order. So what was visible before the
//   heartbeat was sent stands before it in the queue, and has been told when it
//   comes. A query is no heartbeat: if a writer's process is stopped before it
//   signals the listeners, theirs answer without looking into the queue. A test
//   stops it there.
// - Expiry notifies of nothing, so the transaction of the heartbeat first
//   deletes what has expired.
// - Sessions. What was visible when LISTEN committed is not told, and a later
//   fetch sees it. A fetch bears the number of the session only if it went to
//   the server that notifies, by its time of start.
//
// Excluded are disabled triggers, a failover that loses transactions, two
// primaries at a time, and poolers that give each transaction another
// connection.
//
// Limits. Keys of 3,999 bytes, since a notification has 8,000; a write with a
// longer one fails. A transaction that notifies waits for others that do to
// commit, so writes to the table commit one after the other; a heartbeat is
// one, too: six for each max_staleness and store.
//
// Threads. Thread-safe. One I/O thread listens; other calls use up to 8
// connections, one each.

#ifndef WHEELCACHE_EXAMPLES_POSTGRES_STORE_H_
#define WHEELCACHE_EXAMPLES_POSTGRES_STORE_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/wheel/clock.h"

class PostgresStore final : public wheelcache::RemoteStore {
 public:
  // Creates the table near_entries and its trigger, unless they are there.
  static absl::Status CreateTable(const std::string& conninfo);

  // As libpq understands it: "host=/run/postgresql dbname=shop". Names of hosts
  // are resolved without a timeout; hostaddr=... needs none.
  explicit PostgresStore(std::string conninfo);
  ~PostgresStore() override;

  wheelcache::Clock& clock() const override {
    return wheelcache::Clock::Monotonic();
  }
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  absl::Status Put(const Write& write, absl::Duration timeout) override;
  absl::StatusOr<bool> Remove(absl::string_view key,
                              absl::Duration timeout) override;
  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      Listener* listener) override;
  void Detach(Listener* listener) override;

 private:
  class Connections;
  class Session;

  absl::Status CheckProcess() const;

  const pid_t process_;
  std::unique_ptr<Connections> connections_;  // For data.
  std::unique_ptr<Session> session_;
};

#endif  // WHEELCACHE_EXAMPLES_POSTGRES_STORE_H_
