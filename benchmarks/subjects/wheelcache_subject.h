// wheelcache with its default options, and with the scan-resistant policy.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_WHEELCACHE_SUBJECT_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_WHEELCACHE_SUBJECT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/cache/cache.h"

namespace wheelcache::benchmarks {

class WheelcacheSubject {
 public:
  static constexpr char kName[] = "wheelcache";
  static constexpr int kMostThreads = 1024;

  explicit WheelcacheSubject(int64_t capacity)
      : WheelcacheSubject(OptionsFor(capacity)) {}

  explicit WheelcacheSubject(CacheOptions options)
      : cache_(*Cache<std::string, std::string>::Create(std::move(options))) {}

  bool ReadInPlace(absl::string_view key) {
    return cache_->Visit(key, [](const auto& value) {
      benchmark::DoNotOptimize(
          ReadAll(absl::string_view(value.data(), value.size())));
    });
  }

  std::optional<std::string> Copy(absl::string_view key) {
    return cache_->Get(key);
  }

  void Set(absl::string_view key, absl::string_view value, absl::Duration ttl) {
    cache_->Set(key, value, ttl);
  }

  void SetNew(absl::string_view key, absl::string_view value,
              absl::Duration ttl, absl::string_view /*oldest*/) {
    cache_->Set(key, value, ttl);
  }

  Cache<std::string, std::string>& cache() { return *cache_; }

 protected:
  static CacheOptions OptionsFor(int64_t capacity) {
    CacheOptions options;
    options.max_entries = capacity;
    return options;
  }

 private:
  std::unique_ptr<Cache<std::string, std::string>> cache_;
};

class ScanResistantSubject : public WheelcacheSubject {
 public:
  static constexpr char kName[] = "scan_resistant";

  explicit ScanResistantSubject(int64_t capacity)
      : WheelcacheSubject(ScanResistant(OptionsFor(capacity))) {}

 private:
  static CacheOptions ScanResistant(CacheOptions options) {
    options.policy = EvictionPolicy::kScanResistant;
    return options;
  }
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_WHEELCACHE_SUBJECT_H_
