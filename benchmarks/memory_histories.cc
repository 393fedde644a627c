// Resident memory through histories: whether it follows max_bytes while the
// sizes of the values change, comes back after expiry and Clear, and is small
// before the first Set.
//
//   memory_histories                          all measurements
//   memory_histories creep /4                 those whose names contain one of
//                                             these
//   memory_histories --check                  exits with 1 if a limit is broken
//   memory_histories --max_bytes=67108864     of each cache; 256 MiB by default
//   memory_histories --threads=1              instead of 1 and 4
//   memory_histories --series                 adds the memory over time
//   memory_histories --list                   prints the names
//
// wheelcache/HISTORY/THREADS       a history of sizes (size_history.h)
// wheelcache/all_expire/TYPE       a million entries that get a TTL of 1 s:
// what
//                                  is left of the peak 2 s after the last
//                                  deadline
// wheelcache/clear/TYPE            the same after Clear
// wheelcache/empty/CACHES          bytes per cache before the first Set
// rocksdb_lru/HISTORY/THREADS      with --config=peers
//
// Each measurement runs in a child process, since allocators keep memory that
// was freed; one that is named in full runs in this process. To compare
// allocators, set LD_PRELOAD. Prints lines of
// "histories/NAME/FIGURE<tab>VALUE". The figure `limit` is the most for what
// stands in the line before it.

#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "wheelcache/benchmarks/history_replay.h"
#include "wheelcache/benchmarks/resident_memory.h"
#include "wheelcache/benchmarks/size_history.h"
#include "wheelcache/cache/cache.h"

#ifdef WHEELCACHE_BENCHMARK_PEERS
#include "wheelcache/benchmarks/subjects/rocksdb_lru_store.h"
#endif

namespace wheelcache::benchmarks {
namespace {

constexpr double kMiB = 1 << 20;

// Besides what is in proportion to the cache.
constexpr double kHistorySlack = 8 * kMiB;
constexpr double kReturnSlack = 4 * kMiB;

constexpr double kMostLeft = 0.1;        // Of the peak.
constexpr double kMostWhenEmpty = 64e3;  // Bytes.

struct Flags {
  int64_t max_bytes = int64_t{256} << 20;
  int threads = 0;  // 0 for 1 and 4.
  bool series = false;
  bool check = false;
  bool list = false;
  std::vector<std::string> names;
  std::vector<std::string> given;  // Without the names.
};

// Prints the figures of one measurement.
class Report {
 public:
  explicit Report(std::string name) : name_(std::move(name)) {}

  void Add(absl::string_view figure, double value) {
    Print(figure, absl::StrFormat("%.3f", value));
  }

  // Adds a figure that has a limit.
  void AddLimited(absl::string_view figure, double value, double limit) {
    Add(figure, value);
    Add("limit", limit);
    if (value <= limit) return;
    within_limits_ = false;
    absl::FPrintF(stderr, "OVER  %s/%s: %.3f, limit %.3f\n", name_, figure,
                  value, limit);
  }

  void AddSeries(const std::vector<double>& values) {
    Print("series", absl::StrJoin(values, " ", [](std::string* out, double v) {
            absl::StrAppendFormat(out, "%.3f", v);
          }));
  }

  bool within_limits() const { return within_limits_; }

 private:
  void Print(absl::string_view figure, absl::string_view value) const {
    absl::PrintF("histories/%s/%s\t%s\n", name_, figure, value);
  }

  const std::string name_;
  bool within_limits_ = true;
};

class WheelcacheStore {
 public:
  static constexpr char kName[] = "wheelcache";
  static constexpr bool kLimited = true;

  explicit WheelcacheStore(int64_t max_bytes) {
    CacheOptions options;
    options.max_bytes = max_bytes;
    cache_ = *Cache<uint64_t, std::string>::Create(options);
  }

  void Set(uint64_t key, absl::string_view value) { cache_->Set(key, value); }
  bool Read(uint64_t key) {
    return cache_->Visit(key, [](const auto&) {});
  }
  int64_t bytes() const { return cache_->bytes(); }

