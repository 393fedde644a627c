// Two shared objects, each with a copy of the library that it hides.

#include <dlfcn.h>

#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "wheelcache/tests/visibility/module.h"

namespace wheelcache::testing {
namespace {

constexpr char kMessage[] = "made by one copy of the library";

// Each use of a cache of the first module by the second one.
class TwoCopiesDeathTest : public ::testing::Test {
 protected:
  TwoCopiesDeathTest() {
    FirstModule().set(cache_, key_, std::make_shared<int>(1));
    EXPECT_TRUE(FirstModule().get(cache_, key_));
  }
  ~TwoCopiesDeathTest() override { FirstModule().destroy(cache_); }

  void ExpectThatEachUseEndsTheProgram() {
    const Module& second = SecondModule();
    EXPECT_DEATH(second.get(cache_, key_), kMessage);
    EXPECT_DEATH(second.get(cache_, "another"), kMessage);
    EXPECT_DEATH(second.contains(cache_, key_), kMessage);
    EXPECT_DEATH(second.visit(cache_, key_, [] {}), kMessage);
    EXPECT_DEATH(second.get_or_load(cache_, key_), kMessage);
    EXPECT_DEATH(second.set(cache_, key_, nullptr), kMessage);
    EXPECT_DEATH(second.touch(cache_, key_), kMessage);
    EXPECT_DEATH(second.del(cache_, key_), kMessage);
    EXPECT_DEATH(second.clear(cache_), kMessage);
    EXPECT_DEATH(second.run_maintenance(cache_), kMessage);
    EXPECT_DEATH(second.destroy(cache_), kMessage);
  }

  ModuleCache* const cache_ = FirstModule().make();
  const std::string key_ = "a key of 17 bytes";
};

// Promise: Modules share caches
TEST_F(TwoCopiesDeathTest, FirstSharedUseEndsTheProgram) {
  ExpectThatEachUseEndsTheProgram();
}

// The thread has a record of the second copy by then.
TEST_F(TwoCopiesDeathTest, SharedUseEndsTheProgramAfterUseOfAnOwnCache) {
  const Module& second = SecondModule();
  ModuleCache* const own = second.make();
  second.set(own, key_, std::make_shared<int>(1));
  EXPECT_TRUE(second.get(own, key_));
  ExpectThatEachUseEndsTheProgram();
  EXPECT_TRUE(second.get(own, key_));
  second.destroy(own);
}

TEST(TwoCopiesTest, EachMayHaveCachesOfItsOwn) {
  for (const Module* module : {&FirstModule(), &SecondModule()}) {
    ModuleCache* const cache = module->make();
    for (int i = 0; i < 200; ++i) {
      module->set(cache, std::to_string(i), std::make_shared<int>(i));
    }
    EXPECT_TRUE(module->get(cache, "199"));
    EXPECT_TRUE(module->check_invariants(cache));
    module->destroy(cache);
  }
}

bool IsMapped(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(file) != std::string::npos) return true;
  }
  return false;
}

// Its background thread goes on, as caches come and go.
TEST(UnloadedModuleTest, StaysMappedWhileItsBackgroundThreadRuns) {
  const std::string file = "tests/visibility/libplugin.so";
  for (int i = 0; i < 3; ++i) {
    void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(module, nullptr) << dlerror();
    auto* const use =
        reinterpret_cast<bool (*)()>(dlsym(module, "UseACacheOnAThread"));
    EXPECT_TRUE(use());
    EXPECT_EQ(dlclose(module), 0);
    EXPECT_TRUE(IsMapped(file));
  }
}

}  // namespace
}  // namespace wheelcache::testing
