// Timers in a hashed wheel with rounds: one ring of slots that a hand visits
// tick by tick. A timer more than a revolution away counts its remaining rounds
// down at each visit. This is the algorithm of go-zero's TimingWheel, with its
// 300 slots and lazy deletion of moved and cancelled timers.

#ifndef WHEELCACHE_BENCHMARKS_BASELINES_ROUNDS_TIMERS_H_
#define WHEELCACHE_BENCHMARKS_BASELINES_ROUNDS_TIMERS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

namespace wheelcache {

class RoundsTimers {
 public:
  explicit RoundsTimers(size_t timers) : items_(timers), slots_(kSlots) {}

  void Add(uint32_t timer, uint64_t deadline) {
    const uint64_t delay = deadline > now_ ? deadline - now_ : 1;
    std::list<Item>& slot = slots_[(now_ + delay) % kSlots];
    slot.push_back({timer, (delay - 1) / kSlots, false});
    items_[timer] = &slot.back();
  }

  void Move(uint32_t timer, uint64_t deadline) {
    Cancel(timer);
    Add(timer, deadline);
  }

  void Cancel(uint32_t timer) { items_[timer]->cancelled = true; }

  template <typename Fire>
  void Advance(uint64_t now, Fire&& fire) {
    while (now_ < now) Tick(fire);
  }

 private:
  static constexpr uint64_t kSlots = 300;

  struct Item {
    uint32_t timer;
    uint64_t rounds;
    bool cancelled;
  };

  template <typename Fire>
  void Tick(Fire& fire) {
    std::list<Item>& slot = slots_[++now_ % kSlots];
    for (auto item = slot.begin(); item != slot.end();) {
      if (!item->cancelled && item->rounds > 0) {
        --item->rounds;
        ++item;
        continue;
      }
      const Item due = *item;
      item = slot.erase(item);
      if (!due.cancelled) fire(due.timer);
    }
  }

  uint64_t now_ = 0;
  std::vector<Item*> items_;
  std::vector<std::list<Item>> slots_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_BENCHMARKS_BASELINES_ROUNDS_TIMERS_H_
