#include "wheelcache/cache/share/memory_pressure.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace wheelcache {
namespace {

constexpr absl::string_view kMount = "/sys/fs/cgroup";

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

// Returns the number after `name` in a file of such lines, or 0.
template <typename Number>
Number After(absl::string_view name, const std::optional<std::string>& text) {
  Number number = 0;
  for (absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    const absl::string_view word = line.substr(0, line.find(' '));
    if (absl::SimpleAtoi(word, &number)) return number;
  }
  return number;
}

// A limit is a number of bytes, or "max".
int64_t LimitIn(const std::string& path) {
  int64_t limit;
  return absl::SimpleAtoi(ReadFile(path).value_or("max"), &limit) ? limit
                                                                  : kUnlimited;
}

double StalledIn(const std::string& path) {
  const std::string text = ReadFile(path).value_or("");
  absl::string_view line = text;
  double percent = 0;
  if (!absl::ConsumePrefix(&line, "some avg10=")) return 0;
  (void)absl::SimpleAtod(line.substr(0, line.find(' ')), &percent);
  return percent / 100;
}

// Nothing where memory is not counted, as in the root.
std::optional<MemoryReading> ReadFolder(const std::string& folder) {
  MemoryReading reading;
  const auto current = ReadFile(absl::StrCat(folder, "/memory.current"));
  if (!absl::SimpleAtoi(current.value_or(""), &reading.used)) {
    return std::nullopt;
  }
  reading.used = std::max<int64_t>(
      reading.used -
          After<int64_t>("inactive_file ",
                         ReadFile(absl::StrCat(folder, "/memory.stat"))),
      0);
  reading.limit = std::min(LimitIn(absl::StrCat(folder, "/memory.max")),
                           LimitIn(absl::StrCat(folder, "/memory.high")));
  reading.stalled = StalledIn(absl::StrCat(folder, "/memory.pressure"));
  return reading;
}

// The folder of the process in the tree of version 2.
std::string OwnFolder() {
  const std::string text = ReadFile("/proc/self/cgroup").value_or("");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) return absl::StrCat(kMount, line);
  }
  return std::string(kMount);
}

int64_t LeftIn(const MemoryReading& reading) {
  return reading.limit - reading.used;
}

}  // namespace

absl::StatusOr<MemoryReading> ReadCgroup(const std::string& folder) {
  std::string at = folder.empty() ? OwnFolder() : folder;
  std::optional<MemoryReading> tightest = ReadFolder(at);
  if (!tightest.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("no cgroup (version 2) that counts memory in ", at));
  }
  while (absl::StartsWith(at, kMount) && at.size() > kMount.size()) {
    at.resize(at.rfind('/'));
    const std::optional<MemoryReading> above = ReadFolder(at);
    if (above.has_value() && LeftIn(*above) < LeftIn(*tightest)) {
      tightest = above;
    }
  }
  return *tightest;
}

namespace internal {

absl::Status Validate(const std::string& share,
                      const MemoryPressureOptions& options) {
  if (options.reserve >= 0 && options.reserve <= 0.5) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "share \"", share, "\": pressure.reserve = ", options.reserve,
      " must be from 0 to 0.5"));
}

int64_t LimitUnderPressure(const ShareUse& share, const MemoryReading& memory,
                           double reserve, double seconds) {
  constexpr double kStalled = 0.1;
  constexpr double kSecondsToGrow = 120;
  // Of no limit no part remains free.
  const auto kept =
      memory.limit == kUnlimited
          ? 0
          : static_cast<int64_t>(static_cast<double>(memory.limit) * reserve);
  const int64_t excess = memory.used - (memory.limit - kept);
  const int64_t held = std::min(share.limit, share.used);
  if (excess > 0) return held - std::min(excess, share.max_bytes / 8);
  if (memory.stalled > kStalled) return held - share.max_bytes / 64;
  const int64_t room = std::max<int64_t>((-excess - kept) / 2, 0);
  const double more =
      std::min(static_cast<double>(share.max_bytes) * seconds / kSecondsToGrow,
               static_cast<double>(room));
  return share.limit +
         std::min(static_cast<int64_t>(more), share.max_bytes - share.limit);
}

}  // namespace internal
}  // namespace wheelcache
