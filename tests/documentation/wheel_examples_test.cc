// The examples that wheel/ and lru/ show their users, each in a frame that
// supplies what is theirs. documentation_test.cc compares them with the
// headers.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/lru/generational_list.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/base/background_thread.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_links.h"
#include "wheelcache/wheel/timer_service.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

TEST(LruExamples, List) {
  struct Page {
    wheelcache::LruLinks<Page*> links;
  };
  struct Pages {        // The Store: where the list finds an element's links.
    using Ref = Page*;  // Ref{} (here nullptr) is null.
    wheelcache::LruLinks<Ref>& lru_links(Ref page) { return page->links; }
  };
  Page index, news;
  wheelcache::LruList<Pages> list;
  list.PushFront(&index);
  list.PushFront(&news);
  list.MoveToFront(&index);    // The most recently used.
  Page* victim = list.back();  // The least: the news.
  list.Remove(victim);
  EXPECT_EQ(victim, &news);
  EXPECT_EQ(list.back(), &index);
}

TEST(LruExamples, GenerationalList) {
  struct Page {
    wheelcache::LruLinks<Page*> links;
    uint32_t last_use = 0;
  };
  struct Pages {        // The Store: where the list finds an element's fields.
    using Ref = Page*;  // Ref{} (here nullptr) is null.
    wheelcache::LruLinks<Ref>& lru_links(Ref page) { return page->links; }
    uint32_t number(Ref page) const { return page->last_use; }
    void set_number(Ref page, uint32_t number) { page->last_use = number; }
    void Publish(uint32_t) {}     // Asked for by number().
    uint32_t Now() { return 0; }  // No time is kept.
  };
  Page index, news;
  using List = wheelcache::GenerationalList<Pages>;
  List::Generations generations = {};
  List list(&generations);
  list.PushFront(&index);
  list.PushFront(&news);
  index.last_use = list.number();  // Used: the list is not touched.
  uint64_t budget = 100;           // The most elements that may be moved.
  Page* victim = list.FindOldest(&budget);  // The news.
  list.Remove(victim);
  EXPECT_EQ(victim, &news);
  EXPECT_EQ(list.FindOldest(&budget), &index);
}

TEST(LruExamples, GhostList) {
  const uint32_t hash = 4711;
  std::vector<wheelcache::GhostList::Bucket> buckets(
      wheelcache::GhostList::BucketsFor(900));
  wheelcache::GhostList ghosts(buckets.data(), buckets.size());
  ghosts.Add(hash, wheelcache::GhostList::kFirst);
  ghosts.Take(hash);  // kFirst: it came back.
  ghosts.Take(hash);  // kNone: a ghost is taken once.
  EXPECT_EQ(ghosts.size(wheelcache::GhostList::kFirst), 0);
}

std::vector<uint32_t> closed_sessions;

void Close(uint32_t session) { closed_sessions.push_back(session); }

TEST(WheelExamples, BasicTimingWheel) {
  const uint64_t now = 1'000'000;
  struct Session {
    wheelcache::TimerLinks<uint32_t> links;
    uint64_t deadline = 0;
  };
  struct Sessions {        // The Store: where the wheel finds a timer's fields.
    using Ref = uint32_t;  // Ref{} (here 0) is null and names no timer.
    wheelcache::TimerLinks<Ref>& links(Ref ref) const { return all[ref].links; }
    uint64_t deadline(Ref ref) const { return all[ref].deadline; }
    Session* all;
  };
  Session table[100];
  wheelcache::BasicTimingWheel<Sessions> wheel(Sessions{table}, now);
  table[7].deadline = now + 250;
  wheel.Schedule(7);
  wheel.Advance(now + 300, wheelcache::kNoBudget,
                [](uint32_t ref) { Close(ref); });
  EXPECT_THAT(closed_sessions, ElementsAre(7));
}

std::vector<Timer*> closed_timers;

void CloseOwnerOf(Timer* timer) { closed_timers.push_back(timer); }

uint64_t ticks = 1'000'000;

uint64_t NowInTicks() { return ticks; }

