// A program that is compiled with hidden symbols and linked with the library as
// shared objects.

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;

// Promise: Modules share caches
TEST(HiddenProgramTest, NoValueIsDestroyedWhileAVisitorSeesIt) {
  CacheOptions options;
  options.max_entries = 100;
  options.reaper = nullptr;
  const auto cache = *Cache<std::string, std::shared_ptr<int>>::Create(options);
  std::weak_ptr<int> value;
  {
    auto shared = std::make_shared<int>(1);
    value = shared;
    cache->Set("key", std::move(shared));
  }
  // With a this_thread of the program's own, each thread that ends gives its
  // record back twice. The count of those that are taken then hides a reader.
  for (int i = 0; i < 2; ++i) {
    std::thread([&] { EXPECT_TRUE(cache->Contains("key")); }).join();
  }
  Notification visiting;
  Notification deleted;
  std::thread reader([&] {
    cache->Visit("key", [&](const std::shared_ptr<int>&) {
      visiting.Notify();
      deleted.Wait();
      EXPECT_FALSE(value.expired());
    });
  });
  visiting.Wait();
  EXPECT_TRUE(cache->Del("key"));
  for (int i = 0; i < 3; ++i) cache->RunMaintenance();
  EXPECT_FALSE(value.expired());
  deleted.Notify();
  reader.join();
  cache->RunMaintenance();
  EXPECT_TRUE(value.expired());
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

}  // namespace
}  // namespace wheelcache
