#include "wheelcache/benchmarks/memory_series.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace wheelcache::benchmarks {

void MemorySeries::Add(double position, double memory) {
  const double part = position / length_ * static_cast<double>(parts_.size());
  double& largest =
      parts_[std::min(static_cast<size_t>(part), parts_.size() - 1)];
  largest = std::max(largest, memory);
  if (memory > worst_) {
    worst_ = memory;
    worst_at_ = position;
  }
}

std::vector<double> MemorySeries::parts() const {
  std::vector<double> filled = parts_;
  for (size_t i = 1; i < filled.size(); ++i) {
    if (filled[i] == 0) filled[i] = filled[i - 1];
  }
  return filled;
}

}  // namespace wheelcache::benchmarks
