#include "wheelcache/cache/near/internal/redis/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/sentinel.h"

namespace wheelcache::internal {
namespace {

absl::Status SystemError(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

bool WouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

}  // namespace

bool SocketAddress::operator==(const SocketAddress& other) const {
  return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
}

Endpoint::Endpoint(ServerUrl url)
    : url_(std::move(url)),
      resolver_(url_.primary_name.empty() ? Resolve : AskSentinels) {}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const ServerUrl& url) {
  std::vector<SocketAddress> addresses;
  if (!url.socket_path.empty()) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    url.socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    SocketAddress& only = addresses.emplace_back();
    std::memcpy(&only.storage, &address, sizeof(address));
    only.size = sizeof(address);
    return addresses;
  }
  const ServerUrl::Host& host = url.hosts.front();
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      host.host.c_str(), std::to_string(host.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot resolve host \"", host.host, "\": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owner(found);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.size = each->ai_addrlen;
  }
  return addresses;
}

absl::StatusOr<SocketAddress> Endpoint::Address() {
  if (address_.has_value()) return *address_;
  absl::StatusOr<std::vector<SocketAddress>> addresses = resolver_(url_);
  if (!addresses.ok()) return addresses.status();
  auto chosen = std::find_if(
      addresses->begin(), addresses->end(), [this](const SocketAddress& each) {
        return std::find(given_up_.begin(), given_up_.end(), each) ==
               given_up_.end();
      });
  if (chosen == addresses->end()) {
    // All have been tried.
    given_up_.clear();
    chosen = addresses->begin();
  }
  address_ = *chosen;
  return *address_;
}

void Endpoint::GiveUp(const SocketAddress& address) {
  if (!(address_ == address)) return;
  given_up_.push_back(address);
  address_.reset();
}

bool PollUntil(absl::Span<pollfd> requests, int64_t deadline_nanos,
               const Clock& clock) {
  if (deadline_nanos == Clock::kNever) {
    return ppoll(requests.data(), requests.size(), nullptr, nullptr) > 0;
  }
  const int64_t now = clock.NowNanos();
  const int64_t left = deadline_nanos <= now ? 0 : deadline_nanos - now;
  const timespec timeout = absl::ToTimespec(absl::Nanoseconds(left));
  return ppoll(requests.data(), requests.size(), &timeout, nullptr) > 0;
}

absl::StatusOr<std::unique_ptr<Socket>> Socket::Connect(
    const SocketAddress& address) {
  const auto* const any = reinterpret_cast<const sockaddr*>(&address.storage);
  const int fd =
      ::socket(any->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return SystemError("socket", errno);
  auto socket = absl::WrapUnique(new Socket(fd));
  if (any->sa_family != AF_UNIX) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (connect(fd, any, address.size) != 0 && errno != EINPROGRESS) {
    return SystemError("connect", errno);
  }
  return socket;
}

Socket::~Socket() {
  // Also where the child of a fork() has a copy of the descriptor.
  shutdown(fd_, SHUT_RDWR);
  close(fd_);
}

absl::StatusOr<PollEvents> Socket::Prepare() {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return SystemError("connect", error);
  // From now on, what is not to wait says so with each call.
  const timeval timeout = absl::ToTimeval(kLongestWait);
  const int flags = fcntl(fd_, F_GETFL);
  if (setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) !=
          0 ||
      flags < 0 || fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return SystemError("set up", errno);
  }
  return PollEvents{0};
}

absl::StatusOr<size_t> Socket::Send(absl::string_view bytes) {
  const ssize_t sent =
      send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (WouldBlock(errno)) return 0;
  return SystemError("send", errno);
}

absl::StatusOr<std::optional<size_t>> Socket::Receive(absl::Span<char> buffer,
                                                      Wait wait) {
  const ssize_t received = recv(fd_, buffer.data(), buffer.size(),
                                wait == Wait::kBriefly ? 0 : MSG_DONTWAIT);
  if (received > 0) return static_cast<size_t>(received);
  if (received == 0) {
    return absl::UnavailableError("the server closed the connection");
  }
  if (WouldBlock(errno)) return std::nullopt;
  return SystemError("receive", errno);
}

void Socket::Shutdown() const { shutdown(fd_, SHUT_RDWR); }

}  // namespace wheelcache::internal
