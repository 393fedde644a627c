#include "wheelcache/cache/near/internal/redis/pipeline.h"

#include <poll.h>

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// Of 64 KiB each.
constexpr int kMostLateReads = 16;

}  // namespace

Pipeline::Pipeline(Clock& clock, size_t max_in_flight,
                   absl::Duration silence_limit, std::function<void()> wake)
    : clock_(clock),
      max_in_flight_(max_in_flight),
      silence_nanos_(Clock::NanosAfter(0, silence_limit)),
      wake_(std::move(wake)) {}

absl::StatusOr<std::vector<Reply>> Pipeline::Execute(Batch batch,
                                                     absl::Duration timeout) {
  Call call(std::move(batch), clock_.NanosAfter(timeout));
  Begin(call);
  return End(call);
}

uint64_t Pipeline::sent() const {
  MutexLock lock(&mu_);
  return sent_;
}

bool Pipeline::HasAnswered(uint64_t count) const {
  MutexLock lock(&mu_);
  return sent_ - in_flight_.size() >= count;
}

Pipeline::Call::~Call() {
  if (pipeline_ == nullptr) return;
  MutexLock lock(&pipeline_->mu_);
  if (state_ == State::kSent) in_flight_->call = nullptr;
}

void Pipeline::Begin(Call& call) {
  MutexLock lock(&mu_);
  call.pipeline_ = this;
  BeginLocked(call);
}

void Pipeline::BeginLocked(Call& call) {
  if (clock_.NowNanos() >= call.deadline_nanos_) {
    FailLocked(call, absl::DeadlineExceededError("there is no time for it"));
  } else if (channel_ != nullptr) {
    SendLocked(call);
  }
}

absl::StatusOr<std::vector<Reply>> Pipeline::End(Call& call) {
  MutexLock lock(&mu_);
  while (true) {
    while (call.state_ == Call::State::kNew) {
      AwaitOpenLocked(call);
      if (call.state_ == Call::State::kNew) SendLocked(call);
    }
    if (call.state_ == Call::State::kSent) AwaitRepliesLocked(call);
    HandOverLocked();
    if (!BeginAnew(call)) break;
  }
  call.pipeline_ = nullptr;
  if (!call.failure_.ok()) return call.failure_.ToStatus();
  return std::move(call.replies_);
}

// Reads that a connection has taken with it, once.
bool Pipeline::BeginAnew(Call& call) {
  if (!call.is_lost_ || call.is_second_ || call.batch_.kind != Kind::kReads) {
    return false;
  }
  call.is_second_ = true;
  call.is_lost_ = false;
  call.state_ = Call::State::kNew;
  call.replies_.clear();
  call.failure_ = Reason();
  return true;
}

void Pipeline::Start(Batch&& batch, absl::Duration timeout, Done done) {
  const int64_t deadline = clock_.NanosAfter(timeout);
  MutexLock lock(&mu_);
  const auto place = started_.emplace(
      std::piecewise_construct, std::forward_as_tuple(deadline),
      std::forward_as_tuple(std::move(batch), deadline));
  Call& call = place->second;
  call.done_ = std::move(done);
  call.place_ = place;
  BeginLocked(call);
  if (channel_ == nullptr && !refused_.ok()) {
    FailLocked(call, refused_.ToStatus());
  }
  if (call.state_ == Call::State::kDone) WakeLocked(call);
  wake_();  // To look at its deadline, and to read if nobody does.
}

// What was started while there was no connection.
void Pipeline::SendStartedLocked() {
  for (auto& [deadline, call] : started_) {
    if (channel_ == nullptr) return;
    if (call.state_ != Call::State::kNew) continue;
    SendLocked(call);
    if (call.state_ == Call::State::kDone) WakeLocked(call);
  }
}

