// Timers in an absl::btree_map, ordered by deadline and then by arrival.

#ifndef WHEELCACHE_BENCHMARKS_BASELINES_BTREE_TIMERS_H_
#define WHEELCACHE_BENCHMARKS_BASELINES_BTREE_TIMERS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace wheelcache {

class BtreeTimers {
 public:
  explicit BtreeTimers(size_t timers) : keys_(timers) {}

  void Add(uint32_t timer, uint64_t deadline) {
    keys_[timer] = {deadline, arrivals_++};
    queue_.emplace(keys_[timer], timer);
  }

  void Move(uint32_t timer, uint64_t deadline) {
    Cancel(timer);
    Add(timer, deadline);
  }

  // By key, since a B-tree moves its elements and iterators do not last.
  void Cancel(uint32_t timer) { queue_.erase(keys_[timer]); }

  template <typename Fire>
  void Advance(uint64_t now, Fire&& fire) {
    while (!queue_.empty() && queue_.begin()->first.first <= now) {
      const uint32_t timer = queue_.begin()->second;
      queue_.erase(queue_.begin());
      fire(timer);
    }
  }

  uint64_t NextWakeup() const { return queue_.begin()->first.first; }

 private:
  using Key = std::pair<uint64_t, uint64_t>;

  uint64_t arrivals_ = 0;
  absl::btree_map<Key, uint32_t> queue_;
  std::vector<Key> keys_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_BENCHMARKS_BASELINES_BTREE_TIMERS_H_
