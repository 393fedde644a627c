#include "wheelcache/cache/near/internal/redis/node.h"

#include <iterator>
#include <string>
#include <utility>

namespace wheelcache::internal {
namespace {

// A megabit network sends it in a second, and the usual ones at once.
constexpr size_t kLargeBytes = 128 << 10;

// With fewer late writes than this, those that were answered are not removed.
constexpr size_t kFewLate = 64;

}  // namespace

Node::Node(ServerUrl url, const DataLinkSettings& settings, Surroundings around)
    : settings_(settings),
      endpoint_(std::move(url)),
      io_(around.io),
      owner_(around.owner),
      session_(settings_.connector, settings_.unanswered_limit, &endpoint_,
               this, std::move(around.next_session)),
      reads_(settings_, &endpoint_, around.clock, this, [this] { io_.Wake(); }),
      writes_(settings_, &endpoint_, around.clock, this,
              [this] { io_.Wake(); }),
      large_writes_(settings_, &endpoint_, around.clock, this,
                    [this] { io_.Wake(); }) {}

void Node::Stop() {
  if (std::exchange(is_stopped_, true)) return;
  for (Link* const link : links_) io_.Remove(link);
  Refuse(absl::UnavailableError("the store is destroyed"));
}

void Node::Leave(int64_t now_nanos) {
  const absl::Status why =
      absl::UnavailableError("the node has left the cluster");
  is_stopped_ = true;
  for (Link* const link : links_) io_.RemoveFromNextTurn(link);
  session_.Drop(why, now_nanos);
  Refuse(why);
}

// Ends the calls that are there, and those to come.
void Node::Refuse(const absl::Status& why) {
  for (DataLink* const link : {&reads_, &writes_, &large_writes_}) {
    link->pipeline().Refuse(why);
    link->pipeline().FinishStarted();
  }
}

void Node::StartData() {
  absl::call_once(has_data_, [this] {
    io_.Add(&reads_);
    io_.Add(&writes_);
  });
}

void Node::AskForSlots() {
  session_.AskForSlots();
  io_.Wake();
}

bool Node::IsLarge(size_t bytes) { return bytes >= kLargeBytes; }

Pipeline& Node::writes(size_t bytes, Pipeline* late) {
  if (late != nullptr) return *late;
  if (!IsLarge(bytes)) return writes_.pipeline();
  absl::call_once(has_large_writes_, [this] { io_.Add(&large_writes_); });
  return large_writes_.pipeline();
}

Pipeline* Node::LateWriteOf(absl::string_view key) {
  MutexLock lock(&mu_);
  const auto found = late_.find(key);
  if (found == late_.end()) return nullptr;
  const LateWrite late = found->second;
  if (!late.where->HasAnswered(late.sent)) return late.where;
  late_.erase(found);
  return nullptr;
}

void Node::AddLateWrite(absl::string_view key, Pipeline* where) {
  MutexLock lock(&mu_);
  if (late_.size() >= most_late_) {
    for (auto it = late_.begin(); it != late_.end();) {
      const LateWrite& late = it->second;
      it = late.where->HasAnswered(late.sent) ? late_.erase(it) : std::next(it);
    }
    most_late_ = 2 * late_.size() + kFewLate;
  }
  late_.insert_or_assign(std::string(key), LateWrite{where, where->sent()});
}

absl::Status Node::Attach(SessionLink::Subject subject) {
  absl::Status status = session_.Attach(std::move(subject));
  if (status.ok()) io_.Wake();
  return status;
}

void Node::OnLogin(Link* link, int64_t now_nanos) {
  const absl::Status moved = absl::UnavailableError(
      "the server at this address is another one now, or has restarted");
  const std::string& server = *link->server_id();
  logging_in_ = link;
  const bool is_together =
      together_.erase(link) != 0 && now_nanos < together_until_nanos_;
  if (link == &session_) {
    together_ = {&reads_, &writes_, &large_writes_};
    together_until_nanos_ =
        Clock::NanosAfter(now_nanos, settings_.connector.timeout);
  }
  for (Link* const other : links_) {
    if (other == link) continue;
    const std::string* const others = other->server_id();
    const bool is_unknown = server.empty() && !is_together &&
                            (link == &session_ || other == &session_);
    if (others != nullptr && (*others != server || is_unknown)) {
      other->Drop(moved, now_nanos);
    }
    // The server is back. Not for every link, so that two that fail after the
    // login do not hurry each other on and on.
    if (link == &reads_) other->Hurry(now_nanos);
  }
  logging_in_ = nullptr;
  if (link == &session_ && owner_ != nullptr) {
    owner_->OnSessionOpen(this, now_nanos);
  }
}

void Node::OnClose(Link* link, int64_t now_nanos) {
  if (owner_ == nullptr) return;
  if (link == &session_) {
    logging_in_ = nullptr;
    return owner_->OnSessionClose(this, now_nanos);
  }
  // The node may have been stopped, and replaced; but not since a session that
  // is logging in.
  if (logging_in_ == &session_) return;
  session_.Drop(absl::UnavailableError("a connection for data is lost"),
                now_nanos);
}

void Node::OnSlots(const Reply& slots, int64_t asked_nanos) {
  if (owner_ != nullptr) owner_->OnSlots(this, slots, asked_nanos);
}

void Node::OnDemotion(const absl::Status& why, int64_t now_nanos) {
  for (Link* const link : links_) link->Drop(why, now_nanos);
}

}  // namespace wheelcache::internal
