// RESP2, the protocol of a Redis server: commands as bytes, replies, and error
// replies as Status.
//
//   std::string bytes;
//   AppendCommand({"SET", key, value, "PX", "250"}, &bytes);
//   ...
//   ReplyReader reader;
//   reader.Feed(received);
//   Reply reply;
//   while (reader.Next(&reply) == ReplyReader::kReply) {
//     if (IsError(*reply)) return StatusOfError("SET", *reply);
//     ...
//   }
//
// Arguments may contain any bytes. The parser is that of hiredis; its type
// redisReply is used as it is.
//
// Threads. A ReplyReader is thread-compatible; the rest has no state.
//
// Errors. What no server sends ends the stream for good (kBroken). Codes of
// error replies: Unauthenticated and PermissionDenied: of the login.
// Unavailable: the server cannot serve now (it loads, runs a script, or is a
// replica). ResourceExhausted: of memory or of clients. InvalidArgument: the
// key has a value that is no string. Unimplemented: the server lacks the
// command, or is a node of a cluster. Unknown: the rest.
//
// Cost. A copy of the arguments; one allocation for each string, array and
// number of a reply.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_RESP_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_RESP_H_

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

WHEELCACHE_EXPORT void AppendCommand(
    absl::Span<const absl::string_view> arguments, std::string* bytes);

WHEELCACHE_EXPORT void AppendCommandStart(size_t arguments, std::string* bytes);
WHEELCACHE_EXPORT void AppendArgument(absl::string_view argument,
                                      std::string* bytes);

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

// REQUIRES: IsError(reply).
WHEELCACHE_EXPORT absl::Status StatusOfError(absl::string_view command,
                                             const redisReply& reply);

// For a reply of a type that `command` does not have.
WHEELCACHE_EXPORT absl::Status UnexpectedReply(absl::string_view command,
                                               const redisReply& reply);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_RESP_H_
