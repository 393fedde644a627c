#include "wheelcache/tools/trace_replay/trace_line.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace wheelcache::replay {
namespace {

enum Column {
  kTimestamp,
  kKey,
  kKeySize,
  kValueSize,
  kClientId,
  kOperation,
  kTtl,
  kColumnCount,
};

constexpr std::array<absl::string_view, kColumnCount> kColumnNames = {
    "timestamp_seconds", "key",       "key_size",   "value_size",
    "client_id",         "operation", "ttl_seconds"};

// In the order of Operation.
constexpr std::array<absl::string_view, 11> kOperationNames = {
    "get",    "gets",    "set",    "add",  "replace", "cas",
    "append", "prepend", "delete", "incr", "decr"};

constexpr uint64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();

using Columns = std::array<absl::string_view, kColumnCount>;

// Quotes a value for an error: escaped, and truncated if it is long.
std::string Quoted(absl::string_view value) {
  constexpr size_t kShown = 40;
  return absl::StrCat("'", absl::CHexEscape(value.substr(0, kShown)),
                      value.size() > kShown ? "..." : "", "'");
}

absl::Status Malformed(Column column, absl::string_view value,
                       absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat(
      kColumnNames[column], " is ", Quoted(value), ", must be ", rule));
}

// Stores the columns of a line and returns their number. Columns after the last
// known one are counted but not stored.
int Split(absl::string_view line, Columns& columns) {
  int count = 0;
  for (;;) {
    const size_t comma = line.find(',');
    if (count < kColumnCount) columns[count] = line.substr(0, comma);
    ++count;
    if (comma == absl::string_view::npos) return count;
    line.remove_prefix(comma + 1);
  }
}

// Parses a column of digits alone. Uses std::from_chars, because
// absl::SimpleAtoi accepts a sign and spaces.
template <typename T>
absl::Status ParseNumber(const Columns& columns, Column column, uint64_t max,
                         T& result) {
  const absl::string_view text = columns[column];
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
  for (size_t i = 0; i < kOperationNames.size(); ++i) {
    if (name != kOperationNames[i]) continue;
    operation = static_cast<Operation>(i);
    return absl::OkStatus();
  }
  return Malformed(kOperation, name,
                   "get, gets, set, add, replace, cas, append, prepend, "
                   "delete, incr or decr");
}

absl::Status ParseColumns(const Columns& columns, Request& request) {
  request.key = columns[kKey];
  if (request.key.empty()) return Malformed(kKey, "", "at least one byte long");
  uint64_t client_id = 0;
  absl::Status status = ParseNumber(columns, kTimestamp, kMaxTimestampSeconds,
                                    request.timestamp_seconds);
  status.Update(ParseNumber(columns, kKeySize, kMaxUint32, request.key_size));
  status.Update(
      ParseNumber(columns, kValueSize, kMaxUint32, request.value_size));
  status.Update(ParseNumber(columns, kClientId, kMaxUint64, client_id));
  status.Update(ParseOperation(columns[kOperation], request.operation));
  status.Update(ParseNumber(columns, kTtl, kMaxUint32, request.ttl_seconds));
  return status;
}

}  // namespace

absl::StatusOr<Request> ParseTraceLine(absl::string_view line) {
  if (line.size() > kMaxTraceLineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line has more than ", kMaxTraceLineBytes, " bytes"));
  }
  Columns columns;
  const int count = Split(line, columns);
  if (count != kColumnCount) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", kColumnCount,
                                                   " columns, found ", count,
                                                   ": ", Quoted(line)));
  }
  Request request;
  absl::Status status = ParseColumns(columns, request);
  if (!status.ok()) return status;
  return request;
}

}  // namespace wheelcache::replay
