#include "wheelcache/cache/near/internal/redis/redis_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace wheelcache::internal {

RedisLinks::RedisLinks(const DataLinkSettings& settings, Clock& clock)
    : settings_(settings),
      io_(clock),
      reads_(settings_, clock, this, [this] { io_.Wake(); }),
      writes_(settings_, clock, this, [this] { io_.Wake(); }) {}

RedisLinks::~RedisLinks() {
  io_.Remove(&reads_);
  io_.Remove(&writes_);
}

absl::Status RedisLinks::Start() {
  if (absl::Status status = io_.Start(); !status.ok()) return status;
  io_.Add(&reads_, IoThread::kLast);
  io_.Add(&writes_, IoThread::kLast);
  return absl::OkStatus();
}

absl::Status RedisLinks::Attach(Subscription::Subject subject) {
  MutexLock lock(&mu_);
  for (const auto& other : subscriptions_) {
    const std::string& prefix = other->subject().prefix;
    if (absl::StartsWith(prefix, subject.prefix) ||
        absl::StartsWith(subject.prefix, prefix)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key_prefix: \"", subject.prefix, "\" and \"", prefix,
          "\", which another near cache of this store has, overlap; neither "
          "may be the beginning of the other"));
    }
  }
  subscriptions_.push_back(
      std::make_unique<Subscription>(settings_.connector, std::move(subject),
                                     this, [this] { return ++sessions_; }));
  io_.Add(subscriptions_.back().get(), IoThread::kFirst);
  return absl::OkStatus();
}

void RedisLinks::Detach(RemoteStore::Listener* listener) {
  std::unique_ptr<Subscription> gone;
  {
    MutexLock lock(&mu_);
    const auto found =
        std::find_if(subscriptions_.begin(), subscriptions_.end(),
                     [listener](const std::unique_ptr<Subscription>& each) {
                       return each->subject().listener == listener;
                     });
    if (found == subscriptions_.end()) return;
    gone = std::move(*found);
    subscriptions_.erase(found);
  }
  // Without the lock: this waits for the I/O thread, which may be in the
  // destructor of a value that attaches another listener.
  io_.Remove(gone.get());
}

void RedisLinks::OnLogin(Link* link, int64_t now_nanos) {
  const absl::Status moved = absl::UnavailableError(
      "the server at this address is another one now, or has restarted");
  io_.ForEachLink([&](Link* other) {
    if (other == link) return;
    if (!other->server_id().empty() &&
        other->server_id() != link->server_id()) {
      other->Drop(moved, now_nanos);
    }
    // The server is back. Not for every link, so that two that fail after the
    // login do not hurry each other on and on.
    if (link == &reads_) other->Hurry(now_nanos);
  });
}

void RedisLinks::OnDemotion(const absl::Status& why, int64_t now_nanos) {
  io_.ForEachLink([&](Link* link) { link->Drop(why, now_nanos); });
}

}  // namespace wheelcache::internal
