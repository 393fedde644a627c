// Expiry without the background thread: a loop that sleeps until the cache has
// something to reclaim, while another thread fills the cache.
//
// Each letter that the other thread serves is a request of the user that it
// names. A session ends when its user is silent for a while, the loop when none
// is left.

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"

namespace {

// From a user's name to the number of requests so far.
using Sessions = wheelcache::Cache<char, int>;

void Serve(std::string_view requests, Sessions& sessions) {
  for (const char user : requests) {
    sessions.Update(user, [](const Sessions::Handle& old) {
      return Sessions::Decision::Set(old ? *old + 1 : 1,
                                     absl::Milliseconds(20));
    });
  }
}

// Clock::Monotonic, by which the cache counts, is CLOCK_MONOTONIC.
void SetTimer(int timer, absl::Duration deadline) {
  itimerspec time = {};  // Never.
  if (deadline != absl::InfiniteDuration()) {
    time.it_value = absl::ToTimespec(deadline);
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &time, nullptr);
}

// Sleeps until one of them can be read, and empties both.
void Sleep(int timer, int event) {
  pollfd sources[] = {{timer, POLLIN, 0}, {event, POLLIN, 0}};
  poll(sources, 2, -1);
  uint64_t count;
  for (const pollfd& source : sources) {
    while (read(source.fd, &count, sizeof(count)) > 0) {
    }
  }
}

}  // namespace

int main() {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  // Not the timer: the loop may be about to set that to what it was told.
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (timer < 0 || event < 0) return 1;

  wheelcache::CacheOptions options;
  options.reaper = nullptr;
  options.on_earlier_deadline = [event] { eventfd_write(event, 1); };
  Sessions::Hooks hooks;
  hooks.on_removal = [](char user, int requests, wheelcache::RemovalCause why) {
    if (why == wheelcache::RemovalCause::kExpired) {
      std::printf("%c leaves after %d request(s)\n", user, requests);
    }
  };
  const auto sessions = Sessions::Create(options, hooks);
  if (!sessions.ok()) return 1;

  std::atomic<bool> open{true};
  std::thread server([&] {
    Serve("abbcccb", **sessions);
    open = false;
    eventfd_write(event, 1);
  });
  while (open || (*sessions)->size() > 0) {
    SetTimer(timer, (*sessions)->NextDeadline());
    Sleep(timer, event);
    (*sessions)->RunMaintenance(100);  // So that other work does not wait long.
  }
  server.join();
}
