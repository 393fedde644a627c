#include "wheelcache/cache/near/internal/redis/session_link.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr absl::string_view kChannel = "__redis__:invalidate";

// Of a message: so many keys at once, and so many bytes of them, end the
// session instead, which empties the local tiers.
constexpr ReplyReader::Limits kMessageLimits = {1 << 20, 256 << 20};

bool Overlap(absl::string_view a, absl::string_view b) {
  return absl::StartsWith(a, b) || absl::StartsWith(b, a);
}

ConnectorSettings SettingsOf(ConnectorSettings settings) {
  if (settings.mode == Login::Mode::kCluster) {
    settings.mode = Login::Mode::kAnyOfCluster;
  }
  return settings;
}

// The text of the first element of an array; empty for other replies.
absl::string_view KindOf(const Reply& reply) {
  return reply.elements.empty() ? absl::string_view() : reply.elements[0].text;
}

}  // namespace

SessionLink::SessionLink(const ConnectorSettings& settings,
                         absl::Duration unanswered_limit, Endpoint* endpoint,
                         Observer* observer,
                         std::function<uint64_t()> next_session)
    : settings_(SettingsOf(settings)),
      unanswered_limit_(unanswered_limit),
      observer_(observer),
      next_session_(std::move(next_session)),
      connector_(settings_, endpoint, kMessageLimits, RandomSeed()) {}

absl::Status SessionLink::Attach(Subject subject) {
  MutexLock lock(&mu_);
  for (const auto& other : subjects_) {
    if (!Overlap(other->prefix, subject.prefix)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "key_prefix: \"", absl::CHexEscape(subject.prefix), "\" and \"",
        absl::CHexEscape(other->prefix),
        "\", which another near cache of this store has, overlap; neither may "
        "be the beginning of the other"));
  }
  subjects_.push_back(std::make_shared<const Subject>(std::move(subject)));
  has_changes_ = true;
  return absl::OkStatus();
}

bool SessionLink::Detach(RemoteStore::Listener* listener) {
  MutexLock lock(&mu_);
  const auto found =
      std::find_if(subjects_.begin(), subjects_.end(),
                   [listener](const std::shared_ptr<const Subject>& each) {
                     return each->listener == listener;
                   });
  if (found == subjects_.end()) return false;
  subjects_.erase(found);
  has_changes_ = true;
  return true;
}

// Makes attached_ what has been attached and not detached.
void SessionLink::TakeChanges(int64_t now_nanos) {
  if (!has_changes_) return;
  const std::vector<Attached> before = attached_;
  {
    MutexLock lock(&mu_);
    std::vector<Attached> after;
    for (const std::shared_ptr<const Subject>& subject : subjects_) {
      after.push_back({subject, State::kNew, 0});
    }
    attached_ = std::move(after);
    has_changes_ = false;
  }
  for (Attached& each : attached_) {
    const auto same = std::find_if(
        before.begin(), before.end(),
        [&](const Attached& old) { return old.subject == each.subject; });
    if (same != before.end()) {
      each = *same;
    } else {
      connector_.Hurry(now_nanos);
    }
  }
  std::sort(attached_.begin(), attached_.end(),
            [](const Attached& a, const Attached& b) {
              return a.subject->prefix < b.subject->prefix;
            });
  if (heartbeat_.has_value() && !attached_.empty()) {
    heartbeat_->SetMaxStaleness(ShortestStaleness());
  }
}

absl::Duration SessionLink::ShortestStaleness() const {
  absl::Duration shortest = absl::InfiniteDuration();
  for (const Attached& each : attached_) {
    shortest = std::min(shortest, each.subject->max_staleness);
  }
  return shortest;
}

absl::Duration SessionLink::SilenceLimit() const {
  if (!heartbeat_.has_value()) return settings_.timeout;
  if (attached_.empty()) return unanswered_limit_;
  absl::Duration longest = absl::ZeroDuration();
  for (const Attached& each : attached_) {
    longest = std::max(longest, each.subject->max_staleness);
  }
  return std::min(longest, unanswered_limit_);
}

// While invalidations arrive, a reply may be behind them.
int64_t SessionLink::SilentNanos() const {
  if (questions_.empty()) return Clock::kNever;
  return Clock::NanosAfter(std::max(asked_nanos_, received_nanos_),
                           SilenceLimit());
}

