#include "wheelcache/cache/near/internal/redis/servers.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/fetch.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"

namespace wheelcache::internal {

absl::StatusOr<Reply> RunOn(Pipeline& pipeline,
                            absl::Span<const absl::string_view> arguments,
                            absl::Duration timeout) {
  std::string bytes;
  AppendCommand(arguments, &bytes);
  absl::StatusOr<std::vector<Reply>> replies = pipeline.Execute(
      {Pipeline::Kind::kWrites, std::move(bytes), /*commands=*/1}, timeout);
  if (replies.ok()) return std::move(replies->front());
  return absl::Status(
      replies.status().code(),
      absl::StrCat(arguments[0], ": ", replies.status().message()));
}

OneServer::OneServer(ServerUrl url, const DataLinkSettings& settings,
                     Clock& clock)
    : clock_(clock),
      io_(clock),
      node_(std::move(url), settings,
            {clock, io_, /*owner=*/nullptr, [this] { return ++sessions_; }}) {}

absl::Status OneServer::Start() {
  if (absl::Status status = io_.Start(); !status.ok()) return status;
  // In this order, so that invalidations come first.
  node_.StartSessions();
  node_.StartData();
  return absl::OkStatus();
}

absl::StatusOr<Reply> OneServer::Run(const Write& write,
                                     absl::Duration timeout) {
  absl::StatusOr<Reply> reply =
      RunOn(node_.writes(write.bytes), write.arguments, timeout);
  if (reply.ok() && reply->is_error()) {
    return StatusOfError(write.arguments[0], *reply);
  }
  return reply;
}

std::vector<absl::StatusOr<RemoteStore::Fetched>> OneServer::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  const uint64_t session = node_.session();  // Before anything is sent.
  std::vector<absl::StatusOr<Fetched>> results =
      FetchFromRedis(node_.reads(), clock_, keys, timeout);
  for (absl::StatusOr<Fetched>& each : results) {
    if (each.ok()) each->session = session;
  }
  return results;
}

}  // namespace wheelcache::internal
