// A connection to a Redis server: bytes out, replies in.
//
// Threads. Thread-compatible; one thread may be in Receive while another is in
// Send or Flush.
//
// Errors. Unavailable: the connection is lost. No call after that succeeds.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_WIRE_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_WIRE_H_

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Wire final {
 public:
  explicit Wire(Socket socket) : socket_(std::move(socket)) {}

  // Sends `bytes`, behind those that have not left yet. Keeps what there is no
  // room for now.
  absl::Status Send(absl::string_view bytes);

  // Sends of those what there is room for.
  absl::Status Flush();

  // Returns how many bytes have not left.
  size_t unsent() const { return unsent_.size() - flushed_; }

  // Appends the replies that have arrived, up to what one read of the socket
  // brings, after it has waited for that if told to.
  absl::Status Receive(std::vector<Reply>* replies,
                       Socket::Wait wait = Socket::Wait::kNever);

  const Socket& socket() const { return socket_; }

 private:
  // Enough for a thousand invalidations of a turn of the server's event loop.
  static constexpr size_t kReadBytes = 64 << 10;

  const Socket socket_;

  // Of the sending thread. The first flushed_ bytes have left.
  std::string unsent_;
  size_t flushed_ = 0;

  // Of the receiving thread.
  ReplyReader reader_;
  std::array<char, kReadBytes> buffer_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_WIRE_H_
