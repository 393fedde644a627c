// What a cache and its clock have to do, for the search of linearizability.h:
// calls with their outcomes, the state that they act on, and which outcomes are
// right in which state.
//
// The clock is a part of the object, and that time passes is a call like
// others: after it no Get may return what has expired by it. One thing is left
// open: from which instant of the call a Set or Touch counts its TTL. The value
// may be visible later than that instant, but not longer.
//
// A load is two calls: the one that begins it, which may find a value or the
// load of another instead, and the one that ends it, which stores its value if
// nothing has superseded it meanwhile. So is a refresh. What a load gives is
// its number.
//
// No two calls store the same value, so that a value tells which entry a handle
// pins.
//
// FindMany, ForEach and EraseIf are no calls of one instant. A history has a
// call for each key in their place: what ForEach shows of a key, or that it
// shows nothing, was true at an instant of its own.
//
// What a limit evicts is a call of its own, of the thread whose call evicted
// it.

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

// Times are whole ticks. A TTL of kForever never ends; one of kKept, of a
// conditional write, is what is left of that of the old value, or kForever.
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kKept = -1;

struct HistoryCall {
  enum What {
    kSet,
    kGet,
    kDel,
    kTouch,
    kClear,
    kTick,
    kMaintain,
    kFind,  // As kGet, for the conditional calls that follow.
    kSetIf,
    kDelIf,
    kTake,
    kUpdate,
    kUpdateDelete,
    kErase,      // The very value, which it has seen.
    kEvict,      // The very value, which may have expired.
    kMissing,    // Of a ForEach that has not shown the key.
    kShown,      // Of one that has. As kGet, but no use.
    kMove,       // Begins to move entries.
    kForEach,    // In scripts: recorded as kShown of each key, or kMissing.
    kEraseIf,    // In scripts: of one key; the others as for ForEach.
    kBegin,      // Begins a load, perhaps.
    kFinish,     // Ends one with a value.
    kDrop,       // Ends one without, or a refresh.
    kRefresh,    // Queues one, perhaps.
    kRunTask,    // Runs that.
    kLoad,       // In scripts: kBegin and kFinish in one.
    kLoadAsync,  // In scripts: the same by a coroutine, in C++20.
    kFindMany,   // In scripts: of all keys; recorded as kGet of each.
  };

  // What kBegin has found: a value, perhaps of another load that ended then;
  // nothing, so that it has to load; another load that goes on.
  enum Found { kValue, kNothing, kAnotherLoad };

  // How a conditional call ends.
  enum Outcome { kWon, kLost, kRefused };

  What what = kGet;
  int key = 0;
  int64_t ttl = 0;  // Of a Set or Touch; 0 removes.

  // Set by it, or got: 0 for nothing. Of a Del or Touch: 1 if it found a value.
  // Of kBegin, what it got, 0 if that is not known. Of kFinish, 1 if it stored,
  // 2 if that is not known. Of kRefresh, 1 if it began. Of kRunTask, 1 if it
  // asked for a value.
  int value = 0;

  int load = 0;  // The number of the load that it begins or ends.
  Found found = kValue;

  // Of a conditional call: the value of its handle, or the last one that the
  // function of Update was called with; 0 for nothing.
  int expected = 0;
  Outcome outcome = kWon;

  // The clock at some instant before the call, and after a ForEach.
  int64_t time_before = 0;
  int64_t time_after = 0;

  int thread = 0;
};

using CacheHistory = std::vector<Recorded<HistoryCall>>;

struct CacheState {
  struct Slot {
    int value = 0;
    int64_t deadline = 0;
    int64_t hard_deadline = 0;  // The other is earlier, for want of uses.
    int load = 0;               // That is in flight.
    bool refreshes = false;     // It is a refresh, queued or running.

    bool operator==(const Slot& other) const {
      return value == other.value && deadline == other.deadline &&
             hard_deadline == other.hard_deadline && load == other.load &&
             refreshes == other.refreshes;
    }
    template <typename H>
    friend H AbslHashValue(H h, const Slot& slot) {
      return H::combine(std::move(h), slot.value, slot.deadline,
                        slot.hard_deadline, slot.load, slot.refreshes);
    }
  };

