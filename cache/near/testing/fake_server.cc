#include "wheelcache/cache/near/testing/fake_server.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/testing/fake_store.h"

namespace wheelcache {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(5);

}  // namespace

FakeServer::FakeServer(Clock* clock, Reaper* reaper)
    : clock_(*clock), reaper_(reaper) {
  // Without a thread, it does what is due when it is called.
  if (reaper_ != nullptr) reaper_->Register(this).IgnoreError();
}

FakeServer::~FakeServer() {
  if (reaper_ != nullptr) reaper_->Unregister(this);
}

void FakeServer::Set(absl::string_view key, absl::string_view bytes,
                     absl::Duration ttl) {
  MutexLock lock(&mu_);
  PumpLocked();
  SetLocked(key, {std::string(bytes), clock_.NanosAfter(ttl)});
  PumpLocked();
}

bool FakeServer::Del(absl::string_view key) {
  MutexLock lock(&mu_);
  PumpLocked();
  const bool was_there = DelLocked(key);
  PumpLocked();
  return was_there;
}

std::optional<std::string> FakeServer::Get(absl::string_view key) {
  MutexLock lock(&mu_);
  PumpLocked();
  const auto it = FindLiveLocked(key);
  if (it == entries_.end()) return std::nullopt;
  return it->second.bytes;
}

void FakeServer::FlushAll() {
  MutexLock lock(&mu_);
  PumpLocked();
  entries_.clear();
  deadlines_.clear();
  for (const auto& session : sessions_) {
    session->keys.clear();
    session->all = session->number != 0;
  }
  MaybeEndTurnLocked();
  PumpLocked();
}

void FakeServer::BeginTurn() {
  MutexLock lock(&mu_);
  PumpLocked();
  in_turn_ = true;
}

void FakeServer::EndTurn() {
  MutexLock lock(&mu_);
  PumpLocked();
  in_turn_ = false;
  MaybeEndTurnLocked();
  PumpLocked();
}

void FakeServer::Stop() {
  MutexLock lock(&mu_);
  PumpLocked();
  stopped_ = true;
}

// What has come meanwhile is read in one turn.
void FakeServer::Continue() {
  MutexLock lock(&mu_);
  PumpLocked();
  if (!std::exchange(stopped_, false)) return;
  const bool was_in_turn = std::exchange(in_turn_, true);
  for (const auto& write : std::exchange(late_writes_, {})) write();
  PumpLocked();
  in_turn_ = was_in_turn;
  MaybeEndTurnLocked();
  PumpLocked();
}

void FakeServer::Restart() {
  MutexLock lock(&mu_);
  PumpLocked();
  entries_.clear();
  deadlines_.clear();
  late_writes_.clear();
  stopped_ = false;
  BreakLocked(nullptr, "the server was restarted");
  PumpLocked();
}

int64_t FakeServer::RunDue() {
  MutexLock lock(&mu_);
  PumpLocked();
  return NextDueLocked();
}

int64_t FakeServer::RunDue(int64_t) { return RunDue(); }

void FakeServer::PumpLocked() {
  // In a destructor of a value, for instance, which a listener has run.
  if (pumping_ && pumper_ == std::this_thread::get_id()) return;
  while (pumping_) pumped_.Wait(&mu_);
  pumping_ = true;
  pumper_ = std::this_thread::get_id();
  while (StepLocked()) {
  }
  pumping_ = false;
  pumped_.SignalAll();
  if (reaper_ != nullptr) reaper_->WakeAt(this, NextDueLocked());
}

bool FakeServer::StepLocked() {
  const int64_t now = clock_.NowNanos();
  if (ExpireLocked(now)) return true;
  // By number: a listener may run code that attaches another.
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (StepOf(sessions_[i].get(), now)) return true;
  }
  return false;
}

bool FakeServer::StepOf(Session* session, int64_t now_nanos) {
  if (session->number == 0) {
    if (now_nanos < session->retry_nanos) return false;
    ConnectLocked(session);
    return true;
  }
  if (!session->broken.ok()) {
    LoseLocked(session, std::exchange(session->broken, absl::OkStatus()));
    return true;
  }
  if (DeliverTo(session, now_nanos)) return true;
  Heartbeat& heartbeat = *session->heartbeat;
  if (now_nanos >= heartbeat.dead_nanos()) {
    LoseLocked(session, absl::UnavailableError(absl::StrCat(
                            "PING: no answer for ",
                            absl::FormatDuration(session->max_staleness))));
    return true;
  }
  if (now_nanos >= heartbeat.next_nanos()) {
    heartbeat.Send(now_nanos);
    ++session->pings;
  }
  if (session->pings == 0 || stopped_) return false;
  session->pongs += std::exchange(session->pings, 0);
  MaybeEndTurnLocked();
  return true;
}

bool FakeServer::DeliverTo(Session* session, int64_t now_nanos) {
  FakeStore& store = *session->store;
  if (session->messages.empty() ||
      session->messages.front().due_nanos > now_nanos ||
      (store.holds_messages_ && store.released_ == 0)) {
    return false;
  }
  if (store.holds_messages_) --store.released_;
  const Message message = std::move(session->messages.front());
  session->messages.pop_front();
  RemoteStore::Listener* const listener = session->listener;
  const uint64_t number = session->number;
  const absl::Duration max_staleness = session->max_staleness;
  std::optional<int64_t> certified;
  if (message.kind == Message::Kind::kPong) {
    certified = session->heartbeat->Answer();
    if (!certified.has_value()) return true;
    session->pause = kFirstPause;
  }
  mu_.Unlock();
  switch (message.kind) {
    case Message::Kind::kInvalidate:
      listener->OnInvalidate(std::vector<absl::string_view>(
          message.keys.begin(), message.keys.end()));
      break;
    case Message::Kind::kInvalidateAll:
      listener->OnInvalidateAll();
      break;
    case Message::Kind::kPong:
      listener->OnLease(number, Clock::NanosAfter(*certified, max_staleness));
      break;
  }
  mu_.Lock();
  return true;
}

