// The gate of a cache that ends: who is let in, and whom Close waits for.

#include <atomic>
#include <optional>
#include <thread>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache::internal {
namespace {

using testing::Notification;

class GateTest : public ::testing::Test {
 protected:
  bool Admits() { return Gate::Visit(&gate_).admitted(); }

  Gate gate_;
};

TEST_F(GateTest, VisitorsMayNestAndCloseTheirOwnGate) {
  const Gate::Visit outer(&gate_);
  std::optional<Gate::Visit> inner(&gate_);
  gate_.Close();
  EXPECT_TRUE(inner->admitted());
  EXPECT_FALSE(Admits());
  inner.reset();
  gate_.Close();
}

TEST_F(GateTest, VisitorThatClosesItWaitsForOneThatDoesNot) {
  std::atomic<bool> left{false};
  Notification inside;
  std::thread visitor([&] {
    const Gate::Visit visit(&gate_);
    inside.Notify();
    while (!gate_.closed()) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    left.store(true);
  });
  inside.Wait();
  {
    const Gate::Visit visit(&gate_);
    gate_.Close();
    EXPECT_TRUE(left.load());
  }
  visitor.join();
}

TEST_F(GateTest, VisitorsThatCloseItAtATimeDoNotWaitForEachOther) {
  std::atomic<int> inside{0};
  std::atomic<int> leaving{0};
  const auto visit_and_close = [&] {
    const Gate::Visit visit(&gate_);
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
    gate_.Close();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    ++leaving;
  };
  std::thread first(visit_and_close);
  std::thread second(visit_and_close);
  while (inside.load() < 2) std::this_thread::yield();
  gate_.Close();  // Waits for both to leave, not for their calls of Close.
  EXPECT_EQ(leaving.load(), 2);
  first.join();
  second.join();
}

TEST_F(GateTest, WhoIsOutsideWaitsForAVisitorThatClosesIt) {
  Notification closing;
  Notification may_leave;
  std::atomic<bool> left{false};
  std::thread visitor([&] {
    const Gate::Visit visit(&gate_);
    gate_.Close();
    closing.Notify();
    may_leave.Wait();
    left.store(true);
  });
  closing.Wait();
  may_leave.Notify();
  gate_.Close();
  EXPECT_TRUE(left.load());
  visitor.join();
}

}  // namespace
}  // namespace wheelcache::internal