  int64_t now = 0;
  int64_t idle_ttl = kForever;  // Always the same.
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

// `state` with the deadlines that the value may have if the call has used it,
// and took effect at the time `now`. It comes no earlier for that.
inline std::vector<CacheState> AfterUse(int64_t now, const HistoryCall& call,
                                        CacheState state) {
  if (state.idle_ttl == kForever) return {state};
  std::vector<CacheState> states;
  CacheState::Slot& slot = state.slots[call.key];
  const int64_t before = slot.deadline;
  for (int64_t used = call.time_before; used <= now; ++used) {
    slot.deadline =
        std::max(before, std::min(slot.hard_deadline, used + state.idle_ttl));
    states.push_back(state);
  }
  return states;
}

// The same of a value that has got its deadline now.
inline std::vector<CacheState> WithHardDeadline(int64_t deadline, int64_t now,
                                                const HistoryCall& call,
                                                CacheState state) {
  CacheState::Slot& slot = state.slots[call.key];
  slot.hard_deadline = deadline;
  slot.deadline = state.idle_ttl == kForever ? deadline : 0;
  return AfterUse(now, call, state);
}

// `state` with the deadlines that the call may have given, if it took effect at
// the time `now`.
inline std::vector<CacheState> WithEachDeadline(int64_t now,
                                                const HistoryCall& call,
                                                const CacheState& state) {
  std::vector<CacheState> states;
  for (int64_t from = call.time_before; from <= now; ++from) {
    const bool ends = call.ttl != kForever;
    for (const CacheState& next : WithHardDeadline(
             ends ? from + call.ttl : kForever, now, call, state)) {
      states.push_back(next);
    }
  }
  return states;
}

// What follows from a call that begins a load, or finds that it need not.
inline std::vector<CacheState> AfterBegin(const CacheState& before,
                                          const HistoryCall& call) {
  CacheState after = before;
  CacheState::Slot& slot = after.slots[call.key];
  const int live = before.Live(call.key);
  if (call.found == HistoryCall::kValue) {
    if (call.value != (live != 0 ? live : slot.load)) return {};
    if (live == 0) return {after};
    // A value that came while it was about to load is not used.
    std::vector<CacheState> states = AfterUse(before.now, call, after);
    states.push_back(after);
    return states;
  }
  if (live != 0) return {};
  if (call.found == HistoryCall::kAnotherLoad) {
    const bool is_that = call.value == 0 || call.value == slot.load;
    if (slot.load == 0 || !is_that) return {};
    return {after};
  }
  // A queued refresh makes room.
  if (slot.load != 0 && !slot.refreshes) return {};
  slot.load = call.load;
  slot.refreshes = false;
  return {after};
}

// What follows from the end of a load with a value.
inline std::vector<CacheState> AfterFinish(const CacheState& before,
                                           const HistoryCall& call) {
  CacheState after = before;
  CacheState::Slot& slot = after.slots[call.key];
  const bool is_current = slot.load == call.load;
  const bool stores = is_current && call.ttl > 0;
  if (call.what == HistoryCall::kFinish && call.value != 2 &&
      call.value != (stores ? 1 : 0)) {
    return {};
  }
  // A refresh that nothing supersedes before it begins asks for a value.
  if (call.what == HistoryCall::kRunTask && call.value == 0) {
    if (is_current) return {};
    return {after};
  }
  if (is_current) {
    slot.load = 0;
    slot.refreshes = false;
  }
  if (!stores) return {after};
  slot.value = call.load;
  return WithEachDeadline(before.now, call, after);
}

// An Update has never lost: then it goes on.
inline std::vector<CacheState> AfterConditionalSet(const CacheState& before,
                                                   const HistoryCall& call) {
  CacheState after = before;
  CacheState::Slot& slot = after.slots[call.key];
  if (call.expected != before.Live(call.key)) {
    if (call.outcome != HistoryCall::kLost) return {};
    return {after};
  }
  if (call.ttl == 0) {
    if (call.outcome != HistoryCall::kRefused) return {};
    if (call.expected != 0) slot = {};  // Else it changes nothing.
    return {after};
  }
  if (call.outcome != HistoryCall::kWon) return {};
  slot.load = 0;
  slot.refreshes = false;
  slot.value = call.value;
  if (call.ttl != kKept) return WithEachDeadline(before.now, call, after);
  return WithHardDeadline(call.expected == 0 ? kForever : slot.hard_deadline,
                          before.now, call, after);
}

// Nothing that is expected and there is nothing that can be deleted: a DelIf
// has lost, an Update was right.
inline std::vector<CacheState> AfterConditionalDelete(const CacheState& before,
                                                      const HistoryCall& call) {
  CacheState after = before;
  const bool same = call.expected == before.Live(call.key);
  const bool won = call.outcome == HistoryCall::kWon;
  if (call.what == HistoryCall::kUpdateDelete && !same) return {};
  if (won != (same && call.expected != 0)) return {};
  if (won) after.slots[call.key] = {};
  return {after};
}

// The specification: the states after `call`, none if its outcome is wrong.
inline std::vector<CacheState> AfterCall(const CacheState& before,
                                         const HistoryCall& call) {
  CacheState after = before;
  CacheState::Slot& slot = after.slots[call.key];
  const int live = before.Live(call.key);
  switch (call.what) {
    case HistoryCall::kSet:
      slot = {};
      slot.value = call.value;
      return WithEachDeadline(before.now, call, after);
    case HistoryCall::kGet:
    case HistoryCall::kFind:
      if (call.value != live) return {};
      if (live == 0) return {after};
      return AfterUse(before.now, call, after);
    case HistoryCall::kShown:
      if (call.value != live) return {};
      return {after};
    case HistoryCall::kDel:
      if (call.value != (live != 0 ? 1 : 0)) return {};
      slot = {};
      return {after};
    case HistoryCall::kErase:
      if (call.value != live) return {};
      slot = {};
      return {after};
    case HistoryCall::kEvict:
      // It supersedes no load.
      if (call.value != slot.value) return {};
      slot.value = 0;
      slot.deadline = slot.hard_deadline = 0;
      return {after};
    case HistoryCall::kMissing:
      // What has expired when its turn comes is not shown.
      if (live != 0 && slot.deadline > call.time_after) return {};
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
    case HistoryCall::kBegin:
      return AfterBegin(before, call);
    case HistoryCall::kFinish:
    case HistoryCall::kRunTask:
      return AfterFinish(before, call);
    case HistoryCall::kDrop:
      if (slot.load == call.load) {
        slot.load = 0;
        slot.refreshes = false;
      }
      return {after};
    case HistoryCall::kRefresh:
      if (call.value == 0) return {after};
      if (live == 0 || slot.load != 0) return {};
      slot.load = call.load;
      slot.refreshes = true;
      return {after};
    case HistoryCall::kTake:
      if (call.value != live) return {};
      slot = {};
      return {after};
    case HistoryCall::kSetIf:
    case HistoryCall::kUpdate:
      return AfterConditionalSet(before, call);
    case HistoryCall::kDelIf:
    case HistoryCall::kUpdateDelete:
      return AfterConditionalDelete(before, call);
    case HistoryCall::kForEach:
    case HistoryCall::kEraseIf:
    case HistoryCall::kLoad:
    case HistoryCall::kLoadAsync:
    case HistoryCall::kFindMany:
      break;
  }
  return {};
}

inline std::ostream& operator<<(std::ostream& out, const HistoryCall& call) {
  constexpr const char* kNames[] = {
      "Set",          "Get",     "Del",       "Touch",   "Clear", "Tick",
      "Maintain",     "Find",    "SetIf",     "DelIf",   "Take",  "Update",
      "UpdateDelete", "Erase",   "Evict",     "Missing", "Shown", "Move",
      "ForEach",      "EraseIf", "Begin",     "Finish",  "Drop",  "Refresh",
      "RunTask",      "Load",    "LoadAsync", "FindMany"};
  constexpr const char* kOutcomes[] = {"won", "lost", "refused"};
  constexpr const char* kFound[] = {"a value", "nothing", "another load"};
  out << kNames[call.what] << " key " << call.key << " value " << call.value;
  if (call.what >= HistoryCall::kSetIf && call.what < HistoryCall::kBegin) {
    out << " expected " << call.expected << " " << kOutcomes[call.outcome];
  }
  if (call.what >= HistoryCall::kBegin) out << " load " << call.load;
  if (call.what == HistoryCall::kBegin) out << " found " << kFound[call.found];
  if (call.ttl == kForever) return out << " for ever";
  if (call.ttl == kKept) return out << " ttl kept";
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