TEST(WheelExamples, TimingWheel) {
  struct Connection {
    int fd;
    wheelcache::Timer idle;
  };
  auto connection = std::make_unique<Connection>();
  wheelcache::TimingWheel wheel(NowInTicks());
  wheel.Schedule(&connection->idle, NowInTicks() + 30'000);
  ticks += 20'000;
  wheel.Schedule(&connection->idle, NowInTicks() + 30'000);  // Moves it.
  ticks += 29'999;
  wheel.Advance(NowInTicks(), kNoBudget, [](Timer*) { FAIL(); });
  ticks += 1;
  wheel.Advance(NowInTicks(), wheelcache::kNoBudget,
                [](wheelcache::Timer* timer) { CloseOwnerOf(timer); });
  EXPECT_THAT(closed_timers, ElementsAre(&connection->idle));
}

TEST(WheelExamples, Clock) {
  wheelcache::Clock& clock = wheelcache::Clock::Monotonic();
  const int64_t deadline = clock.NanosAfter(absl::Milliseconds(20));
  std::unique_ptr<wheelcache::Sleeper> sleeper = clock.NewSleeper();
  sleeper->SleepUntil(deadline);  // Or until somebody calls Wake().
  EXPECT_GE(clock.NowNanos(), deadline);
}

TEST(WheelExamples, SimulatedClock) {
  wheelcache::SimulatedClock clock;
  wheelcache::Reaper reaper(clock);
  clock.RunFor(absl::Seconds(60));  // Returns at once, all work done.
  EXPECT_EQ(clock.wake_ups(), 0);   // Nothing was due, so no thread woke.
}

class Mailbox {
 public:
  void Put(int letter) {
    MutexLock lock(&mu_);
    letters_.push_back(letter);
    arrived_.Signal();
  }
  int Take() {
    MutexLock lock(&mu_);
    while (letters_.empty()) arrived_.Wait(&mu_);
    const int letter = letters_.front();
    letters_.pop_front();
    return letter;
  }

 private:
  Mutex mu_;
  CondVar arrived_;
  std::deque<int> letters_ ABSL_GUARDED_BY(mu_);
};

TEST(WheelExamples, Mutex) {
  Mailbox mailbox;
  std::thread writer([&mailbox] { mailbox.Put(7); });
  EXPECT_EQ(mailbox.Take(), 7);
  writer.join();
}

class Ticker final : private internal::BackgroundThread {
 public:
  ~Ticker() {
    stop_.store(true);
    sleeper_->Wake();
    EndThread();
  }
  bool Start() { return StartThread("ticker") == 0; }

  int ticks() const { return ticks_.load(); }
  bool is_lost() const { return is_lost_; }

 private:
  void Run() override {
    while (!stop_.load()) {
      StandStillAtFork();
      Tick();
      sleeper_->SleepUntil(next_nanos_);
    }
  }
  void WakeForFork() override { sleeper_->Wake(); }
  void OnThreadLost() override { is_lost_ = true; }

  void Tick() { ++ticks_; }

  const std::unique_ptr<wheelcache::Sleeper> sleeper_ =
      wheelcache::Clock::Monotonic().NewSleeper();
  const int64_t next_nanos_ = wheelcache::Clock::kNever;
  std::atomic<bool> stop_{false};
  std::atomic<int> ticks_{0};
  bool is_lost_ = false;
};

TEST(WheelExamples, BackgroundThread) {
  Ticker ticker;
  ASSERT_TRUE(ticker.Start());
  while (ticker.ticks() == 0) std::this_thread::yield();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ticker.is_lost() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(ticker.is_lost());
}

class Sessions : public wheelcache::Reaper::Client {
 public:
  explicit Sessions(wheelcache::Reaper& reaper) : reaper_(reaper) {
    registered_ = reaper_.Register(this);  // Not ok: without a thread.
  }
  ~Sessions() override { reaper_.Unregister(this); }
  void Open(int64_t deadline_nanos) {
    {
      MutexLock lock(&mu_);
      deadlines_.push_back(deadline_nanos);
    }
    reaper_.WakeAt(this, deadline_nanos);
  }
  int64_t RunDue(int64_t now_nanos) override;  // Closes some that are due.

  size_t size() {
    MutexLock lock(&mu_);
    return deadlines_.size();
  }

 private:
  wheelcache::Reaper& reaper_;
  absl::Status registered_;
  Mutex mu_;
  std::deque<int64_t> deadlines_ ABSL_GUARDED_BY(mu_);  // The earliest first.
};

int64_t Sessions::RunDue(int64_t now_nanos) {
  MutexLock lock(&mu_);
  if (!deadlines_.empty() && deadlines_.front() <= now_nanos) {
    deadlines_.pop_front();
  }
  return deadlines_.empty() ? Clock::kNever : deadlines_.front();
}

TEST(WheelExamples, Reaper) {
  SimulatedClock clock;
  Reaper reaper(clock);
  Sessions sessions(reaper);
  sessions.Open(clock.NanosAfter(absl::Minutes(1)));
  sessions.Open(clock.NanosAfter(absl::Minutes(2)));
  clock.RunFor(absl::Seconds(90));
  EXPECT_EQ(sessions.size(), 1u);
  clock.RunFor(absl::Seconds(30));
  EXPECT_EQ(sessions.size(), 0u);
}

struct Session {};

void LogOut(const std::string& user, Session /*session*/) {
  FAIL() << user << " is still here";
}

void Report() {}

TEST(WheelExamples, TimerService) {
  using Sessions = wheelcache::TimerService<std::string, Session>;
  Sessions::Options options;
  options.interval = absl::Milliseconds(100);
  options.execute = [](const std::string& user, Session session) {
    LogOut(user, std::move(session));
  };
  absl::StatusOr<std::unique_ptr<Sessions>> sessions =
      Sessions::Create(std::move(options));
  ASSERT_TRUE(sessions.ok());
  const Session session;
  (*sessions)->Set("ada", session, absl::Minutes(30)).IgnoreError();
  (*sessions)->Move("ada", absl::Minutes(30)).IgnoreError();  // Still there.
  (*sessions)->Remove("ada").IgnoreError();  // Logged out by hand.
  (*sessions)->Every(absl::Minutes(1), [] { Report(); }).IgnoreError();
  EXPECT_EQ((*sessions)->size(), 0u);
}

}  // namespace
}  // namespace wheelcache
