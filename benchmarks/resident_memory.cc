#include "wheelcache/benchmarks/resident_memory.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace wheelcache::benchmarks {

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) {
    std::perror("/proc/self/statm");
    std::exit(1);
  }
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace wheelcache::benchmarks
