#include "wheelcache/wheel/reaper.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "wheelcache/wheel/base/contain.h"

namespace wheelcache {

Reaper::Client::~Client() {
  assert(planned_ == kUnregistered && "unregister a client to destroy it");
}

bool Reaper::Earlier::operator()(const Client* a, const Client* b) const {
  const auto key = [](const Client* client) {
    return std::make_tuple(client->planned_.load(std::memory_order_relaxed),
                           client->turn_);
  };
  return key(a) < key(b);
}

Reaper& Reaper::Shared() {
  static Reaper* const reaper = new Reaper(Clock::Monotonic());
  return *reaper;
}

Reaper::~Reaper() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    if (sleeper_ != nullptr) sleeper_->Wake();
  }
  EndThread();
  MutexLock lock(&mu_);
  for (Client* client : plan_) client->planned_ = Client::kUnregistered;
}

absl::Status Reaper::Register(Client* client) {
  MutexLock lock(&mu_);
  assert(client->planned_ == Client::kUnregistered);
  if (absl::Status status = EnsureThreadLocked(); !status.ok()) return status;
  client->planned_ = Clock::kNever;
  client->turn_ = ++turns_;
  if (!internal::Contain([&] {
        mu_.AssertHeld();
        plan_.insert(client);
      })) {
    client->planned_ = Client::kUnregistered;
    return absl::ResourceExhaustedError("no memory to register a client");
  }
  return absl::OkStatus();
}

void Reaper::Unregister(Client* client) {
  MutexLock lock(&mu_);
  if (client->planned_ != Client::kUnregistered) {
    plan_.erase(client);
    client->planned_ = Client::kUnregistered;
  }
  if (running_ != client) return;
  running_left_ = true;
  if (OnThread()) return;
  for (const uint64_t run = runs_; running_ == client && runs_ == run;) {
    run_ended_.Wait(&mu_);
  }
}

void Reaper::PlanEarlier(Client* client, int64_t nanos) {
  MutexLock lock(&mu_);
  if (nanos >= client->planned_) return;
  PlanLocked(client, std::max(nanos, Client::kUnregistered + 1));
  // For the child of a fork(), which does without a thread if this fails.
  EnsureThreadLocked().IgnoreError();
  if (nanos < sleeping_until_) sleeper_->Wake();
}

// Moves the client's node, and so allocates nothing.
void Reaper::PlanLocked(Client* client, int64_t nanos) {
  Plan::node_type node = plan_.extract(client);
  client->planned_ = nanos;
  client->turn_ = ++turns_;
  plan_.insert(std::move(node));
}

void Reaper::PlanAllLocked(int64_t nanos) {
  Plan before;
  before.swap(plan_);
  while (!before.empty()) {
    Plan::node_type node = before.extract(before.begin());
    node.value()->planned_ = nanos;
    plan_.insert(std::move(node));
  }
}

int64_t Reaper::EarliestLocked() const {
  return plan_.empty() ? Clock::kNever : (*plan_.begin())->planned_.load();
}

int64_t Reaper::exceptions() const {
  MutexLock lock(&mu_);
  return exceptions_;
}

absl::Status Reaper::EnsureThreadLocked() {
  if (has_thread()) return absl::OkStatus();
  // Created here, not by the thread, so that a simulated clock waits for it.
  if (!internal::Contain([this] {
        mu_.AssertHeld();
        sleeper_ = clock_.NewSleeper();
      })) {
    return absl::ResourceExhaustedError("no memory for the reaper's thread");
  }
  if (const int error = StartThread("wheelcache"); error != 0) {
    sleeper_ = nullptr;
    return absl::ErrnoToStatus(error, "cannot create the reaper's thread");
  }
  PlanAllLocked(clock_.NowNanos());
  return absl::OkStatus();
}

void Reaper::Run() {
  do {
    StandStillAtFork();
  } while (TakeTurn());
}

bool Reaper::TakeTurn() {
  MutexLock lock(&mu_);
  if (stopping_) return false;
  const int64_t now = clock_.NowNanos();
  if (EarliestLocked() <= now) {
    RunFirstLocked(now);
  } else {
    SleepLocked();
  }
  return true;
}

void Reaper::RunFirstLocked(int64_t now_nanos) {
  Client* const client = *plan_.begin();
  running_ = client;
  running_left_ = false;
  PlanLocked(client, Clock::kNever);
  int64_t next = Clock::NanosAfter(now_nanos, kPauseAfterException);

  mu_.Unlock();
  const bool returned =
      internal::Contain([&] { next = client->RunDue(now_nanos); });
  mu_.Lock();

  if (!returned) ++exceptions_;
  if (!running_left_) {
    // A client with more to do waits behind all that are due by now.
    next = std::min(next, client->planned_.load());
    PlanLocked(client, std::max(next, clock_.NowNanos()));
  }
  running_ = nullptr;
  ++runs_;
  run_ended_.SignalAll();
}

void Reaper::SleepLocked() {
  const int64_t deadline = EarliestLocked();
  Sleeper& sleeper = *sleeper_;
  sleeping_until_ = deadline;
  mu_.Unlock();
  sleeper.SleepUntil(deadline);
  mu_.Lock();
  sleeping_until_ = kAwake;
}

// Without the lock, which a thread that starts this one has. The sleeper is not
// another one before that ends.
void Reaper::WakeForFork() { sleeper_->Wake(); }

void Reaper::OnThreadLost() {
  MutexLock lock(&mu_);
  running_ = nullptr;  // A turn that the fork() has not waited for.
  sleeping_until_ = kAwake;
  sleeper_ = nullptr;
  // Sends the next WakeAt to PlanEarlier, which creates a new thread.
  PlanAllLocked(Clock::kNever);
}

}  // namespace wheelcache
