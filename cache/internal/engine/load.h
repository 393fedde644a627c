// A run of a loader, and the place where other callers of the same key wait for
// its result (single-flight).
//
// This is what the engine knows of a load; TypedLoad
// (cache/internal/engine/typed_load.h) has the key and the result.
//
// Loaders may load other keys, and so wait for each other. Each thread notes
// which load it waits for, over all caches of the process, and a wait that
// would close a cycle is refused.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_LOAD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_LOAD_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Load {
 public:
  // The loader runs in the calling thread.
  explicit Load(Hash32 hash);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  virtual ~Load() = default;

  Hash32 hash() const { return hash_; }  // Of its key.

  // Whether the entry has the key of this load.
  virtual bool HasKeyOf(const EntryHeader& entry) const = 0;

  // Ends the load: those who wait go on. Called once. Allocates nothing.
  void End();

  // Blocks until the load has ended. Returns false at once if that would be for
  // ever: in the thread that runs the loader, and in one for which the loader
  // waits, directly or by way of other loaders.
  bool WaitForEnd();

  // In the child of fork(), where nobody waits any more, and a thread that is
  // gone may have held the lock.
  void ResetAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  static thread_local Load* waits_for;

  bool WaitsForThisThread();

  const Hash32 hash_;

  // That of the thread which runs the loader. Valid until the load has ended.
  Load*& loader_waits_for_;

  Mutex mu_;
  CondVar has_ended_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

using LoadPtr = std::shared_ptr<Load>;

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_LOAD_H_
