// Tells a listener of each access to memory, in programs whose code was
// compiled by -fsanitize=thread and that are linked with this in the place of
// ThreadSanitizer's own runtime.
//
//   ListenToAccesses(&model, /*core=*/3);  // On this thread, from now on.
//   cache->Get("key");
//   ListenToAccesses(nullptr, 0);
//
// Atomic ones and those of pthread's mutexes included. Calls of libraries that
// were compiled without the option are not seen, as memcpy.

#ifndef WHEELCACHE_BENCHMARKS_ACCESS_RUNTIME_H_
#define WHEELCACHE_BENCHMARKS_ACCESS_RUNTIME_H_

#include "wheelcache/benchmarks/line_model.h"

namespace wheelcache::benchmarks {

// Has the accesses of the calling thread told to a model, as those of a core;
// or to nobody, if it is null. One thread at a time may listen.
void ListenToAccesses(LineModel* model, int core);

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_ACCESS_RUNTIME_H_
