#include "wheelcache/benchmarks/workload.h"

#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "wheelcache/tools/load_testing/zipf_sampler.h"

namespace wheelcache::benchmarks {
namespace {

// Spreads a number's bits, one to one, so that keys share no prefix (Steele,
// Lea and Flood, "Fast splittable pseudorandom number generators").
uint64_t Spread(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

std::vector<Access> MakeAccesses(const AccessOptions& options) {
  const load_testing::ZipfSampler sampler(options.keys, options.skew);
  std::mt19937_64 random(/*seed=*/2);
  const auto write_below = static_cast<uint64_t>(
      options.writes *
      static_cast<double>(std::numeric_limits<uint32_t>::max()));
  std::vector<Access> accesses;
  accesses.reserve(kAccessCount);
  for (size_t i = 0; i < kAccessCount; ++i) {
    const Key key = MakeKey(sampler.Sample(random()));
    accesses.push_back({key, (random() >> 32) < write_below});
  }
  return accesses;
}

}  // namespace

Key MakeKey(uint64_t number) {
  constexpr absl::string_view kPrefix = "user:";
  constexpr char kDigits[] = "0123456789abcdef";
  Key key;
  std::memcpy(key.bytes.data(), kPrefix.data(), kPrefix.size());
  uint64_t spread = Spread(number);
  for (size_t i = kPrefix.size(); i < Key::kBytes; ++i, spread >>= 4) {
    key.bytes[i] = kDigits[spread & 15];
  }
  return key;
}

absl::string_view ValueFor(uint64_t number) {
  constexpr size_t kBytes = 64;
  constexpr absl::string_view kText =
      "the values begin one letter apart in this text, which is therefore "
      "somewhat longer than one of them is, and says no more than that";
  constexpr uint64_t kValues = 32;
  static_assert(kText.size() >= kBytes + kValues, "the last would end beyond");
  return kText.substr(number % kValues, kBytes);
}

const std::vector<Access>& AccessesOf(const AccessOptions& options) {
  static auto* accesses = new std::vector<Access>();
  static AccessOptions made_for{/*keys=*/0};
  if (std::tie(made_for.keys, made_for.skew, made_for.writes) !=
      std::tie(options.keys, options.skew, options.writes)) {
    std::vector<Access>().swap(*accesses);  // Not two of them at a time.
    *accesses = MakeAccesses(options);
    made_for = options;
  }
  return *accesses;
}

// The past looks as the future does: draws it backwards.
std::vector<int64_t> LastUsed(const AccessOptions& options, int64_t count) {
  const load_testing::ZipfSampler sampler(options.keys, options.skew);
  std::mt19937_64 random(/*seed=*/3);
  std::vector<bool> used(options.keys);
  std::vector<int64_t> newest_first;
  while (static_cast<int64_t>(newest_first.size()) < count) {
    const int64_t number = sampler.Sample(random());
    if (!used[number]) newest_first.push_back(number);
    used[number] = true;
  }
  return newest_first;
}

}  // namespace wheelcache::benchmarks
