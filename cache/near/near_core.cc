#include "wheelcache/cache/near/near_core.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// What RemoteStore does not return: a loader that did would have others take
// its place.
absl::Status NotCancelled(absl::Status status) {
  if (!absl::IsCancelled(status)) return status;
  return absl::UnavailableError(status.message());
}

// A key as logs show it: one line, and not long.
std::string Quoted(absl::string_view key) {
  constexpr size_t kMostBytes = 100;
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, kMostBytes)),
                      key.size() > kMostBytes ? "...\"" : "\"");
}

// Whether an attempt to begin a session that failed so will fail again.
bool IsLasting(const absl::Status& why) {
  return absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why) ||
         absl::IsUnimplemented(why) || absl::IsInvalidArgument(why);
}

}  // namespace

NearCore::NearCore(NearCacheOptions options, RemoteStore* store)
    : options_(std::move(options)),
      store_(*store),
      clock_(store->clock()),
      leases_(absl::bit_ceil(store->max_sessions())) {}

NearCore::~NearCore() = default;

absl::Status NearCore::Attach(Local local) {
  local_ = std::move(local);
  if (options_.local.registered) {
    report_.emplace(
        options_.local, [this] { return stats().local; },
        [this](ReportSource::Visit visit) { stats().ForEachMetric(visit); });
  }
  return store_.Attach(options_.key_prefix, options_.max_staleness, this);
}

void NearCore::Detach() {
  if (local_.cache == nullptr) return;
  store_.Detach(this);
  report_.reset();
}

NearCore::CallTime NearCore::BeginCall() const {
  const int64_t now = clock_.NowNanos();
  return {now, Clock::NanosAfter(now, options_.command_timeout)};
}

absl::Duration NearCore::TimeLeft(const CallTime& call) const {
  return absl::Nanoseconds(call.deadline_nanos) - clock_.Now();
}

bool NearCore::MayBecomeReady() const {
  MutexLock lock(&mu_);
  return !IsLasting(why_);
}

std::string NearCore::RemoteKey(absl::string_view key) const {
  return absl::StrCat(options_.key_prefix, key);
}

std::vector<absl::StatusOr<RemoteStore::Fetched>> NearCore::Fetch(
    absl::Span<const absl::string_view> keys, const CallTime& call) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const absl::string_view key : keys) names.push_back(RemoteKey(key));
  const std::vector<absl::string_view> remote(names.begin(), names.end());
  const int64_t begin = clock_.NowNanos();
  std::vector<absl::StatusOr<Fetched>> fetched =
      store_.Fetch(remote, TimeLeft(call));
  CountRoundTrip(begin);
  fetched.resize(keys.size(), absl::InternalError("no result for this key"));
  for (absl::StatusOr<Fetched>& one : fetched) {
    if (!one.ok()) one = NotCancelled(one.status());
  }
  return fetched;
}

void NearCore::StartFetch(absl::string_view key, const CallTime& call,
                          RemoteStore::FetchDone done) {
  const int64_t begin = clock_.NowNanos();
  store_.BeginFetch(RemoteKey(key), TimeLeft(call),
                    [this, begin, done = std::move(done)](
                        absl::StatusOr<Fetched> fetched) mutable {
                      CountRoundTrip(begin);
                      if (!fetched.ok()) {
                        fetched = NotCancelled(fetched.status());
                      }
                      done(std::move(fetched));
                    });
}

absl::Status NearCore::CheckTtl(const RemoteStore::Write& write) const {
  if (write.ttl > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "near cache \"", options_.local.name,
      "\": the ttl of a Set must be more than zero; it is ",
      absl::FormatDuration(write.ttl), ", of ", Quoted(write.key)));
}

absl::Status NearCore::Put(const RemoteStore::Write& write,
                           absl::Duration timeout) {
  return PutMany({write}, timeout)[0];
}

