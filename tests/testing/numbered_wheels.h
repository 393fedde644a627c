// Both forms of the timing wheel behind one face: timers that have numbers.
//
// Schedule moves a timer that is scheduled already, Destroy frees it for good,
// and Schedule after that makes a new one.

#ifndef WHEELCACHE_TESTS_TESTING_NUMBERED_WHEELS_H_
#define WHEELCACHE_TESTS_TESTING_NUMBERED_WHEELS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/timer_links.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache {

// A TimingWheel whose timers are allocated one by one, so that AddressSanitizer
// sees each touch of a destroyed one.
class PointerWheel {
 public:
  PointerWheel(uint64_t now, int timers) : wheel_(now), timers_(timers) {}

  void Schedule(int number, uint64_t deadline) {
    std::unique_ptr<NumberedTimer>& timer = timers_[number];
    if (timer == nullptr) timer = std::make_unique<NumberedTimer>(number);
    wheel_.Schedule(timer.get(), deadline);
  }

  bool Cancel(int number) {
    return timers_[number] != nullptr && wheel_.Cancel(timers_[number].get());
  }

  void Destroy(int number) { timers_[number].reset(); }

  bool scheduled(int number) const {
    return timers_[number] != nullptr && timers_[number]->scheduled();
  }

  template <typename Fire>
  uint64_t Advance(uint64_t now, uint64_t budget, Fire&& fire) {
    return wheel_.Advance(now, budget,
                          [&](Timer* timer) { fire(NumberOf(timer)); });
  }

  template <typename Taken>
  void TakeAll(Taken&& taken) {
    wheel_.TakeAll([&](Timer* timer) { taken(NumberOf(timer)); });
  }

  uint64_t now() const { return wheel_.now(); }
  bool empty() const { return wheel_.empty(); }
  std::optional<uint64_t> NextWakeup() const { return wheel_.NextWakeup(); }
  absl::Status CheckInvariants() const { return wheel_.CheckInvariants(); }

 private:
  struct NumberedTimer : Timer {
    explicit NumberedTimer(int n) : number(n) {}
    const int number;
  };

  static int NumberOf(Timer* timer) {
    return static_cast<NumberedTimer*>(timer)->number;
  }

  TimingWheel wheel_;
  std::vector<std::unique_ptr<NumberedTimer>> timers_;
};

// A wheel over an array of timers that are linked by their index.
template <typename Index>
class IndexWheel {
 public:
  IndexWheel(uint64_t now, int timers)
      : timers_(timers + 1), wheel_(Store{timers_.data()}, now) {}

  void Schedule(int number, uint64_t deadline) {
    IndexedTimer& timer = timers_[number + 1];
    if (timer.links.scheduled()) {
      if (deadline >= timer.deadline) {
        timer.deadline = deadline;
        return;
      }
      wheel_.Cancel(RefOf(number));
    }
    timer.deadline = deadline;
    wheel_.Schedule(RefOf(number));
  }

  bool Cancel(int number) {
    if (!scheduled(number)) return false;
    wheel_.Cancel(RefOf(number));
    return true;
  }

  void Destroy(int number) {
    Cancel(number);
    // The wheel must neither read this nor care.
    timers_[number + 1].links.next = RefOf(number);
    timers_[number + 1].deadline = 0;
  }

  bool scheduled(int number) const {
    return timers_[number + 1].links.scheduled();
  }

  template <typename Fire>
  uint64_t Advance(uint64_t now, uint64_t budget, Fire&& fire) {
    return wheel_.Advance(now, budget,
                          [&](Index ref) { fire(static_cast<int>(ref - 1)); });
  }

  template <typename Taken>
  void TakeAll(Taken&& taken) {
    wheel_.TakeAll([&](Index ref) { taken(static_cast<int>(ref - 1)); });
  }

  uint64_t now() const { return wheel_.now(); }
  bool empty() const { return wheel_.empty(); }
  std::optional<uint64_t> NextWakeup() const { return wheel_.NextWakeup(); }
  absl::Status CheckInvariants() const { return wheel_.CheckInvariants(); }

 private:
  struct IndexedTimer {
    TimerLinks<Index> links;
    uint64_t deadline = 0;
  };

  struct Store {
    using Ref = Index;
    TimerLinks<Index>& links(Index ref) const { return timers[ref].links; }
    uint64_t deadline(Index ref) const { return timers[ref].deadline; }
    IndexedTimer* timers;
  };

  static Index RefOf(int number) { return static_cast<Index>(number) + 1; }

  std::vector<IndexedTimer> timers_;  // The one at 0 stands for null.
  BasicTimingWheel<Store> wheel_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_NUMBERED_WHEELS_H_
