#include "wheelcache/cache/near/internal/redis/resp.h"

#include <array>
#include <charconv>
#include <iterator>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace wheelcache::internal {
namespace {

// Appends the line that says how many arguments there are, or bytes of one. By
// hand, since absl::StrAppend takes three times the instructions.
void AppendCount(char type, size_t count, std::string* bytes) {
  std::array<char, 3 + std::numeric_limits<size_t>::digits10 + 1> line;
  line.front() = type;
  char* end = std::to_chars(std::next(line.begin()), line.end(), count).ptr;
  *end++ = '\r';
  *end++ = '\n';
  bytes->append(line.data(), end);
}

struct Meaning {
  absl::string_view start;  // Of the error's text.
  absl::StatusCode code;
  absl::string_view what_to_do;
};

constexpr absl::string_view kReplica =
    "the server is a replica; give the URL of the primary";
constexpr absl::string_view kCluster =
    "the server is a node of a cluster, which is not supported";
constexpr absl::string_view kOldServer =
    "this needs Redis 6.0 or later, or Valkey, with the command enabled";

constexpr Meaning kMeanings[] = {
    {"NOAUTH", absl::StatusCode::kUnauthenticated,
     "give user and password in the URL"},
    {"WRONGPASS", absl::StatusCode::kUnauthenticated,
     "correct user and password in the URL"},
    {"ERR AUTH", absl::StatusCode::kUnauthenticated,
     "the server has no password; leave it out of the URL"},
    {"ERR Client sent AUTH", absl::StatusCode::kUnauthenticated,
     "the server has no password; leave it out of the URL"},
    {"LOADING", absl::StatusCode::kUnavailable,
     "the server loads its data set; wait"},
    {"BUSY", absl::StatusCode::kUnavailable,
     "the server runs a slow script; wait, or use SCRIPT KILL"},
    {"READONLY", absl::StatusCode::kUnavailable, kReplica},
    {"MASTERDOWN", absl::StatusCode::kUnavailable, kReplica},
    {"MISCONF", absl::StatusCode::kUnavailable,
     "the server cannot save its data set; see its log"},
    {"OOM", absl::StatusCode::kResourceExhausted,
     "raise maxmemory of the server, or set a maxmemory-policy that evicts"},
    {"ERR max number of clients", absl::StatusCode::kResourceExhausted,
     "raise maxclients of the server"},
    {"WRONGTYPE", absl::StatusCode::kInvalidArgument,
     "near caches hold strings only; choose another key or key_prefix"},
    {"ERR DB index", absl::StatusCode::kInvalidArgument,
     "choose another database in the URL"},
    {"MOVED", absl::StatusCode::kUnimplemented, kCluster},
    {"ASK", absl::StatusCode::kUnimplemented, kCluster},
    {"CLUSTERDOWN", absl::StatusCode::kUnimplemented, kCluster},
    {"CROSSSLOT", absl::StatusCode::kUnimplemented, kCluster},
    {"ERR unknown command", absl::StatusCode::kUnimplemented, kOldServer},
    {"ERR unknown subcommand", absl::StatusCode::kUnimplemented, kOldServer},
    {"ERR syntax error", absl::StatusCode::kUnimplemented, kOldServer},
};

// The words of ACL SETUSER that grant `command`.
absl::string_view RightFor(absl::string_view command) {
  struct Right {
    absl::string_view command;
    absl::string_view words;
  };
  static constexpr Right kRights[] = {
      {"CLIENT ID", "+client|id"},
      {"CLIENT TRACKING", "+client|tracking"},
      {"SUBSCRIBE", "+subscribe &__redis__:invalidate"},
      {"INFO", "+info"},
      {"ROLE", "+role"},
      {"PING", "+ping"},
      {"SELECT", "+select"},
  };
  for (const Right& right : kRights) {
    if (right.command == command) return right.words;
  }
  return "+get +mget +pttl +set +del ~<key_prefix>*";
}

}  // namespace

void AppendCommandStart(size_t arguments, std::string* bytes) {
  AppendCount('*', arguments, bytes);
}

void AppendArgument(absl::string_view argument, std::string* bytes) {
  AppendCount('$', argument.size(), bytes);
  bytes->append(argument.data(), argument.size());
  bytes->append("\r\n", 2);
}

void AppendCommand(absl::Span<const absl::string_view> arguments,
                   std::string* bytes) {
  AppendCommandStart(arguments.size(), bytes);
  for (const absl::string_view argument : arguments) {
    AppendArgument(argument, bytes);
  }
}

ReplyReader::ReplyReader() : reader_(redisReaderCreate()) {}

void ReplyReader::Feed(absl::string_view bytes) {
  // An error stays with the reader, and Next returns it.
  if (reader_ != nullptr) {
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
  }
}

ReplyReader::Result ReplyReader::Next(Reply* reply) {
  void* parsed = nullptr;
  if (reader_ == nullptr ||
      redisReaderGetReply(reader_.get(), &parsed) != REDIS_OK) {
    return kBroken;
  }
  reply->reset(static_cast<redisReply*>(parsed));
  return parsed == nullptr ? kNeedsMore : kReply;
}

std::string ReplyReader::error() const {
  return reader_ == nullptr ? "out of memory" : reader_->errstr;
}

absl::Status StatusOfError(absl::string_view command, const redisReply& reply) {
  const absl::string_view text = TextOf(reply);
  if (absl::StartsWith(text, "NOPERM")) {
    return absl::PermissionDeniedError(
        absl::StrCat(command, ": ", text, "; grant it: ACL SETUSER <user> ",
                     RightFor(command)));
  }
  for (const Meaning& meaning : kMeanings) {
    // Servers do not agree on "unknown" and "Unknown".
    if (absl::StartsWithIgnoreCase(text, meaning.start)) {
      return absl::Status(meaning.code, absl::StrCat(command, ": ", text, "; ",
                                                     meaning.what_to_do));
    }
  }
  return absl::UnknownError(absl::StrCat(command, ": ", text));
}

absl::Status UnexpectedReply(absl::string_view command,
                             const redisReply& reply) {
  if (IsError(reply)) return StatusOfError(command, reply);
  return absl::UnknownError(absl::StrCat(
      command, ": a reply of type ", reply.type,
      " of hiredis, which this command does not have; is there a Redis server "
      "at this address?"));
}

}  // namespace wheelcache::internal
