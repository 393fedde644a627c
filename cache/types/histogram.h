// Counts of values by size: how many were at most as large as each of a few
// bounds.
//
//   const wheelcache::Histogram ages = cache->stats().eviction_age;
//   if (ages.count() > 0) {
//     std::cout << "half were evicted within " << ages.Quantile(0.5) << " s\n";
//   }
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_TYPES_HISTOGRAM_H_
#define WHEELCACHE_CACHE_TYPES_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

struct Histogram {
  static constexpr size_t kMostBounds = 18;

  // The largest value of each bucket, ascending and inclusive, and constant for
  // as long as the program runs. One more bucket has what is larger.
  absl::Span<const double> bounds = {};
  std::array<int64_t, kMostBounds + 1> counts = {};

  // Of all values.
  double sum = 0;

  // How many values there are.
  int64_t count() const {
    int64_t all = 0;
    for (const int64_t bucket : counts) all += bucket;
    return all;
  }

  // The value that this fraction of all is not above, from 0 to 1; as if the
  // values of a bucket were evenly spread over it, and all beyond the last
  // bound were equal to that. 0 where there are none.
  double Quantile(double fraction) const {
    double left = fraction * static_cast<double>(count());
    double lower = 0;
    for (size_t i = 0; i < bounds.size(); ++i) {
      const auto bucket = static_cast<double>(counts[i]);
      if (bucket > 0 && left <= bucket) {
        return lower + (bounds[i] - lower) * (left / bucket);
      }
      left -= bucket;
      lower = bounds[i];
    }
    return count() == 0 ? 0 : lower;
  }
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_HISTOGRAM_H_
