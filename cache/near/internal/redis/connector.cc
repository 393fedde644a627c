#include "wheelcache/cache/near/internal/redis/connector.h"

#include <poll.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

// Returns what stands behind "<name>:" in a line of a reply to INFO.
absl::string_view FieldOf(absl::string_view info, absl::string_view name) {
  const std::string begin = absl::StrCat("\n", name, ":");
  const size_t at = info.find(begin);
  if (at == absl::string_view::npos) return {};
  const absl::string_view rest = info.substr(at + begin.size());
  return rest.substr(0, rest.find('\r'));
}

}  // namespace

absl::Status CheckPrimary(const Reply& reply) {
  if (reply.is_error()) return StatusOfError("ROLE", reply);
  // HELLO has a map; of ROLE, the first element tells.
  const Reply* role = reply.Find("role");
  if (role == nullptr && !reply.elements.empty()) role = &reply.elements[0];
  if (role == nullptr) return absl::OkStatus();
  for (const absl::string_view other : {"slave", "replica", "sentinel"}) {
    if (role->text == other) {
      return absl::UnavailableError(
          absl::StrCat("ROLE: the server is a ", other,
                       ", whose data may be old; give the URL of the primary"));
    }
  }
  return absl::OkStatus();
}

Login::Login(const ServerUrl& url, absl::string_view client_name, Mode mode)
    : mode_(mode) {
  if (!url.password.empty()) {
    // Apart from HELLO: servers before 6.0 know no users, and one without a
    // password takes any with HELLO.
    if (url.user.empty()) {
      Add({"AUTH", url.password}, &Login::TakeAuth);
    } else {
      Add({"AUTH", url.user, url.password}, &Login::TakeAuth);
    }
  }
  Add({"HELLO", "3"}, &Login::TakeHello);
  if (url.database != 0) {
    Add({"SELECT", absl::StrCat(url.database)}, &Login::TakeSelect);
  }
  Add({"CLIENT", "SETNAME", client_name}, &Login::TakeAnything);
  Add({"INFO", "server"}, &Login::TakeInfo);
}

void Login::Add(absl::Span<const absl::string_view> arguments, Check check) {
  AppendCommand(arguments, &commands_);
  steps_.push_back(check);
}

absl::Status Login::Take(const Reply& reply) {
  return (this->*steps_[taken_++])(reply);
}

// The mode in which the server says that it runs; empty: it does not say.
absl::Status Login::CheckMode(absl::string_view mode) const {
  if (mode == "sentinel") {
    return absl::UnimplementedError(
        "the server is a Sentinel; give the URL of the primary");
  }
  if (mode == "cluster" && mode_ == Mode::kOneServer) {
    return absl::UnimplementedError(
        "the server is a node of a cluster; set RedisStoreOptions::cluster");
  }
  if (mode == "standalone" && mode_ != Mode::kOneServer) {
    return absl::UnimplementedError(
        "the server is no node of a cluster; leave RedisStoreOptions::cluster "
        "unset");
  }
  return absl::OkStatus();
}

absl::Status Login::TakeAnything(const Reply&) { return absl::OkStatus(); }

absl::Status Login::TakeAuth(const Reply& reply) {
  if (reply.type == Reply::Type::kStatus) return absl::OkStatus();
  return reply.is_error() ? StatusOfSecret("AUTH", reply)
                          : UnexpectedReply("AUTH", reply);
}

absl::Status Login::TakeSelect(const Reply& reply) {
  if (reply.type == Reply::Type::kStatus) return absl::OkStatus();
  return UnexpectedReply("SELECT", reply);
}

absl::Status Login::TakeHello(const Reply& reply) {
  if (reply.is_error()) {
    absl::Status status = StatusOfError("HELLO", reply);
    if (absl::IsUnauthenticated(status) || absl::IsResourceExhausted(status) ||
        mode_ != Mode::kOneServer) {
      return status;
    }
    // Of whatever reason: RESP2 will do.
    Add({"ROLE"}, &Login::TakeRole);
    Add({"CLIENT", "ID"}, &Login::TakeClientId);
    return absl::OkStatus();
  }
  const Reply* const id = reply.Find("id");
  const Reply* const mode = reply.Find("mode");
  if (id == nullptr) return UnexpectedReply("HELLO", reply);
  has_resp3_ = true;
  client_id_ = id->integer;
  if (mode != nullptr) {
    if (absl::Status status = CheckMode(mode->text); !status.ok()) {
      return status;
    }
  }
  role_ = CheckPrimary(reply);
  return mode_ == Mode::kAnyOfCluster ? absl::OkStatus() : role_;
}