PollRequest SessionLink::Request() const {
  PollRequest request;
  if (has_changes_) {
    request.wake_nanos = 0;
  } else if (!is_open()) {
    if (!attached_.empty() || is_of_cluster()) return connector_.Request();
  } else {
    request.fd = wire_->stream().fd();
    request.events = POLLIN;
    if (wire_->has_unsent()) request.events |= POLLOUT;
    request.wake_nanos = wants_slots_ ? 0 : SilentNanos();
    if (heartbeat_.has_value()) {
      request.wake_nanos =
          std::min(request.wake_nanos, heartbeat_->next_nanos());
    }
  }
  return request;
}

void SessionLink::Handle(PollEvents revents, int64_t now_nanos) {
  TakeChanges(now_nanos);
  if (attached_.empty() && !is_of_cluster()) {
    Close(now_nanos);
    return;
  }
  if (is_open()) {
    const absl::Status status = HandleOpen(revents, now_nanos);
    if (!status.ok()) Drop(status, now_nanos);
    return;
  }
  absl::Status status = connector_.Advance(revents, now_nanos);
  if (!status.ok()) TellLoss(0, status);
  if (!connector_.ready()) return;
  status = Open(now_nanos);
  if (!status.ok()) Drop(status, now_nanos);
}

absl::Status SessionLink::Open(int64_t now_nanos) {
  wire_ = connector_.TakeWire();
  received_nanos_ = now_nanos;
  wants_slots_ = is_of_cluster();
  if (!connector_.login().role().ok()) return AskWhatIsDue(now_nanos);
  observer_->OnLogin(this, now_nanos);
  if (absl::Status status = AskForPrefixes(now_nanos); !status.ok()) {
    return status;
  }
  if (has_resp3()) return absl::OkStatus();
  return Ask(Question::kSubscribe, {"SUBSCRIBE", kChannel}, now_nanos);
}

absl::Status SessionLink::Ask(Question question,
                              absl::Span<const absl::string_view> command,
                              int64_t now_nanos) {
  if (questions_.empty()) asked_nanos_ = now_nanos;
  questions_.push_back(question);
  return wire_->Send(Encoded(command));
}

// Asks the server to tell of the prefixes of which it does not, unless it has
// not answered the last such question.
absl::Status SessionLink::AskForPrefixes(int64_t now_nanos) {
  if (std::find(questions_.begin(), questions_.end(), Question::kTracking) !=
      questions_.end()) {
    return absl::OkStatus();
  }
  std::vector<absl::string_view> command = {"CLIENT", "TRACKING", "ON",
                                            "BCAST"};
  const std::string id = absl::StrCat(connector_.login().client_id());
  if (!has_resp3()) command.insert(command.end(), {"REDIRECT", id});
  const size_t without_prefix = command.size();
  for (Attached& each : attached_) {
    if (each.state != State::kNew) continue;
    const std::string& prefix = each.subject->prefix;
    const auto told = std::find_if(
        prefixes_.begin(), prefixes_.end(),
        [&](const std::string& other) { return Overlap(other, prefix); });
    each.state = State::kAsked;
    if (told == prefixes_.end()) {
      command.insert(command.end(), {"PREFIX", prefix});
    } else if (*told == prefix) {
      TellOfSession(each, now_nanos);  // As its last listener was.
    } else {
      // The server refuses it, though nobody listens to the other any more.
      return absl::UnavailableError(
          "a prefix overlaps with one of a near cache that is gone");
    }
  }
  if (command.size() == without_prefix) return absl::OkStatus();
  for (size_t i = without_prefix; i < command.size(); i += 2) {
    prefixes_.emplace_back(command[i + 1]);
  }
  if (heartbeat_.has_value() && !has_resp3()) {
    return absl::UnavailableError("another prefix is to be tracked");
  }
  return Ask(Question::kTracking, command, now_nanos);
}

