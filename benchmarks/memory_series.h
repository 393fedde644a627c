// A series of memory samples along a history, and the worst of them.
//
//   MemorySeries series(/*length=*/9, /*parts=*/90);
//   series.Add(/*position=*/3.5, /*memory=*/1.08);
//   Plot(series.parts());
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_BENCHMARKS_MEMORY_SERIES_H_
#define WHEELCACHE_BENCHMARKS_MEMORY_SERIES_H_

#include <cstddef>
#include <vector>

namespace wheelcache::benchmarks {

class MemorySeries {
 public:
  // Cuts a history of `length` into `parts` of equal length.
  MemorySeries(double length, size_t parts) : length_(length), parts_(parts) {}

  // Positions beyond the end count for the last part.
  void Add(double position, double memory);

  // The largest sample, and the position of the first that was so large.
  double worst() const { return worst_; }
  double worst_at() const { return worst_at_; }

  // The largest sample of each part; in a part without one, that of the part
  // before.
  std::vector<double> parts() const;

 private:
  const double length_;
  std::vector<double> parts_;
  double worst_ = 0;
  double worst_at_ = 0;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_MEMORY_SERIES_H_
