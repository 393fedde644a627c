#include "wheelcache/examples/postgres_store.h"

#include <poll.h>
#include <postgresql/libpq-fe.h>  // Elsewhere than in Debian, <libpq-fe.h>.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "wheelcache/cache/near/heartbeat.h"

namespace {

using wheelcache::Clock;
using wheelcache::Heartbeat;
using wheelcache::RemoteStore;
using Fetched = RemoteStore::Fetched;
using Listener = RemoteStore::Listener;

// The payload of a notification is a key in hexadecimal digits, or nothing,
// which stands for all keys.
constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS near_entries
  (key bytea PRIMARY KEY, value bytea NOT NULL, expires timestamptz);
CREATE INDEX IF NOT EXISTS near_entries_expires ON near_entries (expires);
CREATE OR REPLACE FUNCTION near_entries_tell() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    PERFORM pg_notify('near_entries', '');
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN
    PERFORM pg_notify('near_entries', encode(OLD.key, 'hex'));
  END IF;
  IF TG_OP <> 'DELETE' THEN
    PERFORM pg_notify('near_entries', encode(NEW.key, 'hex'));
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER near_entries_written
  AFTER INSERT OR UPDATE OR DELETE ON near_entries
  FOR EACH ROW EXECUTE FUNCTION near_entries_tell();
CREATE OR REPLACE TRIGGER near_entries_emptied AFTER TRUNCATE ON near_entries
  FOR EACH STATEMENT EXECUTE FUNCTION near_entries_tell();
ALTER TABLE near_entries ENABLE ALWAYS TRIGGER near_entries_written;
ALTER TABLE near_entries ENABLE ALWAYS TRIGGER near_entries_emptied;
)sql";

// One transaction. Rows are locked in one order, so that stores do not lock
// each other out.
constexpr char kBeat[] =
    "DELETE FROM near_entries WHERE key IN (SELECT key FROM near_entries "
    "WHERE expires <= now() ORDER BY key FOR UPDATE); NOTIFY $0, '$1'";

constexpr char kFetch[] =
    "SELECT value, floor(1000000 * extract(epoch FROM expires - "
    "clock_timestamp()))::bigint::text FROM unnest($1::bytea[]) WITH "
    "ORDINALITY AS wanted (key, position) LEFT JOIN near_entries AS entry ON "
    "entry.key = wanted.key AND (expires IS NULL OR expires > "
    "clock_timestamp()) ORDER BY position";
constexpr char kPut[] =
    "INSERT INTO near_entries AS entry VALUES ($1, $2, clock_timestamp() + "
    "$3::bigint * interval '1 microsecond') ON CONFLICT (key) DO UPDATE SET "
    "value = excluded.value, expires = excluded.expires "
    "WHERE $4 OR entry.expires <= clock_timestamp()";
constexpr char kRemove[] =
    "DELETE FROM near_entries WHERE key = $1 RETURNING expires IS NULL OR "
    "expires > clock_timestamp()";

constexpr size_t kMostConnections = 8;
constexpr absl::Duration kConnectTimeout = absl::Seconds(2);
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

// Longer TTLs count as infinite; a timestamp could not hold them.
constexpr absl::Duration kLongestTtl = absl::Hours(24 * 365 * 1'000);

constexpr unsigned kByteaOid = 17;

int64_t Now() { return Clock::Monotonic().NowNanos(); }

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ClearResult>;

// What libpq says, in one line.
std::string OneLine(const char* message) {
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(message),
                             {{"\n", "; "}});
}

std::string ValueOf(const PGresult* result, int row, int column) {
  return {PQgetvalue(result, row, column),
          static_cast<size_t>(PQgetlength(result, row, column))};
}

// A connection whose calls end with a deadline. After one has, or has failed
// without an answer, it is not used any more, so that nobody gets its answer.
class Connection {
 public:
  // A parameter in binary form, or a null.
  struct Parameter {
    std::optional<std::string> bytes;
    bool is_text = false;
  };

