#include "wheelcache/cache/internal/status/format.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace wheelcache::internal {
namespace {

struct Unit {
  double size;
  const char* name;
};

// `units` ascend. A fraction where there is less than ten of the unit, unless
// it is zero.
template <size_t N>
std::string InUnits(double value, const Unit (&units)[N]) {
  size_t i = 0;
  while (i + 1 < N && value >= units[i + 1].size) ++i;
  const double number = value / units[i].size;
  const bool whole = number >= 9.95 || number == static_cast<int>(number);
  return absl::StrFormat("%.*f %s", whole ? 0 : 1, number, units[i].name);
}

}  // namespace

std::string FormatCount(int64_t count) {
  std::string digits = absl::StrCat(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string FormatBytes(int64_t bytes) {
  constexpr Unit kUnits[] = {{1, "bytes"},
                             {1 << 10, "KiB"},
                             {1 << 20, "MiB"},
                             {1 << 30, "GiB"},
                             {1024.0 * (1 << 30), "TiB"}};
  return InUnits(static_cast<double>(bytes), kUnits);
}

std::string FormatSeconds(double seconds) {
  constexpr Unit kUnits[] = {
      {0.001, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}, {86400, "d"}};
  return InUnits(seconds, kUnits);
}

std::string FormatShare(double fraction) {
  return absl::StrFormat("%.1f %%", 100 * fraction);
}

std::string KeepUnits(absl::string_view text) {
  std::string kept;
  bool after_digit = false;
  for (const char c : text) {
    if (c == ' ' && after_digit) {
      kept += "\xC2\xA0";
    } else {
      kept += c;
    }
    after_digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
  }
  return kept;
}

}  // namespace wheelcache::internal
