#include "wheelcache/cache/near/internal/redis/data_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/resp.h"

namespace wheelcache::internal {
namespace {

std::string RoleCommand() {
  std::string bytes;
  AppendCommand({"ROLE"}, &bytes);
  return bytes;
}

}  // namespace

DataLink::DataLink(const DataLinkSettings& settings, Clock& clock,
                   Observer* observer, std::function<void()> wake)
    : settings_(settings),
      observer_(observer),
      connector_(settings.connector, RandomSeed()),
      pipeline_(clock, settings.max_in_flight, std::move(wake)),
      probe_(RoleCommand()) {}

PollRequest DataLink::Request() const {
  if (!is_open()) return connector_.Request();
  PollRequest request = pipeline_.Request();
  request.wake_nanos =
      Clock::NanosAfter(probed_nanos_, is_probing_ ? settings_.unanswered_limit
                                                   : settings_.probe_interval);
  return request;
}

void DataLink::Handle(PollEvents revents, int64_t now_nanos) {
  if (is_open()) {
    const absl::Status status = HandleOpen(revents, now_nanos);
    if (!status.ok()) Drop(status, now_nanos);
    return;
  }
  const absl::Status status = connector_.Advance(revents, now_nanos);
  if (!status.ok()) pipeline_.Refuse(status);
  if (connector_.ready()) Open(now_nanos);
}

void DataLink::Open(int64_t now_nanos) {
  server_id_ = connector_.login().server_id();
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
    if (const Reply reply = pipeline_.TakeProbeReply()) {
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
    pipeline_.Probe(probe_);
  }
  return absl::OkStatus();
}

void DataLink::Drop(const absl::Status& why, int64_t now_nanos) {
  if (!is_open()) return;
  server_id_.clear();
  pipeline_.Lose(absl::Status(
      why.code(),
      absl::StrCat(settings_.connector.url.name(), ": ", why.message())));
  connector_.Restart(now_nanos);
}

}  // namespace wheelcache::internal
