#include "wheelcache/cache/near/internal/redis/cluster.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "wheelcache/cache/near/internal/redis/fetch.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"

namespace wheelcache::internal {
namespace {

using Fetched = RemoteStore::Fetched;

// Of a command: a slot moves seldom, and not to and fro within one.
constexpr int kMostRedirections = 5;

// Between questions for slots that nobody serves.
constexpr absl::Duration kFirstInterval = absl::Milliseconds(100);
constexpr absl::Duration kLastInterval = absl::Seconds(2);

// Empty if there is no such port.
std::string AddressOf(absl::string_view host, int64_t port) {
  if (port <= 0 || port > UINT16_MAX) return "";
  return absl::StrCat(host, ":", port);
}

std::string AddressOf(const ServerUrl& url) {
  return AddressOf(url.host, url.port);
}

// Of an entry of CLUSTER SLOTS: a range, and its primary.
struct Range {
  size_t first;
  size_t last;
  std::string address;
};

// An empty host is that of the node which was asked.
std::optional<Range> RangeOf(const Reply& entry, const ServerUrl& asked) {
  if (entry.elements.size() < 3) return std::nullopt;
  const std::vector<Reply>& primary = entry.elements[2].elements;
  const int64_t first = entry.elements[0].integer;
  const int64_t last = entry.elements[1].integer;
  if (primary.size() < 2 || first < 0 || first > last ||
      last >= static_cast<int64_t>(kSlots)) {
    return std::nullopt;
  }
  const std::string& host =
      primary[0].text.empty() ? asked.host : primary[0].text;
  std::string address = AddressOf(host, primary[1].integer);
  if (address.empty()) return std::nullopt;
  return Range{static_cast<size_t>(first), static_cast<size_t>(last),
               std::move(address)};
}

}  // namespace

// CRC16 of CCITT, as XMODEM has it.
size_t SlotOf(absl::string_view key) {
  const size_t open = key.find('{');
  if (open != absl::string_view::npos) {
    const size_t close = key.find('}', open);
    if (close != absl::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  constexpr uint32_t kPolynomial = 0x1021;
  uint32_t crc = 0;
  for (const char c : key) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000) != 0 ? (crc << 1) ^ kPolynomial : crc << 1;
    }
  }
  return crc % kSlots;
}

Cluster::Cluster(ServerUrl seed, const DataLinkSettings& settings, Clock& clock)
    : seed_(std::move(seed)),
      settings_(settings),
      clock_(clock),
      io_(clock),
      interval_(kFirstInterval) {}

Cluster::~Cluster() {
  io_.Remove(this);
  std::vector<Node*> nodes;
  {
    MutexLock lock(&mu_);
    is_ending_ = true;  // No further ones.
    for (auto& [address, member] : members_) nodes.push_back(member.node.get());
  }
  for (Node* const node : nodes) node->Stop();
}

absl::Status Cluster::Start() {
  if (absl::Status status = io_.Start(); !status.ok()) return status;
  io_.Add(this);
  MutexLock lock(&mu_);
  MemberAtLocked(AddressOf(seed_));
  return absl::OkStatus();
}

Cluster::Member& Cluster::MemberAtLocked(const std::string& address) {
  const auto known = members_.find(address);
  if (known != members_.end()) return known->second;
  ServerUrl url = seed_;
  const size_t colon = address.rfind(':');
  url.host = address.substr(0, colon);
  int port = 0;
  // It is one, by AddressOf.
  static_cast<void>(absl::SimpleAtoi(address.substr(colon + 1), &port));
  url.port = static_cast<uint16_t>(port);
  Node::Surroundings around = {clock_, io_, this,
                               [this] { return ++sessions_; }};
  auto node =
      std::make_unique<Node>(std::move(url), settings_, std::move(around));
  for (const SessionLink::Subject& subject : subjects_) {
    // They do not overlap.
    node->Attach(subject).IgnoreError();
  }
  Member& member = members_[address];
  member.node = std::move(node);
  member.node->StartSessions();
  return member;
}

