// Parts of a picture, as SVG within HTML. Colours come from the page's style
// sheet, by class: axis, grid.
//
// Coordinates are in units of the picture, which is as wide as the page lets it
// be.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_STATUS_PICTURE_H_
#define WHEELCACHE_CACHE_INTERNAL_STATUS_PICTURE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

struct PictureSize {
  double width;
  double height;
};

// `name` tells those who do not see the picture what it is. Both texts are
// HTML.
WHEELCACHE_EXPORT std::string Picture(absl::string_view name, PictureSize size,
                                      absl::string_view content);

enum class Anchor { kStart, kMiddle, kEnd };

// A label of an axis, from `x`, around it, or up to it. The text is HTML.
WHEELCACHE_EXPORT std::string AxisLabel(double x, double y, Anchor anchor,
                                        absl::string_view text);

WHEELCACHE_EXPORT std::string GridLine(double left, double right, double y);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_STATUS_PICTURE_H_