absl::Status SessionLink::HandleOpen(PollEvents revents, int64_t now_nanos) {
  // Even if something has come now: see the header.
  if (is_of_cluster() && !questions_.empty() &&
      now_nanos >= Clock::NanosAfter(std::max(asked_nanos_, received_nanos_),
                                     unanswered_limit_)) {
    return absl::UnavailableError("the node was silent");
  }
  if (revents & POLLOUT) {
    if (absl::Status status = wire_->Flush(); !status.ok()) return status;
  }
  if (revents & ~POLLOUT) {
    std::vector<Reply> replies;
    absl::Status received = wire_->Receive(&replies);
    if (!replies.empty()) received_nanos_ = now_nanos;
    for (const Reply& reply : replies) {
      if (absl::Status status = Take(reply, now_nanos); !status.ok()) {
        return status;
      }
    }
    if (!received.ok()) return received;
  }
  if (now_nanos >= SilentNanos()) {
    return absl::UnavailableError(
        absl::StrCat(NameOf(questions_.front()), ": no reply in ",
                     absl::FormatDuration(SilenceLimit())));
  }
  return AskWhatIsDue(now_nanos);
}

absl::Status SessionLink::AskWhatIsDue(int64_t now_nanos) {
  if (wants_slots_.exchange(false)) {
    slots_asked_.push_back(now_nanos);
    absl::Status asked = Ask(Question::kSlots, {"CLUSTER", "SLOTS"}, now_nanos);
    if (!asked.ok()) return asked;
  }
  if (!heartbeat_.has_value()) {
    // The first listener has come.
    return is_of_cluster() && connector_.login().role().ok()
               ? AskForPrefixes(now_nanos)
               : absl::OkStatus();
  }
  if (now_nanos >= heartbeat_->next_nanos()) {
    if (absl::Status asked = AskHeartbeat(now_nanos); !asked.ok()) {
      return asked;
    }
  }
  return AskForPrefixes(now_nanos);
}

absl::Status SessionLink::AskHeartbeat(int64_t now_nanos) {
  heartbeat_->Send(now_nanos);
  if (!is_of_cluster()) return Ask(Question::kPing, {"PING"}, now_nanos);
  absl::Status asked = Ask(Question::kRole, {"HELLO", "3"}, now_nanos);
  if (!asked.ok()) return asked;
  return Ask(Question::kState, {"CLUSTER", "INFO"}, now_nanos);
}

absl::string_view SessionLink::NameOf(Question question) {
  switch (question) {
    case Question::kTracking:
      return "CLIENT TRACKING";
    case Question::kSubscribe:
      return "SUBSCRIBE";
    case Question::kPing:
      return "PING";
    case Question::kRole:
      return "HELLO";
    case Question::kState:
      return "CLUSTER INFO";
    case Question::kSlots:
      return "CLUSTER SLOTS";
  }
  return "";
}

absl::Status SessionLink::Take(const Reply& reply, int64_t now_nanos) {
  const absl::string_view kind = KindOf(reply);
  if (reply.type == Reply::Type::kPush) {
    // Others than this one are not asked for.
    if (kind != "invalidate") return absl::OkStatus();
    if (reply.elements.size() != 2) {
      return UnexpectedReply("CLIENT TRACKING", reply);
    }
    return TakeMessage(reply.elements[1]);
  }
  if (kind == "message") {
    if (reply.elements.size() != 3) return UnexpectedReply("SUBSCRIBE", reply);
    return TakeMessage(reply.elements[2]);
  }
  if (questions_.empty()) {
    return absl::UnavailableError("a reply without a command");
  }
  const Question question = questions_.front();
  questions_.pop_front();
  const bool is_status = reply.type == Reply::Type::kStatus;
  switch (question) {
    case Question::kTracking:
      if (!is_status) break;
      return has_resp3() ? TakeTracking(now_nanos) : absl::OkStatus();
    case Question::kSubscribe:
      if (kind != "subscribe") break;
      return TakeTracking(now_nanos);
    case Question::kPing:
      if (!is_status && kind != "pong") break;
      return TakePong();
    case Question::kRole:
      return CheckPrimary(reply);
    case Question::kState:
      if (reply.type != Reply::Type::kString) break;
      if (!absl::StrContains(reply.text, "cluster_state:ok")) {
        return absl::UnavailableError(
            "CLUSTER INFO: cluster_state is not ok: the node sees no majority, "
            "or some slots are not served");
      }
      return TakePong();
    case Question::kSlots: {
      const int64_t asked_nanos = slots_asked_.front();
      slots_asked_.pop_front();
      if (reply.type != Reply::Type::kArray) break;
      observer_->OnSlots(reply, asked_nanos);
      return connector_.login().role();
    }
  }
  return UnexpectedReply(NameOf(question), reply);
}

