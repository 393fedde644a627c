// How much of the processor time that a machine's programs could have used its
// host gave to other machines, as the system counts it.
//
//   const StolenTime stolen;
//   Work();
//   if (stolen.share() > 0.05) {
//     // Work was not given the processors that the machine seems to have.
//   }
//
// Programs of one thread often lose little and those of several a lot, so that
// a ratio of the two says more of the host than of the programs.

#ifndef WHEELCACHE_BENCHMARKS_STOLEN_TIME_H_
#define WHEELCACHE_BENCHMARKS_STOLEN_TIME_H_

#include <cstdint>
#include <string>
#include <utility>

namespace wheelcache::benchmarks {

class StolenTime {
 public:
  // Begins to count, from a file like that of the system; proc_stat(5) tells
  // what is in it.
  explicit StolenTime(std::string file = "/proc/stat")
      : file_(std::move(file)), begin_(Read()) {}

  // Returns the part that was stolen since, from 0 to 1, of what all processors
  // were asked for; 0 where the system does not tell. The system counts in
  // hundredths of a second.
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