 private:
  std::unique_ptr<Cache<uint64_t, std::string>> cache_;
};

template <typename Store>
void PlayHistory(const SizeHistory& history, int threads, const Flags& flags,
                 Report& report) {
  HistoryReplay<Store> replay(history, {flags.max_bytes, threads});
  replay.Run();
  if (Store::kLimited) {
    report.AddLimited("worst", replay.memory().worst(),
                      history.most + kHistorySlack / flags.max_bytes);
  } else {
    report.Add("worst", replay.memory().worst());
  }
  report.Add("worst_at", replay.memory().worst_at());
  report.Add("least_charged", replay.least_charged());
  if (history.kept_stride != 0) report.Add("kept", replay.kept());
  report.Add("seconds", replay.seconds());
  report.Add("sets_per_second", replay.sets() / replay.seconds());
  report.Add("volumes", history.volumes());
  if (flags.series) report.AddSeries(replay.memory().parts());
}

// A cache with default options and a million entries.
template <typename Value>
class Filled {
 public:
  Filled() {
    constexpr absl::Duration kTtl = absl::Hours(1);
    for (int64_t i = 0; i < kEntries; ++i) {
      if constexpr (std::is_same_v<Value, std::string>) {
        cache_->Set(i, absl::string_view(bytes_).substr(i % 65), kTtl);
      } else {
        cache_->Set(i, i, kTtl);
      }
      if (i % 1000 == 0) Look();
    }
    Look();
  }

  // Not while it is filled, which may take longer than the TTL.
  void Expire(absl::Duration ttl) {
    for (int64_t i = 0; i < kEntries; ++i) cache_->Touch(i, ttl);
  }
  void Clear() { cache_->Clear(); }

  // Call 2 s after the last entry is to have gone.
  void ReportWhatIsLeft(Report& report) {
    const double left = Look();
    report.Add("peak_mib", peak_ / kMiB);
    report.AddLimited("left", left / peak_, kMostLeft + kReturnSlack / peak_);
  }

 private:
  static constexpr int64_t kEntries = 1'000'000;

  double Look() {
    const auto taken = static_cast<double>(ResidentBytes() - before_);
    peak_ = std::max(peak_, taken);
    return taken;
  }