// The server tells of all prefixes that it was asked for.
absl::Status SessionLink::TakeTracking(int64_t now_nanos) {
  if (!heartbeat_.has_value()) {
    heartbeat_.emplace(ShortestStaleness(), now_nanos);
    session_.store(next_session_(), std::memory_order_release);
  }
  for (Attached& each : attached_) {
    if (each.state == State::kAsked) TellOfSession(each, now_nanos);
  }
  return absl::OkStatus();
}

// Nothing may be served yet, but what is fetched from now on may be kept.
void SessionLink::TellOfSession(Attached& to, int64_t now_nanos) const {
  to.state = State::kTold;
  to.until_nanos = now_nanos;
  to.subject->listener->OnLease(session(), now_nanos);
}

// An array of keys; null for all keys.
absl::Status SessionLink::TakeMessage(const Reply& keys) {
  if (!heartbeat_.has_value()) return UnexpectedReply("CLIENT TRACKING", keys);
  if (keys.type != Reply::Type::kArray) {
    // A null; or what somebody has published on the channel, which may stand
    // for anything.
    for (const Attached& each : attached_) {
      if (each.state == State::kTold) each.subject->listener->OnInvalidateAll();
    }
    return absl::OkStatus();
  }
  // A message is of one prefix, or of two where one has been tracked twice.
  std::vector<absl::string_view> same;
  const Attached* of = nullptr;
  for (const Reply& key : keys.elements) {
    if (of == nullptr || !absl::StartsWith(key.text, of->subject->prefix)) {
      TellOf(same, of);
      same.clear();
      of = Find(key.text);
    }
    same.push_back(key.text);
  }
  TellOf(same, of);
  return absl::OkStatus();
}

void SessionLink::TellOf(absl::Span<const absl::string_view> keys,
                         const Attached* to) {
  if (to == nullptr || keys.empty() || to->state != State::kTold) return;
  to->subject->listener->OnInvalidate(keys);
}

// Returns to whose prefix a key belongs; null if to nobody's. As none of them
// is the beginning of another, that is the last one that is not behind the key.
const SessionLink::Attached* SessionLink::Find(absl::string_view key) const {
  const auto behind =
      std::upper_bound(attached_.begin(), attached_.end(), key,
                       [](absl::string_view k, const Attached& each) {
                         return k < each.subject->prefix;
                       });
  if (behind == attached_.begin()) return nullptr;
  const Attached& last = *std::prev(behind);
  return absl::StartsWith(key, last.subject->prefix) ? &last : nullptr;
}

absl::Status SessionLink::TakePong() {
  const std::optional<int64_t> certified = heartbeat_->Answer();
  if (!certified.has_value()) return absl::OkStatus();
  connector_.ResetBackoff();
  for (Attached& each : attached_) {
    if (each.state != State::kTold) continue;
    each.until_nanos =
        std::max(each.until_nanos,
                 Clock::NanosAfter(*certified, each.subject->max_staleness));
    each.subject->listener->OnLease(session(), each.until_nanos);
  }
  return absl::OkStatus();
}

void SessionLink::Drop(const absl::Status& why, int64_t now_nanos) {
  if (!is_open()) return;
  TakeChanges(now_nanos);
  const uint64_t session = session_.load(std::memory_order_relaxed);
  Close(now_nanos);
  TellLoss(session, connector_.Named(why));
}

void SessionLink::TellLoss(uint64_t session, const absl::Status& why) {
  for (const Attached& each : attached_) {
    each.subject->listener->OnLoss(session, why);
  }
}

void SessionLink::Close(int64_t now_nanos) {
  if (!is_open()) return;
  wire_ = nullptr;
  session_.store(0, std::memory_order_release);
  heartbeat_.reset();
  questions_.clear();
  slots_asked_.clear();
  prefixes_.clear();
  received_nanos_ = 0;
  for (Attached& each : attached_) each.state = State::kNew;
  connector_.Restart(now_nanos);
  observer_->OnClose(this, now_nanos);
}

}  // namespace wheelcache::internal
