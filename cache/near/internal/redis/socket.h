// A stream of bytes to a server, whose calls do not wait unless they are told
// to: a socket of TCP or of the Unix domain, or what stands on one; and how to
// wait for it, by poll().
//
// Guarantees. No call raises SIGPIPE. Small packets leave at once
// (TCP_NODELAY). Not inherited by programs that the process starts.
//
// Threads. Thread-compatible; one thread may send while another receives, and
// Shutdown is thread-safe while the socket lives.
//
// Errors. Unavailable, with what the system says, and those of
// cache/near/tls/tls.h. A stream that failed must be destroyed.
//
// Cost. A system call each. Endpoint asks the resolver for a name, or Sentinels
// for a primary, and blocks as long as that takes.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SOCKET_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SOCKET_H_

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

class WHEELCACHE_EXPORT Stream {
 public:
  // How Receive waits for bytes: not at all, or for kLongestWait at most, give
  // or take some milliseconds, which saves a poll().
  enum class Wait { kNever, kBriefly };
  static constexpr absl::Duration kLongestWait = absl::Milliseconds(20);

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // Goes on with what precedes the first Send and Receive. Called whenever
  // poll() tells of what the call before has returned, at first POLLOUT, until
  // it returns 0.
  virtual absl::StatusOr<PollEvents> Prepare() = 0;

  // Sends as many bytes as there is room for now, maybe none, and returns how
  // many.
  virtual absl::StatusOr<size_t> Send(absl::string_view bytes) = 0;

  // Returns how many bytes have been received into `buffer`; nothing if none
  // are there. The end of the stream is an error.
  virtual absl::StatusOr<std::optional<size_t>> Receive(absl::Span<char> buffer,
                                                        Wait wait) = 0;

  // Whether there is more to receive of which poll() does not tell.
  virtual bool has_more() const { return false; }

  // Ends the stream in both directions: a thread in poll() or Receive wakes up.
  virtual void Shutdown() const = 0;

  virtual int fd() const = 0;
};

// Makes streams that stand on others, as those of TLS do.
//
// Threads. Thread-safe.
class WHEELCACHE_EXPORT StreamMaker {
 public:
  StreamMaker() = default;
  StreamMaker(const StreamMaker&) = delete;
  StreamMaker& operator=(const StreamMaker&) = delete;
  virtual ~StreamMaker() = default;

  // Returns a stream to that server, whose Prepare is still to be called, as
  // that of `stream` is.
  virtual absl::StatusOr<std::unique_ptr<Stream>> Wrap(
      std::unique_ptr<Stream> stream, const ServerUrl& url) const = 0;
};

// Where a socket is to connect to.
struct SocketAddress {
  bool operator==(const SocketAddress& other) const;

  sockaddr_storage storage = {};
  socklen_t size = 0;
};

// The address that all connections of a store have in common. A name may have
// several: connections to different servers would end each other's sessions.
//
// Threads. Thread-compatible.
class WHEELCACHE_EXPORT Endpoint final {
 public:
  using Resolver = std::function<absl::StatusOr<std::vector<SocketAddress>>(
      const ServerUrl& url)>;

  // Asks the system's resolver, or the URL's Sentinels.
  explicit Endpoint(ServerUrl url);

  // Asks another resolver.
  Endpoint(ServerUrl url, Resolver resolver)
      : url_(std::move(url)), resolver_(std::move(resolver)) {}

  const ServerUrl& url() const { return url_; }

  // Returns the same address until it is given up. Asks the resolver if there
  // is none.
  absl::StatusOr<SocketAddress> Address();

  // A connection came about there.
  void Keep() { given_up_.clear(); }

  // None came about there: if it is still the one, the next is another of the
  // name's, as far as it has others.
  void GiveUp(const SocketAddress& address);

 private:
  const ServerUrl url_;
  const Resolver resolver_;
  std::optional<SocketAddress> address_ = {};
  std::vector<SocketAddress> given_up_;  // Since one was kept.
};

// Returns the addresses of the host, or that of the path.
WHEELCACHE_EXPORT absl::StatusOr<std::vector<SocketAddress>> Resolve(
    const ServerUrl& url);

class WHEELCACHE_EXPORT Socket final : public Stream {
 public:
  // Begins to connect.
  static absl::StatusOr<std::unique_ptr<Socket>> Connect(
      const SocketAddress& address);

  ~Socket() override;

  absl::StatusOr<PollEvents> Prepare() override;
  absl::StatusOr<size_t> Send(absl::string_view bytes) override;
  absl::StatusOr<std::optional<size_t>> Receive(absl::Span<char> buffer,
                                                Wait wait) override;
  void Shutdown() const override;
  int fd() const override { return fd_; }

 private:
  explicit Socket(int fd) : fd_(fd) {}

  const int fd_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SOCKET_H_
