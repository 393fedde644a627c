// Commands to a Redis server, as bytes.
//
//   std::string bytes;
//   AppendCommand({"SET", key, value, "PX", "250"}, &bytes);
//
// Arguments may contain any bytes. A command of many arguments may be appended
// in parts: its start, which says how many they are, and each of them.
//
// Threads. Thread-safe: no state.
// Cost. A copy of the arguments.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_COMMAND_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_COMMAND_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

WHEELCACHE_EXPORT void AppendCommand(
    absl::Span<const absl::string_view> arguments, std::string* bytes);

WHEELCACHE_EXPORT void AppendCommandStart(size_t arguments, std::string* bytes);
WHEELCACHE_EXPORT void AppendArgument(absl::string_view argument,
                                      std::string* bytes);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_COMMAND_H_
