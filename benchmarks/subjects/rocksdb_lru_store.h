// RocksDB's LRUCache, limited by bytes, for histories of sizes.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_ROCKSDB_LRU_STORE_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_ROCKSDB_LRU_STORE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/strings/string_view.h"
#include "rocksdb/cache.h"
#include "wheelcache/benchmarks/subjects/value_block.h"

namespace wheelcache::benchmarks {

class RocksdbLruStore {
 public:
  static constexpr char kName[] = "rocksdb_lru";
  static constexpr bool kLimited = false;  // No figure of it has a limit.

  // RocksDB charges its own memory for an entry by default.
  explicit RocksdbLruStore(int64_t max_bytes)
      : cache_(rocksdb::NewLRUCache(static_cast<size_t>(max_bytes))) {}

  void Set(uint64_t key, absl::string_view value) {
    const auto destroy = [](const rocksdb::Slice&, void* block) {
      DeleteValueBlock(block);
    };
    const size_t charge = sizeof(size_t) + value.size();
    if (!cache_->Insert(SliceOf(key), NewValueBlock(value), charge, destroy)
             .ok()) {
      std::abort();
    }
  }

  bool Read(uint64_t key) {
    rocksdb::Cache::Handle* handle = cache_->Lookup(SliceOf(key));
    if (handle == nullptr) return false;
    cache_->Release(handle);
    return true;
  }

  int64_t bytes() const { return static_cast<int64_t>(cache_->GetUsage()); }

 private:
  static rocksdb::Slice SliceOf(const uint64_t& key) {
    return {reinterpret_cast<const char*>(&key), sizeof(key)};
  }

  std::shared_ptr<rocksdb::Cache> cache_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_ROCKSDB_LRU_STORE_H_
