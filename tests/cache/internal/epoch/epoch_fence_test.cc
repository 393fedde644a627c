// What comes before a fence and what after it. That the fence keeps the two
// apart is the CPU's affair, which no test can force; that it is there, and in
// its place, is shown here: what was to come before has happened at the fence,
// and what happens to others there is seen after it.

#include <atomic>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache::internal {
namespace {

class EpochFenceTest : public InterruptedCacheEnvironment {
 protected:
  // Opens a section in another thread, and keeps it open.
  void OpenElsewhere() {
    other_ = std::thread([this] {
      const ReadSection section;
      open_.store(true);
      while (!close_.load()) std::this_thread::yield();
    });
    while (!open_.load()) std::this_thread::yield();
  }
  ~EpochFenceTest() override {
    close_.store(true);
    if (other_.joinable()) other_.join();
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> close_{false};
  std::thread other_;
};

TEST_F(EpochFenceTest, ASectionAnnouncesItsEpochBeforeTheFence) {
  { const ReadSection takes_a_record; }
  const Epoch now = current_epoch.load();
  bool announced = false;
  At("fence: light",
     [&] { announced = this_thread.record->announced.load() == now; });
  const ReadSection section;
  EXPECT_TRUE(announced);
}

TEST_F(EpochFenceTest, ASectionThatAnnouncesAnewHasAFenceToo) {
  ReadSection section;
  AdvanceBirth();
  const Epoch now = current_epoch.load();
  bool announced = false;
  At("fence: light",
     [&] { announced = this_thread.record->announced.load() == now; });
  section.Announce();
  EXPECT_TRUE(announced);
}

// A writer that finds nobody destroys at once what it unlinked.
TEST_F(EpochFenceTest, AThreadIsCountedBeforeTheFenceOfItsFirstSection) {
  std::atomic<bool> at_fence{false};
  std::atomic<bool> goes_on{false};
  std::thread reader([&] {
    At("fence: full", [&] {
      at_fence.store(true);
      while (!goes_on.load()) std::this_thread::yield();
    });
    const ReadSection section;
    EXPECT_EQ(testing::interruption.point, "");
    at_fence.store(true);
  });
  while (!at_fence.load()) std::this_thread::yield();
  EXPECT_FALSE(NobodyReads());
  goes_on.store(true);
  reader.join();
}

TEST_F(EpochFenceTest, WhoeverFindsNobodyLooksOnceMoreAfterTheFence) {
  EXPECT_TRUE(NobodyReads());
  At("fence: full", [&] { OpenElsewhere(); });
  EXPECT_FALSE(NobodyReads());
}

TEST_F(EpochFenceTest, AnEpochHasEndedBeforeTheFence) {
  const Epoch now = current_epoch.load();
  Epoch next = 0;
  At("fence: full", [&] { next = current_epoch.load(); });
  EXPECT_EQ(AdvanceEpoch(), now);
  EXPECT_EQ(next, now + 1);
}

}  // namespace
}  // namespace wheelcache::internal
