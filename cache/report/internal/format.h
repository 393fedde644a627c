// What stands in pages: numbers as people read them, and text that users chose,
// harmless in what other programs read.
//
//   FormatCount(1234567);  // "1,234,567"
//   FormatBytes(5 << 20);  // "5 MiB"
//   FormatSeconds(90);     // "1.5 min"
//   FormatShare(0.931);    // "93.1 %"
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_REPORT_INTERNAL_FORMAT_H_
#define WHEELCACHE_CACHE_REPORT_INTERNAL_FORMAT_H_

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

// The text with bytes that are no UTF-8 replaced by U+FFFD, as one of them
// would make a reader refuse the whole text; and escaped:

// For the text and the quoted attributes of HTML. Control characters, which
// HTML does not allow, are replaced, too.
WHEELCACHE_EXPORT std::string EscapeHtml(absl::string_view text);

// For the quoted value of a label in Prometheus' text format.
WHEELCACHE_EXPORT std::string EscapeLabel(absl::string_view text);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_REPORT_INTERNAL_FORMAT_H_