Cluster::Member& Cluster::MemberOfLocked(const Node* node) {
  return members_.find(AddressOf(node->url()))->second;
}

void Cluster::OnSessionOpen(Node* node, int64_t now_nanos) {
  MutexLock lock(&mu_);
  Member& member = MemberOfLocked(node);
  member.is_open = true;
  member.opened_nanos = now_nanos;
  AskAllLocked();
}

void Cluster::OnSessionClose(Node* node, int64_t now_nanos) {
  MutexLock lock(&mu_);
  Member& member = MemberOfLocked(node);
  member.is_open = false;
  member.belief = 0;
  next_question_nanos_ = now_nanos;
}

void Cluster::OnSlots(Node* node, const Reply& slots, int64_t asked_nanos) {
  MutexLock lock(&mu_);
  if (is_ending_) return;
  std::vector<Range> ranges;
  std::set<std::string> primaries;
  for (const Reply& entry : slots.elements) {
    std::optional<Range> range = RangeOf(entry, node->url());
    if (!range.has_value()) continue;
    primaries.insert(range->address);
    ranges.push_back(*std::move(range));
  }
  for (const std::string& address : primaries) MemberAtLocked(address);
  Member& member = MemberOfLocked(node);
  member.primaries = std::move(primaries);
  member.asked_nanos = asked_nanos;
  JudgeLocked();
  changed_.SignalAll();
  if (member.belief == 0 || asked_nanos < owners_nanos_) return;
  owners_nanos_ = asked_nanos;
  owners_.fill(nullptr);
  for (const Range& range : ranges) {
    for (size_t slot = range.first; slot <= range.last; ++slot) {
      owners_[slot] = &members_.find(range.address)->second;
    }
  }
}

// Believes those whom enough others call a primary.
void Cluster::JudgeLocked() {
  for (auto& [address, candidate] : members_) {
    if (!candidate.is_open || candidate.belief != 0) continue;
    size_t primaries = 0;
    size_t in_favour = 0;
    for (const auto& [other_address, other] : members_) {
      // Only primaries vote, in its own opinion, which is the latest.
      if (candidate.primaries.count(other_address) == 0) continue;
      ++primaries;
      if (other.is_open && other.asked_nanos >= candidate.opened_nanos &&
          other.primaries.count(address) != 0) {
        ++in_favour;
      }
    }
    if (2 * in_favour <= primaries) continue;
    candidate.belief = ++beliefs_;
    candidate.node->StartData();
  }
}

void Cluster::AskAllLocked() {
  for (auto& [address, member] : members_) member.node->AskForSlots();
}

PollRequest Cluster::Request() const {
  PollRequest request;
  request.wake_nanos = next_question_nanos_;
  return request;
}

void Cluster::Handle(PollEvents, int64_t now_nanos) {
  if (now_nanos < next_question_nanos_) return;
  MutexLock lock(&mu_);
  const bool all_served =
      std::all_of(owners_.begin(), owners_.end(), [](const Member* owner) {
        return owner != nullptr && owner->belief != 0;
      });
  interval_ =
      all_served ? kFirstInterval : std::min(2 * interval_, kLastInterval);
  next_question_nanos_ =
      all_served ? Clock::kNever : Clock::NanosAfter(now_nanos, interval_);
  AskAllLocked();
}

absl::Duration Cluster::TimeLeft(int64_t deadline_nanos) const {
  return absl::Nanoseconds(deadline_nanos) - clock_.Now();
}

// Something failed: others may serve its slots now.
void Cluster::Suspect() {
  if (next_question_nanos_ != Clock::kNever) return;
  next_question_nanos_ = clock_.NanosAfter(kFirstInterval);
  io_.Wake();
}

std::optional<Cluster::Target> Cluster::OwnerOf(size_t slot) {
  MutexLock lock(&mu_);
  return TargetOfLocked(owners_[slot]);
}

