// The failed loads of a shard that are remembered for a while, so that a source
// which is down is not asked for the same key again and again.
//
// Threads. Thread-compatible: belongs to the lock of its shard. No key is
// destroyed under it, as that runs user code: what is forgotten stays until the
// next load takes it out.
//
// Cost. O(kMost) for a key whose failure might be remembered.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_FAILURES_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "wheelcache/cache/internal/loads/key_query.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

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

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_FAILURES_H_
