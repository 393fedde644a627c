#include "wheelcache/cache/stats.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace wheelcache {

std::string StatsLine(absl::string_view name, const CacheStats& before,
                      const CacheStats& after) {
  CacheStats minute;
  minute.hits = after.hits - before.hits;
  minute.misses = after.misses - before.misses;
  return absl::StrFormat(
      "cache(%s) - qpm: %d, hit_ratio: %.1f%%, elements: %d, hit: %d, miss: "
      "%d",
      name, minute.hits + minute.misses, 100 * minute.hit_ratio(),
      after.entries, minute.hits, minute.misses);
}

}  // namespace wheelcache
