// RESP2 and RESP3, the protocols of a Redis server: commands as bytes, replies,
// and error replies as Status.
//
//   std::string bytes;
//   AppendCommand({"SET", key, value, "PX", "250"}, &bytes);
//   ...
//   ReplyReader reader(limits);
//   reader.Feed(received);
//   Reply reply;
//   while (reader.Next(&reply) == ReplyReader::kReply) {
//     if (reply.is_error()) return StatusOfError("SET", reply);
//     ...
//   }
//
// Arguments may contain any bytes. Types of RESP3 become those of RESP2 where
// one serves: a set is an array, a map an array of keys and values, a double or
// a big number a string, a boolean a number. Attributes are left out.
//
// Threads. A ReplyReader is thread-compatible; the rest has no state.
//
// Errors. What no server sends, or what exceeds a limit, ends the stream for
// good (kBroken). Codes of error replies: Unauthenticated and PermissionDenied:
// of the login. Unavailable: the server cannot serve now (it loads, runs a
// script, or is a replica). ResourceExhausted: of memory or of clients.
// InvalidArgument: the key has a value that is no string. Unimplemented: the
// server lacks the command, or is a node of a cluster. Unknown: the rest.
//
// Cost. A copy of the arguments, and of what arrives. What a server announces
// costs nothing before it arrives, but for a mebibyte.
//
// RESP3: https://github.com/redis/redis-specifications/blob/master/protocol.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_RESP_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_RESP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

WHEELCACHE_EXPORT void AppendCommand(
    absl::Span<const absl::string_view> arguments, std::string* bytes);

// The same, alone.
inline std::string Encoded(absl::Span<const absl::string_view> arguments) {
  std::string bytes;
  AppendCommand(arguments, &bytes);
  return bytes;
}

WHEELCACHE_EXPORT void AppendCommandStart(size_t arguments, std::string* bytes);
WHEELCACHE_EXPORT void AppendArgument(absl::string_view argument,
                                      std::string* bytes);

struct WHEELCACHE_EXPORT Reply {
  enum class Type { kNull, kInteger, kStatus, kError, kString, kArray, kPush };

  bool is_error() const { return type == Type::kError; }
  bool is_null() const { return type == Type::kNull; }

  // What stands behind this key of a map; null if nothing does.
  const Reply* Find(absl::string_view key) const;

  Type type = Type::kNull;
  int64_t integer = 0;
  std::string text;             // Of a status, an error or a string.
  std::vector<Reply> elements;  // Of an array or a push.
};

class WHEELCACHE_EXPORT ReplyReader final {
 public:
  enum Result { kReply, kNeedsMore, kBroken };

  // Of a string, of a line, and of arrays in arrays.
  static constexpr size_t kMaxStringBytes = 512 << 20;
  static constexpr size_t kMaxLineBytes = 64 << 10;
  static constexpr size_t kMaxDepth = 8;

  // Of one reply: the elements of all its arrays, and the bytes of its lines
  // and strings.
  struct Limits {
    size_t elements;
    size_t bytes;
  };

  explicit ReplyReader(const Limits& limits) : limits_(limits) {}

  // Gives it the next bytes of the stream, which must stay until Next has
  // returned kNeedsMore. REQUIRES: so it has for those before them.
  void Feed(absl::string_view bytes) { input_ = bytes; }

  // Takes the next reply that is complete.
  Result Next(Reply* reply);

  // Says what was wrong with the stream, after kBroken.
  absl::string_view error() const { return error_; }

 private:
  // An array that is being read, and how many elements it lacks.
  struct Open {
    Reply reply;
    size_t missing;
    bool is_attribute;
  };
  // What comes next: a line that begins a part of a reply, the bytes of a
  // string, or the end of the line behind them.
  enum class State { kLine, kBytes, kEndOfBytes };

  Result TakePart();
  Result TakeLine(absl::string_view* line);
  Result TakeBytes();
  Result Begin(absl::string_view line);
  Result BeginBytes(char type, absl::string_view length);
  Result BeginArray(char type, absl::string_view length);
  bool Place(Reply* reply);
  Result Break(absl::string_view error);
  bool Count(size_t elements, size_t bytes);

  const Limits limits_;
  absl::string_view error_;  // A constant.
  absl::string_view input_;
  std::string line_;  // The beginning of a line that is not complete.
  bool line_is_used_ = false;

  State state_ = State::kLine;
  std::vector<Open> open_;  // The outermost first.
  Reply part_;
  size_t missing_bytes_ = 0;  // Of the string that is read.
  bool is_verbatim_ = false;

  // Of the reply that is read.
  size_t elements_ = 0;
  size_t bytes_ = 0;
};

// REQUIRES: reply.is_error(). Shows what the server said, in one line.
WHEELCACHE_EXPORT absl::Status StatusOfError(absl::string_view command,
                                             const Reply& reply);

// The same for a command with a password, which the server may have repeated:
// shows none of its text but the first word.
WHEELCACHE_EXPORT absl::Status StatusOfSecret(absl::string_view command,
                                              const Reply& reply);

// For a reply of a type that `command` does not have.
WHEELCACHE_EXPORT absl::Status UnexpectedReply(absl::string_view command,
                                               const Reply& reply);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_RESP_H_
