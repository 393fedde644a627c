// The store of examples/postgres_store.h on a PostgreSQL of the test's own:
// what CheckRemoteStore finds, and the promise of near caches behind it, with
// faults. Skipped where the package postgresql is not installed, which
// ./bazelw installs for --config=postgres.

#include "wheelcache/examples/postgres_store.h"

#include <fcntl.h>
#include <grp.h>
#include <postgresql/libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/testing/check_store.h"
#include "wheelcache/tests/cache/near/redis/promise_checker.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RecordingListener;
using testing::Relay;

// The folder of the newest server's programs; empty if there is none.
std::string ProgramFolder() {
  std::string newest;
  std::error_code error;
  for (const auto& version :
       std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    const std::filesystem::path folder = version.path() / "bin";
    if (std::filesystem::exists(folder / "initdb")) {
      newest = std::max(newest, folder.string());
    }
  }
  return newest;
}

// A cluster in a folder of its own, on a port of 127.0.0.1. Ends with the
// object, by its process id, and with the test's process.
class PostgresServer {
 public:
  PostgresServer() : port_(testing::FreePort()) {
    char folder[] = "/tmp/wheelcache-postgres-XXXXXX";
    folder_ = mkdtemp(folder);
    // PostgreSQL does not run as root.
    if (getuid() == 0) {
      const passwd* const user = getpwnam("postgres");
      user_ = user->pw_uid;
      group_ = user->pw_gid;
      EXPECT_EQ(chown(folder, user_, group_), 0);
    }
    const pid_t initdb = Run({"initdb", "--pgdata", data(), "--auth=trust",
                              "--username=postgres", "--no-sync"});
    int status = 1;
    waitpid(initdb, &status, 0);
    EXPECT_EQ(status, 0) << "initdb failed";
    Start();
  }
  ~PostgresServer() {
    End();
    std::filesystem::remove_all(folder_);
  }

  std::string ConnInfo(int port) const {
    return absl::StrCat("hostaddr=127.0.0.1 port=", port,
                        " user=postgres dbname=postgres");
  }
  std::string conninfo() const { return ConnInfo(port_); }
  int port() const { return port_; }

  void Start() {
    process_ =
        Run({"postgres", "-D", data(), "-p", absl::StrCat(port_), "-k", folder_,
             "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"});
    absl::Status status;
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    do {
      absl::SleepFor(absl::Milliseconds(5));
      status = PostgresStore::CreateTable(conninfo());
    } while (!status.ok() && absl::Now() < limit);
    EXPECT_TRUE(status.ok()) << status;
  }

  // At once, as after a loss of power.
  void End() {
    if (process_ <= 0) return;
    Signal(SIGCONT);
    kill(process_, SIGQUIT);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  // Suspends all of its processes, and lets them go on.
  void Stop() const { Signal(SIGSTOP); }
  void Continue() const { Signal(SIGCONT); }

 private:
  std::string data() const { return folder_ + "/data"; }

  void Signal(int signal) const {
    kill(process_, signal);
    std::ifstream children(
        absl::StrCat("/proc/", process_, "/task/", process_, "/children"));
    for (pid_t child = 0; children >> child;) kill(child, signal);
  }

  pid_t Run(std::vector<std::string> arguments) const {
    const std::string program = ProgramFolder() + "/" + arguments[0];
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    // Only calls that are safe after a fork() among threads.
    if (getuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(group_) != 0 ||
                          setuid(user_) != 0)) {
      _exit(126);
    }
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    const int null = open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      dup2(null, fd);
    }
    execv(program.c_str(), pointers.data());
    _exit(127);
  }

  const int port_;
  std::string folder_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  pid_t process_ = 0;
};

constexpr absl::Duration kTimeout = absl::Seconds(30);

// A connection that waits for whatever it asks.
class Admin {
 public:
  explicit Admin(const std::string& conninfo)
      : conn_(PQconnectdb(conninfo.c_str())) {}
  ~Admin() { PQfinish(conn_); }
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  // Returns the first value of the result; nothing if there is none.
  std::string Run(const std::string& command) {
    PGresult* const result = PQexec(conn_, command.c_str());
    std::string value;
    if (PQntuples(result) > 0) value = PQgetvalue(result, 0, 0);
    PQclear(result);
    return value;
  }
  pid_t process() const { return PQbackendPID(conn_); }

 private:
  PGconn* const conn_;
};

class PostgresStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!ProgramFolder().empty()) server_ = std::make_unique<PostgresServer>();
  }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << "postgresql is not installed";
  }

  static std::unique_ptr<PostgresServer> server_;
};

std::unique_ptr<PostgresServer> PostgresStoreTest::server_;

class PostgresUnderTest final : public StoreUnderTest {
 public:
  explicit PostgresUnderTest(PostgresServer* server)
      : server_(*server), relay_(server->port()) {}

