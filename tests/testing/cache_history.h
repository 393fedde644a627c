// What a cache and its clock have to do, for the search of linearizability.h:
// calls with their outcomes, the state that they act on, and which outcomes are
// right in which state.
//
// The clock is a part of the object, and that time passes is a call like
// others: after it no Get may return what has expired by it. One thing is left
// open: from which instant of the call a Set or Touch counts its TTL. The value
// may be visible later than that instant, but not longer.
//
// Limits are left out: the caches of these histories evict nothing.

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_HISTORY_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_HISTORY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "wheelcache/tests/testing/linearizability.h"

namespace wheelcache {

inline constexpr int kHistoryKeys = 3;

// Times are whole ticks. A TTL of kForever never ends.
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

struct HistoryCall {
  enum What {
    kSet,
    kGet,
    kFind,  // As kGet, and pins the value until the script ends.
    kDel,
    kTouch,
    kClear,
    kTick,
    kMaintain,
    kMove,
  };

  What what = kGet;
  int key = 0;
  int64_t ttl = 0;  // Of a Set or Touch; 0 removes.

  // Set by it, or got: 0 for nothing. Of a Del or Touch: 1 if it found a value.
  int value = 0;

  // The clock at some instant before the call.
  int64_t time_before = 0;

  int thread = 0;
};

using CacheHistory = std::vector<Recorded<HistoryCall>>;

struct CacheState {
  struct Slot {
    int value = 0;
    int64_t deadline = 0;

    bool operator==(const Slot& other) const {
      return value == other.value && deadline == other.deadline;
    }
    template <typename H>
    friend H AbslHashValue(H h, const Slot& slot) {
      return H::combine(std::move(h), slot.value, slot.deadline);
    }
  };

  int64_t now = 0;
  std::array<Slot, kHistoryKeys> slots = {};

  int Live(int key) const {
    return slots[key].deadline > now ? slots[key].value : 0;
  }

  bool operator==(const CacheState& other) const {
    return now == other.now && slots == other.slots;
  }
  template <typename H>
  friend H AbslHashValue(H h, const CacheState& state) {
    return H::combine(std::move(h), state.now, state.slots);
  }
};

// `state` with the deadlines that the call may have given, if it took effect at
// the time `now`.
inline std::vector<CacheState> WithEachDeadline(int64_t now,
                                                const HistoryCall& call,
                                                CacheState state) {
  std::vector<CacheState> states;
  for (int64_t from = call.time_before; from <= now; ++from) {
    const bool ends = call.ttl != kForever;
    state.slots[call.key].deadline = ends ? from + call.ttl : kForever;
    states.push_back(state);
  }
  return states;
}

// The specification: the states after `call`, none if its outcome is wrong.
inline std::vector<CacheState> AfterCall(const CacheState& before,
                                         const HistoryCall& call) {
  CacheState after = before;
  CacheState::Slot& slot = after.slots[call.key];
  const int live = before.Live(call.key);
  switch (call.what) {
    case HistoryCall::kSet:
      slot.value = call.value;
      return WithEachDeadline(before.now, call, after);
    case HistoryCall::kGet:
    case HistoryCall::kFind:
      if (call.value != live) return {};
      return {after};
    case HistoryCall::kDel:
      if (call.value != (live != 0 ? 1 : 0)) return {};
      slot = {};
      return {after};
    case HistoryCall::kTouch:
      if (call.value != (live != 0 ? 1 : 0)) return {};
      if (live == 0) return {after};
      return WithEachDeadline(before.now, call, after);
    case HistoryCall::kClear:
      after.slots = {};
      return {after};
    case HistoryCall::kTick:
      ++after.now;
      return {after};
    case HistoryCall::kMaintain:
    case HistoryCall::kMove:
      return {after};
  }
  return {};
}

inline std::ostream& operator<<(std::ostream& out, const HistoryCall& call) {
  constexpr const char* kNames[] = {"Set",   "Get",  "Find",     "Del", "Touch",
                                    "Clear", "Tick", "Maintain", "Move"};
  out << kNames[call.what] << " key " << call.key << " value " << call.value;
  if (call.ttl == kForever) return out << " for ever";
  return out << " ttl " << call.ttl;
}

// For a human: the calls in the order of their beginnings.
inline std::ostream& operator<<(std::ostream& out, CacheHistory history) {
  std::sort(history.begin(), history.end(),
            [](const auto& a, const auto& b) { return a.began < b.began; });
  for (const auto& recorded : history) {
    out << "  from " << recorded.began << " to " << recorded.ended
        << " on thread " << recorded.call.thread << " at time "
        << recorded.call.time_before << ": " << recorded.call << "\n";
  }
  return out;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_HISTORY_H_
