#include "wheelcache/benchmarks/experiment.h"

#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "benchmark/benchmark.h"

namespace wheelcache::benchmarks {

States& TheStates() {
  static auto* states = new States();
  return *states;
}

int RunExperiments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (flag == "--benchmark_enable_random_interleaving=true") {
      TheStates().side_by_side = true;
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  // The detector costs as much as a lock. Abseil omits it with NDEBUG, but a
  // distribution's package may have been built without that.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  benchmark::RunSpecifiedBenchmarks();
  TheStates().living.clear();
  benchmark::Shutdown();
  return 0;
}

}  // namespace wheelcache::benchmarks
