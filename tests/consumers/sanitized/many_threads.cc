// A correct program, of which a sanitizer must report nothing; for
// docs/sanitizers.md.

#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"

int main() {
  wheelcache::CacheOptions options;
  options.max_entries = 1000;
  auto cache = *wheelcache::Cache<int, std::string>::Create(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 20'000; ++i) {
        const int key = (i * 7 + t) % 3000;
        if (i % 3 == 0) {
          cache->Set(key, std::string(20, 'a'), absl::Milliseconds(5));
        } else if (auto handle = cache->Find(key)) {
          if (handle->size() != 20) return;
        }
        if (i % 50 == 0) cache->Del(key);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}
