// A load with its key.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_TYPED_LOAD_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_TYPED_LOAD_H_

#include <cstdint>
#include <utility>

#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/load.h"

namespace wheelcache::internal {

template <typename Key, typename Value, typename Equal>
class TypedLoad final : public Load {
 public:
  // What a load needs besides its key.
  struct Setting {
    EntryPool* pool;
    int64_t now_nanos;
    Leader leader;
  };

  TypedLoad(Key key, KeyHash hash, const Setting& setting)
      : Load(setting.pool, setting.now_nanos, setting.leader, hash.for_index),
        key_(std::move(key)),
        key_hash_(hash) {}

  const Key& key() const { return key_; }
  KeyHash key_hash() const { return key_hash_; }

  bool HasKeyOf(const EntryHeader& entry) const override {
    return Equal()(static_cast<const Entry<Key, Value>&>(entry).key(), key_);
  }

 private:
  const Key key_;
  const KeyHash key_hash_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_TYPED_LOAD_H_
