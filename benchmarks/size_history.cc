#include "wheelcache/benchmarks/size_history.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace wheelcache::benchmarks {
namespace {

constexpr size_t kKiB = 1 << 10;

SizePhase Small() { return {/*volumes=*/3, 64, 128}; }

SizeHistory SmallThenSmallAgain(std::string name, const SizePhase& between) {
  return {std::move(name), {Small(), between, Small()}};
}

SizeHistory KeptByUse() {
  SizePhase reading = {/*volumes=*/3, 16 * kKiB, 16 * kKiB};
  reading.reads_kept = true;
  SizeHistory history = {"kept_by_use", {Small(), reading}};
  history.most = 1.15;
  history.kept_stride = 64;
  return history;
}

SizeHistory Creep() {
  constexpr int kSteps = 24;
  constexpr double kSmallest = 64;
  constexpr double kLargest = 18 * kKiB;
  SizeHistory history = {"creep", {}};
  for (int step = 0; step < kSteps; ++step) {
    const auto size = static_cast<size_t>(std::lround(
        kSmallest * std::pow(kLargest / kSmallest, step / (kSteps - 1.0))));
    history.phases.push_back({/*volumes=*/1, size, size});
  }
  return history;
}

// Teeth shorter than a volume mix both sizes; longer ones replace all entries.
SizeHistory Sawtooth() {
  SizeHistory history = {"sawtooth", {}};
  for (const double volumes : {0.5, 0.5, 0.5, 0.5, 3.0, 3.0, 3.0}) {
    history.phases.push_back({volumes, 100, 100});
    history.phases.push_back({volumes, 12 * kKiB, 12 * kKiB});
  }
  return history;
}

SizeHistory LogUniform() {
  SizePhase phase = {/*volumes=*/6, 16, kLargestSize};
  phase.log_uniform = true;
  return {"log_uniform", {phase}};
}

SizeHistory Threads() {
  SizeHistory history =
      SmallThenSmallAgain("threads", {/*volumes=*/3, 17 * kKiB, 64 * kKiB});
  history.most = 1.15;
  history.concurrent = true;
  return history;
}

}  // namespace

size_t SizePhase::DrawSize(std::mt19937_64& random) const {
  if (!log_uniform) {
    return std::uniform_int_distribution<size_t>(smallest, largest)(random);
  }
  const auto low = static_cast<double>(smallest);
  const auto high = static_cast<double>(largest);
  std::uniform_real_distribution<double> exponent(0, 1);
  return static_cast<size_t>(low * std::pow(high / low, exponent(random)));
}

double SizeHistory::volumes() const {
  double sum = 0;
  for (const SizePhase& phase : phases) sum += phase.volumes;
  return sum;
}

const SizePhase& SizeHistory::PhaseAt(double position) const {
  double end = 0;
  for (const SizePhase& phase : phases) {
    end += phase.volumes;
    if (position < end) return phase;
  }
  return phases.back();
}

std::vector<SizeHistory> SizeHistories() {
  return {
      SmallThenSmallAgain("small_medium_small",
                          {/*volumes=*/3, 8 * kKiB, 16 * kKiB}),
      SmallThenSmallAgain("small_large_small",
                          {/*volumes=*/3, 64 * kKiB, 512 * kKiB}),
      KeptByUse(),
      Creep(),
      Sawtooth(),
      LogUniform(),
      Threads(),
  };
}

}  // namespace wheelcache::benchmarks
