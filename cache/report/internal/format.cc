#include "wheelcache/cache/report/internal/format.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD.

uint8_t ByteAt(absl::string_view text, size_t i) {
  return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
}

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The length of the character that the text begins with, or 0 if that is no
// UTF-8. Rejects overlong forms, surrogates, and what is beyond U+10FFFF.
size_t CharacterLength(absl::string_view text) {
  const uint8_t first = ByteAt(text, 0);
  const uint8_t second = ByteAt(text, 1);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !IsContinuation(second)) return 0;
  if (first < 0xE0) return 2;
  if (!IsContinuation(ByteAt(text, 2))) return 0;
  if (first < 0xF0) {
    const bool overlong = first == 0xE0 && second < 0xA0;
    const bool surrogate = first == 0xED && second >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (!IsContinuation(ByteAt(text, 3))) return 0;
  const bool overlong = first == 0xF0 && second < 0x90;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || too_large ? 0 : 4;
}

// Replaces each byte of ASCII by what `replace` returns, unless that is empty.
template <typename Replace>
std::string Escape(absl::string_view text, Replace replace) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const absl::string_view character = text.substr(0, length);
    absl::string_view other = length == 0 ? kReplacement : "";
    if (length == 1) other = replace(character[0]);
    escaped.append((other.empty() ? character : other).data(),
                   (other.empty() ? character : other).size());
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
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

std::string EscapeHtml(absl::string_view text) {
  return Escape(text, [](char c) -> absl::string_view {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      case '\'':
        return "&#39;";
      default:
        const bool control = static_cast<uint8_t>(c) < ' ' || c == '\x7F';
        return control ? kReplacement : "";
    }
  });
}

std::string EscapeLabel(absl::string_view text) {
  return Escape(text, [](char c) -> absl::string_view {
    switch (c) {
      case '\\':
        return "\\\\";
      case '"':
        return "\\\"";
      case '\n':
        return "\\n";
      case '\0':  // With which Prometheus reads no page.
        return kReplacement;
      default:
        return "";
    }
  });
}

}  // namespace wheelcache::internal
