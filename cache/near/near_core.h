// The part of a near cache that does not depend on the type of its values: the
// lease, commands to the store, and counts.
//
// A local hit needs a lease that has not run out, and an entry that was fetched
// in the session of that lease. docs/near_cache.md proves the promise from
// this, from the order of the steps below, and from RemoteStore.
//
// OnInvalidate deletes from the local tier before it returns. So an entry is
// gone, and a load in flight superseded, before the lease that certifies this
// is published.
//
// OnLease publishes the session before the end of the lease, and readers read
// them in the other order. So the session that a reader sees is not older than
// the lease that it sees.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_NEAR_NEAR_CORE_H_
#define WHEELCACHE_CACHE_NEAR_NEAR_CORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/internal/engine/report_source.h"
#include "wheelcache/cache/internal/threads/striped_counters.h"
#include "wheelcache/cache/near/fetch_stamp.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// What is counted.
enum class NearCount {
  kLocalHits,
  kLocalAbsences,
  kFetchedHits,
  kFetchedAbsences,
  kJoined,
  kStaleServed,
  kFailedReads,
  kUnleasedReads,
  kWrites,
  kFailedWrites,
  kTimeouts,
  kUndecodable,
  kInvalidations,
  kUsefulInvalidations,
  kFlushes,
  kSessions,
  kLosses,
  kEnd,  // No count.
};

class WHEELCACHE_EXPORT NearCore final : public RemoteStore::Listener {
 public:
  using Fetched = RemoteStore::Fetched;

  // The local tier: what all caches have, and how to delete a key in it, which
  // returns whether it had one.
  struct Local {
    AnyCache* cache;
    std::function<bool(absl::string_view key)> del;
  };

  // The time of one call.
  struct CallTime {
    int64_t begin_nanos;
    int64_t deadline_nanos;
  };

  // Valid options. The store must outlive this.
  NearCore(NearCacheOptions options, RemoteStore* store);
  ~NearCore() override;
  NearCore(const NearCore&) = delete;
  NearCore& operator=(const NearCore&) = delete;

  // Begins, and ends, to keep a session. The local tier must outlive it.
  absl::Status Attach(Local local);
  void Detach();

  // The session whose entries may be served now, or 0.
  uint64_t LeasedSession() const {
    const int64_t until = until_nanos_.load(std::memory_order_acquire);
    const uint64_t session = session_.load(std::memory_order_relaxed);
    return coarse_clock_.HasReached(until) ? 0 : session;
  }

  // The stamp of a fetch that begins after this.
  FetchStamp NewStamp() const {
    return FetchStamp::Of(session_.load(std::memory_order_acquire),
                          clock_.NowNanos());
  }

  const NearCacheOptions& options() const { return options_; }
  Clock& clock() const { return clock_; }

  CallTime BeginCall() const;
  absl::Duration TimeLeft(const CallTime& call) const;

  // Commands to the store, for keys without the prefix.
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys, const CallTime& call);
  absl::Status Put(const RemoteStore::Write& write);
  absl::StatusOr<bool> Remove(absl::string_view key);

  // Whether the local tier keeps what was fetched in a session (0: in none),
  // unless that is superseded.
  bool Keeps(uint64_t session, bool has_value) const;
  // How long it is kept. Zero or less: not at all.
  absl::Duration LocalTtl(const Fetched& fetched, uint64_t session) const;

  // Whether a fetch without a session began so lately that a call may return
  // what it found: after all writes that the call has to see.
  bool IsRecent(FetchStamp stamp, const CallTime& call) const;

  // Whether a read that fails so may return what is stale.
  bool MayServeStale(const absl::Status& status) const;

  absl::Status Undecodable(absl::string_view key, const Fetched& fetched,
                           const absl::Status& why);

  absl::Status WaitUntilReady(absl::Duration timeout);

  NearCacheStats stats() const;
  void Count(NearCount what, int64_t times = 1) { counts_.Add(what, times); }

  void OnInvalidate(absl::Span<const absl::string_view> keys) override;
  void OnInvalidateAll() override;
  void OnLease(uint64_t session, int64_t until_nanos) override;
  void OnLoss(const absl::Status& why) override;

 private:
  static constexpr int64_t kEnded = std::numeric_limits<int64_t>::min();

  std::string RemoteKey(absl::string_view key) const;
  bool MayBecomeReady() const;
  absl::Status NotReady() const;
  void WakeWaiters();
  void CountRoundTrip(int64_t begin_nanos);
  void CountWrite(const absl::Status& status);

  // Constant.
  const NearCacheOptions options_;
  RemoteStore& store_;
  Clock& clock_;
  const CoarseClock coarse_clock_{clock_};
  Local local_ = {};  // Set before the first call of the listener.

  // Written by calls of the listener, which do not overlap. The end comes
  // first, and is stored with release: whoever sees it sees all that came
  // before it.
  std::atomic<int64_t> until_nanos_{kEnded};
  std::atomic<uint64_t> session_{0};

  StripedCounters<NearCount> counts_;
  std::array<std::atomic<int64_t>, Histogram::kMostBounds + 1> round_trips_ =
      {};
  std::atomic<int64_t> round_trip_nanos_{0};

  // Empty while nothing is attached, and where it is not to be shown.
  std::optional<ReportSource> report_;

  // Those who wait for a lease, and why there is none.
  mutable Mutex mu_;
  std::vector<Sleeper*> waiters_ ABSL_GUARDED_BY(mu_);
  absl::Status why_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_NEAR_CORE_H_
