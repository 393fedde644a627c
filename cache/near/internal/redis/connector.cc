#include "wheelcache/cache/near/internal/redis/connector.h"

#include <poll.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/clock.h"

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

Connector::Connector(const ConnectorSettings& settings, uint64_t seed)
    : settings_(settings), backoff_(seed) {}

PollRequest Connector::Request() const {
  PollRequest request;
  if (ready()) return request;
  request.wake_nanos = deadline_nanos_;
  if (state_ == State::kPausing) return request;
  request.fd = wire_->socket().fd();
  if (state_ == State::kLoggingIn) request.events |= POLLIN;
  if (state_ == State::kConnecting || wire_->unsent() != 0) {
    request.events |= POLLOUT;
  }
  return request;
}

absl::Status Connector::Advance(PollEvents revents, int64_t now_nanos) {
  absl::Status status;
  switch (state_) {
    case State::kReady:
      return absl::OkStatus();
    case State::kPausing:
      if (now_nanos < deadline_nanos_) return absl::OkStatus();
      status = Connect(now_nanos);
      break;
    case State::kConnecting:
      if (revents != 0) status = FinishConnect();
      break;
    case State::kLoggingIn:
      if (revents != 0) status = LogIn(revents);
      break;
  }
  if (status.ok() && !ready() && now_nanos >= deadline_nanos_) {
    status = absl::UnavailableError(absl::StrCat(
        state_ == State::kConnecting ? "connect" : "login", ": no answer in ",
        absl::FormatDuration(settings_.timeout)));
  }
  if (status.ok()) return status;
  Restart(now_nanos);
  return absl::Status(status.code(), absl::StrCat(settings_.url.name(), ": ",
                                                  status.message()));
}

absl::Status Connector::Connect(int64_t now_nanos) {
  deadline_nanos_ = Clock::NanosAfter(now_nanos, settings_.timeout);
  absl::StatusOr<Socket> socket = Socket::Connect(settings_.url, attempts_++);
  if (!socket.ok()) return socket.status();
  wire_ = std::make_unique<Wire>(*std::move(socket));
  login_.emplace(settings_.url, settings_.client_name);
  state_ = State::kConnecting;
  return absl::OkStatus();
}

absl::Status Connector::FinishConnect() {
  if (absl::Status status = wire_->socket().FinishConnect(); !status.ok()) {
    return status;
  }
  state_ = State::kLoggingIn;
  absl::Status sent = wire_->Send(login_->commands());
  if (sent.ok()) return sent;
  // A server that refuses the connection says why before it closes it.
  const absl::Status refused = TakeReplies();
  return refused.ok() ? sent : refused;
}

absl::Status Connector::LogIn(PollEvents revents) {
  if (revents & POLLOUT) {
    if (absl::Status status = wire_->Flush(); !status.ok()) return status;
  }
  return TakeReplies();
}

absl::Status Connector::TakeReplies() {
  std::vector<Reply> replies;
  absl::Status received = wire_->Receive(&replies);
  // The replies come before the end of the stream, for which they may give the
  // reason.
  for (const Reply& reply : replies) {
    if (login_->done()) {
      return absl::UnavailableError("login: more replies than commands");
    }
    if (absl::Status status = login_->Take(*reply); !status.ok()) {
      return status;
    }
  }
  if (!received.ok()) return received;
  if (login_->done()) state_ = State::kReady;
  return absl::OkStatus();
}

void Connector::Restart(int64_t now_nanos) {
  wire_ = nullptr;
  state_ = State::kPausing;
  deadline_nanos_ = Clock::NanosAfter(now_nanos, backoff_.Next());
}

void Connector::Hurry(int64_t now_nanos) {
  if (state_ == State::kPausing && deadline_nanos_ > now_nanos) {
    deadline_nanos_ = now_nanos;
  }
}

}  // namespace wheelcache::internal
