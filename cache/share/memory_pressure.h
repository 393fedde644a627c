// How much memory the process may use, and uses, from its cgroup or from the
// caller; and what a MemoryShare may have of it.
//
//   wheelcache::MemoryShareOptions options;
//   options.max_bytes = 4LL << 30;
//   options.pressure = wheelcache::MemoryPressureOptions();  // Its cgroup.
//   auto share = wheelcache::MemoryShare::Create(options);
//
// When what is used exceeds the limit without the reserve, the share gives up
// what its caches do not use, and of the rest as much as the excess, but an
// eighth of max_bytes at most in a look. While threads wait for memory more
// than a tenth of their time, it shrinks slowly. Once as much again as the
// reserve is free, or there is no limit, it grows, by max_bytes in two minutes
// at the fastest.
//
// Of a cgroup (version 2) counts memory.current without the file pages that the
// kernel drops first (inactive_file), against memory.high or memory.max, the
// lower; of its ancestors as well, if one of them leaves less.
//
// Only what the caches charge comes back at once, by their arenas. What values
// allocate is for malloc to return.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_SHARE_MEMORY_PRESSURE_H_
#define WHEELCACHE_CACHE_SHARE_MEMORY_PRESSURE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

struct MemoryReading {
  int64_t used = 0;            // Bytes that cannot be dropped.
  int64_t limit = kUnlimited;  // Beyond it, the system reclaims or kills.
  double stalled = 0;  // Part of the last seconds in which threads waited.
};

struct MemoryPressureOptions {
  // The folder of the cgroup; by default that of the process.
  std::string cgroup = {};

  // Called at each look in the place of reading a cgroup, with no lock held.
  std::function<absl::StatusOr<MemoryReading>()> read = {};

  // The part of the limit that remains free. From 0 to .5.
  double reserve = 1.0 / 16;
};

// Reads a cgroup, by default that of the process. NotFound if there is none.
WHEELCACHE_EXPORT absl::StatusOr<MemoryReading> ReadCgroup(
    const std::string& folder = {});

namespace internal {

WHEELCACHE_EXPORT absl::Status Validate(const std::string& share,
                                        const MemoryPressureOptions& options);

// What a share has at a look.
struct ShareUse {
  int64_t limit = 0;
  int64_t used = 0;
  int64_t max_bytes = 0;
};

// Returns the limit that the share is to have after `seconds` with this one.
WHEELCACHE_EXPORT int64_t LimitUnderPressure(const ShareUse& share,
                                             const MemoryReading& memory,
                                             double reserve, double seconds);

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_SHARE_MEMORY_PRESSURE_H_
