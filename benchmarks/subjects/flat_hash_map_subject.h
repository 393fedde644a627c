// The floor: a hash table of strings without lock, TTL, order or limit.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_FLAT_HASH_MAP_SUBJECT_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_FLAT_HASH_MAP_SUBJECT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/workload.h"

namespace wheelcache::benchmarks {

// Unlimited: the capacity only reserves memory.
//
// [[gnu::flatten]] inlines the table's code. Otherwise inlining, and the speed
// of the floor with it, would depend on the rest of the program.
class FlatHashMapSubject {
 public:
  static constexpr char kName[] = "flat_hash_map";
  static constexpr int kMostThreads = 1;

  explicit FlatHashMapSubject(int64_t capacity) { map_.reserve(capacity); }

  [[gnu::flatten]] bool ReadInPlace(absl::string_view key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return false;
    benchmark::DoNotOptimize(ReadAll(it->second));
    return true;
  }

  [[gnu::flatten]] std::optional<std::string> Copy(absl::string_view key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return std::nullopt;
    return it->second;
  }

  [[gnu::flatten]] void Set(absl::string_view key, absl::string_view value,
                            absl::Duration /*ttl*/) {
    map_[key] = std::string(value);  // A new string, as services have it.
  }

  // Erases the key that it is told, since it keeps no order to evict by.
  [[gnu::flatten]] void SetNew(absl::string_view key, absl::string_view value,
                               absl::Duration /*ttl*/,
                               absl::string_view oldest) {
    map_.erase(oldest);
    map_.try_emplace(key, value);
  }

 protected:
  absl::flat_hash_map<std::string, std::string> map_;
};

// Overwrites values in place, which is safe with one thread only.
class OverwritingMapSubject : public FlatHashMapSubject {
 public:
  static constexpr char kName[] = "flat_hash_map_overwriting";

  using FlatHashMapSubject::FlatHashMapSubject;

  [[gnu::flatten]] void Set(absl::string_view key, absl::string_view value,
                            absl::Duration /*ttl*/) {
    map_[key].assign(value.data(), value.size());
  }
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_FLAT_HASH_MAP_SUBJECT_H_
