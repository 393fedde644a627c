#include "wheelcache/cache/near/internal/redis/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

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
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const ServerUrl& url) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot resolve host \"", url.host, "\": ", gai_strerror(error)));
  }
  return Addresses(found);
}

}  // namespace

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

absl::StatusOr<Socket> Socket::Connect(const ServerUrl& url, unsigned attempt) {
  if (!url.socket_path.empty()) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    url.socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return ConnectTo(reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address));
  }
  absl::StatusOr<Addresses> addresses = Resolve(url);
  if (!addresses.ok()) return addresses.status();
  std::vector<const addrinfo*> choices;
  for (const addrinfo* each = addresses->get(); each != nullptr;
       each = each->ai_next) {
    choices.push_back(each);
  }
  const addrinfo& chosen = *choices[attempt % choices.size()];
  return ConnectTo(chosen.ai_addr, chosen.ai_addrlen);
}

absl::StatusOr<Socket> Socket::ConnectTo(const sockaddr* address,
                                         socklen_t size) {
  Socket socket(::socket(address->sa_family,
                         SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd_ < 0) return SystemError("socket", errno);
  if (address->sa_family != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (connect(socket.fd_, address, size) != 0 && errno != EINPROGRESS) {
    return SystemError("connect", errno);
  }
  return socket;
}

Socket::~Socket() {
  if (fd_ < 0) return;
  // Also where the child of a fork() has a copy of the descriptor.
  Shutdown();
  close(fd_);
}

absl::Status Socket::FinishConnect() const {
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
  return absl::OkStatus();
}

absl::StatusOr<size_t> Socket::Send(absl::string_view bytes) const {
  const ssize_t sent =
      send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (WouldBlock(errno)) return 0;
  return SystemError("send", errno);
}

absl::StatusOr<std::optional<size_t>> Socket::Receive(absl::Span<char> buffer,
                                                      Wait wait) const {
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
