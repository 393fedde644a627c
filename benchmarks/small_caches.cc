// What many small caches take: the mean of 2,000 caches of strings, each
// limited to 100 entries, with the default options, while they are empty and
// when they are full. tools/sizes compares it with its limits.
//
// Prints the resident bytes per cache: of an empty one, and of a full one.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/benchmarks/resident_memory.h"
#include "wheelcache/cache/cache.h"

namespace wheelcache::benchmarks {
namespace {

using StringCache = Cache<std::string, std::string>;

// So many that the page that a cache shares with the next counts for little.
constexpr int64_t kCaches = 2000;
constexpr int64_t kEntries = 100;

// Keys of 7 bytes and values of 16.
constexpr int64_t kFirstKey = 1'000'000;
constexpr absl::string_view kValue = "sixteen bytes...";

// Far beyond the end of the program: no entry expires.
constexpr absl::Duration kTtl = absl::Hours(1);

std::unique_ptr<StringCache> MakeCache() {
  CacheOptions options;
  options.max_entries = kEntries;
  return *StringCache::Create(options);
}

void Fill(StringCache& cache) {
  for (int64_t i = 0; i < kEntries; ++i) {
    cache.Set(absl::StrCat(kFirstKey + i), kValue, kTtl);
  }
}

void Main() {
  // What a process has once: the reaper's thread, the code, the tables that
  // all caches share.
  const std::unique_ptr<StringCache> first = MakeCache();
  Fill(*first);
  std::vector<std::unique_ptr<StringCache>> caches(kCaches);

  const int64_t before = ResidentBytes();
  const auto per_cache = [&] { return (ResidentBytes() - before) / kCaches; };
  for (auto& cache : caches) cache = MakeCache();
  const int64_t empty = per_cache();
  for (auto& cache : caches) Fill(*cache);
  std::puts(absl::StrCat(empty, " ", per_cache()).c_str());
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main() { wheelcache::benchmarks::Main(); }
