// A typical hand-written cache: 16 shards, each with a mutex, a hash table and
// an LRU list. Reads check deadlines; there is no other expiry.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_SHARDED_MUTEX_SUBJECT_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_SHARDED_MUTEX_SUBJECT_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/workload.h"

namespace wheelcache::benchmarks {

class ShardedMutexSubject {
 public:
  static constexpr char kName[] = "sharded_mutex";
  static constexpr int kMostThreads = 8;

  explicit ShardedMutexSubject(int64_t capacity) {
    for (auto& shard : shards_) {
      shard = std::make_unique<Shard>(capacity / kShards);
    }
  }

  bool ReadInPlace(absl::string_view key) {
    return ShardOf(key).Visit(key, [](const std::string& value) {
      benchmark::DoNotOptimize(ReadAll(value));
    });
  }

  std::optional<std::string> Copy(absl::string_view key) {
    std::optional<std::string> copy;
    ShardOf(key).Visit(key, [&](const std::string& value) { copy = value; });
    return copy;
  }

  void Set(absl::string_view key, absl::string_view value, absl::Duration ttl) {
    ShardOf(key).Set(key, value, ttl);
  }

  void SetNew(absl::string_view key, absl::string_view value,
              absl::Duration ttl, absl::string_view /*oldest*/) {
    Set(key, value, ttl);
  }

 private:
  using Clock = std::chrono::steady_clock;

  class alignas(64) Shard {
   public:
    explicit Shard(size_t capacity) : capacity_(capacity) {
      index_.reserve(capacity);
    }

    template <typename Visitor>
    bool Visit(absl::string_view key, Visitor visitor) {
      absl::MutexLock lock(&mu_);
      const auto found = index_.find(key);
      if (found == index_.end()) return false;
      const Position entry = found->second;
      if (Clock::now() >= entry->deadline) {
        index_.erase(found);
        entries_.erase(entry);
        return false;
      }
      entries_.splice(entries_.begin(), entries_, entry);
      visitor(entry->value);
      return true;
    }

    void Set(absl::string_view key, absl::string_view value,
             absl::Duration ttl) {
      const Clock::time_point deadline =
          Clock::now() + absl::ToChronoNanoseconds(ttl);
      absl::MutexLock lock(&mu_);
      if (const auto found = index_.find(key); found != index_.end()) {
        found->second->value = std::string(value);
        found->second->deadline = deadline;
        entries_.splice(entries_.begin(), entries_, found->second);
        return;
      }
      if (entries_.size() == capacity_) {
        index_.erase(entries_.back().key);
        entries_.pop_back();
      }
      entries_.push_front({std::string(key), std::string(value), deadline});
      index_.emplace(entries_.front().key, entries_.begin());
    }

   private:
    struct Entry {
      std::string key;
      std::string value;
      Clock::time_point deadline;
    };
    using Position = std::list<Entry>::iterator;

    const size_t capacity_;
    absl::Mutex mu_;
    std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);  // Newest first.
    absl::flat_hash_map<absl::string_view, Position> index_
        ABSL_GUARDED_BY(mu_);  // Its keys point into entries_.
  };

  static constexpr size_t kShards = 16;

  // High bits, since the shard's table uses the low ones of the same hash.
  Shard& ShardOf(absl::string_view key) {
    return *shards_[(absl::Hash<absl::string_view>()(key) >> 32) % kShards];
  }

  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_SHARDED_MUTEX_SUBJECT_H_
