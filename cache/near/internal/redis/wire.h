// A connection to a Redis server: bytes out, replies in.
//
// Threads. Thread-compatible; one thread may be in Receive while another is in
// Send or Flush.
//
// Errors. Unavailable: the connection is lost. No call after that succeeds.
//
// Memory. Of what has left, at most as much is kept as has not.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_WIRE_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_WIRE_H_

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Wire final {
 public:
  Wire(std::unique_ptr<Stream> stream, const ReplyReader::Limits& limits)
      : stream_(std::move(stream)), reader_(limits) {}

  // Sends `bytes`, behind those that have not left yet. Keeps what there is no
  // room for now.
  absl::Status Send(std::string bytes);

  // Sends of those what there is room for.
  absl::Status Flush();

  // Whether there are such.
  bool has_unsent() const { return !unsent_.empty(); }

  // The memory of these.
  size_t unsent_bytes() const { return unsent_bytes_; }

  // Appends the replies that have arrived, up to what one read of the stream
  // brings, after it has waited for that if told to.
  absl::Status Receive(std::vector<Reply>* replies,
                       Stream::Wait wait = Stream::Wait::kNever);

  Stream& stream() const { return *stream_; }

 private:
  // Enough for a thousand invalidations of a turn of the server's event loop.
  static constexpr size_t kBlockBytes = 64 << 10;

  absl::Status TakeReplies(std::vector<Reply>* replies);

  const std::unique_ptr<Stream> stream_;

  // Of the sending thread. The first sent_ bytes of the first block have left,
  // and are counted until they are freed.
  std::deque<std::string> unsent_;
  size_t sent_ = 0;
  size_t unsent_bytes_ = 0;

  // Of the receiving thread.
  ReplyReader reader_;
  std::array<char, kBlockBytes> buffer_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_WIRE_H_
