// The examples in the headers of clocks, reaper and timer service, as they
// stand there.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/mutex.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace {

TEST(ClockExample, SleepsUntilADeadline) {
  wheelcache::Clock& clock = wheelcache::Clock::Monotonic();
  const int64_t deadline = clock.NanosAfter(absl::Milliseconds(20));
  std::unique_ptr<wheelcache::Sleeper> sleeper = clock.NewSleeper();
  sleeper->Wake();                // The test does not wait for it.
  sleeper->SleepUntil(deadline);  // Or until somebody calls Wake().
}

class Sessions : public wheelcache::Reaper::Client {
 public:
  explicit Sessions(wheelcache::Reaper& reaper) : reaper_(reaper) {
    registered_ = reaper_.Register(this);  // Not ok: without a thread.
  }
  ~Sessions() override { reaper_.Unregister(this); }

  void Open(int64_t deadline_nanos) {
    wheelcache::MutexLock lock(&mu_);
    deadlines_.push_back(deadline_nanos);
    reaper_.WakeAt(this, deadline_nanos);
  }

  int64_t RunDue(int64_t now_nanos) override {
    wheelcache::MutexLock lock(&mu_);
    while (!deadlines_.empty() && deadlines_.front() <= now_nanos) {
      deadlines_.erase(deadlines_.begin());
    }
    return deadlines_.empty() ? wheelcache::Clock::kNever : deadlines_.front();
  }

  size_t size() {
    wheelcache::MutexLock lock(&mu_);
    return deadlines_.size();
  }
  const absl::Status& registered() const { return registered_; }

 private:
  wheelcache::Reaper& reaper_;
  absl::Status registered_;
  wheelcache::Mutex mu_;
  std::vector<int64_t> deadlines_ ABSL_GUARDED_BY(mu_);
};

TEST(ReaperExample, ClosesSessions) {
  wheelcache::SimulatedClock clock;
  wheelcache::Reaper reaper(clock);
  Sessions sessions(reaper);
  ASSERT_TRUE(sessions.registered().ok());
  sessions.Open(1'000);
  sessions.Open(2'000);
  clock.RunFor(absl::Nanoseconds(1'500));
  EXPECT_EQ(sessions.size(), 1);
}

TEST(SimulatedClockExample, AnIdleMinutePassesAtOnce) {
  wheelcache::SimulatedClock clock;
  wheelcache::Reaper reaper(clock);
  Sessions sessions(reaper);
  clock.RunFor(absl::Seconds(60));  // Returns at once, all work done.
  EXPECT_EQ(clock.wake_ups(), 0);   // Nothing was due, so no thread woke.
}

struct Session {};

TEST(TimerServiceExample, LogsUsersOut) {
  std::atomic<int> logged_out{0};
  const auto LogOut = [&](const std::string&, Session) { ++logged_out; };
  const Session session;

  using Sessions = wheelcache::TimerService<std::string, Session>;
  Sessions::Options options;
  options.interval = absl::Milliseconds(100);
  options.execute = [&](const std::string& user, Session session) {
    LogOut(user, std::move(session));
  };
  wheelcache::SimulatedClock clock;
  options.clock = &clock;
  absl::StatusOr<std::unique_ptr<Sessions>> sessions =
      Sessions::Create(std::move(options));
  ASSERT_TRUE(sessions.ok());
  (*sessions)->Set("ada", session, absl::Minutes(30)).IgnoreError();
  clock.RunFor(absl::Minutes(20));
  (*sessions)->Move("ada", absl::Minutes(30)).IgnoreError();  // Still there.
  clock.RunFor(absl::Minutes(20));
  EXPECT_EQ(logged_out, 0);
  (*sessions)->Remove("ada").IgnoreError();  // Logged out by hand.
  clock.RunFor(absl::Minutes(20));
  EXPECT_EQ(logged_out, 0);
}

}  // namespace