  static absl::StatusOr<std::unique_ptr<Connection>> Open(
      const std::string& conninfo, int64_t deadline_nanos) {
    auto connection = std::make_unique<Connection>();
    PGconn* const conn = PQconnectStart(conninfo.c_str());
    connection->conn_ = conn;
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    if (PQstatus(conn) == CONNECTION_BAD) next = PGRES_POLLING_FAILED;
    while (next != PGRES_POLLING_OK) {
      if (next == PGRES_POLLING_FAILED) {
        return absl::Status(
            PQconnectionNeedsPassword(conn) ? absl::StatusCode::kUnauthenticated
                                            : absl::StatusCode::kUnavailable,
            absl::StrCat("connect: ", OneLine(PQerrorMessage(conn))));
      }
      if (!connection->Wait(next == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                            deadline_nanos)) {
        return absl::DeadlineExceededError("connect: no answer");
      }
      next = PQconnectPoll(conn);
    }
    PQsetnonblocking(conn, 1);
    // Instead of the standard error output.
    PQsetNoticeProcessor(
        conn, [](void*, const char*) {}, nullptr);
    // A primary that was replaced and started again has another one.
    absl::StatusOr<Result> server =
        connection->Run("SELECT pg_postmaster_start_time()", deadline_nanos);
    if (!server.ok()) return server.status();
    connection->server_ = ValueOf(server->get(), 0, 0);
    return connection;
  }

  ~Connection() { PQfinish(conn_); }

  int fd() const { return PQsocket(conn_); }
  int process() const { return PQbackendPID(conn_); }
  const std::string& server() const { return server_; }
  bool is_usable() const { return is_usable_; }

  // Whether the server has not ended it: it says nothing between two calls.
  bool IsAlive() const {
    pollfd request = {fd(), POLLIN, 0};
    return poll(&request, 1, 0) == 0;
  }

  // Sends commands that make one transaction.
  absl::Status Send(const std::string& commands) {
    if (PQsendQuery(conn_, commands.c_str()) == 0) return Lost();
    is_idle_ = false;
    return absl::OkStatus();
  }
  // Sends one command with parameters, whose answer has binary values.
  absl::Status Send(const char* command,
                    const std::vector<Parameter>& parameters) {
    std::vector<unsigned> types;
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
    for (const Parameter& each : parameters) {
      types.push_back(each.is_text ? 0 : kByteaOid);
      values.push_back(each.bytes ? each.bytes->c_str() : nullptr);
      lengths.push_back(each.bytes ? static_cast<int>(each.bytes->size()) : 0);
      formats.push_back(each.is_text ? 0 : 1);
    }
    if (PQsendQueryParams(conn_, command, static_cast<int>(parameters.size()),
                          types.data(), values.data(), lengths.data(),
                          formats.data(), 1) == 0) {
      return Lost();
    }
    is_idle_ = false;
    return absl::OkStatus();
  }

  // Waits for the answer, and returns the result of the last command.
  absl::StatusOr<Result> Receive(int64_t deadline_nanos) {
    Result last;
    absl::Status failed;
    while (true) {
      const int unsent = PQflush(conn_);
      if (unsent < 0) return Lost();
      while (PQisBusy(conn_) == 0) {
        Result result(PQgetResult(conn_));
        if (result == nullptr) {
          is_idle_ = true;
          if (failed.ok()) return last;
          return failed;
        }
        if (failed.ok()) failed = StatusOf(result.get());
        if (!is_usable_) return failed;
        last = std::move(result);
      }
      if (!Wait(unsent > 0 ? POLLIN | POLLOUT : POLLIN, deadline_nanos)) {
        is_usable_ = false;
        return absl::DeadlineExceededError("no answer within the timeout");
      }
      if (PQconsumeInput(conn_) == 0) return Lost();
    }
  }

  absl::StatusOr<Result> Run(const std::string& commands,
                             int64_t deadline_nanos) {
    if (absl::Status sent = Send(commands); !sent.ok()) return sent;
    return Receive(deadline_nanos);
  }
  absl::StatusOr<Result> Run(const char* command,
                             const std::vector<Parameter>& parameters,
                             int64_t deadline_nanos) {
    if (absl::Status sent = Send(command, parameters); !sent.ok()) return sent;
    return Receive(deadline_nanos);
  }

