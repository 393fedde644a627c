// A made-up trace, so that a replay runs anywhere: requests shaped like those
// of one of Twitter's cache clusters.
//
//   Workload workload;                  // The same requests each time.
//   absl::StatusOr<bool> more = workload.Next(request);
//
// The statistics that Twitter published with its open traces (cluster 4 in the
// table of March 2020; Yang, Yue and Rashmi, "A large scale analysis of
// hundreds of in-memory cache clusters at Twitter", OSDI 2020) give the skew
// and the TTLs: popularity by Zipf's law with exponent 1.1, and six TTLs from a
// minute to a day. The sizes are spread around the paper's median of 230 bytes.
// Cluster 4 gets and sets alone; the other operations are added in the small
// shares that they have elsewhere in that table. kWorkloadDescription is the
// same in words for --help.
//
// Guarantees: a key has the same size and the same TTL throughout, and each
// request names its key's TTL, so that a value read through has it as well.
// The same build gives the same requests on every run.
//
// Threads: thread-compatible.
//
// Cost: about 100 ns a request, most of them for Zipf's law.

#ifndef WHEELCACHE_EXAMPLES_REPLAY_WORKLOAD_H_
#define WHEELCACHE_EXAMPLES_REPLAY_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "absl/random/zipf_distribution.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/examples/replay/request.h"

namespace wheelcache {
namespace replay {

extern const absl::string_view kWorkloadDescription;

class Workload : public RequestSource {
 public:
  static constexpr int64_t kDefaultRequests = 4'000'000;

  explicit Workload(int64_t requests = kDefaultRequests);

  absl::StatusOr<bool> Next(Request& request) override;
  std::optional<double> progress() const override;

 private:
  Operation NextOperation();

  const int64_t requests_;
  int64_t produced_ = 0;
  std::mt19937_64 random_;
  absl::zipf_distribution<uint64_t> rank_;
  std::string key_;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_EXAMPLES_REPLAY_WORKLOAD_H_
