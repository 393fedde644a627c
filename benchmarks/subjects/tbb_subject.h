// oneTBB's concurrent hash table: locks per bucket and per element, without
// TTL, order and limit.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_TBB_SUBJECT_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_TBB_SUBJECT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "oneapi/tbb/concurrent_hash_map.h"
#include "wheelcache/benchmarks/workload.h"

namespace wheelcache::benchmarks {

// Unlimited, as the floor is.
class TbbSubject {
 public:
  static constexpr char kName[] = "tbb_concurrent_hash_map";
  static constexpr int kMostThreads = 8;

  explicit TbbSubject(int64_t capacity) : map_(static_cast<size_t>(capacity)) {}

  bool ReadInPlace(absl::string_view key) {
    Map::const_accessor found;
    if (!map_.find(found, key)) return false;
    benchmark::DoNotOptimize(ReadAll(found->second));
    return true;
  }

  std::optional<std::string> Copy(absl::string_view key) {
    Map::const_accessor found;
    if (!map_.find(found, key)) return std::nullopt;
    return found->second;
  }

  void Set(absl::string_view key, absl::string_view value,
           absl::Duration /*ttl*/) {
    Map::accessor entry;
    map_.insert(entry, key);
    entry->second = std::string(value);
  }

  // Erases the key that it is told, since it keeps no order to evict by.
  void SetNew(absl::string_view key, absl::string_view value,
              absl::Duration ttl, absl::string_view oldest) {
    map_.erase(oldest);
    Set(key, value, ttl);
  }

 private:
  struct HashAndCompare {
    using is_transparent = void;
    static size_t hash(absl::string_view key) {
      return absl::Hash<absl::string_view>()(key);
    }
    static bool equal(absl::string_view a, absl::string_view b) {
      return a == b;
    }
  };
  using Map =
      tbb::concurrent_hash_map<std::string, std::string, HashAndCompare>;

  Map map_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_TBB_SUBJECT_H_
