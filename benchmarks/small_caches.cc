// What many small caches take: the mean of 2,000 caches of strings, each
// limited to 100 entries, with the default options, while they are empty and
// when they are full. tools/sizes compares it with its limits.
//
// Prints bytes per cache: resident as the system counts them, and what malloc
// has handed out, which includes no memory that a cache maps by itself.

#include <malloc.h>

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

// What the process has in use.
struct Memory {
  static Memory Now() {
    const struct mallinfo2 info = mallinfo2();
    return {ResidentBytes(), static_cast<int64_t>(info.uordblks + info.hblkhd)};
  }

  int64_t resident;
  int64_t allocated;
};

void Print(const char* name, const Memory& before) {
  const Memory now = Memory::Now();
  std::printf(
      "%s_resident\t%lld\n", name,
      static_cast<long long>((now.resident - before.resident) / kCaches));
  std::printf(
      "%s_malloc\t%lld\n", name,
      static_cast<long long>((now.allocated - before.allocated) / kCaches));
}

void Main() {
  // What a process has once: the reaper's thread, the code, the tables that
  // all caches share.
  const std::unique_ptr<StringCache> first = MakeCache();
  Fill(*first);
  std::vector<std::unique_ptr<StringCache>> caches(kCaches);

  const Memory before = Memory::Now();
  for (auto& cache : caches) cache = MakeCache();
  Print("empty", before);
  for (auto& cache : caches) Fill(*cache);
  Print("full", before);
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main() { wheelcache::benchmarks::Main(); }
