// Makes text that users chose harmless in what other programs read.
//
// Both functions replace bytes that are no UTF-8 by U+FFFD: one of them would
// make a reader refuse the whole text.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_STATUS_ESCAPE_H_
#define WHEELCACHE_CACHE_INTERNAL_STATUS_ESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// For the text and the quoted attributes of HTML. Control characters, which
// HTML does not allow, are replaced, too.
WHEELCACHE_EXPORT std::string EscapeHtml(absl::string_view text);

// For the quoted value of a label in Prometheus' text format.
WHEELCACHE_EXPORT std::string EscapeLabel(absl::string_view text);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_STATUS_ESCAPE_H_
