// Resident memory of the caches.
//
//   memory_benchmark                 prints a table of all measurements
//   memory_benchmark NAME            prints one of them
//
// per_entry   bytes per entry of a full cache of a million entries after two
//             million Sets; of uint64 to uint64, and of 21-byte keys to
//             64-byte values
// mixed_sizes a cache of 256 MiB during 10 million Sets of 16 bytes to 4 KiB:
//             the maximum and the minimum once it is full, as a fraction of
//             max_bytes
//
// Each measurement runs in a child process, since allocators keep memory that
// was freed.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/benchmarks/resident_memory.h"
#include "wheelcache/benchmarks/subjects/flat_hash_map_subject.h"
#include "wheelcache/benchmarks/subjects/sharded_mutex_subject.h"
#include "wheelcache/benchmarks/subjects/wheelcache_subject.h"
#include "wheelcache/benchmarks/workload.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"

#ifdef WHEELCACHE_BENCHMARK_PEERS
#include "wheelcache/benchmarks/subjects/leveldb_subject.h"
#include "wheelcache/benchmarks/subjects/rocksdb_subject.h"
#include "wheelcache/benchmarks/subjects/tbb_subject.h"
#endif

namespace wheelcache::benchmarks {
namespace {

constexpr absl::Duration kTtl = absl::Hours(1);

void Print(const std::string& name, double value) {
  std::printf("%s\t%.3f\n", name.c_str(), value);
}

// Prints the bytes per entry of the container that `fill` makes and returns.
template <typename Fill>
void PrintPerEntry(const std::string& name, Fill fill) {
  const int64_t before = ResidentBytes();
  const auto filled = fill();
  Print(name, static_cast<double>(ResidentBytes() - before) / kCapacity);
}

// SetNew tells subjects without a limit which key to erase.
template <typename Subject>
void MeasureStrings(const std::string& name) {
  PrintPerEntry(name, [] {
    auto subject = std::make_unique<Subject>(kCapacity);
    for (int64_t i = 0; i < kCapacity; ++i) {
      subject->Set(MakeKey(i).view(), ValueFor(i), kTtl);
    }
    for (int64_t i = 0; i < kCapacity; ++i) {
      subject->SetNew(MakeKey(kCapacity + i).view(), ValueFor(i), kTtl,
                      MakeKey(i).view());
    }
    return subject;
  });
}

template <EvictionPolicy policy>
void MeasureNumbers(const std::string& name) {
  PrintPerEntry(name, [] {
    CacheOptions options;
    options.max_entries = kCapacity;
    options.policy = policy;
    auto cache = *Cache<uint64_t, uint64_t>::Create(options);
    for (int64_t i = 0; i < 2 * kCapacity; ++i) cache->Set(i, i, kTtl);
    return cache;
  });
}

void MeasureNumbersInMap(const std::string& name) {
  PrintPerEntry(name, [] {
    auto map = std::make_unique<absl::flat_hash_map<uint64_t, uint64_t>>();
    map->reserve(kCapacity);
    for (int64_t i = 0; i < kCapacity; ++i) map->emplace(i, i);
    return map;
  });
}

// Log-uniform.
size_t MixedSize(std::mt19937_64& random) {
  constexpr double kSmallest = 16;
  constexpr double kLargest = 4096;
  std::uniform_real_distribution<double> exponent(0, 1);
  return static_cast<size_t>(kSmallest *
                             std::pow(kLargest / kSmallest, exponent(random)));
}

void MeasureMixedSizes(const std::string& name) {
  constexpr int64_t kLimit = int64_t{256} << 20;
  constexpr int64_t kSets = 10'000'000;
  const std::string bytes(4096, 'x');
  std::mt19937_64 random(/*seed=*/4);
  std::uniform_int_distribution<uint64_t> number(0, 4 * kCapacity - 1);

  const int64_t before = ResidentBytes();
  CacheOptions options;
  options.max_bytes = kLimit;
  auto cache = *Cache<std::string, std::string>::Create(options);
  int64_t most = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t i = 0; i < kSets; ++i) {
    const Key key = MakeKey(number(random));
    cache->Set(key.view(),
               absl::string_view(bytes).substr(0, MixedSize(random)), kTtl);
    const bool full = i >= kSets / 10;
    if (!full || i % 10'000 != 0) continue;
    const int64_t taken = ResidentBytes() - before;
    most = std::max(most, taken);
    least = std::min(least, taken);
  }
  Print(name + "/most", static_cast<double>(most) / kLimit);
  Print(name + "/least", static_cast<double>(least) / kLimit);
}

struct Measurement {
  std::string name;
  void (*run)(const std::string& name);
};

template <typename Subject>
Measurement StringsOf() {
  return {std::string("per_entry/strings/") + Subject::kName,
          MeasureStrings<Subject>};
}

std::vector<Measurement> Measurements() {
  return {
      {"per_entry/numbers/wheelcache", MeasureNumbers<EvictionPolicy::kLru>},
      {"per_entry/numbers/scan_resistant",
       MeasureNumbers<EvictionPolicy::kScanResistant>},
      {"per_entry/numbers/flat_hash_map", MeasureNumbersInMap},
      StringsOf<WheelcacheSubject>(),
      StringsOf<FlatHashMapSubject>(),
      StringsOf<ShardedMutexSubject>(),
#ifdef WHEELCACHE_BENCHMARK_PEERS
      StringsOf<RocksdbHyperClockSubject>(),
      StringsOf<RocksdbLruSubject>(),
      StringsOf<LeveldbSubject>(),
      StringsOf<TbbSubject>(),
#endif
      {"mixed_sizes/wheelcache", MeasureMixedSizes},
  };
}

// Runs this program in a child process; returns whether that succeeded.
bool RunInChild(const std::string& program, std::string argument) {
  std::string name = program;
  char* arguments[] = {name.data(), argument.data(), nullptr};
  pid_t child;
  int status;
  return posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments,
                     environ) == 0 &&
         waitpid(child, &status, 0) == child && status == 0;
}

int Main(const std::string& program, const std::vector<std::string>& names) {
  for (const Measurement& measurement : Measurements()) {
    if (names.empty()) {
      if (!RunInChild(program, measurement.name)) return 1;
    } else if (names.front() == measurement.name) {
      measurement.run(measurement.name);
      return 0;
    }
  }
  if (names.empty()) return 0;
  std::fprintf(stderr, "%s: no measurement \"%s\"\n", program.c_str(),
               names.front().c_str());
  return 2;
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  return wheelcache::benchmarks::Main(
      argv[0], std::vector<std::string>(argv + 1, argv + argc));
}