  // Takes what has come, without waiting, and hands over each notification.
  // Returns an error if the connection is lost, or the commands have failed.
  template <typename Function>
  absl::Status TakeNotifications(Function&& handle) {
    if (PQconsumeInput(conn_) == 0 || PQflush(conn_) < 0) return Lost();
    while (true) {
      // libpq reads on behind a result once that is taken.
      while (PGnotify* const notify = PQnotifies(conn_)) {
        handle(std::string(notify->relname), std::string(notify->extra));
        PQfreemem(notify);
      }
      if (is_idle_ || PQisBusy(conn_) != 0) return absl::OkStatus();
      const Result result(PQgetResult(conn_));
      is_idle_ = result == nullptr;
      absl::Status status =
          is_idle_ ? absl::OkStatus() : StatusOf(result.get());
      if (!status.ok()) return status;
    }
  }

  // Whether the commands that were sent have been answered in full.
  bool is_idle() const { return is_idle_; }

 private:
  // Returns false if nothing happens before the deadline.
  bool Wait(int events, int64_t deadline_nanos) const {
    while (true) {
      const absl::Duration left = absl::Nanoseconds(deadline_nanos - Now());
      if (left <= absl::ZeroDuration()) return false;
      pollfd request = {fd(), static_cast<int16_t>(events), 0};
      const int64_t millis = 1 + absl::ToInt64Milliseconds(left);
      if (poll(&request, 1,
               static_cast<int>(std::min<int64_t>(millis, 1'000'000))) > 0) {
        return true;
      }
    }
  }

  absl::Status Lost() {
    is_usable_ = false;
    return absl::UnavailableError(
        absl::StrCat("connection lost: ", OneLine(PQerrorMessage(conn_))));
  }

  absl::Status StatusOf(const PGresult* result) {
    const ExecStatusType type = PQresultStatus(result);
    if (type == PGRES_COMMAND_OK || type == PGRES_TUPLES_OK) {
      return absl::OkStatus();
    }
    if (PQstatus(conn_) == CONNECTION_BAD) return Lost();
    const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state == nullptr) return Lost();
    const std::string text =
        OneLine(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    // It shuts down, or is a standby.
    if (absl::StartsWith(state, "57P") || state == std::string("25006")) {
      is_usable_ = false;
      return absl::UnavailableError(text);
    }
    if (state == std::string("42501")) return absl::PermissionDeniedError(text);
    if (state == std::string("42P01")) {
      return absl::NotFoundError(
          absl::StrCat(text, "; PostgresStore::CreateTable creates it"));
    }
    return absl::UnknownError(absl::StrCat(text, " (", state, ")"));
  }

  PGconn* conn_ = nullptr;
  std::string server_;
  bool is_usable_ = true;
  bool is_idle_ = true;
};

// Of keys, as PostgreSQL reads it.
std::string ArrayOf(absl::Span<const absl::string_view> keys) {
  std::string text = "{";
  for (const absl::string_view key : keys) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", "\"\\\\x",
                    absl::BytesToHexString(key), "\"");
  }
  return text + "}";
}

}  // namespace

// Connections, each of which serves one call at a time.
class PostgresStore::Connections {
 public:
  explicit Connections(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  absl::StatusOr<std::unique_ptr<Connection>> Borrow(int64_t deadline_nanos) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      while (idle_.empty() && count_ == kMostConnections) {
        const int64_t left = deadline_nanos - Now();
        if (left <= 0) {
          return absl::DeadlineExceededError(
              "all connections are in use by other calls");
        }
        returned_.wait_for(lock, std::chrono::nanoseconds(left));
      }
      while (!idle_.empty()) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        if (connection->IsAlive()) return connection;
        --count_;
      }
      ++count_;
    }
    auto opened = Connection::Open(conninfo_, deadline_nanos);
    if (!opened.ok()) Return(nullptr);
    return opened;
  }

  void Return(std::unique_ptr<Connection> connection) {
    const std::lock_guard<std::mutex> lock(mu_);
    if (connection != nullptr && connection->is_usable()) {
      idle_.push_back(std::move(connection));
    } else {
      --count_;
    }
    returned_.notify_one();
  }

  // Runs one command.
  absl::StatusOr<Result> Run(
      const char* command, const std::vector<Connection::Parameter>& parameters,
      absl::Duration timeout) {
    if (timeout <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the timeout is not more than zero");
    }
    const int64_t deadline = Clock::Monotonic().NanosAfter(timeout);
    auto connection = Borrow(deadline);
    if (!connection.ok()) return connection.status();
    auto result = (*connection)->Run(command, parameters, deadline);
    Return(*std::move(connection));
    return result;
  }

 private:
  const std::string conninfo_;
  std::mutex mu_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Connection>> idle_;
  size_t count_ = 0;  // Idle or not.
};

