#include "wheelcache/cache/near/heartbeat.h"

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(HeartbeatTest, FirstAnswerCertifiesNothing) {
  Heartbeat heartbeat(absl::Seconds(3), 5 * kSecond);
  EXPECT_EQ(heartbeat.next_nanos(), 5 * kSecond);
  heartbeat.Send(5 * kSecond);
  EXPECT_EQ(heartbeat.Answer(), std::nullopt);
}

TEST(HeartbeatTest, AnswerCertifiesWhatThePingBeforeItWouldHave) {
  Heartbeat heartbeat(absl::Seconds(3), 0);
  heartbeat.Send(10);
  heartbeat.Answer();
  heartbeat.Send(20);
  EXPECT_EQ(heartbeat.Answer(), 10 + 3 * kSecond);
  heartbeat.Send(40);
  EXPECT_EQ(heartbeat.Answer(), 20 + 3 * kSecond);
}

TEST(HeartbeatTest, FirstTwoPingsFollowEachOtherAndThenOneComesEachSixth) {
  Heartbeat heartbeat(absl::Seconds(3), 0);
  heartbeat.Send(10);
  heartbeat.Answer();
  EXPECT_EQ(heartbeat.next_nanos(), 10);
  heartbeat.Send(20);
  heartbeat.Answer();
  EXPECT_EQ(heartbeat.next_nanos(), 20 + kSecond / 2);
}

TEST(HeartbeatTest, NoPingIsDueWhileOneIsUnanswered) {
  Heartbeat heartbeat(absl::Seconds(3), 0);
  EXPECT_EQ(heartbeat.dead_nanos(), Clock::kNever);
  heartbeat.Send(10);
  EXPECT_EQ(heartbeat.next_nanos(), Clock::kNever);
  EXPECT_EQ(heartbeat.dead_nanos(), 10 + 3 * kSecond);
  heartbeat.Answer();
  EXPECT_EQ(heartbeat.dead_nanos(), Clock::kNever);
}

TEST(HeartbeatTest, AfterAPauseThatOutlastedTheLeaseTheNextPingFollowsAtOnce) {
  Heartbeat heartbeat(absl::Seconds(3), 0);
  heartbeat.Send(10);
  heartbeat.Answer();
  heartbeat.Send(20);
  heartbeat.Answer();
  heartbeat.Send(20 + 3 * kSecond);
  EXPECT_EQ(heartbeat.Answer(), 20 + 3 * kSecond);
  EXPECT_EQ(heartbeat.next_nanos(), 20 + 3 * kSecond);
  heartbeat.Send(21 + 3 * kSecond);
  EXPECT_EQ(heartbeat.Answer(), 20 + 6 * kSecond);
  EXPECT_EQ(heartbeat.next_nanos(), 21 + 3 * kSecond + kSecond / 2);
}

TEST(HeartbeatTest, TinyAndHugeBoundsStayWithinTheClock) {
  Heartbeat tiny(absl::Nanoseconds(1), 0);
  tiny.Send(7);
  tiny.Answer();
  tiny.Send(7);
  EXPECT_EQ(tiny.Answer(), 8);
  EXPECT_EQ(tiny.next_nanos(), 8);  // Time passes between two of them.
  Heartbeat huge(absl::InfiniteDuration(), 0);
  huge.Send(7);
  EXPECT_EQ(huge.dead_nanos(), Clock::kNever);
  huge.Answer();
  huge.Send(8);
  EXPECT_EQ(huge.Answer(), Clock::kNever);
}

}  // namespace
}  // namespace wheelcache::internal
