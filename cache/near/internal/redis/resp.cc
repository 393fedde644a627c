#include "wheelcache/cache/near/internal/redis/resp.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
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
    "the server is a node of a cluster; set RedisStoreOptions::cluster";
constexpr absl::string_view kOldServer =
    "this needs Redis 6.0 or later, or Valkey, with the command enabled";

constexpr absl::string_view kNoPassword =
    "the server has no password; leave it out of the URL";

constexpr Meaning kMeanings[] = {
    {"NOAUTH", absl::StatusCode::kUnauthenticated,
     "give user and password in the URL"},
    {"WRONGPASS", absl::StatusCode::kUnauthenticated,
     "correct user and password in the URL"},
    {"ERR AUTH", absl::StatusCode::kUnauthenticated, kNoPassword},
    {"ERR Client sent AUTH", absl::StatusCode::kUnauthenticated, kNoPassword},
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
    {"CLUSTERDOWN", absl::StatusCode::kUnavailable,
     "see CLUSTER INFO; if this is one server alone, set "
     "RedisStoreOptions::cluster"},
    {"TRYAGAIN", absl::StatusCode::kUnavailable,
     "the slot of the key moves; wait"},
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
      {"ASKING", "+asking"},
      {"CLUSTER INFO", "+cluster|info"},
      {"CLUSTER SLOTS", "+cluster|slots"},
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

// What stands in logs of a text that a server has sent: one line, not long.
constexpr size_t kMostShownBytes = 200;
std::string Shown(absl::string_view text) {
  return absl::CHexEscape(text.substr(0, kMostShownBytes));
}

// The code of an error, such as "WRONGPASS".
absl::string_view FirstWord(absl::string_view text) {
  const auto* const end =
      std::find_if_not(text.begin(), text.end(),
                       [](unsigned char c) { return absl::ascii_isupper(c); });
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

absl::Status StatusOf(absl::string_view command, absl::string_view text,
                      absl::string_view shown) {
  if (absl::StartsWith(text, "NOPERM")) {
    return absl::PermissionDeniedError(
        absl::StrCat(command, ": ", shown, "; grant it: ACL SETUSER <user> ",
                     RightFor(command)));
  }
  for (const Meaning& meaning : kMeanings) {
    // Servers do not agree on "unknown" and "Unknown".
    if (absl::StartsWithIgnoreCase(text, meaning.start)) {
      return absl::Status(meaning.code, absl::StrCat(command, ": ", shown, "; ",
                                                     meaning.what_to_do));
    }
  }
  return absl::UnknownError(absl::StrCat(command, ": ", shown));
}

absl::string_view NameOf(Reply::Type type) {
  switch (type) {
    case Reply::Type::kNull:
      return "null";
    case Reply::Type::kInteger:
      return "integer";
    case Reply::Type::kStatus:
      return "status";
    case Reply::Type::kError:
      return "error";
    case Reply::Type::kString:
      return "string";
    case Reply::Type::kArray:
      return "array";
    case Reply::Type::kPush:
      return "push";
  }
  return "unknown";
}

std::optional<int64_t> ParsedInteger(absl::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result parsed =
      std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

constexpr absl::string_view kEndOfLine = "\r\n";

// Reserved for a string that is announced.
constexpr size_t kMostReservedBytes = 1 << 20;

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

const Reply* Reply::Find(absl::string_view key) const {
  for (size_t i = 0; i + 1 < elements.size(); i += 2) {
    if (elements[i].text == key) return &elements[i + 1];
  }
  return nullptr;
}

ReplyReader::Result ReplyReader::Next(Reply* reply) {
  if (!error_.empty()) return kBroken;
  while (true) {
    if (const Result result = TakePart(); result != kReply) return result;
    if (Place(reply)) return kReply;
  }
}

// Puts the part that is complete where it belongs. Returns whether that
// completes the reply.
bool ReplyReader::Place(Reply* reply) {
  while (!open_.empty()) {
    Open& innermost = open_.back();
    innermost.reply.elements.push_back(std::move(part_));
    if (--innermost.missing != 0) return false;
    part_ = std::move(innermost.reply);
    const bool is_attribute = innermost.is_attribute;
    open_.pop_back();
    if (is_attribute) return false;  // What it is about follows.
  }
  *reply = std::move(part_);
  elements_ = 0;
  bytes_ = 0;
  return true;
}

// Goes on until part_ is complete, and no array that lacks elements.
ReplyReader::Result ReplyReader::TakePart() {
  absl::string_view line;
  while (true) {
    const size_t depth = open_.size();
    Result result = kNeedsMore;
    switch (state_) {
      case State::kLine:
        result = TakeLine(&line);
        if (result != kReply) return result;
        result = Begin(line);
        if (result != kReply) return result;
        if (state_ == State::kLine && open_.size() == depth) return kReply;
        break;
      case State::kBytes:
        if (result = TakeBytes(); result != kReply) return result;
        state_ = State::kEndOfBytes;
        break;
      case State::kEndOfBytes:
        if (result = TakeLine(&line); result != kReply) return result;
        if (!line.empty()) return Break("a string is longer than announced");
        state_ = State::kLine;
        // "txt:" and so on.
        if (is_verbatim_) part_.text.erase(0, 4);
        return kReply;
    }
  }
}

// Takes a line, without its end.
ReplyReader::Result ReplyReader::TakeLine(absl::string_view* line) {
  if (std::exchange(line_is_used_, false)) line_.clear();
  const size_t at = input_.find('\n');
  const size_t size = at == absl::string_view::npos ? input_.size() : at + 1;
  if (line_.size() + size > kMaxLineBytes) {
    return Break("a line is longer than 64 KiB");
  }
  *line = input_.substr(0, size);
  input_.remove_prefix(size);
  if (at == absl::string_view::npos || !line_.empty()) {
    line_.append(line->data(), line->size());
    *line = line_;
    if (at == absl::string_view::npos) return kNeedsMore;
    line_is_used_ = true;
  }
  if (!absl::EndsWith(*line, kEndOfLine)) return Break("a line has no CR");
  line->remove_suffix(kEndOfLine.size());
  if (!Count(0, line->size())) return Break("a reply has too many bytes");
  return kReply;
}

// Takes of a string what has come.
ReplyReader::Result ReplyReader::TakeBytes() {
  const absl::string_view bytes = input_.substr(0, missing_bytes_);
  part_.text.append(bytes.data(), bytes.size());
  input_.remove_prefix(bytes.size());
  missing_bytes_ -= bytes.size();
  return missing_bytes_ == 0 ? kReply : kNeedsMore;
}

// Makes part_ of a line, or begins what the line announces.
ReplyReader::Result ReplyReader::Begin(absl::string_view line) {
  part_ = Reply();
  if (line.empty()) return Break("a line is empty");
  const char type = line[0];
  const absl::string_view rest = line.substr(1);
  switch (type) {
    case '+':
      part_.type = Reply::Type::kStatus;
      part_.text = std::string(rest);
      return kReply;
    case '-':
      part_.type = Reply::Type::kError;
      part_.text = std::string(rest);
      return kReply;
    case ',':  // A double.
    case '(':  // A big number.
      part_.type = Reply::Type::kString;
      part_.text = std::string(rest);
      return kReply;
    case ':': {
      const std::optional<int64_t> value = ParsedInteger(rest);
      if (!value) return Break("a number is none");
      part_.type = Reply::Type::kInteger;
      part_.integer = *value;
      return kReply;
    }
    case '#':
      if (rest != "t" && rest != "f") return Break("a boolean is none");
      part_.type = Reply::Type::kInteger;
      part_.integer = rest == "t" ? 1 : 0;
      return kReply;
    case '_':
      return rest.empty() ? kReply : Break("a null has a value");
    case '$':
    case '=':
    case '!':
      return BeginBytes(type, rest);
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
      return BeginArray(type, rest);
    default:
      return Break("a line begins with no type");
  }
}

ReplyReader::Result ReplyReader::BeginBytes(char type,
                                            absl::string_view length) {
  const std::optional<int64_t> size = ParsedInteger(length);
  if (type == '$' && size == -1) return kReply;  // A null of RESP2.
  is_verbatim_ = type == '=';
  if (!size || *size < (is_verbatim_ ? 4 : 0)) {
    return Break("the length of a string is none");
  }
  if (static_cast<uint64_t>(*size) > kMaxStringBytes) {
    return Break("a string is longer than 512 MiB");
  }
  missing_bytes_ = static_cast<size_t>(*size);
  if (!Count(0, missing_bytes_)) return Break("a reply has too many bytes");
  part_.type = type == '!' ? Reply::Type::kError : Reply::Type::kString;
  part_.text.reserve(std::min(missing_bytes_, kMostReservedBytes));
  state_ = State::kBytes;
  return kReply;
}

ReplyReader::Result ReplyReader::BeginArray(char type,
                                            absl::string_view length) {
  const std::optional<int64_t> size = ParsedInteger(length);
  if (type == '*' && size == -1) return kReply;  // A null of RESP2.
  if (!size || *size < 0) return Break("the length of an array is none");
  const size_t each = type == '%' || type == '|' ? 2 : 1;
  const auto count = static_cast<uint64_t>(*size);
  if (count > limits_.elements || !Count(each * count, 0)) {
    return Break("a reply has too many elements");
  }
  part_.type = type == '>' ? Reply::Type::kPush : Reply::Type::kArray;
  const bool is_attribute = type == '|';
  if (count == 0) {
    return is_attribute ? Break("an attribute is empty") : kReply;
  }
  if (open_.size() == kMaxDepth) {
    return Break("more than 8 arrays lie in each other");
  }
  open_.push_back({std::move(part_), each * count, is_attribute});
  return kReply;
}

// Returns whether the reply keeps its limits with these.
bool ReplyReader::Count(size_t elements, size_t bytes) {
  elements_ += elements;
  bytes_ += bytes;
  return elements_ <= limits_.elements && bytes_ <= limits_.bytes;
}

ReplyReader::Result ReplyReader::Break(absl::string_view error) {
  error_ = error;
  return kBroken;
}

absl::Status StatusOfError(absl::string_view command, const Reply& reply) {
  return StatusOf(command, reply.text, Shown(reply.text));
}

absl::Status StatusOfSecret(absl::string_view command, const Reply& reply) {
  const absl::string_view word = FirstWord(reply.text);
  const bool is_known =
      !word.empty() &&
      std::any_of(std::begin(kMeanings), std::end(kMeanings),
                  [word](const Meaning& meaning) {
                    return absl::StartsWith(meaning.start, word);
                  });
  return StatusOf(command, reply.text, is_known ? word : "an error");
}

absl::Status UnexpectedReply(absl::string_view command, const Reply& reply) {
  if (reply.is_error()) return StatusOfError(command, reply);
  return absl::UnknownError(
      absl::StrCat(command, ": a reply of type ", NameOf(reply.type),
                   ", which this command does not have; is there a Redis "
                   "server at this address?"));
}

}  // namespace wheelcache::internal
