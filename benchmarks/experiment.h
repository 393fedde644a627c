// Runs a workload as a Google Benchmark, with a state that is built once.
//
//   template <typename Subject>
//   class GetHit {
//    public:
//     static constexpr char kName[] = "BM_GetHit";
//     explicit GetHit(int threads);
//     void Run(benchmark::State& state);  // Called by each of the threads.
//   };
//   RegisterExperiment<GetHit<WheelcacheSubject>, WheelcacheSubject>();
//
// Google Benchmark calls a benchmark several times, until it has found out how
// many iterations take long enough. To fill a cache each time would take longer
// than to measure, and would measure a cache that nobody has used yet. So the
// state lives on: until another workload, subject or number of threads has its
// turn or, where they take turns all the time (side_by_side), to the end.
//
// Beside what the workload reports, `stolen` is the part of the time of the
// processors that the host kept from it (stolen_time.h).

#ifndef WHEELCACHE_BENCHMARKS_EXPERIMENT_H_
#define WHEELCACHE_BENCHMARKS_EXPERIMENT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"

namespace wheelcache::benchmarks {

// The states that live, by their experiment and the number of threads.
struct States {
  bool side_by_side = false;  // Or one at a time.
  std::map<std::pair<const void*, int>, std::shared_ptr<void>> living;
};

inline States& TheStates() {
  static auto* states = new States();
  return *states;
}

template <typename Workload>
class Experiment {
 public:
  static void SetUp(const benchmark::State& state) {
    States& states = TheStates();
    const std::pair<const void*, int> key{&Current(), state.threads()};
    if (states.living.count(key) == 0) {
      // Frees its memory before the next takes some.
      if (!states.side_by_side) states.living.clear();
      states.living[key] = std::make_shared<Workload>(state.threads());
    }
    Current() = static_cast<Workload*>(states.living[key].get());
  }

  static void Run(benchmark::State& state) {
    const StolenTime stolen;
    Current()->Run(state);
    // One thread tells it for all.
    if (state.thread_index() == 0) state.counters["stolen"] = stolen.share();
  }

 private:
  static Workload*& Current() {
    static Workload* current = nullptr;
    return current;
  }
};

// Registers the benchmark Workload::kName<Subject::kName> for 1, 2, 4 and 8
// threads, as far as the subject allows.
template <typename Workload, typename Subject>
void RegisterExperiment() {
  const std::string name =
      absl::StrCat(Workload::kName, "<", Subject::kName, ">");
  auto* registered =
      benchmark::RegisterBenchmark(name.c_str(), Experiment<Workload>::Run)
          ->Setup(Experiment<Workload>::SetUp)
          ->UseRealTime();
  for (int threads = 1; threads <= Subject::kMostThreads; threads *= 2) {
    registered->Threads(threads);
  }
}

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_EXPERIMENT_H_
