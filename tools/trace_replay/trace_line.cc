#include "wheelcache/tools/trace_replay/trace_line.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {
namespace {

// In the order of Operation.
constexpr absl::string_view kOperationNames[] = {
    "get",    "gets",    "set",    "add",  "replace", "cas",
    "append", "prepend", "delete", "incr", "decr"};

// Quotes a value for an error: escaped, and truncated if it is long.
std::string Quoted(absl::string_view value) {
  constexpr size_t kShown = 40;
  return absl::StrCat("'", absl::CHexEscape(value.substr(0, kShown)),
                      value.size() > kShown ? "..." : "", "'");
}

absl::Status Malformed(absl::string_view column, absl::string_view value,
                       absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat(column, " is ", Quoted(value), ", must be ", rule));
}

// Parses a column of digits alone. Uses std::from_chars, because
// absl::SimpleAtoi accepts a sign and spaces.
template <typename T>
absl::Status ParseNumber(absl::string_view column, absl::string_view text,
                         T& result, uint64_t max) {
  const char* const end = text.data() + text.size();
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number > max) {
    return Malformed(column, text,
                     absl::StrCat("a whole number from 0 to ", max));
  }
  result = static_cast<T>(number);
  return absl::OkStatus();
}

absl::Status ParseOperation(absl::string_view name, Operation& operation) {
  int i = 0;
  for (const absl::string_view known : kOperationNames) {
    operation = static_cast<Operation>(i++);
    if (name == known) return absl::OkStatus();
  }
  return Malformed("operation", name,
                   "get, gets, set, add, replace, cas, append, prepend, "
                   "delete, incr or decr");
}

}  // namespace

absl::StatusOr<Request> ParseTraceLine(absl::string_view line) {
  constexpr size_t kColumns = 7;
  constexpr uint64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
  constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();
  if (line.size() > kMaxTraceLineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line has more than ", kMaxTraceLineBytes, " bytes"));
  }
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  if (columns.size() != kColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", kColumns, " columns, found ", columns.size(),
                     ": ", Quoted(line)));
  }
  Request request;
  request.key = columns[1];
  if (request.key.empty()) {
    return Malformed("key", "", "at least one byte long");
  }
  uint64_t client_id = 0;
  absl::Status status =
      ParseNumber("timestamp_seconds", columns[0], request.timestamp_seconds,
                  kMaxTimestampSeconds);
  status.Update(
      ParseNumber("key_size", columns[2], request.key_size, kMaxUint32));
  status.Update(
      ParseNumber("value_size", columns[3], request.value_size, kMaxUint32));
  status.Update(ParseNumber("client_id", columns[4], client_id, kMaxUint64));
  status.Update(ParseOperation(columns[5], request.operation));
  status.Update(
      ParseNumber("ttl_seconds", columns[6], request.ttl_seconds, kMaxUint32));
  if (!status.ok()) return status;
  return request;
}

}  // namespace wheelcache::replay
