// A program with a mistake, which AddressSanitizer reports if it sees into the
// library: it shows a value that no handle keeps any more. For
// docs/sanitizers.md.

#include <cstdio>
#include <string>
#include <string_view>

#include "wheelcache/cache/cache.h"

int main() {
  auto cache = *wheelcache::Cache<std::string, std::string>::Create({});
  cache->Set("key", "value");
  std::string_view kept;
  if (auto handle = cache->Find("key")) kept = *handle;
  cache->Del("key");
  cache->RunMaintenance();
  std::printf("%c\n", kept[0]);
}
