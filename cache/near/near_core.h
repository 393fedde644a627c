// The part of a near cache that does not depend on the type of its values: the
// lease, commands to the store, and counts.
//
// A local hit needs an entry that was fetched in a session whose lease has not
// run out; or, without a session, one whose fetch began less than max_staleness
// ago. docs/near_cache.md proves the promise from this, from the order of the
// steps below, and from RemoteStore.
//
// OnInvalidate deletes from the local tier before it returns. So an entry is
// gone, and a load in flight superseded, before the lease that certifies this
// is published.
//
// A reader learns from the entry which lease it needs, and must not use one
// that was published after it began to look. So OnLease counts in published_
// before it publishes, and whoever sees another count than before refuses the
// entry.
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

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
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
#include "wheelcache/cache/near/near_loads.h"
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
  kLoads,
  kFailedLoads,
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
  // returns whether it had one, or all. Both supersede loads.
  struct Local {
    AnyCache* cache;
    std::function<bool(absl::string_view key)> del;
    std::function<void()> clear;
    std::function<void()> supersede_loads;  // Of GetOrLoad, and nothing else.
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

  // How often leases had been published when a look at the local tier began.
  uint64_t BeginLook() const {
    return published_.load(std::memory_order_acquire);
  }

  // Whether what that look has found may be served now.
  bool MayServe(FetchStamp stamp, bool has_value, uint64_t look) const {
    const uint64_t session = stamp.session();
    if (ABSL_PREDICT_FALSE(session == 0)) {
      return MayServeUntracked(stamp, has_value);
    }
    const Lease& lease = leases_[session & (leases_.size() - 1)];
    const int64_t until = lease.until_nanos.load(std::memory_order_acquire);
    return lease.session.load(std::memory_order_relaxed) == session &&
           published_.load(std::memory_order_relaxed) == look &&
           !coarse_clock_.HasReached(until);
  }

  // The sessions, as stamps number them, whose entries may be served now.
  using Sessions = absl::InlinedVector<uint64_t, 4>;
  Sessions LeasedSessions() const;

  // The time of a fetch that begins after this, and the stamp of what it
  // returned.
  struct FetchTime {
    int64_t begin_nanos;
    uint64_t published;
  };
  FetchTime BeginFetch() const { return {clock_.NowNanos(), BeginLook()}; }
  FetchStamp StampOf(const Fetched& fetched, const FetchTime& time) const;

  const NearCacheOptions& options() const { return options_; }
  Clock& clock() const { return clock_; }

  CallTime BeginCall() const;
  absl::Duration TimeLeft(const CallTime& call) const;

  // Commands to the store, for keys without the prefix.
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys, const CallTime& call);
  void StartFetch(absl::string_view key, const CallTime& call,
                  RemoteStore::FetchDone done);
  absl::Status Put(const RemoteStore::Write& write, absl::Duration timeout);
  std::vector<absl::Status> PutMany(absl::Span<const RemoteStore::Write> writes,
                                    absl::Duration timeout);
  std::vector<absl::StatusOr<bool>> RemoveMany(
      absl::Span<const absl::string_view> keys, absl::Duration timeout);

  // Before a write: see NearLoads.
  void Supersede(absl::string_view key, const CallTime& call) {
    loads_.Supersede(key, call.deadline_nanos);
  }

  // A loaded value, as the store gets it.
  struct Encoded {
    std::string bytes;
    absl::Duration ttl;
  };
  // What a load does that depends on the type of the value, which it keeps.
  struct LoadSteps {
    bool is_down;  // The store was, right before.
    // Looks for it in the store, and locally unless `fresh`. Returns whether it
    // is there.
    absl::FunctionRef<absl::StatusOr<bool>(bool fresh)> find;
    absl::FunctionRef<absl::StatusOr<Encoded>()> load;
    // Set if somebody else has written the key, or ended the lock, meanwhile.
    bool* is_beaten;
  };

  // Finds the value of a key that was absent, or loads and writes it. One at a
  // time of this process calls this for a key.
  absl::Status Load(absl::string_view key, const NearLoadOptions& options,
                    const LoadSteps& steps);

  // Whether the local tier keeps what was fetched so, unless it is superseded.
  bool Keeps(FetchStamp stamp, bool has_value) const;
  // How long it is kept. Zero or less: not at all.
  absl::Duration LocalTtl(const Fetched& fetched, FetchStamp stamp,
                          const FetchTime& time) const;

  // Whether a fetch without a session began so lately that a call may return
  // what it found: after all writes that the call has to see.
  bool IsRecent(FetchStamp stamp, const CallTime& call) const;

  // Whether a store that fails so is down: others may do without it.
  static bool IsDown(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  }

  // Whether a load that writes so has been beaten by somebody else's write.
  static bool IsBeaten(const absl::Status& status) {
    return absl::IsAlreadyExists(status) || absl::IsAborted(status);
  }

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
  void OnLoss(uint64_t session, const absl::Status& why) override;

 private:
  static constexpr int64_t kEnded = std::numeric_limits<int64_t>::min();

  // A session, and the end of its lease. Written by calls of the listener,
  // which do not overlap. The session comes first, and the end is stored with
  // release: whoever sees it sees the session, and all that came before it.
  struct Lease {
    std::atomic<int64_t> until_nanos{kEnded};
    std::atomic<uint64_t> session{0};  // As stamps number it; 0: none.
    // Of the store, and what published_ was when it began. Under mu_.
    uint64_t number = 0;
    uint64_t began = 0;
  };

  class HeldLock;

  std::string RemoteKey(absl::string_view key) const;
  absl::Status CheckTtl(const RemoteStore::Write& write) const;
  absl::Status LoadWithLock(absl::string_view key,
                            const NearLoadOptions& options,
                            const LoadSteps& steps);
  absl::StatusOr<Encoded> RunLoader(const LoadSteps& steps);
  bool PutLoaded(const RemoteStore::Write& write, const LoadSteps& steps);
  absl::Status LoadIfDown(const absl::Status& why, const LoadSteps& steps);
  bool ServesUntracked(bool has_value) const;
  ABSL_ATTRIBUTE_NOINLINE bool MayServeUntracked(FetchStamp stamp,
                                                 bool has_value) const;
  Lease* FindLease(uint64_t number);
  void Begin(uint64_t number);
  bool MayBecomeReady() const;
  absl::Status NotReady() const;
  void WakeWaiters();
  void TellOwner(const absl::Status& status) const;
  void CountRoundTrip(int64_t begin_nanos);
  void CountWrite(const absl::Status& status);

  // Constant.
  const NearCacheOptions options_;
  RemoteStore& store_;
  Clock& clock_;
  const CoarseClock coarse_clock_{clock_};
  Local local_ = {};  // Set before the first call of the listener.

  // A session is in the place of its number, modulo their count, which is a
  // power of two.
  std::vector<Lease> leases_;
  std::atomic<uint64_t> published_{0};
  uint64_t began_ = 0;  // Sessions, so far.

  StripedCounters<NearCount> counts_;
  std::array<std::atomic<int64_t>, Histogram::kMostBounds + 1> round_trips_ =
      {};
  std::atomic<int64_t> round_trip_nanos_{0};

  NearLoads loads_{clock_};

  // Empty while nothing is attached, and where it is not to be shown.
  std::optional<ReportSource> report_;

  // Those who wait for a lease, and why there is none.
  mutable Mutex mu_;
  std::vector<Sleeper*> waiters_ ABSL_GUARDED_BY(mu_);
  absl::Status why_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_NEAR_CORE_H_
