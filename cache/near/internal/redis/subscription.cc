#include "wheelcache/cache/near/internal/redis/subscription.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr absl::string_view kChannel = "__redis__:invalidate";

std::string PingCommand() {
  std::string bytes;
  AppendCommand({"PING"}, &bytes);
  return bytes;
}

}  // namespace

Subscription::Subscription(const ConnectorSettings& settings, Subject subject,
                           Observer* observer,
                           std::function<uint64_t()> next_session)
    : settings_(settings),
      subject_(std::move(subject)),
      observer_(observer),
      next_session_(std::move(next_session)),
      ping_(PingCommand()),
      connector_(settings, RandomSeed()) {}

PollRequest Subscription::Request() const {
  if (!is_open()) return connector_.Request();
  PollRequest request;
  request.fd = wire_->socket().fd();
  request.events = POLLIN;
  if (wire_->unsent() != 0) request.events |= POLLOUT;
  request.wake_nanos =
      heartbeat_.has_value()
          ? std::min(heartbeat_->next_nanos(),
                     std::max(heartbeat_->dead_nanos(),
                              Clock::NanosAfter(received_nanos_,
                                                subject_.max_staleness)))
          : deadline_nanos_;
  return request;
}

void Subscription::Handle(PollEvents revents, int64_t now_nanos) {
  if (is_open()) {
    const absl::Status status = HandleOpen(revents, now_nanos);
    if (!status.ok()) Drop(status, now_nanos);
    return;
  }
  absl::Status status = connector_.Advance(revents, now_nanos);
  if (!status.ok()) subject_.listener->OnLoss(status);
  if (!connector_.ready()) return;
  status = Open(now_nanos);
  if (!status.ok()) Drop(status, now_nanos);
}

absl::Status Subscription::Open(int64_t now_nanos) {
  server_id_ = connector_.login().server_id();
  observer_->OnLogin(this, now_nanos);
  wire_ = connector_.TakeWire();
  deadline_nanos_ = Clock::NanosAfter(now_nanos, settings_.timeout);
  is_tracking_ = false;
  std::string commands;
  AppendCommand({"CLIENT", "TRACKING", "ON", "REDIRECT",
                 absl::StrCat(connector_.login().client_id()), "BCAST",
                 "PREFIX", subject_.prefix},
                &commands);
  AppendCommand({"SUBSCRIBE", kChannel}, &commands);
  return wire_->Send(commands);
}

absl::Status Subscription::HandleOpen(PollEvents revents, int64_t now_nanos) {
  if (revents & POLLOUT) {
    if (absl::Status status = wire_->Flush(); !status.ok()) return status;
  }
  if (revents & ~POLLOUT) {
    std::vector<Reply> replies;
    absl::Status received = wire_->Receive(&replies);
    if (!replies.empty()) received_nanos_ = now_nanos;
    for (const Reply& reply : replies) {
      if (absl::Status status = Take(*reply, now_nanos); !status.ok()) {
        return status;
      }
    }
    if (!received.ok()) return received;
  }
  return Beat(now_nanos);
}

absl::Status Subscription::Take(const redisReply& reply, int64_t now_nanos) {
  if (!is_tracking_) {
    if (reply.type != REDIS_REPLY_STATUS) {
      return UnexpectedReply("CLIENT TRACKING", reply);
    }
    is_tracking_ = true;
    return absl::OkStatus();
  }
  const absl::Span<const redisReply* const> elements = ElementsOf(reply);
  const absl::string_view kind =
      elements.empty() ? absl::string_view() : TextOf(*elements[0]);
  if (!heartbeat_.has_value()) {
    if (kind != "subscribe") return UnexpectedReply("SUBSCRIBE", reply);
    heartbeat_.emplace(subject_.max_staleness, now_nanos);
    session_ = next_session_();
    // Nothing may be served yet, but what is fetched from now on may be kept.
    subject_.listener->OnLease(session_, now_nanos);
    return absl::OkStatus();
  }
  if (kind == "message") return TakeMessage(reply);
  if (kind == "pong") return TakePong();
  return UnexpectedReply("PING", reply);
}

// An array of "message", the channel, and the keys: null for all keys.
absl::Status Subscription::TakeMessage(const redisReply& reply) const {
  const absl::Span<const redisReply* const> elements = ElementsOf(reply);
  if (elements.size() != 3) return UnexpectedReply("SUBSCRIBE", reply);
  if (elements[2]->type != REDIS_REPLY_ARRAY) {
    // A null; or what somebody has published on the channel, which may stand
    // for anything.
    subject_.listener->OnInvalidateAll();
    return absl::OkStatus();
  }
  std::vector<absl::string_view> keys;
  keys.reserve(elements[2]->elements);
  for (const redisReply* key : ElementsOf(*elements[2])) {
    keys.push_back(TextOf(*key));
  }
  subject_.listener->OnInvalidate(keys);
  return absl::OkStatus();
}

absl::Status Subscription::TakePong() {
  if (heartbeat_->next_nanos() != Clock::kNever) {
    return absl::UnavailableError("PING: a PONG that answers no PING");
  }
  if (const std::optional<int64_t> until = heartbeat_->Answer()) {
    connector_.ResetBackoff();
    subject_.listener->OnLease(session_, *until);
  }
  return absl::OkStatus();
}

absl::Status Subscription::Beat(int64_t now_nanos) {
  if (!heartbeat_.has_value()) {
    if (now_nanos < deadline_nanos_) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        is_tracking_ ? "SUBSCRIBE" : "CLIENT TRACKING", ": no reply in ",
        absl::FormatDuration(settings_.timeout)));
  }
  if (now_nanos >= heartbeat_->next_nanos()) {
    heartbeat_->Send(now_nanos);
    return wire_->Send(ping_);
  }
  // While invalidations arrive, the PONG may be behind them.
  if (now_nanos >= heartbeat_->dead_nanos() &&
      now_nanos >= Clock::NanosAfter(received_nanos_, subject_.max_staleness)) {
    return absl::UnavailableError(absl::StrCat(
        "PING: no reply in ", absl::FormatDuration(subject_.max_staleness)));
  }
  return absl::OkStatus();
}

void Subscription::Drop(const absl::Status& why, int64_t now_nanos) {
  if (!is_open()) return;
  server_id_.clear();
  wire_ = nullptr;
  heartbeat_.reset();
  connector_.Restart(now_nanos);
  subject_.listener->OnLoss(absl::Status(
      why.code(), absl::StrCat(settings_.url.name(), ": ", why.message())));
}

}  // namespace wheelcache::internal
