#include "wheelcache/cache/near/testing/fake_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace {

constexpr absl::Duration kFirstRetryPause = absl::Milliseconds(50);

absl::Status NoAnswer() {
  return absl::DeadlineExceededError("no answer within the timeout");
}

absl::Status AskNobody(FakeStore::Step, const FakeStore::Request&) {
  return absl::OkStatus();
}

}  // namespace

FakeStore::FakeStore(FakeServer* server) : server_(*server) {}

FakeStore::Interposer FakeStore::interposer() const {
  MutexLock lock(&server_.mu_);
  return interposer_ == nullptr ? &AskNobody : *interposer_;
}

absl::Status FakeStore::BeforeExecution(const Request& request,
                                        absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) return NoAnswer();
  if (absl::Status s = interposer()(Step::kSent, request); !s.ok()) return s;
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  if (reachable_) return absl::OkStatus();
  return absl::UnavailableError("connect: connection refused");
}

absl::Status FakeStore::AfterExecution(const Request& request) {
  return interposer()(Step::kExecuted, request);
}

std::vector<absl::StatusOr<RemoteStore::Fetched>> FakeStore::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  const Request request{Request::Command::kFetch, keys};
  std::vector<absl::StatusOr<Fetched>> results;
  absl::Status status = BeforeExecution(request, timeout);
  if (status.ok()) {
    MutexLock lock(&server_.mu_);
    if (server_.stopped_) status = NoAnswer();
    for (const absl::string_view key : keys) {
      const auto it = server_.FindLiveLocked(key);
      Fetched fetched;
      if (it != server_.entries_.end()) {
        fetched = {it->second.bytes, it->second.deadline_nanos};
      }
      fetched.session = server_.SessionOfLocked(this, key);
      results.emplace_back(std::move(fetched));
    }
    server_.PumpLocked();
  }
  if (status.ok()) status = AfterExecution(request);
  if (!status.ok()) results.assign(keys.size(), status);
  return results;
}

absl::Status FakeStore::Execute(const Request& request, absl::Duration timeout,
                                std::function<void()> change) {
  absl::Status status = BeforeExecution(request, timeout);
  if (!status.ok()) return status;
  {
    MutexLock lock(&server_.mu_);
    if (server_.stopped_) {
      server_.late_writes_.push_back(std::move(change));
      return NoAnswer();
    }
    change();
    server_.PumpLocked();
  }
  return AfterExecution(request);
}

absl::Status FakeStore::Put(const Write& write, absl::Duration timeout) {
  // Kept by the server as well, which may execute this later.
  auto result = std::make_shared<absl::Status>();
  absl::Status status = Execute(
      {Request::Command::kPut, {&write.key, 1}}, timeout,
      [server = &server_, result, key = std::string(write.key),
       bytes = std::string(write.bytes), ttl = write.ttl,
       if_absent = write.if_absent, token = std::string(write.lock_token),
       lock = LockName(write.key)]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const bool is_there = server->IsLiveLocked(key);
        if (!token.empty() &&
            (!server->EndLockLocked(lock, token) || is_there)) {
          *result = absl::AbortedError("the lock has ended");
        } else if (if_absent && is_there) {
          *result = absl::AlreadyExistsError("the key is there");
        } else {
          server->SetLocked(key, {bytes, server->clock().NanosAfter(ttl)});
        }
      });
  return status.ok() ? *result : status;
}

absl::StatusOr<bool> FakeStore::Remove(absl::string_view key,
                                       absl::Duration timeout) {
  auto was_there = std::make_shared<bool>(false);
  absl::Status status =
      Execute({Request::Command::kRemove, {&key, 1}}, timeout,
              [server = &server_, was_there, key = std::string(key),
               lock = LockName(key)]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                server->DelLocked(lock);
                *was_there = server->DelLocked(key);
              });
  if (!status.ok()) return status;
  return *was_there;
}

