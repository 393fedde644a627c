// Numbers as people read them.
//
//   FormatCount(1234567);  // "1,234,567"
//   FormatBytes(5 << 20);  // "5 MiB"
//   FormatSeconds(90);     // "1.5 min"
//   FormatShare(0.931);    // "93.1 %"
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_STATUS_FORMAT_H_
#define WHEELCACHE_CACHE_INTERNAL_STATUS_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

WHEELCACHE_EXPORT std::string FormatCount(int64_t count);

// In the largest unit of which there is at least one, up to TiB.
WHEELCACHE_EXPORT std::string FormatBytes(int64_t bytes);

// In the largest unit of which there is at least one, up to days.
WHEELCACHE_EXPORT std::string FormatSeconds(double seconds);

// A fraction as a percentage.
WHEELCACHE_EXPORT std::string FormatShare(double fraction);

// The text with a no-break space after each number, which keeps it together
// with its unit.
WHEELCACHE_EXPORT std::string KeepUnits(absl::string_view text);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_STATUS_FORMAT_H_