  std::unique_ptr<RemoteStore> NewStore() override {
    return std::make_unique<PostgresStore>(server_.ConnInfo(relay_.port()));
  }
  void Set(absl::string_view key, absl::string_view bytes,
           absl::Duration ttl) override {
    const absl::Status status = other_->Put({key, bytes, ttl}, kTimeout);
    EXPECT_TRUE(status.ok()) << status;
  }
  void Del(absl::string_view key) override {
    EXPECT_TRUE(other_->Remove(key, kTimeout).ok());
  }
  void Hold() override { relay_.Hold(Relay::kUnknown, Relay::kToClient); }
  void Release() override { relay_.ReleaseAll(); }
  void Cut() override { relay_.Close(Relay::kUnknown); }
  void Restart() override {
    server_.End();
    server_.Start();
    other_ = std::make_unique<PostgresStore>(server_.conninfo());
  }

 private:
  PostgresServer& server_;
  Relay relay_;
  // Knows no fault of the relay.
  std::unique_ptr<PostgresStore> other_ =
      std::make_unique<PostgresStore>(server_.conninfo());
};

TEST_F(PostgresStoreTest, KeepsThePromisesOfAStore) {
  PostgresServer& server = *server_;
  PostgresUnderTest subject(&server);  // A StoreUnderTest of your own.
  EXPECT_THAT(wheelcache::CheckRemoteStore(subject), IsEmpty());
}

// The fault for which a query is no heartbeat: the transaction is visible, and
// its process is stopped before it signals the listeners.
TEST_F(PostgresStoreTest, AWriteWhoseWriterStopsIsToldBeforeItIsCertified) {
  constexpr absl::Duration kBound = absl::Milliseconds(100);
  PostgresStore store(server_->conninfo());
  RecordingListener listener;
  ASSERT_TRUE(store.Attach("w:", kBound, &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  Admin writer(server_->conninfo());
  std::atomic<int> written{0};
  std::atomic<int64_t> began_nanos{0};
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    while (!is_over) {
      began_nanos = store.clock().NowNanos();
      writer.Run(absl::StrCat("INSERT INTO near_entries VALUES ('w:", ++written,
                              "', '')"));
    }
  });
  int certified = 0;
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  for (int tries = 0; certified < 3 && absl::Now() < limit; ++tries) {
    kill(writer.process(), SIGSTOP);
    const int64_t began = began_nanos;  // Of this write, or one before it.
    const std::string key = absl::StrCat("w:", written.load());
    const uint64_t session = listener.Session();
    const auto is_told = [&] { return listener.keys.count(key) != 0; };
    // No answer: it is stopped while it holds a lock.
    const auto fetched = store.Fetch({key}, absl::Milliseconds(20))[0];
    if (fetched.ok() && fetched->bytes.has_value() &&
        !listener.Await(is_told, absl::Milliseconds(2))) {
      const int64_t covered = store.clock().NanosAfter(kBound);
      listener.Await([&] {
        // The session begins after the write: it need not be told.
        if (listener.session != session || listener.begun >= began) return true;
        if (listener.until <= covered) return false;
        ++certified;
        EXPECT_TRUE(is_told()) << key;
        return true;
      });
    }
    kill(writer.process(), SIGCONT);
    absl::SleepFor(absl::Microseconds(50 * (tries % 10)));
  }
  is_over = true;
  thread.join();
  store.Detach(&listener);
  EXPECT_GT(certified, 0);
}

