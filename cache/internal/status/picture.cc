#include "wheelcache/cache/internal/status/picture.h"

#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace wheelcache::internal {

std::string Picture(absl::string_view name, PictureSize size,
                    absl::string_view content) {
  return absl::StrFormat(
      "<svg class=\"chart\" role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %.0f "
      "%.0f\">%s</svg>\n",
      name, size.width, size.height, content);
}

std::string AxisLabel(double x, double y, Anchor anchor,
                      absl::string_view text) {
  constexpr const char* kNames[] = {"start", "middle", "end"};
  return absl::StrFormat(
      "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
      x, y, kNames[static_cast<int>(anchor)], text);
}

std::string GridLine(double left, double right, double y) {
  return absl::StrFormat(
      "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
      left, right, y, y);
}

}  // namespace wheelcache::internal
