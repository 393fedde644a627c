// A history of value sizes: phases in which a cache gets values of one range of
// sizes after values of another.
//
//   for (const SizeHistory& history : SizeHistories()) {
//     const SizePhase& phase = history.PhaseAt(/*position=*/3.5);
//     cache.Set(key, Bytes(phase.DrawSize(random)));
//   }
//
// Positions and lengths are in volumes: one volume is max_bytes of charged
// data.

#ifndef WHEELCACHE_BENCHMARKS_SIZE_HISTORY_H_
#define WHEELCACHE_BENCHMARKS_SIZE_HISTORY_H_

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace wheelcache::benchmarks {

// The largest size of all histories.
inline constexpr size_t kLargestSize = 1 << 20;

struct SizePhase {
  // Returns a size between the two, both included.
  size_t DrawSize(std::mt19937_64& random) const;

  double volumes;
  size_t smallest;
  size_t largest;
  bool log_uniform = false;  // Else uniform.
  bool reads_kept = false;   // All kept keys, each 1/16 volume.
};

struct SizeHistory {
  double volumes() const;

  // The last phase beyond the end.
  const SizePhase& PhaseAt(double position) const;

  std::string name;
  std::vector<SizePhase> phases;

  // The largest ratio of resident memory to max_bytes that a cache may reach,
  // besides 8 MiB.
  double most = 1.12;

  // Every so many-th key is kept: phases with reads_kept read it. 0 for none.
  int kept_stride = 0;

  // Whether it runs on several threads only.
  bool concurrent = false;
};

// All of them, the same in each run.
std::vector<SizeHistory> SizeHistories();

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SIZE_HISTORY_H_
