// What other limits would do for a cache, and why its reads miss: estimated
// from a sample of its keys.
//
//   wheelcache::CacheOptions options;
//   options.max_entries = 100'000;
//   options.advise = true;
//   auto cache = *wheelcache::Cache<int, User>::Create(options);
//   ...
//   if (const auto advice = cache->Advise()) {
//     std::cout << "with twice the limits: " << advice->twice << "\n";
//   }
//
// How it works. Keys whose hash lies below a threshold are sampled: for each
// access to one of them, the number of sampled keys that were used since its
// last use tells which limits would have kept it (SHARDS, Waldspurger et al.,
// FAST 2015). The hit ratio at the present limits is the one that was counted;
// the others differ from it by what the sample says. A value that has expired
// is a miss at any limit, and what a larger or smaller cache would have loaded
// at another time has its deadline from then.
//
// Guarantees. The sample takes less than 256 KiB for each cache; hits on keys
// outside of it run no instruction more than without, and hits never wait for
// it. Where there is no memory for the sample, there is no advice. A read of a
// sampled key that finds another thread at the sample is left out.
//
// Accuracy. On the traces of its tests, within 0.02 of the curve that exact
// replays give. The threshold falls until the sample holds what four times the
// limits would: all keys of a cache of up to 910 entries, one key in 110 of one
// of 100,000. How many keys were used since a key's last use is estimated for
// those that hit, and counted for those that missed. So half of the limits, of
// which hits tell most, has a standard error of up to 5 %: where a few percent
// more entries give many more hits, that estimate may lie as far off the
// curve. With a limit of bytes no keys are counted, and four times the limits
// has a standard error of 2 %, too. The model is an LRU cache. A key that was
// not seen for longer than four times the limits would keep it counts as new.
//
// Threads. CacheAdvice is a copy that belongs to the caller.

#ifndef WHEELCACHE_CACHE_TYPES_ADVICE_H_
#define WHEELCACHE_CACHE_TYPES_ADVICE_H_

#include <cstdint>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

struct CacheAdvice {
  // The hit ratios that these multiples of the present limits would have given
  // since the limits were last set. Without limits all are the same.
  double half = 0;
  double same = 0;  // Counted, not estimated.
  double twice = 0;
  double four_times = 0;

  // The misses since the creation of the cache, by what became of the value:
  // it was never stored, as far as is known; its time ran out; it had to make
  // room; it was deleted. Estimates, whose sum is close to CacheStats::misses,
  // but for reads of what LoadOptions::max_age refused.
  int64_t first_uses = 0;
  int64_t expired = 0;
  int64_t evicted = 0;
  int64_t deleted = 0;

  // The part of the keys that is sampled, from 0 to 1.
  double sampled = 0;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_ADVICE_H_
