#include "wheelcache/wheel/base/at_fork.h"

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/child.h"

namespace wheelcache::internal {
namespace {

using wheelcache::testing::HoldsInChild;

// Writes down its name and what it is told.
class Witness {
 public:
  Witness(std::string name, std::string& story)
      : name_(std::move(name)), story_(story) {}

 private:
  friend class internal::ForkRegistration;
  void BeforeFork() { story_ += name_ + " before, "; }
  void AfterForkInParent() { story_ += name_ + " in parent, "; }
  void AfterForkInChild() { story_ += name_ + " in child, "; }

  const std::string name_;
  std::string& story_;
  ForkRegistration fork_registration_{this};
};

TEST(ForkRegistration, TheYoungestIsTheFirstBeforeAForkAndTheLastAfterIt) {
  std::string story;
  const Witness a("a", story), b("b", story), c("c", story);
  EXPECT_TRUE(HoldsInChild([&] {
    return story ==
           "c before, b before, a before, a in child, b in child, c in child, ";
  }));
  EXPECT_EQ(story,
            "c before, b before, a before, "
            "a in parent, b in parent, c in parent, ");
}

TEST(ForkRegistration, WhoHasGoneIsNotCalled) {
  for (int gone = 0; gone < 3; ++gone) {
    std::string story;
    std::unique_ptr<Witness> witnesses[] = {
        std::make_unique<Witness>("a", story),
        std::make_unique<Witness>("b", story),
        std::make_unique<Witness>("c", story)};
    witnesses[gone] = nullptr;
    EXPECT_TRUE(HoldsInChild([] { return true; }));
    EXPECT_EQ(story.find("abc"[gone] + std::string(" before")),
              std::string::npos);
    for (int i = 0; i < 3; ++i) {
      if (i == gone) continue;
      EXPECT_NE(story.find("abc"[i] + std::string(" in parent")),
                std::string::npos);
    }
  }
}

TEST(ForkRegistration, TheChildMayForkToo) {
  std::string story;
  const Witness a("a", story);
  EXPECT_TRUE(HoldsInChild([&] { return HoldsInChild([] { return true; }); }));
}

}  // namespace
}  // namespace wheelcache::internal
