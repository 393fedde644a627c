// Runs a workload as a Google Benchmark whose state is built once.
//
//   template <typename Subject>
//   class GetHit {
//    public:
//     static constexpr char kName[] = "BM_GetHit";
//     explicit GetHit(int threads);
//     void Run(benchmark::State& state);  // Called by every thread.
//   };
//   RegisterExperiment<GetHit<WheelcacheSubject>, WheelcacheSubject>();
//   int main(int argc, char** argv) { return RunExperiments(argc, argv); }
//
// Google Benchmark calls a benchmark several times to find the number of
// iterations that takes long enough. Filling a cache for each call would take
// longer than the measurement, and would measure a cache that is not in use
// yet. So the state lives until a benchmark of another workload, subject or
// number of threads begins, or to the end if they are interleaved
// (--benchmark_enable_random_interleaving=true).
//
// Reports the counter `stolen` next to those of the workload: the CPU steal
// (stolen_time.h).

#ifndef WHEELCACHE_BENCHMARKS_EXPERIMENT_H_
#define WHEELCACHE_BENCHMARKS_EXPERIMENT_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"

namespace wheelcache::benchmarks {

// The states that are alive, by experiment and number of threads.
struct States {
  bool side_by_side = false;  // Keep them all, rather than one at a time.
  std::map<std::pair<const void*, int>, std::shared_ptr<void>> living;
};

States& TheStates();

// Runs the benchmarks that were registered, as the flags of Google Benchmark
// say. Returns the exit status.
int RunExperiments(int argc, char** argv);

template <typename Workload>
class Experiment {
 public:
  static void SetUp(const benchmark::State& state) {
    States& states = TheStates();
    const std::pair<const void*, int> key{&Current(), state.threads()};
    if (states.living.count(key) == 0) {
      // Free the old state before the new one allocates.
      if (!states.side_by_side) states.living.clear();
      states.living[key] = std::make_shared<Workload>(state.threads());
    }
    Current() = static_cast<Workload*>(states.living[key].get());
  }

  static void Run(benchmark::State& state) {
    const StolenTime stolen;
    Current()->Run(state);
    // Counts the CPUs of all threads, so one thread reports it.
    if (state.thread_index() == 0) state.counters["stolen"] = stolen.share();
  }

 private:
  static Workload*& Current() {
    static Workload* current = nullptr;
    return current;
  }
};

// Registers the benchmark Workload::kName<Subject::kName> for 1, 2, 4 and 8
// threads, and more if there are more cores, up to Subject::kMostThreads.
template <typename Workload, typename Subject>
void RegisterExperiment() {
  const std::string name =
      absl::StrCat(Workload::kName, "<", Subject::kName, ">");
  auto* registered =
      benchmark::RegisterBenchmark(name.c_str(), Experiment<Workload>::Run)
          ->Setup(Experiment<Workload>::SetUp)
          ->UseRealTime();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int most = std::min(Subject::kMostThreads, std::max(8, cores));
  for (int threads = 1; threads < most; threads *= 2) {
    registered->Threads(threads);
  }
  registered->Threads(most);
}

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_EXPERIMENT_H_
