#include "wheelcache/benchmarks/stolen_time.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace wheelcache::benchmarks {

double StolenTime::share() const {
  const Ticks end = Read();
  const int64_t stolen = end.stolen - begin_.stolen;
  const int64_t asked_for = end.used - begin_.used + stolen;
  return asked_for > 0
             ? static_cast<double>(stolen) / static_cast<double>(asked_for)
             : 0;
}

StolenTime::Ticks StolenTime::Read() const {
  // The first line sums up all CPUs. A missing field is 0.
  std::ifstream stat(file_);
  std::string cpu;
  int64_t user = 0;
  int64_t nice = 0;
  int64_t system = 0;
  int64_t idle = 0;
  int64_t iowait = 0;
  int64_t irq = 0;
  int64_t softirq = 0;
  int64_t steal = 0;
  stat >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >>
      steal;
  return {user + nice + system + irq + softirq, steal};
}

}  // namespace wheelcache::benchmarks
