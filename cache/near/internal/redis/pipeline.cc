#include "wheelcache/cache/near/internal/redis/pipeline.h"

#include <poll.h>

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace wheelcache::internal {

Pipeline::Pipeline(Clock& clock, size_t max_in_flight,
                   std::function<void()> wake)
    : clock_(clock), max_in_flight_(max_in_flight), wake_(std::move(wake)) {}

absl::StatusOr<std::vector<Reply>> Pipeline::Execute(const Batch& batch,
                                                     absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("there is no time for it");
  }
  const int64_t deadline = clock_.NanosAfter(timeout);
  Exchange exchange;
  MutexLock lock(&mu_);
  if (absl::Status status = AwaitOpenLocked(deadline); !status.ok()) {
    return status;
  }
  if (absl::Status status = SendLocked(batch, &exchange); !status.ok()) {
    return status;
  }
  AwaitRepliesLocked(exchange, deadline);
  if (!exchange.done) {
    AbandonLocked(&exchange);
    exchange.failure = Reason(absl::DeadlineExceededError(
        absl::StrCat("no reply in ", absl::FormatDuration(timeout))));
  }
  HandOverLocked();
  if (!exchange.failure.ok()) return exchange.failure.ToStatus();
  return std::move(exchange.replies);
}

absl::Status Pipeline::AwaitOpenLocked(int64_t deadline) {
  while (channel_ == nullptr) {
    if (!refused_.ok()) return refused_.ToStatus();
    const int64_t left = deadline - clock_.NowNanos();
    if (left <= 0) {
      return absl::DeadlineExceededError("no connection in time");
    }
    opened_or_refused_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
  }
  return absl::OkStatus();
}

absl::Status Pipeline::SendLocked(const Batch& batch, Exchange* exchange) {
  Wire& wire = *channel_->wire;
  if (commands_in_flight_ + batch.commands > max_in_flight_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("of at most ", max_in_flight_, " commands in flight, ",
                     commands_in_flight_, " wait for replies; this call has ",
                     batch.commands));
  }
  if (wire.unsent() > kMaxUnsentBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the server has not read the last ", wire.unsent(), " bytes"));
  }
  in_flight_.push_back({exchange, batch.commands});
  commands_in_flight_ += batch.commands;
  const bool was_sent = wire.unsent() == 0;
  if (absl::Status status = wire.Send(batch.bytes); !status.ok()) {
    FindLostLocked(status);
  } else if (was_sent && wire.unsent() != 0) {
    wake_();  // To poll() for room.
  }
  return absl::OkStatus();
}

void Pipeline::AwaitRepliesLocked(Exchange& exchange, int64_t deadline) {
  while (!exchange.done) {
    const int64_t left = deadline - clock_.NowNanos();
    if (left <= 0) return;
    if (channel_->is_read) {
      exchange.woken.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
    } else {
      ReadLocked(deadline);
    }
  }
}

// What has come, or comes until the deadline, or in the next milliseconds.
absl::Status Pipeline::Receive(Wire& wire, int64_t deadline,
                               std::vector<Reply>* replies) const {
  // A wait in the read itself saves a system call, but is not exact.
  const int64_t margin = 2 * absl::ToInt64Nanoseconds(Socket::kLongestWait);
  if (deadline - clock_.NowNanos() > margin) {
    return wire.Receive(replies, Socket::Wait::kBriefly);
  }
  if (!PollUntil(wire.socket().fd(), POLLIN, deadline, clock_)) {
    return absl::OkStatus();
  }
  return wire.Receive(replies);
}

// One read, with the lock free meanwhile.
void Pipeline::ReadLocked(int64_t deadline) {
  const std::shared_ptr<Channel> channel = channel_;
  channel->is_read = true;
  mu_.Unlock();
  std::vector<Reply> replies;
  const absl::Status status = Receive(*channel->wire, deadline, &replies);
  mu_.Lock();
  channel->is_read = false;
  if (channel != channel_) return;  // Closed meanwhile.
  DispatchLocked(replies);
  if (!status.ok()) FindLostLocked(status);
}

