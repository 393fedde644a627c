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
#include <limits>
#include <memory>
#include <vector>

#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// The failed loads of a shard that are remembered for a while, so that a source
// which is down is not asked for the same key again and again.
//
// Threads. Thread-compatible: belongs to the lock of its shard. No key is
// destroyed under it, as that runs user code: what is forgotten stays until the
// next load takes it out.
//
// Cost. O(kMost) for a key whose failure might be remembered.
class WHEELCACHE_EXPORT Failures {
 public:
  static constexpr size_t kMost = 64;

  Failures() = default;
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;

  // The failed load of the key, or null.
  LoadPtr Find(const KeyQuery& key, int64_t now_nanos) const;

  // Remembers that a load has failed, until a time; not at all, if there is no
  // memory. Returns the one that has to make room, or null.
  LoadPtr Add(LoadPtr load, int64_t until_nanos);

  void Forget(const KeyQuery& key);
  void ForgetAll();

  // Takes out what is no longer remembered. May throw std::bad_alloc, and takes
  // out nothing then.
  std::vector<LoadPtr> TakeForgotten(int64_t now_nanos);

 private:
  static constexpr int64_t kForgotten = std::numeric_limits<int64_t>::min();

  struct Failure {
    LoadPtr load;
    int64_t until_nanos;
  };

  std::vector<Failure> failures_;
};

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

 private:
  struct Table;

  void SupersedeInTable(const KeyQuery& key);

  std::unique_ptr<Table> table_;  // Null until the first load.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_LOADS_H_