std::vector<absl::Status> NearCore::PutMany(
    absl::Span<const RemoteStore::Write> writes, absl::Duration timeout) {
  std::vector<absl::Status> results;
  std::vector<std::string> names;
  std::vector<RemoteStore::Write> remote;
  for (const RemoteStore::Write& write : writes) {
    results.push_back(CheckTtl(write));
    if (!results.back().ok()) continue;
    names.push_back(RemoteKey(write.key));
    remote.push_back(write);
  }
  for (size_t i = 0; i < remote.size(); ++i) remote[i].key = names[i];
  if (!remote.empty()) {
    const int64_t begin = clock_.NowNanos();
    std::vector<absl::Status> put = store_.PutMany(remote, timeout);
    CountRoundTrip(begin);
    put.resize(remote.size(), absl::InternalError("no result for this key"));
    auto next = put.begin();
    for (absl::Status& result : results) {
      if (result.ok()) result = *next++;
    }
  }
  for (const absl::Status& result : results) CountWrite(result);
  return results;
}

std::vector<absl::StatusOr<bool>> NearCore::RemoveMany(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const absl::string_view key : keys) names.push_back(RemoteKey(key));
  const int64_t begin = clock_.NowNanos();
  std::vector<absl::StatusOr<bool>> removed = store_.RemoveMany(
      std::vector<absl::string_view>(names.begin(), names.end()), timeout);
  CountRoundTrip(begin);
  removed.resize(keys.size(), absl::InternalError("no result for this key"));
  for (const absl::StatusOr<bool>& one : removed) CountWrite(one.status());
  return removed;
}

NearCore::Sessions NearCore::LeasedSessions() const {
  Sessions sessions;
  for (const Lease& lease : leases_) {
    const int64_t until = lease.until_nanos.load(std::memory_order_acquire);
    const uint64_t session = lease.session.load(std::memory_order_relaxed);
    if (session != 0 && !coarse_clock_.HasReached(until)) {
      sessions.push_back(session);
    }
  }
  return sessions;
}

// Of the session, if it had begun before the fetch.
FetchStamp NearCore::StampOf(const Fetched& fetched,
                             const FetchTime& time) const {
  uint64_t session = 0;
  if (fetched.session != 0 &&
      (fetched.bytes.has_value() || store_.tells_of_new_keys())) {
    MutexLock lock(&mu_);
    for (const Lease& lease : leases_) {
      if (lease.number == fetched.session && lease.began <= time.published) {
        session = lease.session.load(std::memory_order_relaxed);
      }
    }
  }
  return FetchStamp::Of(session, time.begin_nanos);
}

bool NearCore::ServesUntracked(bool has_value) const {
  return options_.without_tracking == WithoutTracking::kServeForMaxStaleness ||
         (!has_value && !store_.tells_of_new_keys());
}

bool NearCore::MayServeUntracked(FetchStamp stamp, bool has_value) const {
  return ServesUntracked(has_value) &&
         stamp.BeganWithin(Clock::NanosAfter(0, options_.max_staleness),
                           clock_.NowNanos());
}

bool NearCore::Keeps(FetchStamp stamp, bool has_value) const {
  if (!has_value && options_.negative_ttl <= absl::ZeroDuration()) return false;
  return stamp.session() != 0 || options_.stale_if_error ||
         ServesUntracked(has_value);
}

absl::Duration NearCore::LocalTtl(const Fetched& fetched, FetchStamp stamp,
                                  const FetchTime& time) const {
  const bool has_value = fetched.bytes.has_value();
  if (!Keeps(stamp, has_value)) return absl::ZeroDuration();
  absl::Duration ttl =
      has_value ? options_.max_local_ttl : options_.negative_ttl;
  const absl::Duration now = clock_.Now();
  if (has_value && fetched.deadline_nanos != Clock::kNever) {
    ttl = std::min(ttl, absl::Nanoseconds(fetched.deadline_nanos) - now);
  }
  // What is kept longer is there for stale_if_error alone.
  if (stamp.session() == 0 && !options_.stale_if_error) {
    ttl = std::min(ttl, absl::Nanoseconds(time.begin_nanos) +
                            options_.max_staleness - now);
  }
  return ttl;
}

bool NearCore::IsRecent(FetchStamp stamp, const CallTime& call) const {
  return stamp.BeganWithin(Clock::NanosAfter(0, options_.max_staleness),
                           call.begin_nanos);
}

bool NearCore::MayServeStale(const absl::Status& status) const {
  return options_.stale_if_error && IsDown(status);
}

