// Replies of a Redis server, parsed from the bytes that arrive.
//
//   ReplyReader reader;
//   reader.Feed(bytes);
//   Reply reply;
//   while (reader.Next(&reply) == ReplyReader::kReply) {
//     if (IsError(*reply)) return false;  // TextOf(*reply) says what.
//     ...
//   }
//
// The parser is that of hiredis; its type redisReply, of RESP2, is used as it
// is.
//
// Threads. Thread-compatible.
// Errors. What no server sends ends the stream for good (kBroken).
// Cost. One allocation for each string, array and number.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REPLY_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REPLY_H_

#include <hiredis/hiredis.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

inline bool IsError(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ERROR;
}
inline bool IsNull(const redisReply& reply) {
  return reply.type == REDIS_REPLY_NIL;
}

// The text of an error, a status or a string; empty for other types.
inline absl::string_view TextOf(const redisReply& reply) {
  return reply.str == nullptr ? absl::string_view()
                              : absl::string_view(reply.str, reply.len);
}

// The elements of an array; empty for other types.
inline absl::Span<const redisReply* const> ElementsOf(const redisReply& reply) {
  return {reply.element, reply.type == REDIS_REPLY_ARRAY ? reply.elements : 0};
}

class WHEELCACHE_EXPORT ReplyReader final {
 public:
  enum Result { kReply, kNeedsMore, kBroken };

  ReplyReader();

  // Adds the next bytes of the stream.
  void Feed(absl::string_view bytes);

  // Takes the next reply that is complete.
  Result Next(Reply* reply);

  // Says what was wrong with the stream, after kBroken.
  std::string error() const;

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const { redisReaderFree(reader); }
  };

  // Null if there was no memory for it.
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REPLY_H_