// The connection that listens, its thread, and the listeners.
class PostgresStore::Session {
 public:
  explicit Session(std::string conninfo)
      : conninfo_(std::move(conninfo)),
        wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        thread_([this] { Run(); }) {}

  ~Session() {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      is_stopping_ = true;
    }
    Wake();
    thread_.join();
    close(wake_fd_);
  }

  // The number of the session that lasts with a server; 0 for none.
  uint64_t NumberFor(const std::string& server) const {
    const std::lock_guard<std::mutex> lock(mu_);
    return server == server_ ? number_ : 0;
  }

  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      Listener* listener) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const auto& other : subjects_) {
      if (!absl::StartsWith(prefix, other->prefix) &&
          !absl::StartsWith(other->prefix, prefix)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "key_prefix: \"", absl::CHexEscape(prefix), "\" and \"",
          absl::CHexEscape(other->prefix), "\" of another near cache overlap"));
    }
    subjects_.push_back(std::make_shared<Subject>(
        Subject{std::string(prefix), max_staleness, listener}));
    Wake();
    return absl::OkStatus();
  }

  void Detach(const Listener* listener) {
    std::unique_lock<std::mutex> lock(mu_);
    const auto found = std::find_if(
        subjects_.begin(), subjects_.end(),
        [&](const auto& each) { return each->listener == listener; });
    if (found == subjects_.end()) return;
    subjects_.erase(found);
    // What begins to tell after this does not see it.
    const uint64_t telling = tellings_;
    while (is_telling_ && tellings_ == telling) told_.wait(lock);
  }

 private:
  // What a listener was told of the session is the thread's.
  struct Subject {
    std::string prefix;
    absl::Duration max_staleness;
    Listener* listener;
    bool is_told = false;
    int64_t until_nanos = 0;
  };
  using Subjects = std::vector<std::shared_ptr<Subject>>;

  // Calls listeners, without a lock, so that they may attach others.
  template <typename Function>
  void Tell(Function&& call) {
    Subjects subjects;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      subjects = subjects_;
      is_telling_ = true;
      ++tellings_;
    }
    for (const auto& subject : subjects) call(*subject);
    const std::lock_guard<std::mutex> lock(mu_);
    is_telling_ = false;
    told_.notify_all();
  }

  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t size = write(wake_fd_, &one, sizeof(one));
  }

  // Waits for input on `fd`, if there is one, for Wake, or for a time.
  void WaitUntil(int fd, int64_t nanos) const {
    const int64_t left = std::clamp<int64_t>(nanos - Now(), 0, 1'000'000'000);
    pollfd requests[] = {{wake_fd_, POLLIN, 0}, {fd, POLLIN, 0}};
    poll(requests, 2, static_cast<int>((left + 999'999) / 1'000'000));
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
  }

  // The shortest bound of the listeners; none: they are gone.
  std::optional<absl::Duration> ShortestBound() const {
    const std::lock_guard<std::mutex> lock(mu_);
    std::optional<absl::Duration> shortest;
    for (const auto& subject : subjects_) {
      shortest = std::min(shortest.value_or(absl::InfiniteDuration()),
                          subject->max_staleness);
    }
    return shortest;
  }
  bool is_stopping() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return is_stopping_;
  }

  void Run() {
    absl::Duration pause = kFirstPause;
    int64_t next = Now();
    while (!is_stopping()) {
      if (!ShortestBound().has_value() || Now() < next) {
        WaitUntil(-1, ShortestBound().has_value() ? next : Clock::kNever);
        continue;
      }
      const uint64_t before = latest_;
      const absl::Status why = Keep();
      pause =
          latest_ == before ? std::min(2 * pause, kLongestPause) : kFirstPause;
      next = Clock::Monotonic().NanosAfter(pause);
      End(why);
    }
  }

  // Begins a session and keeps it. Returns when it is lost, or of use to none.
  absl::Status Keep() {
    const int64_t deadline = Clock::Monotonic().NanosAfter(kConnectTimeout);
    auto opened = Connection::Open(conninfo_, deadline);
    if (!opened.ok()) return opened.status();
    Connection& connection = **opened;
    const std::string channel =
        absl::StrCat("near_beat_", connection.process());
    // Beats need not reach the disk.
    absl::Status listens =
        connection
            .Run(absl::StrCat("SET synchronous_commit = off; "
                              "SET default_transaction_isolation = "
                              "'read committed'; "
                              "LISTEN near_entries; LISTEN ",
                              channel),
                 deadline)
            .status();
    if (!listens.ok()) return listens;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      number_ = ++latest_;
      server_ = connection.server();
    }
    beat_has_come_ = false;
    Heartbeat heartbeat(absl::InfiniteDuration(), Now());
    while (true) {
      const std::optional<absl::Duration> bound = ShortestBound();
      if (is_stopping() || !bound.has_value()) {
        return absl::UnavailableError("no near cache needs it");
      }
      heartbeat.SetMaxStaleness(*bound);
      TellOfSession();
      absl::Status status = Handle(connection, channel, heartbeat);
      if (!status.ok()) return status;
      const int64_t now = Now();
      if (now >= heartbeat.dead_nanos()) {
        return absl::UnavailableError("NOTIFY: no answer");
      }
      if (now >= heartbeat.next_nanos()) {
        heartbeat.Send(now);
        status = connection.Send(absl::Substitute(kBeat, channel, ++beats_));
        if (!status.ok()) return status;
      }
      WaitUntil(connection.fd(),
                std::min(heartbeat.next_nanos(), heartbeat.dead_nanos()));
    }
  }

  // To those who have come: what they fetch from now on may be kept.
  void TellOfSession() {
    Tell([&](Subject& subject) {
      if (std::exchange(subject.is_told, true)) return;
      subject.until_nanos = Now();
      subject.listener->OnLease(latest_, subject.until_nanos);
    });
  }

  absl::Status Handle(Connection& connection, const std::string& channel,
                      Heartbeat& heartbeat) {
    absl::Status status = connection.TakeNotifications(
        [&](const std::string& from, const std::string& payload) {
          if (from != channel) {
            TellOf(payload);
          } else if (payload == absl::StrCat(beats_)) {
            beat_has_come_ = true;
          }
        });
    if (!status.ok() || !beat_has_come_ || !connection.is_idle()) return status;
    beat_has_come_ = false;
    const std::optional<int64_t> certified = heartbeat.Answer();
    if (certified.has_value()) TellLease(*certified);
    return absl::OkStatus();
  }

  void TellOf(const std::string& payload) {
    const std::string key = absl::HexStringToBytes(payload);
    Tell([&](Subject& subject) {
      if (!subject.is_told) return;
      if (payload.empty()) {
        subject.listener->OnInvalidateAll();
      } else if (absl::StartsWith(key, subject.prefix)) {
        subject.listener->OnInvalidate({absl::string_view(key)});
      }
    });
  }

  void TellLease(int64_t certified_nanos) {
    Tell([&](Subject& subject) {
      if (!subject.is_told) return;
      subject.until_nanos =
          std::max(subject.until_nanos,
                   Clock::NanosAfter(certified_nanos, subject.max_staleness));
      subject.listener->OnLease(latest_, subject.until_nanos);
    });
  }

  // No fetch bears its number from now on, and no listener has it.
  void End(const absl::Status& why) {
    uint64_t lost = 0;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      lost = std::exchange(number_, 0);
    }
    Tell([&](Subject& subject) {
      const bool had_it = std::exchange(subject.is_told, false);
      subject.listener->OnLoss(had_it ? lost : 0, why);
    });
  }

  const std::string conninfo_;
  const int wake_fd_;

  mutable std::mutex mu_;
  std::condition_variable told_;
  bool is_stopping_ = false;
  Subjects subjects_;
  bool is_telling_ = false;
  uint64_t tellings_ = 0;
  uint64_t number_ = 0;  // 0: there is no session.
  std::string server_;

  // Of the thread.
  uint64_t latest_ = 0;
  int64_t beats_ = 0;
  bool beat_has_come_ = false;

  std::thread thread_;  // Uses all of the above.
};

