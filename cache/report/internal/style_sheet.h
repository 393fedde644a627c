// How the status page looks: in light and dark, and from the width of a phone
// on. It names no font, picture or script of elsewhere.

#ifndef WHEELCACHE_CACHE_REPORT_INTERNAL_STYLE_SHEET_H_
#define WHEELCACHE_CACHE_REPORT_INTERNAL_STYLE_SHEET_H_

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

extern WHEELCACHE_EXPORT const absl::string_view kStyleSheet;

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_REPORT_INTERNAL_STYLE_SHEET_H_
