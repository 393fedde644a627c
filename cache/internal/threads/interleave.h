// Marks the points between two steps of the engine where it matters what other
// threads do meanwhile, so that a test can have them do it there: between
// replacing an entry in the index and in the list, for instance.
//
// Nothing, unless WHEELCACHE_INTERLEAVE is defined: then the program defines
// the function, which may yield, and call the cache where no lock is held. No
// source of the library may include a header with such points, or the program
// would have two definitions of what is in it.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_INTERLEAVE_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_INTERLEAVE_H_

namespace wheelcache {
namespace internal {

#ifdef WHEELCACHE_INTERLEAVE
void Interleave(const char* point);
#else
inline void Interleave(const char* /*point*/) {}
#endif

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_INTERLEAVE_H_
