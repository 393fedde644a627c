#include "wheelcache/cache/near/internal/redis/connector.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

// Of a server that is not there, so that each attempt fails at once.
ConnectorSettings SettingsOfNobody() {
  return {*ParseServerUrl("unix:///nobody/listens/here"), "test",
          absl::Seconds(1)};
}

// Lets an attempt fail. Returns how long the pause is that follows.
absl::Duration PauseAfterFailure(Connector* connector, int64_t* now_nanos) {
  connector->Hurry(*now_nanos);
  EXPECT_FALSE(connector->Advance(/*revents=*/0, *now_nanos).ok());
  const int64_t begin = *now_nanos;
  *now_nanos = connector->Request().wake_nanos;
  return absl::Nanoseconds(*now_nanos - begin);
}

TEST(ConnectorTest, PausesGrowWithTheAttemptsThatFail) {
  const ConnectorSettings settings = SettingsOfNobody();
  absl::Duration longest;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Connector connector(settings, seed);
    int64_t now_nanos = 0;
    EXPECT_LE(PauseAfterFailure(&connector, &now_nanos),
              absl::Milliseconds(50));
    for (int i = 0; i < 9; ++i) PauseAfterFailure(&connector, &now_nanos);
    longest = std::max(longest, PauseAfterFailure(&connector, &now_nanos));
  }
  EXPECT_GT(longest, absl::Seconds(3));
}

TEST(ConnectorTest, PauseIsShortAgainOnceAConnectionHasServed) {
  const ConnectorSettings settings = SettingsOfNobody();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Connector connector(settings, seed);
    int64_t now_nanos = 0;
    for (int i = 0; i < 9; ++i) PauseAfterFailure(&connector, &now_nanos);
    connector.ResetBackoff();
    EXPECT_LE(PauseAfterFailure(&connector, &now_nanos),
              absl::Milliseconds(50));
  }
}

TEST(ConnectorTest, NoAttemptIsMadeInAPause) {
  const ConnectorSettings settings = SettingsOfNobody();
  Connector connector(settings, /*seed=*/1);
  int64_t now_nanos = 0;
  PauseAfterFailure(&connector, &now_nanos);
  EXPECT_TRUE(connector.Advance(/*revents=*/0, now_nanos - 1).ok());
  EXPECT_FALSE(connector.Advance(/*revents=*/0, now_nanos).ok());
}

}  // namespace
}  // namespace wheelcache::internal
