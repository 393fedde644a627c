#include "wheelcache/cache/near/internal/redis/sentinel.h"

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(500);
constexpr ReplyReader::Limits kSentinelLimits = {16, 4096};

absl::StatusOr<Reply> Ask(const SocketAddress& address, std::string command) {
  Clock& clock = Clock::Monotonic();
  const int64_t deadline = clock.NanosAfter(kPatience);
  absl::StatusOr<std::unique_ptr<Socket>> socket = Socket::Connect(address);
  if (!socket.ok()) return socket.status();
  PollUntil((*socket)->fd(), POLLOUT, deadline, clock);
  if (absl::Status status = (*socket)->Prepare().status(); !status.ok()) {
    return status;
  }
  Wire wire(*std::move(socket), kSentinelLimits);
  if (absl::Status status = wire.Send(std::move(command)); !status.ok()) {
    return status;
  }
  std::vector<Reply> replies;
  while (replies.empty()) {
    if (!PollUntil(wire.stream().fd(), POLLIN, deadline, clock)) {
      return absl::UnavailableError(
          absl::StrCat("no answer in ", absl::FormatDuration(kPatience)));
    }
    absl::Status status = wire.Receive(&replies);
    if (!status.ok() && replies.empty()) return status;
  }
  return std::move(replies.front());
}

absl::StatusOr<std::vector<SocketAddress>> ResolveOne(ServerUrl::Host host) {
  ServerUrl url;
  url.hosts.push_back(std::move(host));
  return Resolve(url);
}

absl::StatusOr<std::vector<SocketAddress>> AskOne(
    const ServerUrl::Host& sentinel, const std::string& name) {
  absl::StatusOr<std::vector<SocketAddress>> addresses = ResolveOne(sentinel);
  if (!addresses.ok()) return addresses.status();
  absl::StatusOr<Reply> reply = absl::UnavailableError("it has no address");
  for (const SocketAddress& address : *addresses) {
    reply =
        Ask(address, Encoded({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}));
    if (reply.ok()) break;
  }
  if (!reply.ok()) return reply.status();
  if (reply->is_null()) {
    return absl::UnavailableError("it knows no primary of that name");
  }
  uint32_t port = 0;
  if (reply->elements.size() != 2 ||
      !absl::SimpleAtoi(reply->elements[1].text, &port) || port > UINT16_MAX) {
    return UnexpectedReply("SENTINEL", *reply);
  }
  return ResolveOne({reply->elements[0].text, static_cast<uint16_t>(port)});
}

}  // namespace

absl::StatusOr<std::vector<SocketAddress>> AskSentinels(const ServerUrl& url) {
  absl::Status status;
  for (const ServerUrl::Host& sentinel : url.hosts) {
    absl::StatusOr<std::vector<SocketAddress>> primary =
        AskOne(sentinel, url.primary_name);
    if (primary.ok()) return primary;
    status = absl::UnavailableError(absl::StrCat(
        "Sentinel ", sentinel.name(), ": ", primary.status().message()));
  }
  return status;
}

}  // namespace wheelcache::internal
