#include "wheelcache/benchmarks/resident_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace wheelcache::benchmarks {
namespace {

[[noreturn]] void Fail() {
  std::perror("/proc/self/statm");
  std::exit(1);
}

}  // namespace

int64_t ResidentBytes() {
  char text[256];
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) Fail();
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  if (length <= 0) Fail();
  text[length] = '\0';

  // The first field is the virtual size, the second the resident one, in pages.
  char* second;
  std::strtoll(text, &second, /*base=*/10);
  return std::strtoll(second, nullptr, /*base=*/10) * sysconf(_SC_PAGESIZE);
}

}  // namespace wheelcache::benchmarks