// Nothing if it is not believed.
std::optional<Cluster::Target> Cluster::TargetOfLocked(const Member* member) {
  if (member == nullptr || member->belief == 0) return std::nullopt;
  return Target{member->node.get(), member->belief};
}

absl::StatusOr<Cluster::Target> Cluster::AwaitOwner(size_t slot,
                                                    int64_t deadline_nanos) {
  MutexLock lock(&mu_);
  while (true) {
    std::optional<Target> target = TargetOfLocked(owners_[slot]);
    if (target.has_value()) return *target;
    Suspect();
    const absl::Duration left = TimeLeft(deadline_nanos);
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          "no node that a majority of the cluster confirms serves the key");
    }
    changed_.WaitWithTimeout(&mu_, left);
  }
}

absl::StatusOr<Cluster::Target> Cluster::AwaitBelief(const std::string& address,
                                                     int64_t deadline_nanos) {
  MutexLock lock(&mu_);
  const Member* const member = &MemberAtLocked(address);
  while (true) {
    std::optional<Target> target = TargetOfLocked(member);
    if (target.has_value()) return *target;
    if (member->is_open && member->asked_nanos >= member->opened_nanos &&
        member->primaries.count(address) == 0) {
      member->node->StartData();
      return Target{member->node.get(), 0};
    }
    Suspect();
    const absl::Duration left = TimeLeft(deadline_nanos);
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          "a majority of the cluster does not confirm the node that is to "
          "serve the key");
    }
    changed_.WaitWithTimeout(&mu_, left);
  }
}

bool Cluster::StillBelieves(const Target& target) {
  MutexLock lock(&mu_);
  const Member& member = MemberOfLocked(target.node);
  return member.is_open && member.belief == target.belief;
}

std::optional<Cluster::Redirection> Cluster::RedirectionOf(
    const Reply& reply) const {
  if (!reply.is_error()) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(reply.text, ' ');
  if (words.size() != 3 || (words[0] != "MOVED" && words[0] != "ASK")) {
    return std::nullopt;
  }
  const size_t colon = words[2].rfind(':');
  size_t slot = 0;
  int64_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(words[1], &slot) ||
      slot >= kSlots || !absl::SimpleAtoi(words[2].substr(colon + 1), &port)) {
    return std::nullopt;
  }
  // An empty host is the same one.
  std::string address =
      AddressOf(colon == 0 ? seed_.host : words[2].substr(0, colon), port);
  if (address.empty()) return std::nullopt;
  return Redirection{words[0] == "ASK", slot, std::move(address)};
}

void Cluster::Follow(const Redirection& moved) {
  {
    MutexLock lock(&mu_);
    owners_[moved.slot] = &MemberAtLocked(moved.address);
  }
  Suspect();
}

absl::StatusOr<Reply> Cluster::Run(const Write& write, absl::Duration timeout) {
  const int64_t deadline = clock_.NanosAfter(timeout);
  const size_t slot = SlotOf(write.key);
  for (int i = 0; i <= kMostRedirections; ++i) {
    absl::StatusOr<Target> target = AwaitOwner(slot, deadline);
    if (!target.ok()) return target.status();
    absl::StatusOr<Reply> reply = RunOn(target->node->writes(write.bytes),
                                        write.arguments, TimeLeft(deadline));
    if (!reply.ok()) {
      if (absl::IsUnavailable(reply.status())) Suspect();
      return reply;
    }
    std::optional<Redirection> redirection = RedirectionOf(*reply);
    if (redirection.has_value() && redirection->is_ask) {
      target = AwaitBelief(redirection->address, deadline);
      if (!target.ok()) return target.status();
      std::string bytes;
      AppendCommand({"ASKING"}, &bytes);
      AppendCommand(write.arguments, &bytes);
      absl::StatusOr<std::vector<Reply>> replies =
          target->node->writes(write.bytes)
              .Execute({Pipeline::Kind::kWrites, std::move(bytes), 2},
                       TimeLeft(deadline));
      if (!replies.ok()) return replies.status();
      if (replies->front().is_error()) {
        return StatusOfError("ASKING", replies->front());
      }
      reply = std::move(replies->back());
      redirection = RedirectionOf(*reply);
    }
    if (redirection.has_value()) {
      Follow(*redirection);
    } else if (reply->is_error()) {
      return StatusOfError(write.arguments[0], *reply);
    } else {
      return reply;
    }
  }
  return absl::UnavailableError(
      absl::StrCat(write.arguments[0], ": the cluster moves its slot"));
}