int64_t FakeServer::NextDueLocked() const {
  int64_t next = deadlines_.empty() ? Clock::kNever : deadlines_.begin()->first;
  for (const auto& session : sessions_) {
    if (session->number == 0) {
      next = std::min(next, session->retry_nanos);
      continue;
    }
    next = std::min({next, session->heartbeat->next_nanos(),
                     session->heartbeat->dead_nanos()});
    if (!session->messages.empty() && !session->store->holds_messages_) {
      next = std::min(next, session->messages.front().due_nanos);
    }
  }
  return next;
}

void FakeServer::ConnectLocked(Session* session) {
  session->retry_nanos = clock_.NanosAfter(session->pause);
  session->pause = std::min(session->pause * 2, kLongestPause);
  absl::Status why;
  if (!session->store->reachable_) {
    why = absl::UnavailableError("connect: connection refused");
  } else if (stopped_) {
    why = absl::DeadlineExceededError("SUBSCRIBE: no answer");
  }
  if (why.ok()) {
    session->number = ++latest_session_;
    session->heartbeat.emplace(session->max_staleness, clock_.NowNanos());
    return;
  }
  mu_.Unlock();
  session->listener->OnLoss(0, why);
  mu_.Lock();
}

void FakeServer::LoseLocked(Session* session, const absl::Status& why) {
  const uint64_t number = std::exchange(session->number, 0);
  session->heartbeat.reset();
  session->pings = 0;
  session->loses_messages = false;
  session->messages.clear();
  session->pongs = 0;
  session->all = false;
  session->keys.clear();
  session->retry_nanos = clock_.NanosAfter(session->pause);
  session->pause = std::min(session->pause * 2, kLongestPause);
  mu_.Unlock();
  session->listener->OnLoss(number, why);
  mu_.Lock();
}

void FakeServer::BreakLocked(const FakeStore* of, absl::string_view why) {
  for (const auto& session : sessions_) {
    if (session->number == 0) continue;
    if (of == nullptr || session->store == of) {
      session->broken = absl::UnavailableError(why);
    }
  }
}

void FakeServer::SetLocked(absl::string_view key, Entry entry) {
  auto it = entries_.find(key);
  if (it == entries_.end()) {
    it = entries_.emplace(std::string(key), Entry{}).first;
  } else {
    deadlines_.erase({it->second.deadline_nanos, it->first});
  }
  it->second = std::move(entry);
  if (it->second.deadline_nanos != Clock::kNever) {
    deadlines_.emplace(it->second.deadline_nanos, it->first);
  }
  RecordLocked(key);
  MaybeEndTurnLocked();
}

bool FakeServer::DelLocked(absl::string_view key) {
  const auto it = FindLiveLocked(key);
  if (it == entries_.end()) return false;
  deadlines_.erase({it->second.deadline_nanos, it->first});
  entries_.erase(it);
  RecordLocked(key);
  MaybeEndTurnLocked();
  return true;
}

FakeServer::Entries::iterator FakeServer::FindLiveLocked(
    absl::string_view key) {
  ExpireLocked(clock_.NowNanos());
  return entries_.find(key);
}

bool FakeServer::IsLiveLocked(absl::string_view key) {
  return FindLiveLocked(key) != entries_.end();
}

bool FakeServer::EndLockLocked(absl::string_view name,
                               absl::string_view token) {
  const auto it = FindLiveLocked(name);
  return it != entries_.end() && it->second.bytes == token && DelLocked(name);
}

bool FakeServer::ExpireLocked(int64_t now_nanos) {
  bool any = false;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_nanos) {
    const std::string key = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    entries_.erase(entries_.find(key));
    RecordLocked(key);
    any = true;
  }
  if (any) MaybeEndTurnLocked();
  return any;
}

uint64_t FakeServer::SessionOfLocked(const FakeStore* store,
                                     absl::string_view key) const {
  for (const auto& session : sessions_) {
    if (session->store == store && absl::StartsWith(key, session->prefix)) {
      return session->number;
    }
  }
  return 0;
}

void FakeServer::RecordLocked(absl::string_view key) {
  for (const auto& session : sessions_) {
    if (session->number == 0 || !absl::StartsWith(key, session->prefix)) {
      continue;
    }
    std::vector<std::string>& keys = session->keys;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.emplace_back(key);
    }
  }
}

// Answers first, then the messages of the turn.
void FakeServer::MaybeEndTurnLocked() {
  if (in_turn_) return;
  for (const auto& session : sessions_) {
    for (int pongs = std::exchange(session->pongs, 0); pongs > 0; --pongs) {
      SendLocked(session.get(), {Message::Kind::kPong, {}, 0});
    }
    if (std::exchange(session->all, false)) {
      SendLocked(session.get(), {Message::Kind::kInvalidateAll, {}, 0});
    }
    std::vector<std::string> keys = std::exchange(session->keys, {});
    if (!keys.empty()) {
      SendLocked(session.get(),
                 {Message::Kind::kInvalidate, std::move(keys), 0});
    }
  }
}

void FakeServer::SendLocked(Session* session, Message message) {
  if (session->loses_messages) return;
  message.due_nanos = Clock::NanosAfter(clock_.NowNanos(),
                                        session->store->message_delay_nanos_);
  if (!session->messages.empty()) {
    message.due_nanos =
        std::max(message.due_nanos, session->messages.back().due_nanos);
  }
  session->messages.push_back(std::move(message));
}

}  // namespace wheelcache
