// That the memory of a cache comes back next to threads that read.

#include <cstdint>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

class CacheMemoryThreadsTest : public CacheEnvironment {};

std::string ValueOf(uint64_t key) {
  return std::string(100, static_cast<char>('a' + key % 26));
}

// What is moved waits in limbo then, and the round of moving for that.
TEST_F(CacheMemoryThreadsTest, ComesBackWhileAnotherThreadMayRead) {
  constexpr uint64_t kKeys = 90'000;
  options_.max_bytes = 20 << 20;
  options_.shards = 4;
  const auto cache = New<uint64_t, std::string>();
  testing::Notification reads;
  testing::Notification done;
  std::thread reader([&] {
    cache->Get(uint64_t{0});
    reads.Notify();
    done.Wait();
  });
  reads.Wait();
  for (uint64_t key = 0; key < kKeys; ++key) cache->Set(key, ValueOf(key));
  const int64_t full = cache->stats().resident_bytes;
  for (uint64_t key = 0; key < kKeys; ++key) {
    if (key % 4 != 0) cache->Del(key);
  }
  while (cache->RunMaintenance(10'000) == 10'000) {
  }
  EXPECT_LT(cache->stats().resident_bytes, full / 4 + full / 10 + (4 << 20));
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  for (uint64_t key = 0; key < kKeys; key += 4) {
    EXPECT_EQ(cache->Get(key), ValueOf(key));
  }
  done.Notify();
  reader.join();
}

}  // namespace
}  // namespace wheelcache
