// Timers in a std::multimap, the usual first choice.

#ifndef WHEELCACHE_BENCHMARKS_BASELINES_MULTIMAP_TIMERS_H_
#define WHEELCACHE_BENCHMARKS_BASELINES_MULTIMAP_TIMERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace wheelcache {

class MultimapTimers {
 public:
  explicit MultimapTimers(size_t timers) : places_(timers) {}

  void Add(uint32_t timer, uint64_t deadline) {
    places_[timer] = queue_.emplace(deadline, timer);
  }

  void Move(uint32_t timer, uint64_t deadline) {
    // Reuses the node, which is the fastest way for a multimap.
    auto node = queue_.extract(places_[timer]);
    node.key() = deadline;
    places_[timer] = queue_.insert(std::move(node));
  }

  void Cancel(uint32_t timer) { queue_.erase(places_[timer]); }

  template <typename Fire>
  void Advance(uint64_t now, Fire&& fire) {
    while (!queue_.empty() && queue_.begin()->first <= now) {
      const uint32_t timer = queue_.begin()->second;
      queue_.erase(queue_.begin());
      fire(timer);
    }
  }

  uint64_t NextWakeup() const { return queue_.begin()->first; }

 private:
  using Queue = std::multimap<uint64_t, uint32_t>;

  Queue queue_;
  std::vector<Queue::iterator> places_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_BENCHMARKS_BASELINES_MULTIMAP_TIMERS_H_
