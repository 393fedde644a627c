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
#include "wheelcache/cache/near/internal/redis/cluster.h"
#include "wheelcache/cache/near/internal/redis/connector.h"
#include "wheelcache/cache/near/internal/redis/data_link.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/servers.h"

namespace wheelcache {
namespace {

using internal::Encoded;
using internal::Reply;
using internal::WriteCommands;

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
  if (options.cluster && options.max_in_flight < 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_in_flight: ", options.max_in_flight,
                     " is less than 4, which one key of a cluster takes"));
  }
  if (absl::Status status =
          CheckPositive("connect_timeout", options.connect_timeout);
      !status.ok()) {
    return status;
  }
  if (absl::Status status =
          CheckPositive("cluster_node_timeout", options.cluster_node_timeout);
      !status.ok()) {
    return status;
  }
  return CheckPositive("unanswered_limit", options.unanswered_limit);
}

// The argument of PX: whole milliseconds, rounded up. The server adds the time
// of day to it, without overflow.
std::string Milliseconds(absl::Duration ttl) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 10'000);
  return absl::StrCat(absl::ToInt64Milliseconds(
      absl::Ceil(std::min(ttl, kLongest), absl::Milliseconds(1))));
}

WriteCommands ToSet(const RemoteStore::Write& write) {
  std::vector<absl::string_view> command = {"SET", write.key, write.bytes};
  std::string ttl;
  if (write.ttl != absl::InfiniteDuration()) {
    ttl = Milliseconds(write.ttl);
    command.insert(command.end(), {"PX", ttl});
  }
  return {write.key, "SET", {Encoded(command)}};
}

WriteCommands ToDelete(absl::string_view key) {
  return {key, "DEL", {Encoded({"DEL", key})}};
}

absl::StatusOr<bool> WasThere(const absl::StatusOr<Reply>& deleted) {
  if (!deleted.ok()) return deleted.status();
  return deleted->integer != 0;
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
  if (url->hosts.size() > 1 && url->primary_name.empty() && !options.cluster) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: it has ", url->hosts.size(),
        " hosts, and RedisStoreOptions::cluster is unset; only a cluster has "
        "several"));
  }
  absl::Duration unanswered_limit = options.unanswered_limit;
  internal::ConnectorSettings connector = {options.client_name,
                                           options.connect_timeout};
  if (options.cluster) {
    if (url->hosts.empty() || !url->primary_name.empty()) {
      return absl::InvalidArgumentError(
          "url: a node of a cluster has a host and a port, and no Sentinels");
    }
    // So that no node is replaced between two of its answers.
    unanswered_limit =
        std::min(unanswered_limit, options.cluster_node_timeout / 2);
    connector.mode = internal::Login::Mode::kCluster;
  }
  connector.tls = options.tls;
  const internal::DataLinkSettings settings = {
      std::move(connector), std::min(kProbeInterval, unanswered_limit / 2),
      unanswered_limit, static_cast<size_t>(options.max_in_flight)};
  std::unique_ptr<internal::Servers> servers;
  if (options.cluster) {
    servers = std::make_unique<internal::Cluster>(*std::move(url), settings,
                                                  Clock::Monotonic());
  } else {
    servers = std::make_unique<internal::OneServer>(*std::move(url), settings,
                                                    Clock::Monotonic());
  }
  if (absl::Status status = servers->Start(); !status.ok()) return status;
  return absl::WrapUnique(new RedisStore(std::move(servers), options.cluster));
}

RedisStore::RedisStore(std::unique_ptr<internal::Servers> servers,
                       bool is_cluster)
    : servers_(std::move(servers)), is_cluster_(is_cluster) {}

RedisStore::~RedisStore() {
  // To close the child's copies would end the parent's connections.
  if (!CheckProcess().ok()) static_cast<void>(servers_.release());
}

absl::Status RedisStore::CheckProcess() const {
  if (!servers_->lost_thread()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this RedisStore belongs to the process that forked this one, which has "
      "none of its threads; create a store after fork()");
}

std::vector<absl::StatusOr<RemoteStore::Fetched>> RedisStore::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) {
    return std::vector<absl::StatusOr<Fetched>>(keys.size(), status);
  }
  return servers_->Fetch(keys, timeout);
}

std::vector<absl::StatusOr<Reply>> RedisStore::Run(
    std::vector<WriteCommands> writes, absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) {
    return std::vector<absl::StatusOr<Reply>>(writes.size(), status);
  }
  return servers_->Run(absl::MakeSpan(writes), timeout);
}

absl::Status RedisStore::Put(const Write& write, absl::Duration timeout) {
  return Run({ToSet(write)}, timeout)[0].status();
}

absl::StatusOr<bool> RedisStore::Remove(absl::string_view key,
                                        absl::Duration timeout) {
  return WasThere(Run({ToDelete(key)}, timeout)[0]);
}

absl::Status RedisStore::Attach(absl::string_view prefix,
                                absl::Duration max_staleness,
                                Listener* listener) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  return servers_->Attach({std::string(prefix), max_staleness, listener});
}

void RedisStore::Detach(Listener* listener) {
  if (CheckProcess().ok()) servers_->Detach(listener);
}

}  // namespace wheelcache
