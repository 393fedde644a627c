// Who may refresh a key, and when again; and the gate of a cache that ends: who
// is let in, and whom Close waits for.

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/refresh_board.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache::internal {
namespace {

using testing::Notification;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMilli = 1'000'000;

class RefreshBoardTest : public ::testing::Test {
 protected:
  RefreshBoard::Claim TryClaim(Hash32 hash, int64_t now = 0) {
    return board_->TryClaim(hash, now, now + kSecond);
  }
  RefreshBoard::Claim TryClaimAtOnce(Hash32 hash) {
    return board_->TryClaim(hash, 0, kSecond,
                            RefreshBoard::Patience::kWaitsNot);
  }

  std::unique_ptr<RefreshBoard> board_ = std::make_unique<RefreshBoard>(100);
};

TEST_F(RefreshBoardTest, KeyIsClaimedByOneAtATime) {
  auto claim = TryClaim(7);
  ASSERT_TRUE(claim);
  EXPECT_FALSE(TryClaim(7));
  EXPECT_FALSE(TryClaim(7, 1000 * kSecond));
  EXPECT_TRUE(TryClaim(8));
  claim.Release();
  EXPECT_FALSE(claim);
  EXPECT_TRUE(TryClaim(7));
}

TEST_F(RefreshBoardTest, ClaimThatIsDroppedMayBeRetriedAtItsTime) {
  for (const int64_t now :
       {int64_t{0}, -3 * kSecond, 5 * kSecond + 1, -3 * kSecond - 1}) {
    const Hash32 hash = 7;
    board_ = std::make_unique<RefreshBoard>(1);
    { EXPECT_TRUE(TryClaim(hash, now)); }
    // To the millisecond, and never too early.
    EXPECT_FALSE(TryClaim(hash, now + kSecond - 1)) << now;
    EXPECT_TRUE(TryClaim(hash, now + kSecond + kMilli)) << now;
  }
}

TEST_F(RefreshBoardTest, RetryTimeMayBeMovedAndSaturates) {
  auto claim = TryClaim(7);
  claim.RetryAt(std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(TryClaim(7, 1'000'000 * kSecond));
  EXPECT_TRUE(TryClaim(7, std::numeric_limits<int64_t>::max() - kSecond));
}

TEST_F(RefreshBoardTest, ImpatientClaimIgnoresTheFailuresOfItsKeyAlone) {
  // Keys of one line, with different tags.
  const auto key = [](Hash32 i) { return 7 + (i << 12); };
  { EXPECT_TRUE(TryClaim(key(1))); }
  EXPECT_FALSE(TryClaim(key(1)));
  { EXPECT_TRUE(TryClaimAtOnce(key(2))); }
  EXPECT_FALSE(TryClaim(key(1))) << "its failure was forgotten";
  {
    const auto again = TryClaimAtOnce(key(1));
    EXPECT_TRUE(again);
    EXPECT_FALSE(TryClaimAtOnce(key(1))) << "it is being refreshed";
  }
  // In a line that is full of failures it takes the place of one.
  for (Hash32 i = 3; i <= 8; ++i) EXPECT_TRUE(TryClaim(key(i))) << i;
  EXPECT_FALSE(TryClaim(key(9)));
  EXPECT_TRUE(TryClaimAtOnce(key(9)));
}

TEST_F(RefreshBoardTest, EmptyWordIsNotThatOfTheKeyWhoseTagIsZero) {
  constexpr Hash32 kZeroTag = 7;
  auto other = TryClaim(kZeroTag + (1 << 12));
  const auto claim = TryClaim(kZeroTag);
  EXPECT_TRUE(claim);
  other.Release();  // Its word comes first in the line.
  EXPECT_FALSE(TryClaim(kZeroTag));
}

TEST_F(RefreshBoardTest, TimesFarFromTheStartOfTheClockAreKept) {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  {
    const auto claim = TryClaim(7, kFirst);
    EXPECT_TRUE(claim);
    EXPECT_FALSE(TryClaim(7, kFirst));
  }
  EXPECT_TRUE(TryClaim(7, 0));
  EXPECT_FALSE(TryClaim(7, 0)) << "as if it were long after that";
}

// Readers of values whose refresh has failed must not keep others from theirs.
TEST_F(RefreshBoardTest, CallerWhoFindsItsKeyTakenCountsNowhere) {
  board_ = std::make_unique<RefreshBoard>(1);
  { EXPECT_TRUE(TryClaim(7)); }
  std::atomic<bool> end{false};
  std::thread reader([&] {
    while (!end.load()) EXPECT_FALSE(TryClaim(7));
  });
  int refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    auto claim = TryClaim(8);
    if (claim) {
      claim.Release();
    } else {
      ++refused;
    }
  }
  end.store(true);
  reader.join();
  EXPECT_EQ(refused, 0);
}

TEST_F(RefreshBoardTest, MovedClaimIsEndedOnce) {
  std::optional<RefreshBoard::Claim> second;
  {
    auto first = TryClaim(7);
    second.emplace(std::move(first));
  }
  EXPECT_FALSE(TryClaim(7, 2 * kSecond));
  second.reset();
  EXPECT_TRUE(TryClaim(7, 2 * kSecond));
}

TEST_F(RefreshBoardTest, NoMoreClaimsThanAreAllowed) {
  board_ = std::make_unique<RefreshBoard>(2);
  auto first = TryClaim(1);
  const auto second = TryClaim(2);
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  EXPECT_FALSE(TryClaim(3));
  first.RetryAt(kSecond);
  EXPECT_TRUE(TryClaim(3));
}

// Promise: One load per key
TEST_F(RefreshBoardTest, KeysOfOneLineAreRefusedWhenItIsFull) {
  std::vector<RefreshBoard::Claim> claims;
  for (Hash32 i = 0; i < 8; ++i) {
    claims.push_back(TryClaim(i << 12));
    EXPECT_TRUE(claims.back());
  }
  EXPECT_FALSE(TryClaim(8u << 12));
  EXPECT_TRUE(TryClaim(8u << 12 | 1));
  claims.clear();
  EXPECT_FALSE(TryClaim(8u << 12));
  EXPECT_TRUE(TryClaim(8u << 12, kSecond));
}

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