std::vector<absl::StatusOr<Fetched>> Cluster::Fetch(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  const int64_t deadline = clock_.NanosAfter(timeout);
  std::vector<absl::StatusOr<Fetched>> results(
      keys.size(),
      absl::UnavailableError("GET: the cluster moves the slot of the key"));
  const size_t at_once =
      std::clamp<size_t>(settings_.max_in_flight / 2, 1, kMostKeysOfRound);
  for (size_t begin = 0; begin < keys.size(); begin += at_once) {
    std::vector<size_t> wanted(std::min(at_once, keys.size() - begin));
    std::iota(wanted.begin(), wanted.end(), begin);
    for (int i = 0; i <= kMostRedirections && !wanted.empty(); ++i) {
      wanted = FetchSome(keys, wanted, deadline, &results);
    }
  }
  return results;
}

// The keys of one node, and the commands for them.
struct Cluster::FetchRound {
  Target target;
  uint64_t session;
  std::vector<size_t> wanted;  // Positions of its keys.
  std::unique_ptr<Pipeline::Call> call;
};

// Fetches the keys at some positions, from all their nodes at a time. Returns
// the positions of those that are to be asked for again.
std::vector<size_t> Cluster::FetchSome(
    absl::Span<const absl::string_view> keys, absl::Span<const size_t> wanted,
    int64_t deadline_nanos, std::vector<absl::StatusOr<Fetched>>* results) {
  std::vector<size_t> again;
  std::vector<size_t> unserved;
  std::vector<std::pair<size_t, std::string>> asked_for;  // And of whom.
  std::map<Node*, FetchRound> rounds;
  for (const size_t i : wanted) {
    const std::optional<Target> target = OwnerOf(SlotOf(keys[i]));
    if (!target.has_value()) {
      unserved.push_back(i);
      continue;
    }
    FetchRound& round = rounds[target->node];
    round.target = *target;
    round.wanted.push_back(i);
  }
  const int64_t sent_nanos = clock_.NowNanos();
  for (auto& [node, round] : rounds) {
    std::string bytes;
    for (const size_t i : round.wanted) {
      AppendCommand({"PTTL", keys[i]}, &bytes);
      AppendCommand({"GET", keys[i]}, &bytes);
    }
    round.session = node->session();  // Before anything is sent.
    // Not to be sent again on a connection to a node that may have changed.
    round.call = std::make_unique<Pipeline::Call>(
        Pipeline::Batch{Pipeline::Kind::kWrites, std::move(bytes),
                        2 * round.wanted.size()},
        deadline_nanos);
    node->reads().Begin(*round.call);
  }
  for (auto& [node, round] : rounds) {
    absl::StatusOr<std::vector<Reply>> replies = node->reads().End(*round.call);
    const bool is_lost =
        (!replies.ok() && absl::IsUnavailable(replies.status())) ||
        !StillBelieves(round.target);
    if (is_lost) Suspect();
    for (size_t n = 0; n < round.wanted.size(); ++n) {
      const size_t i = round.wanted[n];
      absl::StatusOr<Fetched>& result = (*results)[i];
      if (is_lost) {
        result = absl::UnavailableError(
            replies.ok() ? "GET: the node may have been replaced"
                         : absl::StrCat("GET: ", replies.status().message()));
        again.push_back(i);
        continue;
      }
      if (!replies.ok()) {
        result =
            absl::Status(replies.status().code(),
                         absl::StrCat("GET: ", replies.status().message()));
        continue;
      }
      const Reply& ttl = (*replies)[2 * n];
      Reply& value = (*replies)[2 * n + 1];
      std::optional<Redirection> redirection = RedirectionOf(value);
      if (!redirection.has_value()) redirection = RedirectionOf(ttl);
      if (!redirection.has_value()) {
        result = FetchedFrom(ttl, value, sent_nanos);
        if (result.ok()) result->session = round.session;
      } else if (redirection->is_ask) {
        asked_for.emplace_back(i, redirection->address);
      } else {
        Follow(*redirection);
        again.push_back(i);
      }
    }
  }
  // Only now, so that they do not keep the others waiting.
  for (const auto& [i, address] : asked_for) {
    if (!FetchByAsking(keys[i], address, deadline_nanos, &(*results)[i])) {
      again.push_back(i);
    }
  }
  for (const size_t i : unserved) {
    const absl::StatusOr<Target> target =
        AwaitOwner(SlotOf(keys[i]), deadline_nanos);
    if (target.ok()) {
      again.push_back(i);
    } else {
      (*results)[i] = target.status();
    }
  }
  return again;
}

