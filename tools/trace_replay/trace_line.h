// Parses one line in the column format of Twitter's open cache traces:
//
//   timestamp_seconds,key,key_size,value_size,client_id,operation,ttl_seconds
//
// Each line is one request:
//
//   absl::StatusOr<Request> request = ParseTraceLine("17,b:7,3,64,0,get,0");
//
// Errors: every byte sequence is safe to pass. A malformed line is an
// InvalidArgument error that names the column, its value and the rule.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_LINE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_LINE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

// 285 years: timestamps may count from 1970 or from the start of the trace, and
// fit 63 bits in nanoseconds.
inline constexpr int64_t kMaxTimestampSeconds = 9'000'000'000;

// Ample: memcached's keys have at most 250 bytes.
inline constexpr size_t kMaxTraceLineBytes = 64 << 10;

// Parses a line without its line break. The request's key points into `line`.
// The client_id is validated and dropped.
absl::StatusOr<Request> ParseTraceLine(absl::string_view line);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_LINE_H_
