#include "wheelcache/cache/near/internal/redis/pipeline.h"

#include <poll.h>

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace wheelcache::internal {

Pipeline::Pipeline(Clock& clock, size_t max_in_flight,
                   std::function<void()> wake)
    : clock_(clock), max_in_flight_(max_in_flight), wake_(std::move(wake)) {}

absl::StatusOr<std::vector<Reply>> Pipeline::Execute(Batch batch,
                                                     absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("there is no time for it");
  }
  const int64_t deadline = clock_.NanosAfter(timeout);
  std::string again;
  if (batch.kind == Kind::kReads) again = batch.bytes;
  Exchange exchange;
  MutexLock lock(&mu_);
  absl::Status status = ExchangeLocked(std::move(batch.bytes), batch.commands,
                                       deadline, &exchange);
  if (exchange.is_lost && batch.kind == Kind::kReads) {
    Exchange second;
    status =
        ExchangeLocked(std::move(again), batch.commands, deadline, &second);
    exchange.replies = std::move(second.replies);
  }
  if (!status.ok()) return status;
  return std::move(exchange.replies);
}

absl::Status Pipeline::ExchangeLocked(std::string bytes, size_t commands,
                                      int64_t deadline, Exchange* exchange) {
  if (absl::Status status = AwaitOpenLocked(deadline); !status.ok()) {
    return status;
  }
  if (absl::Status status = SendLocked(std::move(bytes), commands, exchange);
      !status.ok()) {
    return status;
  }
  AwaitRepliesLocked(*exchange, deadline);
  if (!exchange->done) {
    exchange->in_flight->exchange = nullptr;
    EndLocked(*exchange);
    exchange->failure = Reason(absl::DeadlineExceededError("no reply in time"));
  }
  HandOverLocked();
  return exchange->failure.ToStatus();
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

absl::Status Pipeline::SendLocked(std::string bytes, size_t commands,
                                  Exchange* exchange) {
  Wire& wire = *channel_->wire;
  if (commands_in_flight_ + commands > max_in_flight_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("max_in_flight: with this call, more than ",
                     max_in_flight_, " commands would wait for replies"));
  }
  if (wire.has_unsent() &&
      wire.unsent_bytes() + bytes.size() > kMaxUnsentBytes) {
    return absl::ResourceExhaustedError(
        "with this call, more than 64 MiB would wait for the server to read "
        "them");
  }
  in_flight_.push_back({exchange, commands});
  commands_in_flight_ += commands;
  exchange->in_flight = &in_flight_.back();
  exchange->waits = waiting_.insert(waiting_.end(), exchange);
  const bool was_sent = !wire.has_unsent();
  if (absl::Status status = wire.Send(std::move(bytes)); !status.ok()) {
    FindLostLocked(status);
  } else if (was_sent && wire.has_unsent()) {
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
  const int64_t margin = 2 * absl::ToInt64Nanoseconds(Stream::kLongestWait);
  if (deadline - clock_.NowNanos() > margin) {
    return wire.Receive(replies, Stream::Wait::kBriefly);
  }
  if (!PollUntil(wire.stream().fd(), POLLIN, deadline, clock_)) {
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
    if (reply.type == Reply::Type::kPush) continue;  // Answers nothing.
    if (in_flight_.empty()) {
      FindLostLocked(absl::UnavailableError("a reply without a command"));
      return;
    }
    InFlight& first = in_flight_.front();
    --commands_in_flight_;
    Exchange* const exchange = first.exchange;
    if (exchange != nullptr) exchange->replies.push_back(std::move(reply));
    if (--first.missing != 0) continue;
    in_flight_.pop_front();
    if (exchange != nullptr) EndLocked(*exchange);
  }
}

// Its replies are there, or it waits for them no longer.
void Pipeline::EndLocked(Exchange& exchange) {
  exchange.done = true;
  if (&exchange == &probe_) {
    wake_();
    return;
  }
  waiting_.erase(exchange.waits);
  exchange.woken.Signal();
}

// Lets another thread read, if nobody does.
void Pipeline::HandOverLocked() {
  if (channel_ == nullptr || channel_->is_read || in_flight_.empty()) return;
  if (waiting_.empty()) {
    wake_();
  } else {
    waiting_.front()->woken.Signal();
  }
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
    channel_->wire->stream().Shutdown();  // Wakes the thread that reads.
    channel_ = nullptr;
  }
  commands_in_flight_ = 0;
  for (const InFlight& each : std::exchange(in_flight_, {})) {
    if (each.exchange == nullptr) continue;
    each.exchange->failure = Reason(why);
    each.exchange->is_lost = true;
    EndLocked(*each.exchange);
  }
}

void Pipeline::Probe(std::string command) {
  MutexLock lock(&mu_);
  if (channel_ == nullptr) return;
  probe_.replies.clear();
  probe_.done = false;
  in_flight_.push_back({&probe_, 1});
  ++commands_in_flight_;
  absl::Status status = channel_->wire->Send(std::move(command));
  if (!status.ok()) {
    FindLostLocked(status);
  }
}

std::optional<Reply> Pipeline::TakeProbeReply() {
  MutexLock lock(&mu_);
  if (!probe_.done || probe_.replies.empty()) return std::nullopt;
  Reply reply = std::move(probe_.replies[0]);
  probe_.replies.clear();
  return reply;
}

PollRequest Pipeline::Request() const {
  MutexLock lock(&mu_);
  PollRequest request;
  if (channel_ == nullptr) return request;
  request.fd = channel_->wire->stream().fd();
  // Not POLLIN while callers read: it would wake this thread for each reply.
  request.events = POLLRDHUP;
  if (channel_->wire->has_unsent()) request.events |= POLLOUT;
  if (!channel_->is_read && !in_flight_.empty() && waiting_.empty()) {
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
