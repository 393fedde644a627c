#include "wheelcache/cache/near/internal/redis/io_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>

#include "absl/types/span.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {

absl::Status IoThread::Start() {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  const int error = StartThread("wheelcache-io");
  if (error != 0) return absl::ErrnoToStatus(error, "cannot create a thread");
  return absl::OkStatus();
}

IoThread::~IoThread() {
  if (has_thread()) {
    mu_.Lock();
    assert(links_.empty());
    is_stopping_ = true;
    mu_.Unlock();
    Wake();
    EndThread();
  }
  if (wake_fd_ >= 0) close(wake_fd_);
}

void IoThread::Add(Link* link) {
  {
    MutexLock lock(&mu_);
    links_.push_back(link);
  }
  Wake();
}

void IoThread::Remove(Link* link) {
  RemoveFromNextTurn(link);
  AwaitTurn();
}

void IoThread::RemoveFromNextTurn(Link* link) {
  MutexLock lock(&mu_);
  links_.erase(std::remove(links_.begin(), links_.end(), link), links_.end());
}

void IoThread::AwaitTurn() {
  if (!has_thread()) return;
  MutexLock lock(&mu_);
  Wake();
  for (const uint64_t turn = turns_; turns_ == turn;) turn_began_.Wait(&mu_);
}

void IoThread::Wake() {
  if (is_woken_.exchange(true)) return;
  const uint64_t one = 1;
  // Cannot fail: the count is at most 1.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void IoThread::DrainWakeUps() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
  // After the read: a Wake() from here on writes anew. What was asked for by
  // one before is seen by this turn.
  is_woken_ = false;
}

void IoThread::Run() {
  while (true) {
    DrainWakeUps();
    StandStillAtFork();
    {
      MutexLock lock(&mu_);
      links_of_turn_ = links_;
      ++turns_;
      turn_began_.SignalAll();
      if (is_stopping_) return;
    }
    TakeTurn(links_of_turn_);
  }
}

void IoThread::TakeTurn(std::vector<Link*>& links) {
  requests_.clear();
  requests_.push_back({wake_fd_, POLLIN, 0});
  int64_t wake_nanos = Clock::kNever;
  for (Link* link : links) {
    const PollRequest request = link->Request();
    requests_.push_back({request.fd, request.events, 0});
    wake_nanos = std::min(wake_nanos, request.wake_nanos);
  }
  // Where nothing has happened, all revents are 0, as they were.
  PollUntil(absl::MakeSpan(requests_), wake_nanos, clock_);
  for (size_t i = 0; i < links.size(); ++i) {
    Handle(links[i], requests_[i + 1].revents);
  }
}

void IoThread::Handle(Link* link, PollEvents revents) {
  // Read for each anew, since those before it may have taken time.
  const int64_t now = clock_.NowNanos();
  if (Contain([&] { link->Handle(revents, now); })) return;
  Contain([&] {
    link->Drop(absl::ResourceExhaustedError("no memory for the connection"),
               now);
  });
}

}  // namespace wheelcache::internal