// From the node to which the slot of the key is going. Returns false if the key
// is to be asked for again.
bool Cluster::FetchByAsking(absl::string_view key, const std::string& address,
                            int64_t deadline_nanos,
                            absl::StatusOr<Fetched>* result) {
  const absl::StatusOr<Target> target = AwaitBelief(address, deadline_nanos);
  if (!target.ok()) {
    *result = target.status();
    return true;
  }
  std::string bytes;
  AppendCommand({"ASKING"}, &bytes);
  AppendCommand({"PTTL", key}, &bytes);
  AppendCommand({"ASKING"}, &bytes);
  AppendCommand({"GET", key}, &bytes);
  const int64_t sent_nanos = clock_.NowNanos();
  const uint64_t session = target->belief == 0 ? 0 : target->node->session();
  absl::StatusOr<std::vector<Reply>> replies = target->node->reads().Execute(
      {Pipeline::Kind::kWrites, std::move(bytes), 4}, TimeLeft(deadline_nanos));
  if (!replies.ok()) {
    *result = absl::Status(replies.status().code(),
                           absl::StrCat("GET: ", replies.status().message()));
    return !absl::IsUnavailable(replies.status());
  }
  if (replies->front().is_error()) {
    *result = StatusOfError("ASKING", replies->front());
    return true;
  }
  const std::optional<Redirection> redirection = RedirectionOf((*replies)[3]);
  if (redirection.has_value() && !redirection->is_ask) Follow(*redirection);
  if (redirection.has_value() || !StillBelieves(*target)) {
    *result = absl::UnavailableError("GET: the cluster moves the slot");
    return false;
  }
  *result = FetchedFrom((*replies)[1], (*replies)[3], sent_nanos);
  if (result->ok()) (*result)->session = session;
  return true;
}

absl::Status Cluster::Attach(const SessionLink::Subject& subject) {
  MutexLock lock(&mu_);
  for (auto& [address, member] : members_) {
    absl::Status status = member.node->Attach(subject);
    if (!status.ok()) return status;  // Of the first: it is the same for all.
  }
  subjects_.push_back(subject);
  return absl::OkStatus();
}

void Cluster::Detach(RemoteStore::Listener* listener) {
  bool any = false;
  {
    MutexLock lock(&mu_);
    subjects_.erase(
        std::remove_if(subjects_.begin(), subjects_.end(),
                       [listener](const SessionLink::Subject& each) {
                         return each.listener == listener;
                       }),
        subjects_.end());
    for (auto& [address, member] : members_) {
      any |= member.node->Detach(listener);
    }
  }
  // Without the lock, for which the I/O thread may be waiting.
  if (any) io_.AwaitTurn();
}

}  // namespace wheelcache::internal
