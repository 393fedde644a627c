// A stream socket, of TCP or of the Unix domain, whose calls do not wait unless
// they are told to; and how to wait for it, by poll().
//
// Guarantees. No call raises SIGPIPE. Small packets leave at once
// (TCP_NODELAY). Not inherited by programs that the process starts.
//
// Threads. Thread-compatible; one thread may send while another receives, and
// Shutdown is thread-safe while the socket lives.
//
// Errors. Unavailable, with what the system says. A socket that failed must be
// destroyed.
//
// Cost. A system call each. Connect to a name, rather than to an address, asks
// the resolver, and blocks as long as that does.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SOCKET_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SOCKET_H_

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// What poll() is asked for, and what it tells: POLLIN and so on.
using PollEvents = decltype(pollfd::events);

struct PollRequest {
  int fd = -1;  // poll() ignores a negative one.
  PollEvents events = 0;
  int64_t wake_nanos = Clock::kNever;
};

// Calls poll() until `deadline_nanos`; Clock::kNever: without an end. Returns
// whether something has happened. May return false early, after a signal.
WHEELCACHE_EXPORT bool PollUntil(absl::Span<pollfd> requests,
                                 int64_t deadline_nanos, const Clock& clock);

// The same, for one descriptor.
inline bool PollUntil(int fd, PollEvents events, int64_t deadline_nanos,
                      const Clock& clock) {
  pollfd request = {};
  request.fd = fd;
  request.events = events;
  return PollUntil(absl::MakeSpan(&request, 1), deadline_nanos, clock);
}

class WHEELCACHE_EXPORT Socket final {
 public:
  // Begins to connect. Of the addresses of a name, `attempt` chooses one, so
  // that repeated attempts go through all of them.
  static absl::StatusOr<Socket> Connect(const ServerUrl& url,
                                        unsigned attempt = 0);

  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  // Returns whether the connection stands, once poll() has told POLLOUT. Called
  // once, before the first Send or Receive.
  absl::Status FinishConnect() const;

  // Sends as many bytes as there is room for now, maybe none, and returns how
  // many.
  absl::StatusOr<size_t> Send(absl::string_view bytes) const;

  // How Receive waits for bytes: not at all, or for kLongestWait at most, give
  // or take some milliseconds, which saves a poll().
  enum class Wait { kNever, kBriefly };
  static constexpr absl::Duration kLongestWait = absl::Milliseconds(20);

  // Returns how many bytes have been received into `buffer`; nothing if none
  // are there. The end of the stream is an error.
  absl::StatusOr<std::optional<size_t>> Receive(absl::Span<char> buffer,
                                                Wait wait = Wait::kNever) const;

  // Ends the stream in both directions: a thread in poll() or Receive wakes up.
  void Shutdown() const;

  int fd() const { return fd_; }

 private:
  explicit Socket(int fd) : fd_(fd) {}

  static absl::StatusOr<Socket> ConnectTo(const sockaddr* address,
                                          socklen_t size);

  int fd_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SOCKET_H_