absl::Status NearCore::Undecodable(absl::string_view key,
                                   const Fetched& fetched,
                                   const absl::Status& why) {
  Count(NearCount::kUndecodable);
  return absl::DataLossError(absl::StrCat(
      "near cache \"", options_.local.name,
      "\": a value does not decode: ", why.message(), "; it has ",
      fetched.bytes->size(), " bytes, of ", Quoted(RemoteKey(key))));
}

absl::Status NearCore::NotReady() const {
  MutexLock lock(&mu_);
  const absl::string_view why =
      why_.ok() ? "the store does not answer" : why_.message();
  return absl::Status(
      why_.ok() ? absl::StatusCode::kDeadlineExceeded : why_.code(),
      absl::StrCat("near cache \"", options_.local.name,
                   "\" has no lease: ", why));
}

absl::Status NearCore::WaitUntilReady(absl::Duration timeout) {
  const int64_t deadline = clock_.NanosAfter(timeout);
  std::unique_ptr<Sleeper> sleeper;
  bool ready = !LeasedSessions().empty();
  while (!ready && clock_.NowNanos() < deadline && MayBecomeReady()) {
    if (sleeper == nullptr) {
      sleeper = clock_.NewSleeper();
      MutexLock lock(&mu_);
      waiters_.push_back(sleeper.get());
    } else {
      sleeper->SleepUntil(deadline);
    }
    ready = !LeasedSessions().empty();
  }
  if (sleeper != nullptr) {
    MutexLock lock(&mu_);
    waiters_.erase(std::remove(waiters_.begin(), waiters_.end(), sleeper.get()),
                   waiters_.end());
  }
  return ready ? absl::OkStatus() : NotReady();
}

void NearCore::WakeWaiters() {
  MutexLock lock(&mu_);
  for (Sleeper* const waiter : waiters_) waiter->Wake();
}

NearCacheStats NearCore::stats() const {
  constexpr std::pair<int64_t NearCacheStats::*, NearCount> kCounts[] = {
      {&NearCacheStats::local_hits, NearCount::kLocalHits},
      {&NearCacheStats::local_absences, NearCount::kLocalAbsences},
      {&NearCacheStats::fetched_hits, NearCount::kFetchedHits},
      {&NearCacheStats::fetched_absences, NearCount::kFetchedAbsences},
      {&NearCacheStats::joined, NearCount::kJoined},
      {&NearCacheStats::stale_served, NearCount::kStaleServed},
      {&NearCacheStats::failed_reads, NearCount::kFailedReads},
      {&NearCacheStats::unleased_reads, NearCount::kUnleasedReads},
      {&NearCacheStats::writes, NearCount::kWrites},
      {&NearCacheStats::failed_writes, NearCount::kFailedWrites},
      {&NearCacheStats::loads, NearCount::kLoads},
      {&NearCacheStats::failed_loads, NearCount::kFailedLoads},
      {&NearCacheStats::timeouts, NearCount::kTimeouts},
      {&NearCacheStats::undecodable, NearCount::kUndecodable},
      {&NearCacheStats::invalidations, NearCount::kInvalidations},
      {&NearCacheStats::useful_invalidations, NearCount::kUsefulInvalidations},
      {&NearCacheStats::flushes, NearCount::kFlushes},
      {&NearCacheStats::sessions, NearCount::kSessions},
      {&NearCacheStats::losses, NearCount::kLosses},
  };
  NearCacheStats stats;
  for (const auto& [member, what] : kCounts) stats.*member = counts_.Sum(what);
  stats.local = local_.cache->stats();
  // What the tier has counted are look-ups: of an entry that may not be served
  // as well, and of none without a lease.
  stats.local.hits = stats.local_hits + stats.local_absences;
  stats.local.misses = stats.reads() - stats.local.hits;
  stats.superseded = stats.local.superseded_loads;
  int64_t until = Clock::kNever;
  for (const Lease& lease : leases_) {
    if (lease.session.load(std::memory_order_acquire) == 0) continue;
    until = std::min(until, lease.until_nanos.load(std::memory_order_acquire));
  }
  if (until != Clock::kNever && until != kEnded) {
    stats.lease_left =
        std::max(absl::Nanoseconds(until) - clock_.Now(), absl::ZeroDuration());
  }
  for (size_t i = 0; i < round_trips_.size(); ++i) {
    stats.round_trip.counts[i] =
        round_trips_[i].load(std::memory_order_relaxed);
  }
  stats.round_trip.sum =
      static_cast<double>(round_trip_nanos_.load(std::memory_order_relaxed)) /
      1e9;
  return stats;
}

