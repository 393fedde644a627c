#include "wheelcache/cache/near/internal/redis/cluster_nodes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace wheelcache::internal {
namespace {

// Between questions for slots that nobody serves.
constexpr absl::Duration kFirstInterval = absl::Milliseconds(100);
constexpr absl::Duration kLastInterval = absl::Seconds(2);

// A node that nobody has named for so many times `unanswered_limit` has left.
constexpr int kLimitsUntilForgotten = 4;

std::string AddressOf(absl::string_view host, int64_t port) {
  return absl::StrCat(host, ":", port);
}

const ServerUrl::Host& HostOf(const Node& node) {
  return node.url().hosts.front();
}

// Of an entry of CLUSTER SLOTS: a range, and its primary.
struct Range {
  size_t first;
  size_t last;
  std::string address;
};

// An empty host is that of the node which was asked.
std::optional<Range> RangeOf(const Reply& entry, absl::string_view asked) {
  if (entry.elements.size() < 3) return std::nullopt;
  const std::vector<Reply>& primary = entry.elements[2].elements;
  const int64_t first = entry.elements[0].integer;
  const int64_t last = entry.elements[1].integer;
  if (primary.size() < 2 || first < 0 || first > last ||
      last >= static_cast<int64_t>(kSlots)) {
    return std::nullopt;
  }
  const int64_t port = primary[1].integer;
  if (port <= 0 || port > UINT16_MAX) return std::nullopt;
  const absl::string_view host =
      primary[0].text.empty() ? asked : absl::string_view(primary[0].text);
  return Range{static_cast<size_t>(first), static_cast<size_t>(last),
               AddressOf(host, port)};
}

}  // namespace

ClusterNodes::ClusterNodes(ServerUrl seeds, const DataLinkSettings& settings,
                           Clock& clock)
    : seeds_(std::move(seeds)),
      settings_(settings),
      clock_(clock),
      io_(clock),
      interval_(kFirstInterval) {}

ClusterNodes::~ClusterNodes() {
  io_.Remove(this);
  std::vector<std::shared_ptr<Node>> nodes;
  {
    MutexLock lock(&mu_);
    is_ending_ = true;  // No further ones.
    for (auto& [address, member] : members_) nodes.push_back(member.node);
  }
  for (const std::shared_ptr<Node>& node : nodes) node->Stop();
  // What was begun is tried elsewhere, and now ends.
  next_awaiting_nanos_ = 0;
  RunAwaiting(Clock::kNever);
}

absl::Status ClusterNodes::Start() {
  if (absl::Status status = io_.Start(); !status.ok()) return status;
  io_.Add(this);
  MutexLock lock(&mu_);
  AddSeedsLocked();
  return absl::OkStatus();
}

void ClusterNodes::AddSeedsLocked() {
  for (const ServerUrl::Host& seed : seeds_.hosts) {
    MemberAtLocked(AddressOf(seed.host, seed.port));
  }
}

ClusterNodes::Member& ClusterNodes::MemberAtLocked(const std::string& address) {
  const auto known = members_.find(address);
  if (known != members_.end()) return known->second;
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  // It is one, by all callers.
  static_cast<void>(absl::SimpleAtoi(address.substr(colon + 1), &port));
  ServerUrl url = seeds_;
  url.hosts = {{address.substr(0, colon), static_cast<uint16_t>(port)}};
  Node::Surroundings around = {clock_, io_, this,
                               [this] { return ++sessions_; }};
  auto node =
      std::make_shared<Node>(std::move(url), settings_, std::move(around));
  for (const SessionLink::Subject& subject : subjects_) {
    // They do not overlap.
    node->Attach(subject).IgnoreError();
  }
  Member& member = members_[address];
  member.node = std::move(node);
  member.named_nanos = clock_.NowNanos();
  member.node->StartSessions();
  Suspect();  // To see whether it stays.
  return member;
}

ClusterNodes::Member* ClusterNodes::FindLocked(const Node* node) {
  const ServerUrl::Host& host = HostOf(*node);
  const auto found = members_.find(AddressOf(host.host, host.port));
  if (found == members_.end() || found->second.node.get() != node) {
    return nullptr;
  }
  return &found->second;
}

void ClusterNodes::OnSessionOpen(Node* node, int64_t now_nanos) {
  MutexLock lock(&mu_);
  Member* const member = FindLocked(node);
  if (member == nullptr) return;
  member->is_open = true;
  member->opened_nanos = now_nanos;
  AskAllLocked();
}

