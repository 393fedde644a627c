// Runs jobs on a number of threads.
//
//   RunInParallel(/*threads=*/2, jobs.size(), [&](size_t i) { Run(jobs[i]); });

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_PARALLEL_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_PARALLEL_H_

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace wheelcache::replay {

// Calls run(0) to run(jobs - 1), in this order, each on one of `threads`
// threads, the caller's included. Returns when all have returned.
template <typename Run>
void RunInParallel(int threads, size_t jobs, Run run) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < jobs;) run(i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_PARALLEL_H_
