// RocksDB's block caches: LRUCache with 64 locked shards, and HyperClockCache,
// which is lock-free and uses CLOCK instead of LRU. Neither has a TTL.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_ROCKSDB_SUBJECT_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_ROCKSDB_SUBJECT_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "rocksdb/cache.h"
#include "wheelcache/benchmarks/subjects/value_block.h"
#include "wheelcache/benchmarks/workload.h"

namespace wheelcache::benchmarks {

// An entry is charged its key and value, so that RocksDB chooses the number of
// shards for a cache of that many bytes.
inline constexpr size_t kRocksdbCharge = Key::kBytes + 64;

struct RocksdbLru {
  static constexpr char kName[] = "rocksdb_lru";
  static constexpr size_t kKeyBytes = Key::kBytes;

  static std::shared_ptr<rocksdb::Cache> Create(size_t capacity) {
    rocksdb::LRUCacheOptions options;
    options.capacity = capacity * kRocksdbCharge;
    options.high_pri_pool_ratio = 0;  // One LRU list, as the others have.
    options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
    return rocksdb::NewLRUCache(options);
  }
};

struct RocksdbHyperClock {
  static constexpr char kName[] = "rocksdb_hyper_clock";

  // HyperClockCache accepts 16-byte keys only. The workload's keys differ in
  // their last 16 bytes, so these serve as keys without a hash.
  static constexpr size_t kKeyBytes = 16;

  static std::shared_ptr<rocksdb::Cache> Create(size_t capacity) {
    rocksdb::HyperClockCacheOptions options(
        capacity * kRocksdbCharge, /*_estimated_entry_charge=*/kRocksdbCharge);
    options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
    return options.MakeSharedCache();
  }
};

template <typename Variant>
class RocksdbSubject {
 public:
  static constexpr const char* kName = Variant::kName;
  static constexpr int kMostThreads = 8;

  explicit RocksdbSubject(int64_t capacity)
      : cache_(Variant::Create(static_cast<size_t>(capacity))) {}

  bool ReadInPlace(absl::string_view key) {
    rocksdb::Cache::Handle* handle = cache_->Lookup(SliceOf(key));
    if (handle == nullptr) return false;
    benchmark::DoNotOptimize(ReadAll(ValueOf(handle)));
    cache_->Release(handle);
    return true;
  }

  std::optional<std::string> Copy(absl::string_view key) {
    rocksdb::Cache::Handle* handle = cache_->Lookup(SliceOf(key));
    if (handle == nullptr) return std::nullopt;
    std::optional<std::string> copy(ValueOf(handle));
    cache_->Release(handle);
    return copy;
  }

  void Set(absl::string_view key, absl::string_view value,
           absl::Duration /*ttl*/) {
    const auto destroy = [](const rocksdb::Slice&, void* block) {
      DeleteValueBlock(block);
    };
    if (!cache_
             ->Insert(SliceOf(key), NewValueBlock(value), kRocksdbCharge,
                      destroy)
             .ok()) {
      std::abort();
    }
  }

  void SetNew(absl::string_view key, absl::string_view value,
              absl::Duration ttl, absl::string_view /*oldest*/) {
    Set(key, value, ttl);
  }

 private:
  static rocksdb::Slice SliceOf(absl::string_view key) {
    return {key.data() + key.size() - Variant::kKeyBytes, Variant::kKeyBytes};
  }

  absl::string_view ValueOf(rocksdb::Cache::Handle* handle) {
    return BytesOf(cache_->Value(handle));
  }

  std::shared_ptr<rocksdb::Cache> cache_;
};

using RocksdbLruSubject = RocksdbSubject<RocksdbLru>;
using RocksdbHyperClockSubject = RocksdbSubject<RocksdbHyperClock>;

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_ROCKSDB_SUBJECT_H_
