// Compares the advice of a cache (cache/advice.h) with exact replays of a
// trace: as CSV, from standard input, in the format of Twitter's open traces.
//
//   zstd -dc oltp.csv.zst | advice_accuracy 1000 60
//
// replays it read-through in a cache of 1,000 entries, each with a TTL of 60
// seconds of the trace (0 for none), and in exact LRU caches of half, twice and
// four times the entries. Prints both, a line each, the largest difference, and
// the misses by cause. Exits with 1 if the difference is more than 0.02.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <list>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::benchmarks {
namespace {

struct Access {
  int64_t second;
  std::string key;
};

std::vector<Access> ReadTrace() {
  std::vector<Access> trace;
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    int64_t second;
    if (fields.size() < 2 || !absl::SimpleAtoi(fields[0], &second)) continue;
    trace.push_back({second, std::string(fields[1])});
  }
  return trace;
}

// Read-through: expired keys leave first, then the least recently used.
class ExactLru {
 public:
  ExactLru(size_t capacity, int64_t ttl) : capacity_(capacity), ttl_(ttl) {}

  bool Read(const Access& access) {
    for (; !due_.empty() && due_.front().first <= access.second; due_.pop()) {
      const auto found = places_.find(due_.front().second);
      if (found == places_.end()) continue;
      if (found->second->deadline != due_.front().first) continue;
      order_.erase(found->second);
      places_.erase(found);
    }
    const auto found = places_.find(access.key);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    if (order_.size() >= capacity_) {
      places_.erase(order_.back().key);
      order_.pop_back();
    }
    const int64_t deadline = ttl_ == 0 ? 0 : access.second + ttl_;
    order_.push_front({access.key, deadline});
    places_[access.key] = order_.begin();
    if (ttl_ != 0) due_.push({deadline, access.key});
    return false;
  }

 private:
  struct Held {
    std::string key;
    int64_t deadline;
  };
  const size_t capacity_;
  const int64_t ttl_;
  std::list<Held> order_;
  std::unordered_map<std::string, std::list<Held>::iterator> places_;
  std::queue<std::pair<int64_t, std::string>> due_;
};

double ExactRatio(const std::vector<Access>& trace, double capacity,
                  int64_t ttl) {
  ExactLru lru(static_cast<size_t>(capacity), ttl);
  int64_t hits = 0;
  for (const Access& access : trace) hits += lru.Read(access) ? 1 : 0;
  return static_cast<double>(hits) / static_cast<double>(trace.size());
}

CacheAdvice Replay(const std::vector<Access>& trace, int64_t capacity,
                   int64_t ttl) {
  SimulatedClock clock;
  CacheOptions options;
  options.max_entries = capacity;
  options.jitter = 0;
  options.jitter_seed = 1;
  options.clock = &clock;
  options.reaper = nullptr;
  options.advise = true;
  if (ttl > 0) options.default_ttl = absl::Seconds(ttl);
  auto cache = *Cache<std::string, int>::Create(options);
  const int64_t begin = trace.empty() ? 0 : trace[0].second;
  for (const Access& access : trace) {
    const absl::Duration now = absl::Seconds(access.second - begin);
    const absl::Duration step = now - clock.Now();
    if (step > absl::ZeroDuration()) clock.Advance(step);
    if (!cache->Get(access.key).has_value()) cache->Set(access.key, 0);
  }
  return cache->Advise().value_or(CacheAdvice());
}

int Main(int64_t capacity, int64_t ttl, uint64_t seed) {
  internal::SetHashSeed(seed);
  const std::vector<Access> trace = ReadTrace();
  const CacheAdvice advice = Replay(trace, capacity, ttl);
  const std::array<std::pair<double, double>, 4> ratios = {
      {{0.5, advice.half},
       {1, advice.same},
       {2, advice.twice},
       {4, advice.four_times}}};
  double worst = 0;
  std::printf("capacity %8lld ttl %4lld", static_cast<long long>(capacity),
              static_cast<long long>(ttl));
  for (const auto& [factor, advised] : ratios) {
    const double exact =
        ExactRatio(trace, static_cast<double>(capacity) * factor, ttl);
    worst = std::max(worst, std::abs(advised - exact));
    std::printf("  x%g %.4f/%.4f", factor, advised, exact);
  }
  std::printf("  worst %.4f  rate %.4f\n", worst, advice.sampled);
  std::printf("  misses: first use %lld, expired %lld, evicted %lld\n",
              static_cast<long long>(advice.first_uses),
              static_cast<long long>(advice.expired),
              static_cast<long long>(advice.evicted));
  return worst <= 0.02 ? 0 : 1;
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: advice_accuracy ENTRIES TTL [SEED] <trace\n");
    return 2;
  }
  return wheelcache::benchmarks::Main(std::atoll(argv[1]), std::atoll(argv[2]),
                                      argc > 3 ? std::atoll(argv[3]) : 1);
}
