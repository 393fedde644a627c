#include "wheelcache/tools/trace_replay/workload.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/load_testing/zipf_sampler.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {
namespace {

constexpr uint64_t kSeed = 20201104;
constexpr int64_t kKeys = 1'000'000;
constexpr double kZipfExponent = 1.1;
constexpr int64_t kRequestsPerSecond = 1'000;

// Keys of one kind share a prefix and a TTL.
struct Kind {
  uint64_t percent;
  uint32_t ttl_seconds;
  absl::string_view prefix;
};

constexpr std::array<Kind, 6> kKinds = {{{39, 60, "trend:"},
                                         {24, 300, "counter:"},
                                         {13, 3600, "session:"},
                                         {12, 600, "timeline:"},
                                         {9, 4 * 3600, "profile:"},
                                         {3, 24 * 3600, "media:"}}};

// Equally frequent; the median is 230 bytes, the mean 1.5 KB.
constexpr std::array<uint32_t, 16> kValueSizes = {
    16,  32,  48,  64,  96,  128,  160,  200,
    260, 340, 450, 600, 900, 1500, 4000, 16000};

struct Share {
  uint64_t per_mille;
  Operation operation;
};

constexpr std::array<Share, 11> kShares = {{{900, Operation::kGet},
                                            {60, Operation::kSet},
                                            {10, Operation::kGets},
                                            {10, Operation::kAdd},
                                            {7, Operation::kCas},
                                            {3, Operation::kReplace},
                                            {3, Operation::kIncr},
                                            {3, Operation::kDelete},
                                            {2, Operation::kAppend},
                                            {1, Operation::kPrepend},
                                            {1, Operation::kDecr}}};

// Maps a popularity rank one to one to the number in the key. Multiples of the
// golden ratio (times 2^64, made odd) spread evenly, so that kinds and sizes
// have their shares among popular and among rare keys.
uint64_t IdOfRank(uint64_t rank) { return (rank + 1) * 0x9e3779b97f4a7c15; }

// Samples ranks from 0, the most popular key's. Shared, because tests create
// many workloads and the table takes a while to build.
const load_testing::ZipfSampler& RankSampler() {
  static const auto* const sampler = new load_testing::ZipfSampler(
      kKeys, kZipfExponent, load_testing::ZipfOrder::kByNumber);
  return *sampler;
}

// Maps 64 random bits to a number from 0 to below `bound`.
uint64_t Below(uint64_t bound, uint64_t random) {
  return absl::Uint128High64(absl::uint128(random) * bound);
}

const Kind& KindOf(uint64_t percent) {
  size_t i = 0;
  while (percent >= kKinds[i].percent) percent -= kKinds[i++].percent;
  return kKinds[i];
}

}  // namespace

Workload::Workload(int64_t requests) : requests_(requests), random_(kSeed) {}

absl::StatusOr<bool> Workload::Next(Request& request) {
  if (produced_ == requests_) return false;
  const uint64_t id = IdOfRank(NextRank());
  const Kind& kind = KindOf(Below(100, id));
  key_.clear();
  absl::StrAppend(&key_, kind.prefix, absl::Hex(id, absl::kZeroPad16));

  request.timestamp_seconds = produced_ / kRequestsPerSecond;
  request.key = key_;
  request.key_size = static_cast<uint32_t>(key_.size());
  request.value_size = kValueSizes[(id >> 32) % kValueSizes.size()];
  request.operation = NextOperation();
  request.ttl_seconds = kind.ttl_seconds;
  ++produced_;
  return true;
}

uint64_t Workload::NextRank() {
  const size_t next = produced_ % ranks_.size();
  if (next == 0) {
    const load_testing::ZipfSampler& sampler = RankSampler();
    for (int64_t& rank : ranks_) rank = sampler.Sample(random_());
  }
  return ranks_[next];
}

Operation Workload::NextOperation() {
  uint64_t per_mille = Below(1000, random_());
  size_t i = 0;
  while (per_mille >= kShares[i].per_mille) per_mille -= kShares[i++].per_mille;
  return kShares[i].operation;
}

}  // namespace wheelcache::replay
