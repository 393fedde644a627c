#include "wheelcache/tests/testing/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "wheelcache/tests/testing/loopback.h"

namespace wheelcache::testing {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(30);

// The first is how Debian's redis-tools brings the server: by its name it knows
// what to be.
constexpr const char* kBinaries[] = {"/usr/bin/redis-check-rdb",
                                     "/usr/bin/redis-server",
                                     "/usr/local/bin/redis-server"};

}  // namespace

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

absl::StatusOr<std::unique_ptr<RedisServer>> RedisServer::Start(
    std::vector<std::string> options) {
  absl::Status status;
  // Another process may take the free port first.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::unique_ptr<RedisServer> server(new RedisServer(options));
    status = server->Launch();
    if (status.ok()) return server;
  }
  return status;
}

RedisServer::RedisServer(std::vector<std::string> options)
    : port_(FreePort()),
      tls_port_(FreePort()),
      bus_port_(FreePort()),
      options_(std::move(options)) {}

RedisServer::~RedisServer() {
  Kill();
  unlink(socket_path().c_str());
}

std::string RedisServer::socket_path() const {
  return absl::StrCat("/tmp/wheelcache-test-", getpid(), "-", port_, ".sock");
}

void RedisServer::Kill() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

absl::Status RedisServer::Restart() { return Launch(); }

void RedisServer::Stop() const { kill(process_, SIGSTOP); }

void RedisServer::Continue() const { kill(process_, SIGCONT); }

absl::Status RedisServer::Launch() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  std::vector<std::string> arguments = {
      "redis-server", "--port", absl::StrCat(port_), "--bind", "127.0.0.1",
      "--unixsocket", socket_path(), "--save", "", "--dir",
      folder == nullptr ? "/tmp" : folder,
      // Where DEBUG RELOAD leaves all keys, for no other server to load.
      "--dbfilename", absl::StrCat("dump", port_, ".rdb"),
      "--enable-debug-command", "local",
      // Expires keys soon that nobody reads.
      "--hz", "100"};
  if (absl::c_linear_search(options_, "--tls-cert-file")) {
    // The latter for nodes of a cluster.
    for (const char* option : {"--tls-port", "--cluster-announce-tls-port"}) {
      arguments.insert(arguments.end(), {option, absl::StrCat(tls_port_)});
    }
  }
  // Without, it would be ten thousand further, where there may be none.
  if (absl::c_linear_search(options_, "--cluster-enabled")) {
    arguments.insert(
        arguments.end(),
        {"--cluster-port", absl::StrCat(bus_port_), "--cluster-config-file",
         absl::StrCat("nodes-", port_, ".conf")});
  }
  // The file of a configuration comes first.
  const bool has_file = !options_.empty() && options_[0][0] == '/';
  if (has_file) arguments.insert(arguments.begin() + 1, options_[0]);
  arguments.insert(arguments.end(), options_.begin() + (has_file ? 1 : 0),
                   options_.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    // Only calls that are safe after a fork() among threads.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    for (const char* binary : kBinaries) execv(binary, pointers.data());
    _exit(127);
  }
  return AwaitAnswer();
}

absl::Status RedisServer::AwaitAnswer() {
  const absl::Time limit = absl::Now() + kStartLimit;
  while (absl::Now() < limit) {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        return absl::NotFoundError(
            absl::StrCat("there is no Redis server: neither ", kBinaries[0],
                         " nor ", kBinaries[1], "; install redis-tools"));
      }
      return absl::InternalError("redis-server ended at once");
    }
    if (RedisClient(port_).Run({"PING"}) != "(closed)") {
      return absl::OkStatus();
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  return absl::DeadlineExceededError("redis-server does not answer");
}

RedisClient::RedisClient(int port, absl::Duration patience)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in address = Loopback(port);
  if (patience != absl::InfiniteDuration()) {
    const timeval timeout = absl::ToTimeval(patience);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    close(fd_);
    fd_ = -1;
  }
}

RedisClient::~RedisClient() {
  if (fd_ >= 0) close(fd_);
}

std::string RedisClient::Run(const std::vector<absl::string_view>& arguments) {
  Send(arguments);
  return Receive();
}

void RedisClient::Send(const std::vector<absl::string_view>& arguments) {
  std::string bytes = absl::StrCat("*", arguments.size(), "\r\n");
  for (const absl::string_view argument : arguments) {
    absl::StrAppend(&bytes, "$", argument.size(), "\r\n", argument, "\r\n");
  }
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t size =
        send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) return;
    sent += static_cast<size_t>(size);
  }
}

std::string RedisClient::Receive() {
  std::string text;
  return ReceiveInto(&text) ? text : "(closed)";
}

// Of the five types of RESP2, the first character tells.
bool RedisClient::ReceiveInto(std::string* text) {
  std::string line;
  if (!TakeLine(&line)) return false;
  const char type = line[0];
  line.erase(0, 1);
  int count = 0;
  switch (type) {
    case '$':
      if (!absl::SimpleAtoi(line, &count)) return false;
      if (count < 0) return AppendTo(text, "(nil)");
      return TakeBytes(static_cast<size_t>(count), &line) &&
             AppendTo(text, line);
    case '*':
      if (!absl::SimpleAtoi(line, &count)) return false;
      if (count < 0) return AppendTo(text, "(nil)");
      for (int i = 0; i < count; ++i) {
        if (i != 0) text->push_back(' ');
        if (!ReceiveInto(text)) return false;
      }
      return true;
    default:  // A status, an error or a number.
      return AppendTo(text, line);
  }
}

bool RedisClient::AppendTo(std::string* text, absl::string_view more) {
  text->append(more.data(), more.size());
  return true;
}

bool RedisClient::TakeLine(std::string* line) {
  size_t end = 0;
  while ((end = received_.find("\r\n")) == std::string::npos) {
    if (!ReceiveMore()) return false;
  }
  *line = received_.substr(0, end);
  received_.erase(0, end + 2);
  return !line->empty();
}

bool RedisClient::TakeBytes(size_t count, std::string* bytes) {
  while (received_.size() < count + 2) {
    if (!ReceiveMore()) return false;
  }
  *bytes = received_.substr(0, count);
  received_.erase(0, count + 2);
  return true;
}

bool RedisClient::ReceiveMore() {
  std::array<char, 1 << 14> buffer;
  const ssize_t size = recv(fd_, buffer.data(), buffer.size(), 0);
  if (size <= 0) return false;
  received_.append(buffer.data(), static_cast<size_t>(size));
  return true;
}

std::vector<std::string> ConnectionsOf(RedisClient& client, Connections which) {
  std::vector<std::string> ids;
  const std::string list = client.Run({"CLIENT", "LIST"});
  for (const absl::string_view line : absl::StrSplit(list, '\n')) {
    if (!absl::StrContains(line, "name=wheelcache ")) continue;
    const absl::string_view flags = line.substr(line.find(" flags=") + 7);
    const bool is_tracking =
        absl::StrContains(flags.substr(0, flags.find(' ')), "B");
    if (is_tracking != (which == Connections::kTracking)) continue;
    const absl::string_view id = line.substr(0, line.find(' '));
    ids.emplace_back(id.substr(id.find('=') + 1));
  }
  return ids;
}

}  // namespace wheelcache::testing
