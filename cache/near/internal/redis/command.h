// Commands to a Redis server, as bytes.
//
//   std::string bytes;
//   if (!AppendCommand({"SET", key, value, "PX", "250"}, &bytes)) return false;
//
// Arguments may contain any bytes.
//
// Threads. Thread-safe: no state.
// Cost. A copy of the arguments, and an allocation besides that of the string.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_COMMAND_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_COMMAND_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Appends the command to `bytes`; returns false if there was no memory for it.
WHEELCACHE_EXPORT bool AppendCommand(
    absl::Span<const absl::string_view> arguments, std::string* bytes);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_COMMAND_H_
