// Request of an access trace, and the interface of a stream of requests.
//
//   Request request;
//   for (;;) {
//     absl::StatusOr<bool> more = source.Next(request);
//     if (!more.ok()) return more.status();
//     if (!*more) break;
//     Play(request);
//   }

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REQUEST_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REQUEST_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace wheelcache::replay {

// The operations of memcached's protocol, as cache traces name them.
enum class Operation : uint8_t {
  kGet,
  kGets,
  kSet,
  kAdd,
  kReplace,
  kCas,
  kAppend,
  kPrepend,
  kDelete,
  kIncr,
  kDecr,
};

struct Request {
  int64_t timestamp_seconds = 0;
  absl::string_view key;
  uint32_t key_size = 0;    // In bytes; the trace may shorten the key.
  uint32_t value_size = 0;  // In bytes.
  Operation operation = Operation::kGet;
  uint32_t ttl_seconds = 0;  // 0: the trace names none.
};

// A stream of requests. Thread-compatible.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  // Stores the next request and returns true, or returns false at the end. The
  // request's key is valid until the next call. REQUIRES: no call has failed.
  virtual absl::StatusOr<bool> Next(Request& request) = 0;

  // Returns the number of malformed lines skipped so far, if they may be.
  virtual std::optional<int64_t> bad_lines() const { return std::nullopt; }
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REQUEST_H_
