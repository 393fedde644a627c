#include "wheelcache/cache/near/internal/redis/login.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/command.h"
#include "wheelcache/cache/near/internal/redis/reply.h"
#include "wheelcache/cache/near/internal/redis/reply_status.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"

namespace wheelcache::internal {

absl::Status CheckPrimary(const redisReply& role) {
  const absl::Span<const redisReply* const> elements = ElementsOf(role);
  if (elements.empty()) return UnexpectedReply("ROLE", role);
  const absl::string_view name = TextOf(*elements[0]);
  if (name == "master") return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("ROLE: the server is a ", name,
                   ", whose data may be old; give the URL of the primary"));
}

Login::Login(const ServerUrl& url, absl::string_view client_name) {
  if (!url.password.empty()) {
    if (url.user.empty()) {
      // Servers before 6.0 know no users.
      Add({"AUTH", &Login::TakeOk}, {"AUTH", url.password});
    } else {
      Add({"AUTH", &Login::TakeOk}, {"AUTH", url.user, url.password});
    }
  }
  Add({"INFO", &Login::TakeInfo}, {"INFO", "server"});
  Add({"ROLE", &Login::TakeRole}, {"ROLE"});
  Add({"CLIENT ID", &Login::TakeClientId}, {"CLIENT", "ID"});
  if (url.database != 0) {
    Add({"SELECT", &Login::TakeOk}, {"SELECT", absl::StrCat(url.database)});
  }
  Add({"CLIENT SETNAME", &Login::TakeAnything},
      {"CLIENT", "SETNAME", client_name});
}

void Login::Add(Step step, absl::Span<const absl::string_view> arguments) {
  AppendCommand(arguments, &commands_);
  steps_.push_back(step);
}

absl::Status Login::Take(const redisReply& reply) {
  return (this->*steps_[taken_++].check)(reply);
}

absl::Status Login::TakeAnything(const redisReply&) { return absl::OkStatus(); }

absl::Status Login::TakeOk(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_STATUS) return absl::OkStatus();
  return UnexpectedReply(steps_[taken_ - 1].command, reply);
}

absl::Status Login::TakeInfo(const redisReply& reply) {
  constexpr absl::string_view kField = "\nrun_id:";
  const absl::string_view text = TextOf(reply);
  const size_t at = text.find(kField);
  if (IsError(reply) || at == absl::string_view::npos) {
    return UnexpectedReply("INFO", reply);
  }
  const absl::string_view rest = text.substr(at + kField.size());
  const absl::string_view id = rest.substr(0, rest.find('\r'));
  if (id.empty()) return UnexpectedReply("INFO", reply);
  server_id_ = std::string(id);
  return absl::OkStatus();
}

absl::Status Login::TakeRole(const redisReply& reply) {
  return CheckPrimary(reply);
}

absl::Status Login::TakeClientId(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_INTEGER) {
    return UnexpectedReply("CLIENT ID", reply);
  }
  client_id_ = reply.integer;
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