void Pipeline::FinishStarted() {
  std::vector<std::multimap<int64_t, Call>::node_type> finished;
  {
    MutexLock lock(&mu_);
    const int64_t now = clock_.NowNanos();
    for (auto& [deadline, call] : started_) {
      if (deadline > now) break;
      if (call.state_ == Call::State::kDone) continue;
      if (call.state_ == Call::State::kSent) call.in_flight_->call = nullptr;
      FailLocked(call, absl::DeadlineExceededError("no reply in time"));
      WakeLocked(call);
    }
    for (Call* const call : std::exchange(ended_, {})) {
      finished.push_back(started_.extract(call->place_));
    }
  }
  for (auto& each : finished) {
    Call& call = each.mapped();
    Contain([&] {
      if (call.failure_.ok()) {
        call.done_(std::move(call.replies_));
      } else {
        call.done_(call.failure_.ToStatus());
      }
    });
  }
}

// Tells whoever waits for a call that it has ended.
void Pipeline::WakeLocked(Call& call) {
  if (!call.done_) return call.woken_.Signal();
  if (std::exchange(call.has_ended_, true)) return;
  ended_.push_back(&call);
  wake_();
}

// Whether nothing has come for so long that the server may be another by now.
bool Pipeline::IsSilentLocked() const {
  return clock_.NowNanos() - received_nanos_ > silence_nanos_;
}

void Pipeline::FailLocked(Call& call, const absl::Status& why) {
  call.failure_ = Reason(why);
  call.state_ = Call::State::kDone;
}

void Pipeline::AwaitOpenLocked(Call& call) {
  while (channel_ == nullptr) {
    if (!refused_.ok()) return FailLocked(call, refused_.ToStatus());
    const int64_t left = call.deadline_nanos_ - clock_.NowNanos();
    if (left <= 0) {
      return FailLocked(call,
                        absl::DeadlineExceededError("no connection in time"));
    }
    opened_or_refused_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
  }
}

void Pipeline::SendLocked(Call& call) {
  Wire& wire = *channel_->wire;
  const size_t commands = call.batch_.commands;
  const bool is_probe = &call == probe_.get();
  if (!is_probe && commands_in_flight_ + commands > max_in_flight_) {
    return FailLocked(
        call, absl::ResourceExhaustedError(absl::StrCat(
                  "max_in_flight: with this call, more than ", max_in_flight_,
                  " commands would wait for replies")));
  }
  if (!is_probe && wire.has_unsent() &&
      wire.unsent_bytes() + call.batch_.bytes.size() > kMaxUnsentBytes) {
    return FailLocked(call, absl::ResourceExhaustedError(
                                "with this call, more than 64 MiB would wait "
                                "for the server to read them"));
  }
  if (IsSilentLocked()) {  // The call waits for another connection.
    return FindLostLocked(absl::UnavailableError("the server is silent"));
  }
  const bool may_repeat = call.batch_.kind == Kind::kReads && !call.is_second_;
  std::string bytes =
      may_repeat ? call.batch_.bytes : std::move(call.batch_.bytes);
  in_flight_.push_back({&call, commands});
  ++sent_;
  commands_in_flight_ += commands;
  call.in_flight_ = &in_flight_.back();
  call.state_ = Call::State::kSent;
  const bool was_sent = !wire.has_unsent();
  absl::Status status;
  if (!Contain([&] { status = wire.Send(std::move(bytes)); })) {
    status = absl::ResourceExhaustedError("no memory for the commands");
  }
  if (!status.ok()) {
    FindLostLocked(status);
  } else if (was_sent && wire.has_unsent()) {
    wake_();  // To poll() for room.
  }
}

