// The oracle of loads and refreshes: which of them are in flight, what
// supersedes them, what is remembered of those that have failed, and when a key
// may be refreshed. In the plainest way, as CacheOracle, next to which it
// stands, and where failures are entries; see cache_driver.h.

#ifndef WHEELCACHE_TESTS_TESTING_LOAD_ORACLE_H_
#define WHEELCACHE_TESTS_TESTING_LOAD_ORACLE_H_

#include <cstdint>
#include <limits>
#include <map>

#include "wheelcache/tests/testing/cache_oracle.h"

namespace wheelcache {

class LoadOracle {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit LoadOracle(CacheOracle* entries) : entries_(*entries) {}

  struct Load {
    int key;
    bool queued = false;    // A refresh that nobody has begun to run.
    int64_t error_ttl = 0;  // How long its failure is remembered.
    int callbacks = 0;      // To be told of its end.
    bool refreshes = false;
    int64_t old_value = 0;  // Of a refresh.
  };

  // What a miss finds.
  enum class Found { kNothing, kLoad, kFailure };
  Found Find(int key) const {
    if (current_.count(key) != 0) {
      const bool queued = loads.at(current_.at(key)).queued;
      return queued ? Found::kNothing : Found::kLoad;
    }
    return Fails(key) ? Found::kFailure : Found::kNothing;
  }

  // Begins a load, in the place of a refresh that is queued, or has failed, or
  // of a failure that answers nobody any more. Returns its number.
  int Begin(const Load& load) {
    Supersede(load.key);
    const int number = ++last_;
    loads[number] = load;
    current_[load.key] = number;
    return number;
  }
  int CurrentOf(int key) const { return current_.at(key); }
  bool IsCurrent(int number) const {
    const auto it = current_.find(loads.at(number).key);
    return it != current_.end() && it->second == number;
  }
  // Ends a load. If it was not superseded, and has failed, remembers that for
  // its time, with this charge; or, of a refresh that has not stored anything,
  // has the next one wait. Returns how many callbacks are told.
  struct End {
    bool failed = false;
    bool stored = false;
    int64_t charge = 0;
    int64_t retry_after = 0;
  };
  int EndLoad(int number, const End& end) {
    const Load load = loads.at(number);
    const bool current = IsCurrent(number);
    loads.erase(number);
    if (!current) return load.callbacks;
    current_.erase(load.key);
    if (load.refreshes && !end.stored && entries_.Id(load.key) != 0) {
      retry_[load.key] = {entries_.Id(load.key),
                          Sum(entries_.now, end.retry_after)};
    }
    if (end.failed && load.error_ttl > 0) {
      entries_.RememberFailure(load.key, end.charge, load.error_ttl);
    }
    return load.callbacks;
  }

  void Supersede(int key) {
    current_.erase(key);
    retry_.erase(key);
    entries_.ForgetFailure(key);
  }
  // Failures no longer count, and stay as entries for a while.
  void SupersedeAll() {
    current_.clear();
    retry_.clear();
    for (const auto& [key, entry] : entries_.entries) {
      forgotten_[key] = entry.id;
    }
  }

  // Whether a refresh may begin, by what others do and what has failed.
  bool MayRefresh(int key, int most) const {
    const auto retry = retry_.find(key);
    const bool waits = retry != retry_.end() &&
                       retry->second.of_value == entries_.Id(key) &&
                       retry->second.at > entries_.now;
    return !waits && MayRefreshAtOnce(key, most);
  }
  bool MayRefreshAtOnce(int key, int most) const {
    int refreshes = 0;
    for (const auto& [number, load] : loads) refreshes += load.refreshes;
    return refreshes < most && current_.count(key) == 0 && !Fails(key);
  }

  std::map<int, Load> loads;  // By their numbers; those superseded as well.

 private:
  // It leaves with the value for which it is tried again.
  struct Retry {
    int64_t of_value, at;
  };

  bool Fails(int key) const {
    const int failure = CacheOracle::FailureOf(key);
    if (!entries_.Live(failure)) return false;
    const auto it = forgotten_.find(failure);
    return it == forgotten_.end() ||
           it->second != entries_.entries.at(failure).id;
  }
  static int64_t Sum(int64_t now, int64_t length) {
    return now > kNever - length ? kNever - 1 : now + length;
  }

  CacheOracle& entries_;
  int last_ = 0;
  std::map<int, int> current_;        // The number of the load of a key.
  std::map<int, int64_t> forgotten_;  // Entries, by their keys.
  std::map<int, Retry> retry_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_LOAD_ORACLE_H_
