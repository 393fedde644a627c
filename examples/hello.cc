// The smallest program with a cache; the one that README.md shows.

#include <iostream>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"

int main() {
  wheelcache::CacheOptions options;
  options.max_entries = 100'000;
  options.default_ttl = absl::Minutes(5);  // Give or take 5 %: options.jitter.
  auto cache = *wheelcache::Cache<std::string, int>::Create(options);

  cache->Set("apples", 12);
  cache->Set("cherries", 500, absl::Seconds(30));
  if (std::optional<int> apples = cache->Get("apples")) {
    std::cout << *apples << " apples\n";
  }
}
