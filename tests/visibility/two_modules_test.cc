// Two shared objects with hidden symbols that share caches, and one copy of the
// library: a shared object itself, or a part of the program that exports it.

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/visibility/module.h"

namespace wheelcache::testing {
namespace {

using CacheOwner = std::unique_ptr<ModuleCache, void (*)(ModuleCache*)>;

std::string KeyOf(size_t size, char c) { return std::string(size, c); }

TEST(TwoModulesTest, EachFindsTheKeysOfTheOtherAtEveryLength) {
  const Module& first = FirstModule();
  const Module& second = SecondModule();
  const CacheOwner cache(first.make(), first.destroy);
  for (size_t size = 0; size <= 48; ++size) {
    const std::string of_first = KeyOf(size, 'a');
    const std::string of_second = KeyOf(size, 'b');
    first.set(cache.get(), of_first, std::make_shared<int>(1));
    second.set(cache.get(), of_second, std::make_shared<int>(2));
    EXPECT_TRUE(second.get(cache.get(), of_first)) << size;
    EXPECT_TRUE(cache->Contains(of_first)) << size;
    EXPECT_TRUE(first.get(cache.get(), of_second)) << size;
    EXPECT_TRUE(cache->Contains(of_second)) << size;
    EXPECT_TRUE(first.check_invariants(cache.get())) << size;
    EXPECT_TRUE(second.check_invariants(cache.get())) << size;
  }
}

TEST(TwoModulesTest, KeysSetBeforeTheInitializationOfTheProgramAreFound) {
  for (const Module* module : {&FirstModule(), &SecondModule()}) {
    EXPECT_TRUE(module->get(module->made_at_load, kKeySetAtLoad));
    EXPECT_TRUE(module->made_at_load->Contains(kKeySetAtLoad));
    EXPECT_TRUE(module->check_invariants(module->made_at_load));
  }
}

// Evicts in the one module what the other has set.
TEST(TwoModulesTest, EachRemovesTheKeysOfTheOther) {
  const Module& first = FirstModule();
  const Module& second = SecondModule();
  const CacheOwner cache(first.make(), second.destroy);
  for (size_t i = 0; i < 1000; ++i) {
    const std::string key = "a key of " + std::to_string(i);
    (i % 2 == 0 ? first : second)
        .set(cache.get(), key, std::make_shared<int>(1));
    if (i % 3 == 0) {
      EXPECT_TRUE((i % 2 == 0 ? second : first).del(cache.get(), key));
    }
  }
  EXPECT_TRUE(first.check_invariants(cache.get()));
}

TEST(TwoModulesTest, ReportsHaveTheCachesOfBoth) {
  const size_t at_load = ReportCaches().size();
  EXPECT_EQ(at_load, 2u);
  const CacheOwner first(FirstModule().make(), FirstModule().destroy);
  const CacheOwner second(SecondModule().make(), FirstModule().destroy);
  EXPECT_EQ(ReportCaches().size(), 4u);
}

void VisitIn(const Module& reader, const Module& writer) {
  const CacheOwner cache(writer.make(), reader.destroy);
  auto shared = std::make_shared<int>(1);
  const std::weak_ptr<int> value = shared;
  writer.set(cache.get(), "key", std::move(shared));
  // As in HiddenProgramTest.
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      EXPECT_TRUE(reader.contains(cache.get(), "key"));
    }).join();
  }
  Notification visiting;
  Notification deleted;
  std::thread thread([&] {
    EXPECT_TRUE(reader.visit(cache.get(), "key", [&] {
      visiting.Notify();
      deleted.Wait();
    }));
  });
  visiting.Wait();
  EXPECT_TRUE(writer.del(cache.get(), "key"));
  for (int i = 0; i < 3; ++i) writer.run_maintenance(cache.get());
  EXPECT_FALSE(value.expired());
  deleted.Notify();
  thread.join();
  writer.run_maintenance(cache.get());
  EXPECT_TRUE(value.expired());
}

TEST(TwoModulesTest, NoValueIsDestroyedWhileAVisitorOfTheOtherSeesIt) {
  VisitIn(FirstModule(), SecondModule());
  VisitIn(SecondModule(), FirstModule());
}

}  // namespace
}  // namespace wheelcache::testing
