// The loads of a shard that are in flight, so that one caller loads a key while
// the others wait for the result.
//
// A load is superseded by a Set, Del or Clear that comes while it runs: then
// its result still goes to those who wait, who all asked before that, but not
// into the cache; and a caller that asks later starts another load.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_LOADS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_LOADS_H_

#include <cstddef>
#include <memory>

#include "wheelcache/cache/internal/engine/key_query.h"
#include "wheelcache/cache/internal/engine/load.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Loads {
 public:
  Loads();
  ~Loads();
  Loads(const Loads&) = delete;
  Loads& operator=(const Loads&) = delete;

  // The current load of the key, or null.
  LoadPtr Find(const KeyQuery& key) const;

  // Adds the current load of a key. REQUIRES: its key has none.
  void Add(LoadPtr load);

  // Whether the load is still the current one of its key.
  bool IsCurrent(const LoadPtr& load) const;

  // Forgets the key's load, which goes on superseded. No key is destroyed: the
  // thread that loads still has it.
  void Supersede(const KeyQuery& key) {
    if (count_ > 0) SupersedeInTable(key);
  }
  void Supersede(const LoadPtr& load);
  void SupersedeAll();

  // In the child of fork(), where at most the forking thread is still loading.
  void ResetAfterFork();

 private:
  struct Table;

  void SupersedeInTable(const KeyQuery& key);
  template <typename Iterator>
  void Erase(Iterator load);

  std::unique_ptr<Table> table_;  // Null until the first load.
  size_t count_ = 0;              // Of the loads, for Sets that find none.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_LOADS_H_
