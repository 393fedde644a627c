// A point that threads pass together, and so close together that what they do
// next overlaps, though it takes less time than to wake a thread.
//
//   SpinBarrier barrier(threads);
//   barrier.Pass([&] { cache->Clear(); });  // On each of the threads.
//
// The work runs once, on the thread that arrives last, before any goes on.
//
// Threads. Thread-safe. Waiting keeps a core busy, and yields it to others.

#ifndef WHEELCACHE_TESTS_TESTING_SPIN_BARRIER_H_
#define WHEELCACHE_TESTS_TESTING_SPIN_BARRIER_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace wheelcache {

class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads) {}

  template <typename Work>
  void Pass(Work&& work) {
    const uint64_t round = round_.load();
    if (arrived_.fetch_add(1) + 1 < threads_) {
      while (round_.load() == round) std::this_thread::yield();
      return;
    }
    work();
    arrived_.store(0);
    round_.store(round + 1);
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<uint64_t> round_{0};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_SPIN_BARRIER_H_
