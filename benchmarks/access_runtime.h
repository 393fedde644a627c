// Tells a LineModel of each access to memory. For programs that are compiled
// with -fsanitize=thread and linked with this runtime instead of
// ThreadSanitizer's own.
//
//   ListenToAccesses(&model, /*core=*/3);  // On this thread, from now on.
//   cache->Get("key");
//   ListenToAccesses(nullptr, 0);
//
// It sees atomic accesses and the locks of pthreads, too. It does not see what
// libraries do that were compiled without the option, such as memcpy.
//
// Threads. Each thread tells a model for itself; a model takes what one thread
// tells at a time.

#ifndef WHEELCACHE_BENCHMARKS_ACCESS_RUNTIME_H_
#define WHEELCACHE_BENCHMARKS_ACCESS_RUNTIME_H_

#include "wheelcache/benchmarks/line_model.h"

namespace wheelcache::benchmarks {

// Tells the model of the accesses of the calling thread from now on, as those
// of a core; or, if the model is null, tells nobody.
void ListenToAccesses(LineModel* model, int core);

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_ACCESS_RUNTIME_H_