TEST_F(PostgresStoreTest, WhatAnotherServerAnswersIsNotOfTheSession) {
  Relay relay(server_->port());
  PostgresStore store(server_->ConnInfo(relay.port()));
  RecordingListener listener;
  ASSERT_TRUE(store.Attach("p:", absl::Seconds(3), &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  const PostgresServer other;
  relay.SetServer(other.port());
  const auto fetched = store.Fetch({"p:key"}, absl::Seconds(30))[0];
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->session, 0);
  store.Detach(&listener);
}

TEST_F(PostgresStoreTest, ErrorsSayWhatIsWrong) {
  Admin admin(server_->conninfo());
  PostgresStore store(server_->conninfo());
  const std::string long_key(5000, 'k');
  EXPECT_THAT(store.Put({long_key, "value"}, kTimeout).message(),
              HasSubstr("payload string too long"));
  PostgresStore nobody(server_->conninfo() + " user=nobody");
  EXPECT_TRUE(absl::IsUnavailable(nobody.Put({"key", "value"}, kTimeout)));
  admin.Run("ALTER TABLE near_entries RENAME TO other");
  const absl::Status no_table = store.Put({"key", "value"}, kTimeout);
  admin.Run("ALTER TABLE other RENAME TO near_entries");
  EXPECT_TRUE(absl::IsNotFound(no_table));
  EXPECT_THAT(no_table.message(), HasSubstr("CreateTable"));
  EXPECT_TRUE(store.Put({"key", "value"}, kTimeout).ok());
}

TEST_F(PostgresStoreTest, TheChildOfAForkUsesNoConnectionOfItsParent) {
  auto store = std::make_unique<PostgresStore>(server_->conninfo());
  EXPECT_TRUE(store->Put({"key", "value"}, kTimeout).ok());
  EXPECT_TRUE(testing::HoldsInChild([&] {
    const bool refuses =
        absl::IsFailedPrecondition(store->Fetch({"key"}, kTimeout)[0].status());
    store.reset();
    return refuses;
  }));
  EXPECT_EQ(store->Fetch({"key"}, kTimeout)[0]->bytes, "value");
}

constexpr absl::Duration kBound = absl::Milliseconds(200);  // L

enum class Fault { kStop, kRestart, kTerminate, kClose, kHold, kDrop, kEnd };

// The server, what is between it and two stores, and another client.
class Postgres {
 public:
  using Random = PromiseChecker::Random;

  explicit Postgres(PostgresServer* server) : server_(*server) {
    std::vector<std::unique_ptr<RemoteStore>> stores;
    for (auto& relay : relays_) {
      relay = std::make_unique<Relay>(server_.port());
      stores.push_back(std::make_unique<PostgresStore>(absl::StrCat(
          server_.ConnInfo(relay->port()), " application_name=near")));
    }
    PromiseChecker::Options options;
    options.max_staleness = kBound;
    options.command_timeout = kBound / 2;
    options.least_faults = 20;
    options.most_between_faults = kBound / 2;
    checker_ = std::make_unique<PromiseChecker>(options, std::move(stores));
    Connect();
  }

  // Returns the first violation.
  std::string Run(int64_t operations) {
    return checker_->Run(
        operations, [this](Random& random) { return Break(random); },
        [this](const std::string& name, int64_t version) {
          return WriteAsAnother(name, version);
        });
  }

  const PromiseChecker& checker() const { return *checker_; }

 private:
  void Connect() {
    admin_ = std::make_unique<Admin>(server_.conninfo());
    writer_ = std::make_unique<Admin>(server_.conninfo());
  }

  std::optional<int64_t> WriteAsAnother(const std::string& name,
                                        int64_t version) {
    const std::string written = writer_->Run(absl::StrCat(
        "INSERT INTO near_entries VALUES ('p:", name, "', '", version,
        "') ON CONFLICT (key) DO UPDATE SET value = excluded.value "
        "RETURNING 1"));
    if (written != "1") return std::nullopt;
    return Clock::Monotonic().NowNanos();
  }

  std::string Break(Random& random) {
    const absl::Duration length = PromiseChecker::UpTo(random, 2 * kBound);
    Relay& relay = *relays_[PromiseChecker::Uniform(random, relays_.size())];
    const auto direction = static_cast<Relay::Direction>(
        PromiseChecker::Uniform(random, Relay::kDirections));
    auto fault = static_cast<Fault>(
        PromiseChecker::Uniform(random, static_cast<uint64_t>(Fault::kEnd)));
    // Takes long.
    if (fault == Fault::kRestart && PromiseChecker::Uniform(random, 3) != 0) {
      fault = Fault::kTerminate;
    }
    switch (fault) {
      case Fault::kStop:
        server_.Stop();
        absl::SleepFor(length);
        server_.Continue();
        return "SIGSTOP";
      case Fault::kRestart: {
        MutexLock foreign(&checker_->foreign_writes);
        server_.End();
        server_.Start();
        Connect();
        return "restarts";
      }
      case Fault::kTerminate:
        admin_->Run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
            "application_name = 'near' AND random() < 0.5");
        return "pg_terminate_backend";
      case Fault::kClose:
        relay.Close(Relay::kUnknown);
        return "connections closed";
      case Fault::kHold:
        relay.Hold(Relay::kUnknown, direction);
        absl::SleepFor(length);
        relay.ReleaseAll();
        return "a direction held";
      default:
        relay.Drop(Relay::kUnknown, direction);
        absl::SleepFor(length);
        relay.Close(Relay::kUnknown);
        relay.ReleaseAll();
        return "a direction dropped";
    }
  }

  PostgresServer& server_;
  std::array<std::unique_ptr<Relay>, PromiseChecker::kCaches> relays_;
  std::unique_ptr<Admin> admin_;

  std::unique_ptr<Admin> writer_;  // Of the foreign writer.

  std::unique_ptr<PromiseChecker> checker_;
};

// Promise: A near cache is never staler than its bound
TEST_F(PostgresStoreTest, NearCachesKeepTheirBoundWhateverBreaks) {
  Postgres postgres(server_.get());
  EXPECT_EQ(postgres.Run(static_cast<int64_t>(TestOperations())), "")
      << "WHEELCACHE_TEST_SEED=" << TestSeed();
  std::cout << postgres.checker().Report() << std::endl;
  // It would prove nothing otherwise.
  EXPECT_GT(postgres.checker().local_hits(),
            static_cast<int64_t>(TestOperations()) / 10);
}

}  // namespace
}  // namespace wheelcache
