// What the eviction policies do to the hit ratio, as lines of a name and a
// value: on the real traces, and against adversaries of the scan-resistant one.
// The same in every run.
//
//   policy_figures    prints policy/TRACE/ENTRIES/lru, .../scan_resistant and
//                     .../belady, policy/adversary/NAME/lru and
//                     .../scan_resistant
//
// Caches have one shard, no TTL, and are read through. Traces that are missing
// are left out: see tests/tools/trace_replay/real_trace.h. They are looked for
// next to the source tree if that is the working directory.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/policy_adversary.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/bounds.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::benchmarks {
namespace {

using replay::LoadedTrace;
using testing::PolicyAdversary;
using testing::Workload;

// Those of docs/policy.md.
struct Trace {
  const char* name;
  std::vector<int64_t> entries;
};

std::vector<Trace> Traces() {
  return {{"sprite", {354, 1'415}},
          {"cdn_sizes", {1'841, 7'363}},
          {"cloudphysics", {2'449, 4'897, 9'795}},
          {"oltp", {1'869, 9'344, 37'376}},
          {"orm_busy", {3'817, 7'635, 15'270}}};
}

void Print(const std::string& name, double value) {
  std::printf("policy/%s\t%.5f\n", name.c_str(), value);
}

struct FixedHash {
  uint64_t operator()(uint64_t key) const {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
    key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
    return key ^ (key >> 31);
  }
};

double HitRatioOnTrace(const LoadedTrace& trace, int64_t entries,
                       EvictionPolicy policy) {
  SimulatedClock clock;
  CacheOptions options;
  options.max_entries = entries;
  options.policy = policy;
  options.shards = 1;
  options.clock = &clock;
  options.reaper = nullptr;
  auto cache = *Cache<uint64_t, char, FixedHash>::Create(options);
  double hits = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const uint64_t key = trace.key(i);
    if (cache->Get(key).has_value()) {
      ++hits;
    } else {
      cache->Set(key, 0);
    }
  }
  return hits / static_cast<double>(trace.size());
}

void PlayTrace(const Trace& named) {
  const auto trace = replay::LoadRealTrace(named.name);
  if (!trace.ok()) return;
  const auto next_reads = replay::NextReads(*trace, /*read_through=*/true);
  for (const int64_t entries : named.entries) {
    const std::string name = absl::StrCat(named.name, "/", entries, "/");
    Print(name + "lru", HitRatioOnTrace(*trace, entries, EvictionPolicy::kLru));
    Print(name + "scan_resistant",
          HitRatioOnTrace(*trace, entries, EvictionPolicy::kScanResistant));
    Print(name + "belady",
          static_cast<double>(replay::MostHits(next_reads, entries)) /
              static_cast<double>(trace->size()));
  }
}

void PlayAdversaries() {
  constexpr int64_t kEntries = 10'000;
  using Method = Workload (PolicyAdversary::*)();
  const std::pair<const char*, Method> adversaries[] = {
      {"collisions", &PolicyAdversary::FloodOfKeysThatCollide},
      {"scans", &PolicyAdversary::ScansThatResetEachHotKey},
      {"loop", &PolicyAdversary::LoopThatJustFits},
      {"change", &PolicyAdversary::AbruptChangeOfTheKeys},
      {"change_that_fits", &PolicyAdversary::AbruptChangeToAnotherSetThatFits},
      {"sessions", &PolicyAdversary::Sessions},
      {"too_many_sessions", &PolicyAdversary::SessionsThatDoNotFit},
      {"news", &PolicyAdversary::News},
      {"pairs", &PolicyAdversary::Pairs},
      {"heated_then_loop", &PolicyAdversary::HeatedAndThenALoop},
      {"hot_set_dies", &PolicyAdversary::HotSetThatDies}};
  for (const auto& [name, method] : adversaries) {
    PolicyAdversary adversary(kEntries, /*seed=*/1);
    const Workload keys = (adversary.*method)();
    const std::string prefix = absl::StrCat("adversary/", name, "/");
    Print(prefix + "lru",
          testing::HitRatio(keys, kEntries, EvictionPolicy::kLru));
    Print(prefix + "scan_resistant",
          testing::HitRatio(keys, kEntries, EvictionPolicy::kScanResistant));
  }
}

}  // namespace
}  // namespace wheelcache::benchmarks

int main() {
  for (const auto& trace : wheelcache::benchmarks::Traces()) {
    wheelcache::benchmarks::PlayTrace(trace);
  }
  wheelcache::benchmarks::PlayAdversaries();
}
