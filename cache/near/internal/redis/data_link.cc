#include "wheelcache/cache/near/internal/redis/data_link.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/resp.h"

namespace wheelcache::internal {
namespace {

// Of a reply: the values of a thousand keys, and a gibibyte of them.
constexpr ReplyReader::Limits kReplyLimits = {1 << 16, 1 << 30};

}  // namespace

DataLink::DataLink(const DataLinkSettings& settings, Endpoint* endpoint,
                   Clock& clock, Observer* observer, std::function<void()> wake)
    : settings_(settings),
      observer_(observer),
      connector_(settings.connector, endpoint, kReplyLimits, RandomSeed()),
      pipeline_(clock, settings.max_in_flight, settings.unanswered_limit,
                std::move(wake)) {}

PollRequest DataLink::Request() const {
  PollRequest request = pipeline_.Request();
  const int64_t finish_nanos = request.wake_nanos;
  if (is_open_) {
    request.wake_nanos = Clock::NanosAfter(
        probed_nanos_,
        is_probing_ ? settings_.unanswered_limit : settings_.probe_interval);
  } else {
    request = connector_.Request();
  }
  request.wake_nanos = std::min(request.wake_nanos, finish_nanos);
  return request;
}

void DataLink::Handle(PollEvents revents, int64_t now_nanos) {
  if (is_open_) {
    const absl::Status status = HandleOpen(revents, now_nanos);
    if (!status.ok()) Drop(status, now_nanos);
  } else {
    const absl::Status status = connector_.Advance(revents, now_nanos);
    if (!status.ok()) pipeline_.Refuse(status);
    if (connector_.ready()) Open(now_nanos);
  }
  pipeline_.FinishStarted();
}

void DataLink::Open(int64_t now_nanos) {
  is_open_ = true;
  observer_->OnLogin(this, now_nanos);
  connector_.ResetBackoff();
  probed_nanos_ = now_nanos;
  is_probing_ = false;
  pipeline_.Open(connector_.TakeWire());
}

absl::Status DataLink::HandleOpen(PollEvents revents, int64_t now_nanos) {
  pipeline_.Handle(revents);
  if (absl::Status lost = pipeline_.lost(); !lost.ok()) return lost;
  return CheckProbe(now_nanos);
}

absl::Status DataLink::CheckProbe(int64_t now_nanos) {
  if (is_probing_) {
    if (const std::optional<Reply> reply = pipeline_.TakeProbeReply()) {
      is_probing_ = false;
      if (absl::Status status = CheckPrimary(*reply); !status.ok()) {
        observer_->OnDemotion(status, now_nanos);
      }
      return absl::OkStatus();
    }
    if (now_nanos >=
        Clock::NanosAfter(probed_nanos_, settings_.unanswered_limit)) {
      return absl::UnavailableError(absl::StrCat(
          "no reply in ", absl::FormatDuration(settings_.unanswered_limit)));
    }
  } else if (now_nanos >=
             Clock::NanosAfter(probed_nanos_, settings_.probe_interval)) {
    is_probing_ = true;
    probed_nanos_ = now_nanos;
    pipeline_.Probe(connector_.login().probe());
  }
  return absl::OkStatus();
}

void DataLink::Drop(const absl::Status& why, int64_t now_nanos) {
  if (!is_open_) return;
  is_open_ = false;
  pipeline_.Lose(connector_.Named(why));
  connector_.Restart(now_nanos);
  observer_->OnClose(this, now_nanos);
}

}  // namespace wheelcache::internal
