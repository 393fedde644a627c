#include "wheelcache/tools/trace_replay/sweep_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace wheelcache::replay {
namespace {

constexpr double kSpan = 256;

int64_t WithTwoDigits(double number) {
  const double unit = std::pow(10, std::floor(std::log10(number)) - 1);
  return std::llround(std::round(number / unit) * unit);
}

}  // namespace

std::vector<int64_t> SweepLimits(int64_t largest, int count) {
  const auto top = static_cast<double>(largest);
  std::vector<int64_t> limits;
  for (int i = 0; i + 1 < count; ++i) {
    const double part =
        std::pow(kSpan, static_cast<double>(i) / (count - 1) - 1);
    const int64_t limit = WithTwoDigits(std::max(top * part, 1.0));
    const int64_t last = limits.empty() ? 0 : limits.back();
    if (limit > last && limit < largest) limits.push_back(limit);
  }
  limits.push_back(largest);
  return limits;
}

std::vector<int64_t> SampledLimits(int64_t largest, int count) {
  std::vector<int64_t> limits;
  for (int64_t limit = largest / 4; count > 0; limit /= 8, --count) {
    limits.push_back(std::max<int64_t>(limit, 1));
  }
  std::reverse(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

}  // namespace wheelcache::replay