void NearCore::CountRoundTrip(int64_t begin_nanos) {
  const int64_t nanos = std::max<int64_t>(clock_.NowNanos() - begin_nanos, 0);
  const auto* const bound =
      std::lower_bound(std::begin(kRoundTripBounds), std::end(kRoundTripBounds),
                       static_cast<double>(nanos) / 1e9);
  round_trips_[static_cast<size_t>(bound - std::begin(kRoundTripBounds))]
      .fetch_add(1, std::memory_order_relaxed);
  round_trip_nanos_.fetch_add(nanos, std::memory_order_relaxed);
}

// Of a load that somebody else's write has beaten, the write has not failed.
void NearCore::CountWrite(const absl::Status& status) {
  Count(NearCount::kWrites);
  if (IsBeaten(status)) return;
  if (!status.ok()) Count(NearCount::kFailedWrites);
  if (absl::IsDeadlineExceeded(status)) Count(NearCount::kTimeouts);
}

void NearCore::OnInvalidate(absl::Span<const absl::string_view> keys) {
  int64_t useful = 0;
  for (absl::string_view key : keys) {
    const absl::string_view name = key;
    if (!absl::ConsumePrefix(&key, options_.key_prefix)) continue;
    if (local_.del(key)) ++useful;
    loads_.Wake(name);
  }
  Count(NearCount::kInvalidations, static_cast<int64_t>(keys.size()));
  Count(NearCount::kUsefulInvalidations, useful);
}

void NearCore::OnInvalidateAll() {
  Count(NearCount::kFlushes);
  local_.clear();
  loads_.WakeAll();
}

NearCore::Lease* NearCore::FindLease(uint64_t number) {
  MutexLock lock(&mu_);
  for (Lease& lease : leases_) {
    if (lease.number == number) return &lease;
  }
  return nullptr;
}

// Takes a place for the session, if there is one.
void NearCore::Begin(uint64_t number) {
  Count(NearCount::kSessions);
  // Not for correctness: entries of other sessions are not served. They take
  // memory, except where they are what stale_if_error serves.
  if (leases_.size() == 1 && !options_.stale_if_error) local_.cache->Clear();
  local_.supersede_loads();  // Of what was written meanwhile, nobody has told.
  MutexLock lock(&mu_);
  why_ = absl::OkStatus();
  const uint64_t published = published_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < leases_.size(); ++i) {
    Lease& lease = leases_[i];
    if (lease.number != 0) continue;
    lease.number = number;
    lease.began = published;
    lease.session.store(++began_ * leases_.size() + i,
                        std::memory_order_release);
    return;
  }
}

void NearCore::OnLease(uint64_t session, int64_t until_nanos) {
  published_.fetch_add(1, std::memory_order_release);
  Lease* lease = FindLease(session);
  if (lease == nullptr) {
    Begin(session);
    TellOwner(absl::OkStatus());
    lease = FindLease(session);
    if (lease == nullptr) return;
  }
  lease->until_nanos.store(until_nanos, std::memory_order_release);
  WakeWaiters();
}

void NearCore::OnLoss(uint64_t session, const absl::Status& why) {
  Count(NearCount::kLosses);
  Lease* const lease = session == 0 ? nullptr : FindLease(session);
  if (lease != nullptr) {
    lease->until_nanos.store(kEnded, std::memory_order_release);
    lease->session.store(0, std::memory_order_release);
  }
  {
    MutexLock lock(&mu_);
    if (lease != nullptr) lease->number = 0;
    why_ = why;
  }
  if (lease != nullptr) local_.supersede_loads();
  WakeWaiters();
  TellOwner(why);
}

void NearCore::TellOwner(const absl::Status& status) const {
  if (options_.on_session) Contain([&] { options_.on_session(status); });
}

}  // namespace wheelcache::internal