absl::StatusOr<RemoteStore::LockResult> FakeStore::TakeLock(
    const Lock& lock, absl::Duration life, absl::Duration timeout) {
  auto result = std::make_shared<LockResult>(LockResult::kTaken);
  absl::Status status = Execute(
      {Request::Command::kTakeLock, {&lock.key, 1}}, timeout,
      [server = &server_, result, key = std::string(lock.key),
       token = std::string(lock.token), name = LockName(lock.key),
       life]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        if (server->IsLiveLocked(key)) {
          *result = LockResult::kKeyIsThere;
        } else if (server->IsLiveLocked(name)) {
          *result = LockResult::kHeld;
        } else {
          server->SetLocked(name, {token, server->clock().NanosAfter(life)});
        }
      });
  if (!status.ok()) return status;
  return *result;
}

absl::Status FakeStore::EndLock(const Lock& lock, absl::Duration timeout) {
  return Execute({Request::Command::kEndLock, {&lock.key, 1}}, timeout,
                 [server = &server_, token = std::string(lock.token),
                  name = LockName(lock.key)]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                   server->EndLockLocked(name, token);
                 });
}

absl::Status FakeStore::Attach(absl::string_view prefix,
                               absl::Duration max_staleness,
                               Listener* listener) {
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  for (const auto& session : server_.sessions_) {
    if (session->store != this) continue;
    if (absl::StartsWith(prefix, session->prefix) ||
        absl::StartsWith(session->prefix, prefix)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the prefix \"", prefix, "\" overlaps with \"", session->prefix,
          "\", of another near cache of this store; neither may begin with "
          "the other"));
    }
  }
  auto session = std::make_unique<FakeServer::Session>();
  session->prefix = std::string(prefix);
  session->max_staleness = max_staleness;
  session->listener = listener;
  session->store = this;
  session->retry_nanos = clock().NowNanos();
  session->pause = kFirstRetryPause;
  server_.sessions_.push_back(std::move(session));
  server_.PumpLocked();
  return absl::OkStatus();
}

void FakeStore::Detach(Listener* listener) {
  MutexLock lock(&server_.mu_);
  while (server_.pumping_) server_.pumped_.Wait(&server_.mu_);
  auto& sessions = server_.sessions_;
  sessions.erase(std::remove_if(sessions.begin(), sessions.end(),
                                [&](const auto& session) {
                                  return session->listener == listener;
                                }),
                 sessions.end());
}

void FakeStore::set_interposer(Interposer interposer) {
  auto shared = interposer == nullptr
                    ? nullptr
                    : std::make_shared<const Interposer>(std::move(interposer));
  MutexLock lock(&server_.mu_);
  interposer_.swap(shared);
}

void FakeStore::Disconnect() {
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  server_.BreakLocked(this, "connection reset");
  server_.PumpLocked();
}

void FakeStore::set_reachable(bool reachable) {
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  reachable_ = reachable;
  if (!reachable) {
    server_.BreakLocked(this, "connection reset");
  }
  server_.PumpLocked();
}

void FakeStore::LoseMessages() {
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  for (const auto& session : server_.sessions_) {
    if (session->store == this && session->number != 0) {
      session->loses_messages = true;
    }
  }
}

void FakeStore::HoldMessages() {
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  holds_messages_ = true;
}

void FakeStore::ReleaseMessages(int count) {
  MutexLock lock(&server_.mu_);
  released_ += count;
  server_.PumpLocked();
  released_ = 0;
}

void FakeStore::ReleaseMessages() {
  MutexLock lock(&server_.mu_);
  holds_messages_ = false;
  server_.PumpLocked();
}

void FakeStore::set_message_delay(absl::Duration delay) {
  MutexLock lock(&server_.mu_);
  server_.PumpLocked();
  message_delay_nanos_ = Clock::NanosAfter(0, delay);
}

}  // namespace wheelcache
