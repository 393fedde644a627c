#include "wheelcache/tests/testing/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "wheelcache/tests/testing/loopback.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::testing {
namespace {

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Of what comes at once, with the first command that writes.
constexpr size_t kLargeBytes = 4096;

Relay::Kind KindOf(absl::string_view commands) {
  if (absl::StrContains(commands, "\r\nTRACKING\r\n")) {
    return Relay::kSubscription;
  }
  if (absl::StrContains(commands, "\r\nPTTL\r\n")) return Relay::kReads;
  if (absl::StrContains(commands, "\r\nSET\r\n") ||
      absl::StrContains(commands, "\r\nDEL\r\n")) {
    return commands.size() < kLargeBytes ? Relay::kWrites : Relay::kLargeWrites;
  }
  return Relay::kUnknown;
}

}  // namespace

Relay::Relay(int server_port)
    : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      server_port_(server_port) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  listen(listener_, 100);
  thread_ = std::thread([this] { Run(); });
}

Relay::~Relay() {
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    for (const auto& connection : connections_) connection->is_closed = true;
  }
  Wake();
  thread_.join();
  close(listener_);
  close(wake_fd_);
}

void Relay::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void Relay::Set(Kind kind, Direction direction, Rule rule) {
  MutexLock lock(&mu_);
  rules_[kind][direction] = std::move(rule);
  for (const auto& connection : connections_) {
    if (connection->kind == kind) Forward(*connection, direction);
  }
}

void Relay::Hold(Kind kind, Direction direction) {
  Set(kind, direction, {Mode::kHold, ""});
}
void Relay::HoldAfter(Kind kind, Direction direction, absl::string_view text) {
  Set(kind, direction, {Mode::kHoldAfter, std::string(text)});
}
void Relay::Drop(Kind kind, Direction direction) {
  Set(kind, direction, {Mode::kDrop, ""});
}
void Relay::Release(Kind kind, Direction direction) {
  Set(kind, direction, {});
}
void Relay::ReleaseAll() {
  for (int kind = 0; kind < kKinds; ++kind) {
    Release(static_cast<Kind>(kind), kToServer);
    Release(static_cast<Kind>(kind), kToClient);
  }
}

bool Relay::HoldsLocked(Kind kind, Direction direction,
                        absl::string_view text) {
  return std::any_of(
      connections_.begin(), connections_.end(), [&](const auto& connection) {
        return connection->kind == kind &&
               absl::StrContains(connection->held[direction], text);
      });
}

bool Relay::Holds(Kind kind, Direction direction, absl::string_view text) {
  MutexLock lock(&mu_);
  return HoldsLocked(kind, direction, text);
}

bool Relay::AwaitHeld(Kind kind, Direction direction, absl::string_view text) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  MutexLock lock(&mu_);
  while (!HoldsLocked(kind, direction, text)) {
    if (absl::Now() > end) return false;
    changed_.WaitWithTimeout(&mu_, absl::Seconds(1));
  }
  return true;
}

bool Relay::AwaitPassed(Kind kind, Direction direction) {
  const absl::Time end = absl::Now() + absl::Seconds(1);
  MutexLock lock(&mu_);
  while (rules_[kind][direction].mode == Mode::kHoldAfter) {
    if (absl::Now() > end) return false;
    changed_.WaitWithTimeout(&mu_, absl::Milliseconds(100));
  }
  return true;
}

void Relay::Inject(Kind kind, absl::string_view bytes) {
  MutexLock lock(&mu_);
  for (const auto& connection : connections_) {
    if (connection->kind != kind) continue;
    send(connection->to[kToServer], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
}

void Relay::SetServer(int port) {
  MutexLock lock(&mu_);
  server_port_ = port;
}

void Relay::Close(Kind kind) {
  {
    MutexLock lock(&mu_);
    for (const auto& connection : connections_) {
      if (connection->kind == kind) connection->is_closed = true;
    }
  }
  Wake();
}

void Relay::Run() {
  while (true) {
    std::vector<pollfd> requests = {{wake_fd_, POLLIN, 0},
                                    {listener_, POLLIN, 0}};
    std::vector<std::pair<Connection*, int>> directions;
    {
      MutexLock lock(&mu_);
      CloseClosed();
      if (is_stopping_) return;
      for (const auto& connection : connections_) {
        for (int direction = 0; direction < kDirections; ++direction) {
          // A direction comes from where the other leads.
          requests.push_back({connection->to[1 - direction], POLLIN, 0});
          directions.emplace_back(connection.get(), direction);
        }
      }
    }
    poll(requests.data(), requests.size(), -1);
    MutexLock lock(&mu_);
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
    for (size_t i = 0; i < directions.size(); ++i) {
      if (requests[i + 2].revents != 0) {
        Receive(*directions[i].first, directions[i].second);
      }
    }
    if (requests[1].revents != 0) Accept();
    changed_.SignalAll();
  }
}

void Relay::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(server_port_);
  if (client < 0 || connect(server, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)) != 0) {
    close(client);
    close(server);
    return;
  }
  SetNoDelay(client);
  SetNoDelay(server);
  auto connection = std::make_unique<Connection>();
  connection->to = {server, client};
  connections_.push_back(std::move(connection));
}

void Relay::Receive(Connection& connection, int direction) {
  if (connection.is_closed) return;
  std::array<char, 1 << 16> buffer;
  const ssize_t size = recv(connection.to[1 - direction], buffer.data(),
                            buffer.size(), MSG_DONTWAIT);
  if (size < 0) return;
  if (size == 0) {
    connection.is_closed = true;
    return;
  }
  std::string& held = connection.held[direction];
  held.append(buffer.data(), static_cast<size_t>(size));
  if (direction == kToServer && connection.kind == kUnknown) {
    connection.kind = KindOf(held);
  }
  Forward(connection, direction);
}

void Relay::Forward(Connection& connection, int direction) {
  std::string& held = connection.held[direction];
  Rule& rule = rules_[connection.kind][direction];
  size_t count = held.size();
  switch (rule.mode) {
    case Mode::kPass:
      break;
    case Mode::kHold:
      return;
    case Mode::kHoldAfter: {
      const size_t at = held.find(rule.text);
      if (at == std::string::npos) break;
      count = at + rule.text.size();
      rule.mode = Mode::kHold;
      break;
    }
    case Mode::kDrop:
      held.clear();
      return;
  }
  for (size_t sent = 0; sent < count;) {
    const ssize_t size = send(connection.to[direction], held.data() + sent,
                              count - sent, MSG_NOSIGNAL);
    if (size <= 0) {
      connection.is_closed = true;
      break;
    }
    sent += static_cast<size_t>(size);
  }
  held.erase(0, count);
}

void Relay::CloseClosed() {
  const auto closed = std::partition(
      connections_.begin(), connections_.end(),
      [](const auto& connection) { return !connection->is_closed; });
  for (auto each = closed; each != connections_.end(); ++each) {
    for (const int fd : (*each)->to) close(fd);
  }
  connections_.erase(closed, connections_.end());
}

}  // namespace wheelcache::testing
