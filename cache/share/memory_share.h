// One budget of bytes for many caches: the bytes go where they bring most hits.
//
//   wheelcache::MemoryShareOptions options;
//   options.max_bytes = 1 << 30;
//   auto share = *wheelcache::MemoryShare::Create(options);
//   absl::Status status = share->Add(*users);
//   status.Update(share->Add(*images, {/*min_bytes=*/64 << 20}));
//
// How it works. A member begins with an equal part. Ten times a second the
// share looks which cache gains most hits with a byte more, and which loses
// least with one fewer, and moves up to a 64th of all bytes between the two.
// With CacheOptions::advise a cache tells that of itself; of others, the ages
// of what they evict do, less exactly.
//
// Guarantees. At no instant is the sum of the members' limits of bytes more
// than max_bytes: whoever gives has shrunk before another grows. No member gets
// less than its min_bytes. Limits of entries stay what they are. What must
// leave a cache does so as in Cache::SetLimits. The same calls at the same
// times of a SimulatedClock move the same bytes.
//
// Members. A cache joins by Add, and then only the share changes its limit of
// bytes. It leaves at its end, when its bytes are free for others; or at the
// end of the share, with the limit that it has.
//
// Threads. Thread-safe. Listeners and destructors of values that the share or
// the end of a cache of it runs may end other caches and call stats(); from
// them, Add and SetMaxBytes return FailedPrecondition. A share must not end
// while a cache of it does.
//
// Errors. In words: which field breaks which rule.
//
// Cost. Nothing for reads and writes. Some microseconds for each cache and
// look, which come ten times a second while a cache is read, else once; with
// MemoryShareOptions::pressure ten times, and it reads some small files in
// each.

#ifndef WHEELCACHE_CACHE_SHARE_MEMORY_SHARE_H_
#define WHEELCACHE_CACHE_SHARE_MEMORY_SHARE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/internal/engine/report_source.h"
#include "wheelcache/cache/share/memory_pressure.h"
#include "wheelcache/cache/types/share_stats.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {

struct MemoryShareOptions {
  // Appears in reports and error messages.
  std::string name = "share";

  // The most bytes of all members together, as caches charge them. At least 1.
  int64_t max_bytes = 0;

  // The time between looks. Not owned, not null; must outlive the share.
  Clock* clock = &Clock::Monotonic();

  // The background thread that looks. Not owned; must outlive the share and run
  // on the same clock. Null for none: then RunMaintenance does.
  Reaper* reaper = &Reaper::Shared();

  // Shrinks the share, down to the floors at most, before the system reclaims
  // memory or kills the process, and grows it again after that.
  std::optional<MemoryPressureOptions> pressure = std::nullopt;
};

struct ShareMemberOptions {
  // What the cache has at least. At least 1, and the sum of all at most
  // max_bytes. A cache with room for less than some hundred entries can hardly
  // tell what more would bring.
  int64_t min_bytes = 64 << 10;

  // What a hit is worth: a miss of twice the cost has twice the weight. More
  // than zero, and finite.
  double weight = 1;

  // For reports; by default that of the cache.
  std::string name = {};
};

namespace internal {
class ShareMember;
}  // namespace internal

class WHEELCACHE_EXPORT MemoryShare final : private Reaper::Client {
 public:
  // Returns a share, or InvalidArgument, or why there is no thread, or why the
  // use of memory cannot be read.
  static absl::StatusOr<std::unique_ptr<MemoryShare>> Create(
      MemoryShareOptions options);

  ~MemoryShare() override;

  // Makes the cache a member: takes an equal part from the others, and then
  // gives it that in the place of its own limit. InvalidArgument if the floors
  // would exceed max_bytes; FailedPrecondition if it is in a share; Unavailable
  // while another ends and still has the bytes.
  absl::Status Add(AnyCache& cache, ShareMemberOptions options = {});

  // Changes max_bytes; on return it holds, unless another call has changed it
  // since. The members share a loss in proportion to what they have above their
  // floors; where one is ending and still has the bytes, waits for its end.
  // InvalidArgument if it is less than the sum of the floors.
  absl::Status SetMaxBytes(int64_t max_bytes);

  ShareStats stats() const;

  // Looks, and moves bytes, if it is time to; for programs without a reaper.
  void RunMaintenance();

  // Returns when RunMaintenance next has something to do.
  absl::Duration NextDeadline() const;

  // As given to Create.
  const MemoryShareOptions& options() const { return options_; }

 private:
  using Member = internal::ShareMember;
  using Members = std::vector<std::shared_ptr<Member>>;
  friend class internal::ShareMember;

  class Turn;
  struct Transfer;

  explicit MemoryShare(MemoryShareOptions options);

  int64_t RunDue(int64_t now_nanos) override;
  int64_t NextLook() const;
  void FollowMemory();
  void Look();
  void Carry();
  void GatherFree(int64_t least);
  void Resize(Member& member, int64_t by);
  void SetLimitLocked(int64_t limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecordLocked(const Transfer& transfer, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t FloorsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyEndsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const MemoryShareOptions options_;

  // Not held while a limit changes.
  mutable Mutex mu_;
  CondVar changed_;  // The turn has ended, or a change of a member's limit.

  // Whose turn it is to change limits.
  std::optional<std::thread::id> turn_ ABSL_GUARDED_BY(mu_);

  // Invariant: free_ and the bytes of the members are limit_ in all, but while
  // that falls.
  Members members_ ABSL_GUARDED_BY(mu_);
  int64_t max_bytes_ ABSL_GUARDED_BY(mu_);
  int64_t limit_ ABSL_GUARDED_BY(mu_);  // Less than max_bytes_ in a shortage.
  int64_t free_ ABSL_GUARDED_BY(mu_);

  int64_t last_look_nanos_ ABSL_GUARDED_BY(mu_);
  int64_t next_look_nanos_ ABSL_GUARDED_BY(mu_);
  int64_t reads_ ABSL_GUARDED_BY(mu_) = 0;  // Of all members, by the last look.
  int64_t moved_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<ShareStats::Move> latest_ ABSL_GUARDED_BY(mu_);
  ShareStats::Memory memory_ ABSL_GUARDED_BY(mu_);

  // What is moving. Belongs to the turn.
  std::unique_ptr<Transfer> transfer_;

  std::optional<internal::ReportSource> report_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_SHARE_MEMORY_SHARE_H_