absl::Status PostgresStore::CreateTable(const std::string& conninfo) {
  const int64_t deadline = Clock::Monotonic().NanosAfter(absl::Seconds(30));
  auto connection = Connection::Open(conninfo, deadline);
  if (!connection.ok()) return connection.status();
  return (*connection)->Run(kSchema, deadline).status();
}

PostgresStore::PostgresStore(std::string conninfo)
    : process_(getpid()),
      connections_(std::make_unique<Connections>(conninfo)),
      session_(std::make_unique<Session>(std::move(conninfo))) {}

PostgresStore::~PostgresStore() {
  if (CheckProcess().ok()) return;
  // To close the child's copies would end the parent's connections.
  static_cast<void>(connections_.release());
  static_cast<void>(session_.release());
}

absl::Status PostgresStore::CheckProcess() const {
  if (getpid() == process_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this store belongs to the process that forked this one");
}

std::vector<absl::StatusOr<Fetched>> PostgresStore::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  std::vector<absl::StatusOr<Fetched>> results;
  if (keys.empty()) return results;
  const auto all = [&](const absl::Status& status) {
    results.assign(keys.size(), status);
    return std::move(results);
  };
  if (absl::Status status = CheckProcess(); !status.ok()) return all(status);
  if (timeout <= absl::ZeroDuration()) {
    return all(absl::DeadlineExceededError("the timeout is not positive"));
  }
  const int64_t deadline = Clock::Monotonic().NanosAfter(timeout);
  auto connection = connections_->Borrow(deadline);
  if (!connection.ok()) return all(connection.status());
  // Both before the request is sent.
  const uint64_t session = session_->NumberFor((*connection)->server());
  const int64_t sent = Now();
  auto result = (*connection)->Run(kFetch, {{ArrayOf(keys), true}}, deadline);
  connections_->Return(*std::move(connection));
  if (!result.ok()) return all(result.status());
  for (int row = 0; row < PQntuples(result->get()); ++row) {
    Fetched fetched;
    fetched.session = session;
    if (PQgetisnull(result->get(), row, 0) == 0) {
      fetched.bytes = ValueOf(result->get(), row, 0);
    }
    int64_t micros = 0;
    if (PQgetisnull(result->get(), row, 1) == 0 &&
        absl::SimpleAtoi(ValueOf(result->get(), row, 1), &micros)) {
      fetched.deadline_nanos =
          Clock::NanosAfter(sent, absl::Microseconds(micros));
    }
    results.push_back(std::move(fetched));
  }
  return results;
}

