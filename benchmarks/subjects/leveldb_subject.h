// LevelDB's cache: 16 shards, each with a mutex and an LRU list, without TTL.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_LEVELDB_SUBJECT_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_LEVELDB_SUBJECT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "leveldb/cache.h"
#include "wheelcache/benchmarks/subjects/value_block.h"
#include "wheelcache/benchmarks/workload.h"

namespace wheelcache::benchmarks {

class LeveldbSubject {
 public:
  static constexpr char kName[] = "leveldb_lru";
  static constexpr int kMostThreads = 8;

  explicit LeveldbSubject(int64_t capacity)
      : cache_(leveldb::NewLRUCache(static_cast<size_t>(capacity))) {}

  bool ReadInPlace(absl::string_view key) {
    leveldb::Cache::Handle* handle = cache_->Lookup(SliceOf(key));
    if (handle == nullptr) return false;
    benchmark::DoNotOptimize(ReadAll(ValueOf(handle)));
    cache_->Release(handle);
    return true;
  }

  std::optional<std::string> Copy(absl::string_view key) {
    leveldb::Cache::Handle* handle = cache_->Lookup(SliceOf(key));
    if (handle == nullptr) return std::nullopt;
    std::optional<std::string> copy(ValueOf(handle));
    cache_->Release(handle);
    return copy;
  }

  void Set(absl::string_view key, absl::string_view value,
           absl::Duration /*ttl*/) {
    const auto destroy = [](const leveldb::Slice&, void* block) {
      DeleteValueBlock(block);
    };
    cache_->Release(cache_->Insert(SliceOf(key), NewValueBlock(value),
                                   /*charge=*/1, destroy));
  }

  void SetNew(absl::string_view key, absl::string_view value,
              absl::Duration ttl, absl::string_view /*oldest*/) {
    Set(key, value, ttl);
  }

 private:
  static leveldb::Slice SliceOf(absl::string_view key) {
    return {key.data(), key.size()};
  }

  absl::string_view ValueOf(leveldb::Cache::Handle* handle) {
    return BytesOf(cache_->Value(handle));
  }

  std::unique_ptr<leveldb::Cache> cache_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_LEVELDB_SUBJECT_H_
