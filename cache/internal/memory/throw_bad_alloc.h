// Reports that there is no memory, in builds with and without exceptions.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_THROW_BAD_ALLOC_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_THROW_BAD_ALLOC_H_

#include <cstdlib>
#include <new>

#include "absl/base/config.h"

namespace wheelcache::internal {

[[noreturn]] inline void ThrowBadAlloc() {
#ifdef ABSL_HAVE_EXCEPTIONS
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_THROW_BAD_ALLOC_H_