void Pipeline::DispatchLocked(std::vector<Reply>& replies) {
  for (Reply& reply : replies) {
    if (in_flight_.empty()) {
      FindLostLocked(absl::UnavailableError(
          absl::StrCat("a reply without a command: \"", TextOf(*reply), "\"")));
      return;
    }
    InFlight& first = in_flight_.front();
    --commands_in_flight_;
    Exchange* const exchange = first.exchange;
    if (exchange != nullptr) exchange->replies.push_back(std::move(reply));
    if (--first.missing != 0) continue;
    in_flight_.pop_front();
    if (exchange == nullptr) continue;
    exchange->done = true;
    if (exchange == &probe_) {
      wake_();
    } else {
      exchange->woken.Signal();
    }
  }
}

void Pipeline::AbandonLocked(const Exchange* exchange) {
  for (InFlight& each : in_flight_) {
    if (each.exchange == exchange) each.exchange = nullptr;
  }
}

bool Pipeline::AnyWaitsLocked() const {
  return std::any_of(
      in_flight_.begin(), in_flight_.end(), [this](const InFlight& each) {
        mu_.AssertHeld();
        return each.exchange != nullptr && each.exchange != &probe_;
      });
}

// Lets another thread read, if nobody does.
void Pipeline::HandOverLocked() {
  if (channel_ == nullptr || channel_->is_read || in_flight_.empty()) return;
  for (const InFlight& each : in_flight_) {
    if (each.exchange != nullptr && each.exchange != &probe_) {
      each.exchange->woken.Signal();
      return;
    }
  }
  wake_();
}

void Pipeline::Open(std::unique_ptr<Wire> wire) {
  MutexLock lock(&mu_);
  assert(channel_ == nullptr && in_flight_.empty());
  channel_ = std::make_shared<Channel>(std::move(wire));
  lost_ = Reason();
  refused_ = Reason();
  opened_or_refused_.SignalAll();
}

void Pipeline::Close(const absl::Status& why, bool then_fail) {
  MutexLock lock(&mu_);
  FailAllLocked(why);
  lost_ = Reason();
  if (!then_fail) return;
  refused_ = Reason(why);
  opened_or_refused_.SignalAll();
}

absl::Status Pipeline::lost() const {
  MutexLock lock(&mu_);
  return lost_.ToStatus();
}

void Pipeline::FindLostLocked(const absl::Status& why) {
  FailAllLocked(why);
  lost_ = Reason(why);
  wake_();
}

void Pipeline::FailAllLocked(const absl::Status& why) {
  if (channel_ != nullptr) {
    channel_->wire->socket().Shutdown();  // Wakes the thread that reads.
    channel_ = nullptr;
  }
  commands_in_flight_ = 0;
  for (const InFlight& each : std::exchange(in_flight_, {})) {
    if (each.exchange == nullptr) continue;
    each.exchange->failure = Reason(why);
    each.exchange->done = true;
    if (each.exchange != &probe_) each.exchange->woken.Signal();
  }
}

void Pipeline::Probe(absl::string_view command) {
  MutexLock lock(&mu_);
  if (channel_ == nullptr) return;
  probe_.replies.clear();
  probe_.done = false;
  in_flight_.push_back({&probe_, 1});
  ++commands_in_flight_;
  if (absl::Status status = channel_->wire->Send(command); !status.ok()) {
    FindLostLocked(status);
  }
}

Reply Pipeline::TakeProbeReply() {
  MutexLock lock(&mu_);
  if (!probe_.done || probe_.replies.empty()) return nullptr;
  Reply reply = std::move(probe_.replies[0]);
  probe_.replies.clear();
  return reply;
}

PollRequest Pipeline::Request() const {
  MutexLock lock(&mu_);
  PollRequest request;
  if (channel_ == nullptr) return request;
  request.fd = channel_->wire->socket().fd();
  // Not POLLIN while callers read: it would wake this thread for each reply.
  request.events = POLLRDHUP;
  if (channel_->wire->unsent() != 0) request.events |= POLLOUT;
  if (!channel_->is_read && !in_flight_.empty() && !AnyWaitsLocked()) {
    request.events |= POLLIN;
  }
  return request;
}

void Pipeline::Handle(PollEvents revents) {
  if (revents == 0) return;
  MutexLock lock(&mu_);
  if (channel_ != nullptr && (revents & POLLOUT)) {
    if (absl::Status status = channel_->wire->Flush(); !status.ok()) {
      FindLostLocked(status);
    }
  }
  if (channel_ == nullptr || channel_->is_read) return;
  if (revents & ~POLLOUT) ReadLocked(/*deadline=*/clock_.NowNanos());
  HandOverLocked();
}

}  // namespace wheelcache::internal
