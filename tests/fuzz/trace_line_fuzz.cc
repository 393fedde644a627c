// Parses the fuzzer's bytes as a line of a trace. Each line is either rejected
// with a printable error, or every column agrees with a second, naive parser.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/trace_line.h"

namespace wheelcache::replay {
namespace {

void Require(bool condition, absl::string_view rule, absl::string_view line) {
  if (condition) return;
  std::cerr << rule << ": '" << absl::CHexEscape(line) << "'" << std::endl;
  std::abort();
}

// Whether `text` is `number` in digits, with any number of zeros before it.
bool Says(absl::string_view text, uint64_t number) {
  if (text.empty()) return false;
  while (text.size() > 1 && text.front() == '0') text.remove_prefix(1);
  return text == std::to_string(number);
}

absl::string_view NameOf(Operation operation) {
  switch (operation) {
    case Operation::kGet:
      return "get";
    case Operation::kGets:
      return "gets";
    case Operation::kSet:
      return "set";
    case Operation::kAdd:
      return "add";
    case Operation::kReplace:
      return "replace";
    case Operation::kCas:
      return "cas";
    case Operation::kAppend:
      return "append";
    case Operation::kPrepend:
      return "prepend";
    case Operation::kDelete:
      return "delete";
    case Operation::kIncr:
      return "incr";
    case Operation::kDecr:
      return "decr";
  }
  return "";
}

void CheckAccepted(const Request& request, absl::string_view line) {
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  Require(columns.size() == 7, "a request has seven columns", line);
  Require(request.timestamp_seconds >= 0 &&
              request.timestamp_seconds <= kMaxTimestampSeconds,
          "the time is in its range", line);
  Require(Says(columns[0], static_cast<uint64_t>(request.timestamp_seconds)),
          "the time is the first column", line);
  Require(!request.key.empty() && request.key == columns[1] &&
              request.key.data() == columns[1].data(),
          "the key is in the second column", line);
  Require(Says(columns[2], request.key_size), "the key's size", line);
  Require(Says(columns[3], request.value_size), "the value's size", line);
  Require(columns[5] == NameOf(request.operation), "the operation", line);
  Require(Says(columns[6], request.ttl_seconds), "the TTL", line);
}

// The message is printable and names the rule that the line breaks.
void CheckRefused(const absl::Status& status, absl::string_view line) {
  const absl::string_view message = status.message();
  Require(status.code() == absl::StatusCode::kInvalidArgument,
          "a malformed line is an invalid argument", line);
  Require(absl::StrContains(message, "must be") ||
              absl::StrContains(message, "expected 7 columns") ||
              absl::StrContains(message, "has more than"),
          "the error names the rule", line);
  for (const char c : message) {
    Require(absl::ascii_isprint(static_cast<unsigned char>(c)),
            "the error is printable", line);
  }
  Require(message.size() < 400, "the error is short", line);
}

}  // namespace
}  // namespace wheelcache::replay

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace replay = wheelcache::replay;
  const absl::string_view line(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<replay::Request> request = replay::ParseTraceLine(line);
  if (request.ok()) {
    replay::CheckAccepted(*request, line);
  } else {
    replay::CheckRefused(request.status(), line);
  }
  return 0;
}