absl::Status PostgresStore::Put(const Write& write, absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  if (!write.lock_token.empty()) {
    return absl::UnimplementedError("this store has no locks");
  }
  Connection::Parameter ttl = {{}, true};
  if (write.ttl < kLongestTtl) {
    ttl.bytes = absl::StrCat(absl::ToInt64Microseconds(
        absl::Ceil(write.ttl, absl::Microseconds(1))));
  }
  const auto result =
      connections_->Run(kPut,
                        {{std::string(write.key)},
                         {std::string(write.bytes)},
                         ttl,
                         {write.if_absent ? "false" : "true", true}},
                        timeout);
  if (!result.ok()) return result.status();
  if (PQcmdTuples(result->get()) == absl::string_view("1")) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError("the key is there");
}

absl::StatusOr<bool> PostgresStore::Remove(absl::string_view key,
                                           absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  const auto result = connections_->Run(kRemove, {{std::string(key)}}, timeout);
  if (!result.ok()) return result.status();
  // A boolean in binary form.
  return PQntuples(result->get()) == 1 && ValueOf(result->get(), 0, 0) == "\1";
}

absl::Status PostgresStore::Attach(absl::string_view prefix,
                                   absl::Duration max_staleness,
                                   Listener* listener) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  return session_->Attach(prefix, max_staleness, listener);
}

void PostgresStore::Detach(Listener* listener) {
  if (CheckProcess().ok()) session_->Detach(listener);
}
