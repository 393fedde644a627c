// The loads of a shard that are in flight, so that one caller loads a key while
// the others wait for the result; and those whose failure is remembered.
//
// A load is superseded by a write that comes while it runs (cache/load.h): then
// its result still goes to those who wait, who all asked before that, but not
// into the cache; and a caller that asks later starts another load. A failure
// is forgotten likewise.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_LOADS_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "wheelcache/cache/internal/loads/failures.h"
#include "wheelcache/cache/internal/loads/key_query.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Loads {
 public:
  Loads();
  ~Loads();
  Loads(const Loads&) = delete;
  Loads& operator=(const Loads&) = delete;

  // The current load of the key, or the one whose failure is remembered, or
  // null.
  LoadPtr Find(const KeyQuery& key, int64_t now_nanos) const;

  // Adds the current load of a key. REQUIRES: its key has none.
  void Add(LoadPtr load);

  // Whether the load is still the current one of its key.
  bool IsCurrent(const LoadPtr& load) const;

  // Forgets the key's load, which goes on superseded. No key is destroyed: the
  // leader of the load still has it.
  void Supersede(const KeyQuery& key) {
    if (table_ != nullptr) SupersedeInTable(key);
  }
  void Supersede(const LoadPtr& load);
  void SupersedeAll();

  // The load has failed: remembers that until then, unless it was superseded.
  // Returns one that is forgotten for it, or null.
  LoadPtr Remember(const LoadPtr& load, int64_t until_nanos);

  // Takes out failures that are no longer remembered, to destroy them without a
  // lock.
  std::vector<LoadPtr> TakeForgotten(int64_t now_nanos);

  // In the child of fork(), where at most the forking thread is still loading.
  void ResetAfterFork();

 private:
  struct Table;

  void SupersedeInTable(const KeyQuery& key);

  std::unique_ptr<Table> table_;  // Null until the first load.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_LOADS_H_
