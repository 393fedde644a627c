// Expiry without a thread: an epoll loop that sleeps until there is input, or
// until the cache has something to reclaim.
//
// Each byte of input is a request of the user that it names. A session ends
// when its user is silent for a while, the loop when none is left.

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"

namespace {

// From a user's name to the number of requests so far.
using Sessions = wheelcache::Cache<char, int>;

absl::StatusOr<std::unique_ptr<Sessions>> CreateSessions() {
  wheelcache::CacheOptions options;
  options.default_ttl = absl::Milliseconds(20);
  options.reaper = nullptr;  // This program calls RunMaintenance itself.
  Sessions::Hooks hooks;
  hooks.on_removal = [](char user, int requests, wheelcache::RemovalCause why) {
    if (why == wheelcache::RemovalCause::kExpired) {
      std::printf("%c leaves after %d request(s)\n", user, requests);
    }
  };
  return Sessions::Create(options, hooks);
}

// How long epoll may wait. Rounded up: rounded down, the loop would spin
// through the last millisecond before the deadline.
int TimeoutMillis(const Sessions& sessions) {
  const absl::Duration left =
      sessions.NextDeadline() - sessions.options().clock->Now();
  if (left == absl::InfiniteDuration()) return -1;
  const int64_t millis =
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
  return static_cast<int>(
      std::clamp<int64_t>(millis, 0, std::numeric_limits<int>::max()));
}

// Returns false at the end of the input.
bool HandleInput(int fd, Sessions& sessions) {
  char user;
  if (read(fd, &user, 1) != 1) return false;
  sessions.Set(user, sessions.Get(user).value_or(0) + 1);
  return true;
}

}  // namespace

int main() {
  const auto sessions = CreateSessions();
  int input[2];
  if (!sessions.ok() || pipe(input) != 0) return 1;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, input[0], &event) != 0) return 1;

  if (write(input[1], "abbcccb", 7) != 7) return 1;
  close(input[1]);
  for (bool open = true; open || (*sessions)->size() > 0;) {
    const int ready = epoll_wait(epoll, &event, 1, TimeoutMillis(**sessions));
    if (ready > 0 && !HandleInput(input[0], **sessions)) {
      epoll_ctl(epoll, EPOLL_CTL_DEL, input[0], nullptr);
      open = false;
    }
    (*sessions)->RunMaintenance(100);  // So that input does not wait long.
  }
}
