// What a hit costs: no lock, and no allocation.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/attributes.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// Not inline, or the compiler finds fault with pairs of which it sees one half.
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  std::abort();
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t bytes,
                                           const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory) noexcept {
  std::free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace wheelcache {
namespace {

class CacheHitTest : public CacheEnvironment {};

TEST_F(CacheHitTest, HitAllocatesNothing) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = New<std::string, std::string>();
    const std::string key(100, 'k');
    cache->Set(key, std::string(1000, 'v'), absl::Hours(1));
    cache->Set("another", "value");
    // The first read of a thread gets it a record of its own.
    ASSERT_TRUE(cache->Contains(key));
    const int64_t before = allocations;
    size_t size = 0;
    for (int i = 0; i < 100; ++i) {
      if (const auto handle = cache->Find(key)) size += handle->size();
      cache->Visit("another", [&](std::string_view v) { size += v.size(); });
      if (cache->Contains(key) && cache->TimeToLive(key)) ++size;
    }
    EXPECT_EQ(allocations, before);
    EXPECT_EQ(size, 100u * (1000 + 5 + 1));
  }
}

// An equality that, in the one thread that asks for it, first calls a function:
// under the lock of the shard, since a Set compares keys under it.
thread_local std::function<void()>* under_lock = nullptr;

struct WatchedEqual {
  bool operator()(int a, int b) const {
    if (under_lock != nullptr) (*under_lock)();
    return a == b;
  }
};

// A hit, or a miss, that waited for the lock would here wait for ever.
TEST_F(CacheHitTest, HitTakesNoLock) {
  options_.shards = 1;
  for (const bool advise : {false, true}) {
    options_.advise = advise;
    auto cache =
        *Cache<int, int, DefaultHash<int>, WatchedEqual>::Create(options_);
    for (int i = 0; i < 10; ++i) cache->Set(i, i);
    int calls = 0;
    std::function<void()> read = [&] {
      ++calls;
      std::thread reader([&] {
        for (int i = 0; i < 10; ++i) {
          EXPECT_EQ(cache->Get(i), i);
          EXPECT_EQ(*cache->Find(i), i);
          EXPECT_TRUE(cache->Visit(i, [i](int v) { EXPECT_EQ(v, i); }));
          EXPECT_EQ(cache->Peek(i), i);
          EXPECT_TRUE(cache->Contains(i));
          EXPECT_TRUE(cache->TimeToLive(i).has_value());
        }
        EXPECT_FALSE(cache->Get(10).has_value());
      });
      reader.join();
    };
    under_lock = &read;
    cache->Set(3, 33);
    under_lock = nullptr;
    EXPECT_GT(calls, 0);
    EXPECT_EQ(cache->Get(3), 33);
  }
}

}  // namespace
}  // namespace wheelcache
