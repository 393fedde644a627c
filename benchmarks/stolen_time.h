// CPU steal time, read from /proc/stat: the time in which a virtual machine had
// work to do but its host ran another one.
//
//   const StolenTime stolen;
//   Work();
//   if (stolen.share() > 0.05) {
//     // Work did not have all CPUs of the machine: measure again.
//   }
//
// Steal often costs programs of several threads far more than those of one, so
// a ratio of the two measures the host.

#ifndef WHEELCACHE_BENCHMARKS_STOLEN_TIME_H_
#define WHEELCACHE_BENCHMARKS_STOLEN_TIME_H_

#include <cstdint>
#include <string>
#include <utility>

namespace wheelcache::benchmarks {

class StolenTime {
 public:
  // Starts counting. proc_stat(5) describes the format of `file`.
  explicit StolenTime(std::string file = "/proc/stat")
      : file_(std::move(file)), begin_(Read()) {}

  // Returns the steal time since then as a fraction of used plus stolen time of
  // all CPUs; 0 if the system does not report it. The resolution is 10 ms.
  double share() const;

 private:
  struct Ticks {
    int64_t used = 0;
    int64_t stolen = 0;
  };

  Ticks Read() const;

  const std::string file_;
  const Ticks begin_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_STOLEN_TIME_H_
