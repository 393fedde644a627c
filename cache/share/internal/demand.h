// What more bytes would gain for a cache, and fewer would lose: hits a second,
// for each byte.
//
//   Demand demand;
//   demand.Observe(engine.stats(), engine.more_hits(), /*seconds=*/0.1);
//   const double hits_a_second = demand.gain() * bytes;
//
// All is a mean of the last seconds, in which what is older counts less.
//
// An advised cache tells how many hits half, twice and four times its bytes
// would lose or gain. Hits mostly grow with the logarithm of the bytes; then
// the first two give the slope in between. Where the last gives more, as with a
// loop that is longer than the cache, that is the gain.
//
// Another cache tells how old entries are at their eviction. Of those evicted
// at the age t, let a part of kReuse * dt / t be used again within dt, for
// which they would have to stay, as the curve of the logarithm says. Then the
// slope is kReuse / (t * bytes of an entry). An entry that leaves because the
// limit was lowered tells its age as well as another; and while none leaves,
// the next one to leave gets older.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_SHARE_INTERNAL_DEMAND_H_
#define WHEELCACHE_CACHE_SHARE_INTERNAL_DEMAND_H_

#include <optional>

#include "wheelcache/cache/internal/engine/advisor.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Demand {
 public:
  // What the cache has done until now, so many seconds after the last call.
  void Observe(const CacheStats& stats,
               const std::optional<Advisor::MoreHits>& more, double seconds);

  // Hits a second for a byte more, and for a byte fewer; and the standard error
  // of both.
  double gain() const { return gain_; }
  double loss() const { return loss_; }
  double error() const { return error_; }

 private:
  // As the cache counts them; or sums of which a part is forgotten each time.
  struct Counts {
    double misses = 0;
    double sampled_misses = 0;
    double half = 0;
    double twice = 0;
    double four_times = 0;
    double evictions = 0;
    double evicted_bytes = 0;
    double age_seconds = 0;
  };

  void FromSample(double bytes, double sampled);
  void FromAges();

  std::optional<Counts> last_;
  Counts recent_;
  double seconds_ = 0;  // What `recent_` is of.
  double seconds_without_eviction_ = 0;
  double gain_ = 0;
  double loss_ = 0;
  double error_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_SHARE_INTERNAL_DEMAND_H_
