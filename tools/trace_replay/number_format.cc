#include "wheelcache/tools/trace_replay/number_format.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace wheelcache {
namespace replay {

std::string WithThousands(int64_t number) {
  std::string text = absl::StrCat(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(at, ",");
  }
  return text;
}

std::string ShortDuration(int64_t nanos) {
  if (nanos < 1000) return absl::StrCat(nanos, " ns");
  double value = static_cast<double>(nanos) / 1000;
  absl::string_view unit = "us";
  for (absl::string_view larger : {"ms", "s"}) {
    // From 999.5 on, rounding would print four digits.
    if (value < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

}  // namespace replay
}  // namespace wheelcache
