// A Redis server of the test's own, and a client that is none of the library's.
//
//   absl::StatusOr<std::unique_ptr<RedisServer>> server = RedisServer::Start();
//   ASSERT_TRUE(server.ok()) << server.status();
//   RedisClient other((*server)->port());
//   EXPECT_EQ(other.Run({"SET", "key", "value"}), "OK");
//
// The server listens on a free port of 127.0.0.1 and on a Unix socket, and with
// the option --tls-cert-file on one for TLS, saves nothing, and allows DEBUG.
// It ends with the object, by its process id, and with the test's process. The
// binary is that of the Debian package redis-tools, or any redis-server of the
// PATH; a test fails where there is none.

#ifndef WHEELCACHE_TESTS_TESTING_REDIS_SERVER_H_
#define WHEELCACHE_TESTS_TESTING_REDIS_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace wheelcache::testing {

class RedisServer final {
 public:
  // Starts a server with further options ("--maxclients", "10"), and returns
  // once it answers, also with an error. The first one may be the file of a
  // configuration.
  static absl::StatusOr<std::unique_ptr<RedisServer>> Start(
      std::vector<std::string> options = {});

  ~RedisServer();

  // Ends it by SIGKILL.
  void Kill();

  // Starts it again after Kill(), empty, on the same port.
  absl::Status Restart();

  // Suspends the process, and lets it go on.
  void Stop() const;
  void Continue() const;

  int port() const { return port_; }
  int tls_port() const { return tls_port_; }
  std::string url() const { return absl::StrCat("redis://127.0.0.1:", port_); }
  std::string socket_path() const;

 private:
  explicit RedisServer(std::vector<std::string> options);

  absl::Status Launch();
  absl::Status AwaitAnswer();

  const int port_;
  const int tls_port_;
  const int bus_port_;  // Of a node of a cluster.
  const std::vector<std::string> options_;
  pid_t process_ = -1;
};

// A connection with a blocking socket.
class RedisClient final {
 public:
  // Waits so long for a reply; then the connection counts as closed.
  explicit RedisClient(int port,
                       absl::Duration patience = absl::InfiniteDuration());
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Runs a command, and returns its reply as text: "OK", "3", "(nil)",
  // "ERR ...", and an array as its elements with spaces between. Returns
  // "(closed)" if the server closes the connection first.
  std::string Run(const std::vector<absl::string_view>& arguments);

  // Sends a command without waiting.
  void Send(const std::vector<absl::string_view>& arguments);

  // Waits for the next reply.
  std::string Receive();

 private:
  bool ReceiveInto(std::string* text);
  static bool AppendTo(std::string* text, absl::string_view more);
  bool TakeLine(std::string* line);
  bool TakeBytes(size_t count, std::string* bytes);
  bool ReceiveMore();

  int fd_;
  std::string received_;
};

// Which of the library's connections a server has: those on which it tells of
// writes, or the others.
enum class Connections { kTracking, kOthers };

// Returns their numbers.
std::vector<std::string> ConnectionsOf(RedisClient& client, Connections which);

// Returns a port of 127.0.0.1 that nothing listened on a moment ago.
int FreePort();

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REDIS_SERVER_H_
