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
// state lives on until another workload, subject or number of threads has its
// turn; one state lives at a time.
//
// Beside what the workload reports, `stolen` is the part of the time of the
// processors that the host kept from it (stolen_time.h).

#ifndef WHEELCACHE_BENCHMARKS_EXPERIMENT_H_
#define WHEELCACHE_BENCHMARKS_EXPERIMENT_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"

namespace wheelcache::benchmarks {

// Whose turn it is, and the state that lives for it.
struct Turn {
  const void* owner = nullptr;
  int threads = 0;
  std::shared_ptr<void> state;
};

inline Turn& CurrentTurn() {
  static auto* turn = new Turn();
  return *turn;
}

template <typename Workload>
class Experiment {
 public:
  static void SetUp(const benchmark::State& state) {
    Turn& turn = CurrentTurn();
    if (turn.owner == &Current() && turn.threads == state.threads()) return;
    turn = {};  // Frees its memory before the next takes some.
    auto workload = std::make_shared<Workload>(state.threads());
    Current() = workload.get();
    turn = {&Current(), state.threads(), std::move(workload)};
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