  const std::string bytes_ = std::string(128, 'x');
  const int64_t before_ = ResidentBytes();
  double peak_ = 0;
  std::unique_ptr<Cache<uint64_t, Value>> cache_ =
      *Cache<uint64_t, Value>::Create({});
};

constexpr absl::Duration kWait = absl::Seconds(2);

template <typename Value>
void LetAllExpire(const Flags& /*flags*/, Report& report) {
  constexpr absl::Duration kTtl = absl::Seconds(1);
  Filled<Value> filled;
  filled.Expire(kTtl);
  absl::SleepFor(kTtl * (1 + CacheOptions().jitter) + kWait);
  filled.ReportWhatIsLeft(report);
}

template <typename Value>
void ClearAll(const Flags& /*flags*/, Report& report) {
  Filled<Value> filled;
  filled.Clear();
  absl::SleepFor(kWait);
  filled.ReportWhatIsLeft(report);
}

// Returns what malloc has handed out; 0 if it is not that of glibc.
int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

void MeasureEmpty(int count, Report& report) {
  using StringCache = Cache<uint64_t, std::string>;
  // What a process has once: the reaper's thread, the tables that all caches
  // share, and the code, that of measuring included.
  const auto first = *StringCache::Create({});
  first->Set(1, "value");
  ResidentBytes();
  std::vector<std::unique_ptr<StringCache>> caches(count);

  const int64_t heap = HeapBytes();
  const int64_t resident = ResidentBytes();
  for (auto& cache : caches) cache = *StringCache::Create({});
  // Both before the report, which has malloc make a buffer for the output.
  const int64_t more_heap = HeapBytes() - heap;
  const int64_t more_resident = ResidentBytes() - resident;
  const auto mean = [&](int64_t bytes) {
    return static_cast<double>(bytes) / count;
  };
  report.AddLimited("resident", mean(more_resident), kMostWhenEmpty);
  report.AddLimited("heap", mean(more_heap), kMostWhenEmpty);
}

struct Measurement {
  std::string name;
  std::function<void(const Flags& flags, Report& report)> run;
};

template <typename Store>
void AddHistories(const Flags& flags, std::vector<Measurement>& measurements) {
  const std::vector<int> counts =
      flags.threads == 0 ? std::vector<int>{1, 4} : std::vector{flags.threads};
  for (const SizeHistory& history : SizeHistories()) {
    for (const int threads : counts) {
      if (history.concurrent && threads == 1) continue;
      measurements.push_back(
          {absl::StrCat(Store::kName, "/", history.name, "/", threads),
           [history, threads](const Flags& given, Report& report) {
             PlayHistory<Store>(history, threads, given, report);
           }});
    }
  }
}

std::vector<Measurement> Measurements(const Flags& flags) {
  std::vector<Measurement> measurements;
  AddHistories<WheelcacheStore>(flags, measurements);
#ifdef WHEELCACHE_BENCHMARK_PEERS
  AddHistories<RocksdbLruStore>(flags, measurements);
#endif
  measurements.push_back(
      {"wheelcache/all_expire/numbers", LetAllExpire<uint64_t>});
  measurements.push_back(
      {"wheelcache/all_expire/strings", LetAllExpire<std::string>});
  measurements.push_back({"wheelcache/clear/numbers", ClearAll<uint64_t>});
  measurements.push_back({"wheelcache/clear/strings", ClearAll<std::string>});
  for (const int count : {1, 500}) {
    measurements.push_back({absl::StrCat("wheelcache/empty/", count),
                            [count](const Flags&, Report& report) {
                              MeasureEmpty(count, report);
                            }});
  }
  return measurements;
}

bool ParseFlag(const std::string& argument, Flags& flags) {
  absl::string_view value = argument;
  if (argument == "--series") return flags.series = true;
  if (argument == "--check") return flags.check = true;
  if (argument == "--list") return flags.list = true;
  if (absl::ConsumePrefix(&value, "--max_bytes=")) {
    return absl::SimpleAtoi(value, &flags.max_bytes) && flags.max_bytes >= kMiB;
  }
  if (absl::ConsumePrefix(&value, "--threads=")) {
    return absl::SimpleAtoi(value, &flags.threads) && flags.threads >= 1;
  }
  return false;
}

bool ParseFlags(const std::vector<std::string>& arguments, Flags& flags) {
  for (const std::string& argument : arguments) {
    if (!absl::StartsWith(argument, "--")) {
      flags.names.push_back(argument);
      continue;
    }
    if (!ParseFlag(argument, flags)) {
      absl::FPrintF(stderr, "memory_histories: cannot use %s\n", argument);
      return false;
    }
    flags.given.push_back(argument);
  }
  return true;
}

int Run(const Measurement& measurement, const Flags& flags) {
  Report report(measurement.name);
  measurement.run(flags, report);
  return flags.check && !report.within_limits() ? 1 : 0;
}

// Runs one measurement in a child process, and returns its exit status.
int RunInChild(const std::string& measurement, const Flags& flags) {
  std::vector<std::string> words = {"memory_histories", measurement};
  words.insert(words.end(), flags.given.begin(), flags.given.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child;
  int status;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(),
                  environ) != 0 ||
      waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    absl::FPrintF(stderr, "memory_histories: %s failed\n", measurement);
    return 2;
  }
  return WEXITSTATUS(status);
}

bool IsWanted(const std::string& measurement, const Flags& flags) {
  return flags.names.empty() ||
         std::any_of(flags.names.begin(), flags.names.end(),
                     [&](const std::string& name) {
                       return absl::StrContains(measurement, name);
                     });
}

int Main(const std::vector<std::string>& arguments) {
  Flags flags;
  if (!ParseFlags(arguments, flags)) return 2;
  int status = 0;
  bool any = false;
  for (const Measurement& measurement : Measurements(flags)) {
    if (!IsWanted(measurement.name, flags)) continue;
    any = true;
    if (flags.list) {
      absl::PrintF("%s\n", measurement.name);
    } else if (flags.names == std::vector{measurement.name}) {
      return Run(measurement, flags);
    } else {
      status = std::max(status, RunInChild(measurement.name, flags));
    }
  }
  if (any) return status;
  absl::FPrintF(stderr, "memory_histories: no such measurement; see --list\n");
  return 2;
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main(int argc, char** argv) {
  return wheelcache::benchmarks::Main(
      std::vector<std::string>(argv + 1, argv + argc));
}