void ClusterNodes::OnSessionClose(Node* node, int64_t now_nanos) {
  MutexLock lock(&mu_);
  Member* const member = FindLocked(node);
  if (member == nullptr) return;
  // Nobody may have been asked for long.
  if (member->is_open) member->named_nanos = now_nanos;
  member->is_open = false;
  member->belief = 0;
  next_question_nanos_ = now_nanos;
}

void ClusterNodes::OnSlots(Node* node, const Reply& slots,
                           int64_t asked_nanos) {
  MutexLock lock(&mu_);
  Member* const member = FindLocked(node);
  if (is_ending_ || member == nullptr) return;
  std::vector<Range> ranges;
  std::set<std::string> primaries;
  for (const Reply& entry : slots.elements) {
    std::optional<Range> range = RangeOf(entry, HostOf(*node).host);
    if (!range.has_value()) continue;
    primaries.insert(range->address);
    ranges.push_back(*std::move(range));
  }
  for (const std::string& address : primaries) MemberAtLocked(address);
  member->primaries = std::move(primaries);
  member->asked_nanos = asked_nanos;
  JudgeLocked();
  changed_.SignalAll();
  if (!awaiting_.empty()) next_awaiting_nanos_ = asked_nanos;
  if (member->belief == 0) return;
  for (const std::string& address : member->primaries) {
    MemberAtLocked(address).named_nanos = asked_nanos;
  }
  if (asked_nanos < owners_nanos_) return;
  owners_nanos_ = asked_nanos;
  owners_.fill(nullptr);
  for (const Range& range : ranges) {
    for (size_t slot = range.first; slot <= range.last; ++slot) {
      owners_[slot] = &members_.find(range.address)->second;
    }
  }
}

