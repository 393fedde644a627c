#include "wheelcache/cache/near/internal/redis/servers.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/fetch.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"

namespace wheelcache::internal {

absl::StatusOr<Reply> LastReply(absl::string_view name,
                                absl::StatusOr<std::vector<Reply>> replies) {
  if (!replies.ok()) {
    return absl::Status(replies.status().code(),
                        absl::StrCat(name, ": ", replies.status().message()));
  }
  if (replies->back().is_error()) return StatusOfError(name, replies->back());
  return std::move(replies->back());
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

std::vector<absl::StatusOr<Reply>> OneServer::Run(
    absl::Span<WriteCommands> writes, absl::Duration timeout) {
  const absl::Duration end = clock_.Now() + timeout;
  const size_t at_once =
      std::min(node_.reads().max_in_flight(), kMostCommandsOfRound);
  std::vector<absl::StatusOr<Reply>> results;
  results.reserve(writes.size());
  while (!writes.empty()) {
    Pipeline::Batch batch = {Pipeline::Kind::kWrites, {}, 0};
    Pipeline* const late = node_.LateWriteOf(writes[0].key);
    size_t count = 0;
    do {
      for (std::string& command : writes[count].commands) {
        if (batch.bytes.empty()) {
          batch.bytes = std::move(command);  // It may be large.
        } else {
          batch.bytes.append(command);
        }
        ++batch.commands;
      }
      ++count;
    } while (count < writes.size() &&
             batch.commands + writes[count].commands.size() <= at_once &&
             !Node::IsLarge(batch.bytes.size()) &&
             node_.LateWriteOf(writes[count].key) == late);
    Pipeline& pipeline = node_.writes(batch.bytes.size(), late);
    absl::StatusOr<std::vector<Reply>> replies =
        pipeline.Execute(std::move(batch), end - clock_.Now());
    size_t taken = 0;
    for (const WriteCommands& write : writes.first(count)) {
      if (!replies.ok()) {
        if (absl::IsDeadlineExceeded(replies.status())) {
          node_.AddLateWrite(write.key, &pipeline);
        }
        results.push_back(LastReply(write.name, replies.status()));
        continue;
      }
      taken += write.commands.size();
      std::vector<Reply> last;
      last.push_back(std::move((*replies)[taken - 1]));
      results.push_back(LastReply(write.name, std::move(last)));
    }
    writes.remove_prefix(count);
  }
  return results;
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

void OneServer::BeginFetch(absl::string_view key, absl::Duration timeout,
                           RemoteStore::FetchDone done) {
  const uint64_t session = node_.session();  // Before anything is sent.
  const int64_t sent_nanos = clock_.NowNanos();
  node_.reads().Start(
      {Pipeline::Kind::kReads, Encoded({"PTTL", key}) + Encoded({"GET", key}),
       2},
      timeout,
      [session, sent_nanos, done = std::move(done)](
          absl::StatusOr<std::vector<Reply>> replies) mutable {
        done(FetchedFrom(std::move(replies), sent_nanos, session));
      });
}

}  // namespace wheelcache::internal