// That it is refused is no error.
absl::Status Login::TakeInfo(const Reply& reply) {
  if (reply.is_error()) {
    absl::Status status = StatusOfError("INFO", reply);
    return absl::IsUnauthenticated(status) ? status : absl::OkStatus();
  }
  server_id_ = std::string(FieldOf(reply.text, "run_id"));
  return CheckMode(FieldOf(reply.text, "redis_mode"));
}

absl::Status Login::TakeRole(const Reply& reply) {
  if (reply.is_error()) return absl::OkStatus();
  if (reply.elements.empty()) return UnexpectedReply("ROLE", reply);
  has_role_ = true;
  return CheckPrimary(reply);
}

absl::Status Login::TakeClientId(const Reply& reply) {
  if (reply.type != Reply::Type::kInteger) {
    return UnexpectedReply("CLIENT ID", reply);
  }
  client_id_ = reply.integer;
  return absl::OkStatus();
}

std::string Login::probe() const {
  if (has_resp3_) return Encoded({"HELLO", "3"});
  return Encoded({has_role_ ? "ROLE" : "PING"});
}

Connector::Connector(ConnectorSettings settings, Endpoint* endpoint,
                     const ReplyReader::Limits& limits, uint64_t seed)
    : settings_(std::move(settings)),
      endpoint_(*endpoint),
      limits_(limits),
      backoff_(seed) {}

PollRequest Connector::Request() const {
  PollRequest request;
  if (ready()) return request;
  request.wake_nanos = deadline_nanos_;
  if (state_ == State::kPausing) return request;
  request.fd = wire_->stream().fd();
  if (state_ == State::kConnecting) {
    request.events = awaited_;
    return request;
  }
  request.events |= POLLIN;
  if (wire_->has_unsent()) request.events |= POLLOUT;
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
  endpoint_.GiveUp(address_);
  Restart(now_nanos);
  return Named(status);
}

absl::Status Connector::Named(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat(endpoint_.url().name(), ": ",
                                                  status.message()));
}

absl::Status Connector::Connect(int64_t now_nanos) {
  deadline_nanos_ = Clock::NanosAfter(now_nanos, settings_.timeout);
  absl::StatusOr<SocketAddress> address = endpoint_.Address();
  if (!address.ok()) return address.status();
  address_ = *address;
  absl::StatusOr<std::unique_ptr<Socket>> socket = Socket::Connect(address_);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<std::unique_ptr<Stream>> stream = *std::move(socket);
  if (settings_.tls != nullptr) {
    stream = settings_.tls->Wrap(*std::move(stream), endpoint_.url());
    if (!stream.ok()) return stream.status();
  }
  wire_ = std::make_unique<Wire>(*std::move(stream), limits_);
  login_.emplace(endpoint_.url(), settings_.client_name, settings_.mode);
  awaited_ = POLLOUT;
  state_ = State::kConnecting;
  return absl::OkStatus();
}

absl::Status Connector::FinishConnect() {
  const absl::StatusOr<PollEvents> awaited = wire_->stream().Prepare();
  if (!awaited.ok()) return awaited.status();
  awaited_ = *awaited;
  if (awaited_ != 0) return absl::OkStatus();
  state_ = State::kLoggingIn;
  absl::Status sent = SendCommands();
  if (sent.ok()) return sent;
  // A server that refuses the connection says why before it closes it.
  const absl::Status refused = TakeReplies();
  return refused.ok() ? sent : refused;
}

absl::Status Connector::SendCommands() {
  std::string commands = login_->TakeCommands();
  if (commands.empty()) return absl::OkStatus();
  return wire_->Send(std::move(commands));
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
    if (absl::Status status = login_->Take(reply); !status.ok()) {
      return status;
    }
  }
  if (!received.ok()) return received;
  if (login_->done()) {
    endpoint_.Keep();
    state_ = State::kReady;
  }
  return SendCommands();
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