// Believes those whom enough others call a primary.
void ClusterNodes::JudgeLocked() {
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

void ClusterNodes::AskAllLocked() {
  for (auto& [address, member] : members_) member.node->AskForSlots();
}

// Takes out those who have left, as far as somebody is believed who would have
// named them.
std::vector<std::shared_ptr<Node>> ClusterNodes::ForgetLocked(
    int64_t now_nanos) {
  std::vector<std::shared_ptr<Node>> left;
  for (auto it = members_.begin(); it != members_.end();) {
    Member& member = it->second;
    if (member.belief != 0 ||
        now_nanos < Clock::NanosAfter(
                        member.named_nanos,
                        kLimitsUntilForgotten * settings_.unanswered_limit)) {
      ++it;
      continue;
    }
    left.push_back(std::move(member.node));
    std::replace(owners_.begin(), owners_.end(), &member,
                 static_cast<Member*>(nullptr));
    it = members_.erase(it);
  }
  return left;
}

PollRequest ClusterNodes::Request() const {
  PollRequest request;
  request.wake_nanos =
      std::min<int64_t>(next_question_nanos_, next_awaiting_nanos_);
  return request;
}

void ClusterNodes::Handle(PollEvents, int64_t now_nanos) {
  left_.clear();  // Of an earlier turn.
  RunAwaiting(now_nanos);
  if (now_nanos < next_question_nanos_) return;
  {
    MutexLock lock(&mu_);
    const bool all_serve =
        std::all_of(owners_.begin(), owners_.end(), [](const Member* owner) {
          return owner != nullptr && owner->belief != 0;
        });
    bool any_is_believed = false;
    bool all_are_believed = true;
    for (const auto& [address, member] : members_) {
      any_is_believed |= member.belief != 0;
      all_are_believed &= member.belief != 0;
    }
    if (any_is_believed) {
      left_ = ForgetLocked(now_nanos);
    } else {
      AddSeedsLocked();
    }
    interval_ =
        all_serve ? kFirstInterval : std::min(2 * interval_, kLastInterval);
    if (all_serve && all_are_believed) {
      next_question_nanos_ = Clock::kNever;
    } else {
      next_question_nanos_ = Clock::NanosAfter(
          now_nanos, all_serve ? settings_.unanswered_limit : interval_);
    }
    // In this order: whoever suspects later sets the time anew, and the answers
    // that are asked for now will do for the others.
    is_searching_ = !all_serve;
    AskAllLocked();
  }
  // Without the lock: their sessions end.
  for (const std::shared_ptr<Node>& node : left_) node->Leave(now_nanos);
}

void ClusterNodes::WhenChanged(int64_t deadline_nanos,
                               std::function<void(bool is_in_time)> go_on) {
  {
    MutexLock lock(&mu_);
    awaiting_.push_back({deadline_nanos, std::move(go_on)});
    next_awaiting_nanos_ =
        std::min<int64_t>(next_awaiting_nanos_, deadline_nanos);
  }
  Suspect();
  io_.Wake();
}

// All of them: who has to wait on comes again.
void ClusterNodes::RunAwaiting(int64_t now_nanos) {
  if (now_nanos < next_awaiting_nanos_) return;
  std::vector<Awaiting> awaiting;
  {
    MutexLock lock(&mu_);
    awaiting.swap(awaiting_);
    next_awaiting_nanos_ = Clock::kNever;
  }
  for (const Awaiting& each : awaiting) {
    each.go_on(now_nanos < each.deadline_nanos);
  }
}

void ClusterNodes::Suspect() {
  if (is_searching_.exchange(true)) return;
  next_question_nanos_ = clock_.NanosAfter(kFirstInterval);
  io_.Wake();
}

std::optional<ClusterNodes::Target> ClusterNodes::OwnerOf(size_t slot) {
  MutexLock lock(&mu_);
  return is_ending_ ? std::nullopt : TargetOf(owners_[slot]);
}

// Nothing if it is not believed.
std::optional<ClusterNodes::Target> ClusterNodes::TargetOf(
    const Member* member) {
  if (member == nullptr || member->belief == 0) return std::nullopt;
  return Target{member->node, member->belief};
}

absl::StatusOr<ClusterNodes::Target> ClusterNodes::AwaitOwner(
    size_t slot, int64_t deadline_nanos) {
  MutexLock lock(&mu_);
  while (true) {
    std::optional<Target> target = TargetOf(owners_[slot]);
    if (target.has_value()) return *std::move(target);
    Suspect();
    const int64_t left = deadline_nanos - clock_.NowNanos();
    if (left <= 0) {
      return absl::UnavailableError(
          "no node that a majority of the cluster confirms serves the key");
    }
    changed_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
  }
}

std::optional<ClusterNodes::Target> ClusterNodes::BelievedAt(
    const std::string& address) {
  MutexLock lock(&mu_);
  return is_ending_ ? std::nullopt : BelievedAtLocked(address);
}

std::optional<ClusterNodes::Target> ClusterNodes::BelievedAtLocked(
    const std::string& address) {
  Member& member = MemberAtLocked(address);
  member.named_nanos = clock_.NowNanos();
  if (member.belief == 0 && member.is_open &&
      member.asked_nanos >= member.opened_nanos &&
      member.primaries.count(address) == 0) {
    member.node->StartData();
    return Target{member.node, 0};
  }
  return TargetOf(&member);
}

absl::StatusOr<ClusterNodes::Target> ClusterNodes::AwaitBelief(
    const std::string& address, int64_t deadline_nanos) {
  MutexLock lock(&mu_);
  while (true) {
    std::optional<Target> target = BelievedAtLocked(address);
    if (target.has_value()) return *std::move(target);
    Suspect();
    const int64_t left = deadline_nanos - clock_.NowNanos();
    if (left <= 0) {
      return absl::UnavailableError(
          "a majority of the cluster does not confirm the node that is to "
          "serve the key");
    }
    changed_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
  }
}

bool ClusterNodes::StillBelieves(const Target& target) {
  MutexLock lock(&mu_);
  const Member* const member = FindLocked(target.node.get());
  return member != nullptr && member->is_open &&
         member->belief == target.belief;
}

void ClusterNodes::SetOwner(size_t slot, const std::string& address) {
  {
    MutexLock lock(&mu_);
    owners_[slot] = &MemberAtLocked(address);
  }
  Suspect();
}

absl::Status ClusterNodes::Attach(const SessionLink::Subject& subject) {
  MutexLock lock(&mu_);
  for (auto& [address, member] : members_) {
    absl::Status status = member.node->Attach(subject);
    if (!status.ok()) return status;  // Of the first: it is the same for all.
  }
  subjects_.push_back(subject);
  return absl::OkStatus();
}

void ClusterNodes::Detach(RemoteStore::Listener* listener) {
  {
    MutexLock lock(&mu_);
    subjects_.erase(
        std::remove_if(subjects_.begin(), subjects_.end(),
                       [listener](const SessionLink::Subject& each) {
                         return each.listener == listener;
                       }),
        subjects_.end());
    for (auto& [address, member] : members_) member.node->Detach(listener);
  }
  // Without the lock, for which the I/O thread may be waiting.
  io_.AwaitTurn();
}

}  // namespace wheelcache::internal
