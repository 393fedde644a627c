// A key that a caller of the cache asks for, of a type that the engine does not
// know.
//
// Threads. Thread-compatible; constant.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_KEY_QUERY_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_KEY_QUERY_H_

#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/load.h"

namespace wheelcache::internal {

class KeyQuery {
 public:
  explicit KeyQuery(KeyHash hash) : hash_(hash) {}
  KeyQuery(const KeyQuery&) = delete;
  KeyQuery& operator=(const KeyQuery&) = delete;

  KeyHash hash() const { return hash_; }

  // Whether the key is that of the entry, or of the load.
  virtual bool Matches(const EntryHeader& entry) const = 0;
  virtual bool Matches(const Load& load) const = 0;

 protected:
  ~KeyQuery() = default;

 private:
  const KeyHash hash_;
};

// The key of an entry.
class EntryKeyQuery final : public KeyQuery {
 public:
  EntryKeyQuery(const EntryPool& pool, EntryRef ref, KeyHash hash)
      : KeyQuery(hash),
        same_key_(pool.operations().same_key),
        entry_(pool.At(ref)) {}

  bool Matches(const EntryHeader& entry) const override {
    return same_key_(entry, entry_);
  }
  bool Matches(const Load& load) const override {
    return load.HasKeyOf(entry_);
  }

 private:
  bool (*const same_key_)(const EntryHeader&, const EntryHeader&);
  const EntryHeader& entry_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_KEY_QUERY_H_
