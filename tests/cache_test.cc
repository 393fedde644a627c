#include "wheelcache/cache/cache.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace wheelcache {
namespace {

TEST(CacheTest, SetIsReadableAtOnce) {
  auto cache = Cache<std::string, std::string>::Create({}).value();
  EXPECT_TRUE(cache->Set("key", "value"));
  EXPECT_EQ(cache->Get("key"), "value");
}

}  // namespace
}  // namespace wheelcache