void Pipeline::AwaitRepliesLocked(Call& call) {
  const auto place = waiting_.insert(waiting_.end(), &call);
  int late_reads = 0;
  while (call.state_ != Call::State::kDone) {
    const int64_t left = call.deadline_nanos_ - clock_.NowNanos();
    if (left > 0 && channel_->is_read) {
      call.woken_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
    } else if (left > 0) {
      ReadLocked(call.deadline_nanos_);
    } else if (!channel_->is_read && late_reads++ < kMostLateReads) {
      // What has come by now is in time: the caller may have been elsewhere.
      if (!ReadLocked(call.deadline_nanos_)) late_reads = kMostLateReads;
    } else {
      call.in_flight_->call = nullptr;
      FailLocked(call, absl::DeadlineExceededError("no reply in time"));
    }
  }
  waiting_.erase(place);
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

// One read, with the lock free meanwhile. Returns whether replies have come.
bool Pipeline::ReadLocked(int64_t deadline) {
  const std::shared_ptr<Channel> channel = channel_;
  channel->is_read = true;
  mu_.Unlock();
  std::vector<Reply> replies;
  absl::Status status;
  if (!Contain([&] { status = Receive(*channel->wire, deadline, &replies); })) {
    status = absl::ResourceExhaustedError("no memory for the replies");
  }
  mu_.Lock();
  channel->is_read = false;
  if (channel != channel_) return false;  // Closed meanwhile.
  if (!replies.empty() && IsSilentLocked()) {
    // However late it speaks.
    status = absl::UnavailableError("the server was silent");
    replies.clear();
  }
  const bool any = !replies.empty();
  if (any) received_nanos_ = clock_.NowNanos();
  DispatchLocked(replies);
  if (!status.ok()) FindLostLocked(status);
  return any;
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
    Call* const call = first.call;
    if (call != nullptr) call->replies_.push_back(std::move(reply));
    if (--first.missing != 0) continue;
    in_flight_.pop_front();
    if (call == nullptr) continue;
    call->state_ = Call::State::kDone;
    if (call == probe_.get()) {
      probe_reply_ = std::move(call->replies_.front());
      wake_();
    } else {
      WakeLocked(*call);
    }
  }
}

// Lets another thread read, if nobody does.
void Pipeline::HandOverLocked() {
  if (channel_ == nullptr || channel_->is_read || in_flight_.empty()) return;
  if (waiting_.empty()) {
    wake_();
  } else {
    waiting_.front()->woken_.Signal();
  }
}

void Pipeline::Open(std::unique_ptr<Wire> wire) {
  MutexLock lock(&mu_);
  assert(channel_ == nullptr && in_flight_.empty());
  channel_ = std::make_shared<Channel>(std::move(wire));
  received_nanos_ = clock_.NowNanos();
  lost_ = Reason();
  refused_ = Reason();
  opened_or_refused_.SignalAll();
  SendStartedLocked();
}

void Pipeline::Close(const absl::Status& why, bool then_fail) {
  MutexLock lock(&mu_);
  FailAllLocked(why);
  lost_ = Reason();
  if (!then_fail) return;
  refused_ = Reason(why);
  opened_or_refused_.SignalAll();
  for (auto& [deadline, call] : started_) {
    if (call.state_ != Call::State::kNew) continue;
    FailLocked(call, why);
    WakeLocked(call);
  }
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
    if (each.call == nullptr) continue;
    each.call->is_lost_ = true;
    FailLocked(*each.call, why);
    if (each.call->done_ && BeginAnew(*each.call)) continue;
    WakeLocked(*each.call);
  }
}

void Pipeline::Probe(std::string command) {
  MutexLock lock(&mu_);
  if (channel_ == nullptr) return;
  probe_reply_.reset();
  probe_ = std::make_unique<Call>(Batch{Kind::kWrites, std::move(command), 1},
                                  Clock::kNever);
  SendLocked(*probe_);
}

std::optional<Reply> Pipeline::TakeProbeReply() {
  MutexLock lock(&mu_);
  return std::exchange(probe_reply_, std::nullopt);
}

PollRequest Pipeline::Request() const {
  MutexLock lock(&mu_);
  PollRequest request;
  if (!started_.empty()) request.wake_nanos = started_.begin()->first;
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
