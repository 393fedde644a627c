#include "wheelcache/cache/near/redis_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/fetch.h"
#include "wheelcache/cache/near/internal/redis/node.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"

namespace wheelcache {
namespace {

using internal::Pipeline;
using internal::Reply;

// A dead connection is found by a command every so often. Short, since nobody
// sees a demoted server until then.
constexpr absl::Duration kProbeInterval = absl::Milliseconds(500);

absl::Status CheckPositive(absl::string_view field, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": ", absl::FormatDuration(value), " is not more than zero"));
}

absl::Status Check(const RedisStoreOptions& options) {
  const std::string& name = options.client_name;
  if (name.empty() ||
      !std::all_of(name.begin(), name.end(),
                   [](unsigned char c) { return absl::ascii_isgraph(c); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("client_name: \"", absl::CHexEscape(name),
                     "\" is empty or has other characters than printable "
                     "ASCII without spaces"));
  }
  if (options.max_in_flight < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_in_flight: ", options.max_in_flight,
                     " is less than 2, which one key takes"));
  }
  if (absl::Status status =
          CheckPositive("connect_timeout", options.connect_timeout);
      !status.ok()) {
    return status;
  }
  return CheckPositive("unanswered_limit", options.unanswered_limit);
}

// Runs one command that writes, and returns its reply, no error.
absl::StatusOr<Reply> Run(Pipeline& pipeline,
                          absl::Span<const absl::string_view> arguments,
                          absl::Duration timeout) {
  std::string bytes;
  internal::AppendCommand(arguments, &bytes);
  absl::StatusOr<std::vector<Reply>> replies = pipeline.Execute(
      {Pipeline::Kind::kWrites, std::move(bytes), /*commands=*/1}, timeout);
  if (!replies.ok()) {
    return absl::Status(
        replies.status().code(),
        absl::StrCat(arguments[0], ": ", replies.status().message()));
  }
  Reply& reply = replies->front();
  if (reply.is_error()) return internal::StatusOfError(arguments[0], reply);
  return std::move(reply);
}

// The argument of PX: whole milliseconds, rounded up. The server adds the time
// of day to it, without overflow.
std::string Milliseconds(absl::Duration ttl) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 10'000);
  return absl::StrCat(absl::ToInt64Milliseconds(
      absl::Ceil(std::min(ttl, kLongest), absl::Milliseconds(1))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisStore>> RedisStore::Create(
    const RedisStoreOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  absl::StatusOr<internal::ServerUrl> url =
      internal::ParseServerUrl(options.url);
  if (!url.ok()) return url.status();
  if (url->has_tls != (options.tls != nullptr)) {
    return absl::InvalidArgumentError(
        url->has_tls
            ? "tls: is null, but the url is of rediss://; set it to what "
              "LoadTls of cache/near/tls/tls.h returns"
            : "tls: is set, but the url is not of rediss://, and no connection "
              "would be encrypted");
  }
  const internal::DataLinkSettings settings = {
      {options.client_name, options.connect_timeout, options.tls},
      std::min(kProbeInterval, options.unanswered_limit),
      options.unanswered_limit,
      static_cast<size_t>(options.max_in_flight)};
  auto node = std::make_unique<internal::Node>(*std::move(url), settings,
                                               Clock::Monotonic());
  if (absl::Status status = node->Start(); !status.ok()) return status;
  return absl::WrapUnique(new RedisStore(std::move(node)));
}

RedisStore::RedisStore(std::unique_ptr<internal::Node> node)
    : node_(std::move(node)) {}

RedisStore::~RedisStore() {
  // To close the child's copies would end the parent's connections.
  if (!CheckProcess().ok()) static_cast<void>(node_.release());
}

absl::Status RedisStore::CheckProcess() const {
  if (!node_->lost_thread()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this RedisStore belongs to the process that forked this one, which has "
      "none of its threads; create a store after fork()");
}

std::vector<absl::StatusOr<RemoteStore::Fetched>> RedisStore::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) {
    return std::vector<absl::StatusOr<Fetched>>(keys.size(), status);
  }
  return internal::FetchFromRedis(node_->reads(), clock(), keys, timeout);
}

absl::Status RedisStore::Put(const Write& write, absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  Pipeline& writes = node_->writes(write.bytes.size());
  if (write.ttl == absl::InfiniteDuration()) {
    return Run(writes, {"SET", write.key, write.bytes}, timeout).status();
  }
  return Run(writes,
             {"SET", write.key, write.bytes, "PX", Milliseconds(write.ttl)},
             timeout)
      .status();
}

absl::StatusOr<bool> RedisStore::Remove(absl::string_view key,
                                        absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  absl::StatusOr<Reply> reply = Run(node_->writes(0), {"DEL", key}, timeout);
  if (!reply.ok()) return reply.status();
  return reply->integer != 0;
}

absl::Status RedisStore::Attach(absl::string_view prefix,
                                absl::Duration max_staleness,
                                Listener* listener) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  return node_->Attach({std::string(prefix), max_staleness, listener});
}

void RedisStore::Detach(Listener* listener) {
  if (CheckProcess().ok()) node_->Detach(listener);
}

}  // namespace wheelcache
