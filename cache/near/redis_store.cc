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
  if (options.clock == nullptr) {
    return absl::InvalidArgumentError("clock: is null, and must be a clock");
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

// Of a lock. KEYS are the key and its lock, ARGV[1] is the token.
enum ScriptResult { kNothingDone = 0, kDone = 1, kHasKey = 2 };
constexpr absl::string_view kTakeLock =
    "if redis.call('EXISTS', KEYS[1]) == 1 then return 2 end "
    "if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 "
    "end return 0";
constexpr absl::string_view kEndLock =
    "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end "
    "return redis.call('DEL', KEYS[2])";
constexpr absl::string_view kSetWithLock =
    "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end "
    "redis.call('DEL', KEYS[2]) "
    "if redis.call('SET', KEYS[1], ARGV[2], 'NX', unpack(ARGV, 3)) then "
    "return 1 end return 2";

// What follows key and value in SET.
std::vector<std::string> ArgumentsOf(const RemoteStore::Write& write) {
  if (write.ttl == absl::InfiniteDuration()) return {};
  return {"PX", Milliseconds(write.ttl)};
}

WriteCommands ToSet(const RemoteStore::Write& write) {
  const std::vector<std::string> ttl = ArgumentsOf(write);
  std::vector<absl::string_view> command = {"SET", write.key, write.bytes};
  command.insert(command.end(), ttl.begin(), ttl.end());
  if (write.if_absent) command.emplace_back("NX");
  return {write.key, "SET", {Encoded(command)}};
}

// A script with the key, its lock, the token, and more.
WriteCommands ToRun(absl::string_view script, const RemoteStore::Lock& lock,
                    absl::string_view name,
                    absl::Span<const absl::string_view> more) {
  std::vector<absl::string_view> command = {"EVAL",   script, "2",
                                            lock.key, name,   lock.token};
  command.insert(command.end(), more.begin(), more.end());
  return {lock.key, "EVAL", {Encoded(command)}};
}

absl::Status Written(const absl::StatusOr<Reply>& reply) {
  if (!reply.ok()) return reply.status();
  if (reply->is_null()) {
    return absl::AlreadyExistsError("SET: the key is there");
  }
  if (reply->type == Reply::Type::kInteger && reply->integer != kDone) {
    return absl::AbortedError("SET: the lock of the load has ended");
  }
  return absl::OkStatus();
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
                                                  *options.clock);
  } else {
    servers = std::make_unique<internal::OneServer>(*std::move(url), settings,
                                                    *options.clock);
  }
  if (absl::Status status = servers->Start(); !status.ok()) return status;
  return absl::WrapUnique(new RedisStore(std::move(servers), options));
}

RedisStore::RedisStore(std::unique_ptr<internal::Servers> servers,
                       const RedisStoreOptions& options)
    : servers_(std::move(servers)),
      clock_(*options.clock),
      is_cluster_(options.cluster) {}

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

void RedisStore::BeginFetch(absl::string_view key, absl::Duration timeout,
                            FetchDone done) {
  if (absl::Status status = CheckProcess(); !status.ok()) return done(status);
  servers_->BeginFetch(key, timeout, std::move(done));
}

std::vector<absl::StatusOr<Reply>> RedisStore::Run(
    std::vector<WriteCommands> writes, absl::Duration timeout) {
  if (absl::Status status = CheckProcess(); !status.ok()) {
    return std::vector<absl::StatusOr<Reply>>(writes.size(), status);
  }
  return servers_->Run(absl::MakeSpan(writes), timeout);
}

WriteCommands RedisStore::ToPut(const Write& write) const {
  if (write.lock_token.empty()) return ToSet(write);
  const std::vector<std::string> ttl = ArgumentsOf(write);
  std::vector<absl::string_view> more = {write.bytes};
  more.insert(more.end(), ttl.begin(), ttl.end());
  return ToRun(kSetWithLock, {write.key, write.lock_token}, LockName(write.key),
               more);
}

// The lock first: a load that has it still writes before the key is deleted.
WriteCommands RedisStore::ToRemove(absl::string_view key) const {
  return {key, "DEL", {Encoded({"DEL", LockName(key)}), Encoded({"DEL", key})}};
}

absl::Status RedisStore::Put(const Write& write, absl::Duration timeout) {
  return PutMany({write}, timeout)[0];
}

absl::StatusOr<bool> RedisStore::Remove(absl::string_view key,
                                        absl::Duration timeout) {
  return RemoveMany({key}, timeout)[0];
}

std::vector<absl::Status> RedisStore::PutMany(absl::Span<const Write> writes,
                                              absl::Duration timeout) {
  std::vector<WriteCommands> commands;
  for (const Write& write : writes) commands.push_back(ToPut(write));
  std::vector<absl::Status> results;
  for (const auto& reply : Run(std::move(commands), timeout)) {
    results.push_back(Written(reply));
  }
  return results;
}

std::vector<absl::StatusOr<bool>> RedisStore::RemoveMany(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  std::vector<WriteCommands> commands;
  for (const absl::string_view key : keys) commands.push_back(ToRemove(key));
  std::vector<absl::StatusOr<bool>> results;
  for (const auto& reply : Run(std::move(commands), timeout)) {
    results.push_back(WasThere(reply));
  }
  return results;
}

absl::StatusOr<RemoteStore::LockResult> RedisStore::TakeLock(
    const Lock& lock, absl::Duration life, absl::Duration timeout) {
  const absl::StatusOr<Reply> reply =
      Run({ToRun(kTakeLock, lock, LockName(lock.key), {Milliseconds(life)})},
          timeout)[0];
  if (!reply.ok()) return reply.status();
  if (reply->integer == kHasKey) return LockResult::kKeyIsThere;
  return reply->integer == kDone ? LockResult::kTaken : LockResult::kHeld;
}

absl::Status RedisStore::EndLock(const Lock& lock, absl::Duration timeout) {
  return Run({ToRun(kEndLock, lock, LockName(lock.key), {})}, timeout)[0]
      .status();
}

std::string RedisStore::LockName(absl::string_view key) const {
  std::string name = RemoteStore::LockName(key);
  return is_cluster_ ? internal::NameInSlotOf(key, std::move(name)) : name;
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
