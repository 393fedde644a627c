// Synthetic trace with the statistics of one of Twitter's cache clusters, for
// replays without a trace file.
//
//   Workload workload;                  // The same requests each time.
//   absl::StatusOr<bool> more = workload.Next(request);
//
// Skew and TTLs are those of cluster 4 in the statistics of March 2020 that
// Twitter published with its open traces (Yang, Yue and Rashmi, "A large scale
// analysis of hundreds of in-memory cache clusters at Twitter", OSDI 2020):
// popularity by Zipf's law with exponent 1.1, and six TTLs from a minute to a
// day. The sizes are spread around the paper's median of 230 bytes. Cluster 4
// has gets and sets alone; the other operations have the small shares of other
// clusters. usage.h says the same for --help.
//
// Guarantees: a key keeps its size and its TTL. Each request names its key's
// TTL, so that a value read through has it as well. The same build generates
// the same requests on every run.
//
// Threads: thread-compatible.
//
// Cost: about 100 ns a request. The table of the Zipf sampler takes 8 MB, which
// all workloads of a process share and which are never freed.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_WORKLOAD_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_WORKLOAD_H_

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

class Workload : public RequestSource {
 public:
  static constexpr int64_t kDefaultRequests = 4'000'000;

  explicit Workload(int64_t requests = kDefaultRequests);

  absl::StatusOr<bool> Next(Request& request) override;

 private:
  uint64_t NextRank();
  Operation NextOperation();

  const int64_t requests_;
  int64_t produced_ = 0;
  std::mt19937_64 random_;
  // Sampled in batches, so that cache misses in the sampler's table overlap.
  std::array<int64_t, 64> ranks_;
  std::string key_;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_WORKLOAD_H_
