// Decides whether what threads saw of an object can be explained by their calls
// having taken effect one after the other, each at an instant between its
// beginning and its end: whether the history is linearizable.
//
//   std::vector<Recorded<Call>> history = ...;
//   IsLinearizable(history, State(), [](const State& before, const Call& call)
//   {
//     return call.got == before.value ? std::vector<State>{before}
//                                     : std::vector<State>{};
//   })
//
// The specification is a function that returns the states which the object may
// have after a call that had the recorded outcome: none if the outcome is wrong
// in that state, several if the history does not tell. States are copied,
// compared and hashed.
//
// Of the calls that are left, one may have come first if it began before the
// end of each of them. The search tries those in turn, and goes back where the
// specification forbids what was recorded. (J. Wing and C. Gong, "Testing and
// verifying concurrent objects", 1993.) Two ways to the same state by the same
// calls have the same future, so that each pair is tried once. (G. Lowe,
// "Testing for linearizability", 2017.)
//
// Cost. Exponential in the number of calls that overlap, linear in the length
// of the history beyond that.

#ifndef WHEELCACHE_TESTS_TESTING_LINEARIZABILITY_H_
#define WHEELCACHE_TESTS_TESTING_LINEARIZABILITY_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace wheelcache {

// A call with its outcome, and between which two ticks of a clock that all
// threads share it ran.
template <typename Call>
struct Recorded {
  Call call;
  uint64_t began;
  uint64_t ended;
};

template <typename State, typename Call, typename Specification>
class LinearizationSearch {
 public:
  LinearizationSearch(const std::vector<Recorded<Call>>& history,
                      const Specification& specification)
      : history_(history), specification_(specification) {
    assert(history.size() <= kMostCalls);
  }

  // Whether the calls that are not in `done` explain what is left of the
  // history, if the object is in `state` after those that are.
  bool Explains(uint64_t done, const State& state) {
    if (done == all()) return true;
    if (!tried_.insert({done, state}).second) return false;
    const uint64_t first_end = FirstEndOfTheRest(done);
    for (size_t i = 0; i < history_.size(); ++i) {
      if ((done >> i & 1) != 0 || history_[i].began > first_end) continue;
      for (const State& next : specification_(state, history_[i].call)) {
        if (Explains(done | uint64_t{1} << i, next)) return true;
      }
    }
    return false;
  }

 private:
  static constexpr size_t kMostCalls = 64;

  uint64_t all() const {
    return history_.empty()
               ? 0
               : std::numeric_limits<uint64_t>::max() >> (64 - history_.size());
  }

  uint64_t FirstEndOfTheRest(uint64_t done) const {
    uint64_t first = std::numeric_limits<uint64_t>::max();
    for (size_t i = 0; i < history_.size(); ++i) {
      if ((done >> i & 1) == 0) first = std::min(first, history_[i].ended);
    }
    return first;
  }

  const std::vector<Recorded<Call>>& history_;
  const Specification& specification_;
  absl::flat_hash_set<std::pair<uint64_t, State>> tried_;
};

// REQUIRES: at most 64 calls; ticks are different from each other.
template <typename State, typename Call, typename Specification>
bool IsLinearizable(const std::vector<Recorded<Call>>& history,
                    const State& initial, const Specification& specification) {
  return LinearizationSearch<State, Call, Specification>(history, specification)
      .Explains(0, initial);
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_LINEARIZABILITY_H_
