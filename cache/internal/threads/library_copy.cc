#include "wheelcache/cache/internal/threads/library_copy.h"

#include <cstdio>
#include <cstdlib>

namespace wheelcache::internal {

const LibraryCopy kThisCopy = {};

void EndForOtherCopy() {
  std::fputs(
      "wheelcache: a cache was made by one copy of the library and is used "
      "through another. Link the library into one module of the program, and "
      "do not hide its symbols.\n",
      stderr);
  std::abort();
}

}  // namespace wheelcache::internal
