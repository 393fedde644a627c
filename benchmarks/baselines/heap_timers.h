// Timers in a binary heap with lazy deletion: the old item of a cancelled or
// moved timer stays in the heap until it reaches the top.

#ifndef WHEELCACHE_BENCHMARKS_BASELINES_HEAP_TIMERS_H_
#define WHEELCACHE_BENCHMARKS_BASELINES_HEAP_TIMERS_H_

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace wheelcache {

class HeapTimers {
 public:
  explicit HeapTimers(size_t timers) : versions_(timers) {}

  void Add(uint32_t timer, uint64_t deadline) {
    heap_.push({deadline, timer, versions_[timer]});
  }

  void Move(uint32_t timer, uint64_t deadline) {
    Cancel(timer);
    Add(timer, deadline);
  }

  void Cancel(uint32_t timer) { ++versions_[timer]; }

  template <typename Fire>
  void Advance(uint64_t now, Fire&& fire) {
    while (!heap_.empty() && heap_.top().deadline <= now) {
      const Item item = heap_.top();
      heap_.pop();
      if (item.version == versions_[item.timer]) fire(item.timer);
    }
  }

  uint64_t NextWakeup() const { return heap_.top().deadline; }

 private:
  struct Item {
    uint64_t deadline;
    uint32_t timer;
    uint32_t version;

    friend bool operator<(const Item& a, const Item& b) {
      return a.deadline > b.deadline;  // The earliest on top.
    }
  };

  std::priority_queue<Item> heap_;
  std::vector<uint32_t> versions_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_BENCHMARKS_BASELINES_HEAP_TIMERS_H_
