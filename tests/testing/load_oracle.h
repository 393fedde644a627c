// The oracle of loads and refreshes: which of them are in flight, what
// supersedes them, what is remembered of those that have failed, and when a key
// may be refreshed. In the plainest way, as CacheOracle, next to which it
// stands; see cache_driver.h.

#ifndef WHEELCACHE_TESTS_TESTING_LOAD_ORACLE_H_
#define WHEELCACHE_TESTS_TESTING_LOAD_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace wheelcache {

class LoadOracle {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Load {
    int key;
    bool queued = false;    // A refresh that nobody has begun to run.
    int64_t error_ttl = 0;  // How long its failure is remembered.
    int callbacks = 0;      // To be told of its end.
    int64_t retry = 0;      // Of a refresh: the next, if it is dropped.
    int64_t old_value = 0;  // Of a refresh.
  };

  // What a miss finds.
  enum class Found { kNothing, kLoad, kFailure };
  Found Find(int key, int64_t now) const {
    if (current_.count(key) != 0) {
      const bool queued = loads.at(current_.at(key)).queued;
      return queued ? Found::kNothing : Found::kLoad;
    }
    return Fails(key, now) ? Found::kFailure : Found::kNothing;
  }
  bool HasLoadOrFailure(int key, int64_t now) const {
    return current_.count(key) != 0 || Fails(key, now);
  }

  // Begins a load, in the place of a refresh that is queued. Returns its
  // number.
  int Begin(const Load& load) {
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
  // Ends a load and remembers its failure, if it has failed and was not
  // superseded. Returns how many callbacks are told.
  int End(int number, bool failed, int64_t now) {
    const Load load = loads.at(number);
    if (IsCurrent(number)) {
      current_.erase(load.key);
      if (failed && load.error_ttl > 0) {
        failures_[load.key] =
            load.error_ttl > kNever - std::max<int64_t>(now, 0)
                ? kNever
                : now + load.error_ttl;
      }
    }
    loads.erase(number);
    return load.callbacks;
  }

  void Supersede(int key) {
    current_.erase(key);
    failures_.erase(key);
  }
  void SupersedeAll() {
    current_.clear();
    failures_.clear();
  }

  // Whether a refresh may begin, by what others do and what has failed.
  bool MayRefresh(int key, int64_t now, int most) const {
    return MayRefreshAtOnce(key, most) &&
           (retry_.count(key) == 0 || retry_.at(key) <= Millis(now, false));
  }
  bool MayRefreshAtOnce(int key, int most) const {
    return claims_.count(key) == 0 && static_cast<int>(claims_.size()) < most;
  }
  void Claim(int key) {
    claims_[key] = true;
    retry_.erase(key);
  }
  void Release(int key) { claims_.erase(key); }
  void RetryAt(int key, int64_t nanos) {
    claims_.erase(key);
    retry_[key] = Millis(nanos, true);
  }

  std::map<int, Load> loads;  // By their numbers; those superseded as well.

 private:
  bool Fails(int key, int64_t now) const {
    const auto it = failures_.find(key);
    return it != failures_.end() && it->second > now;
  }

  // Retry times are whole milliseconds, never too early, and end somewhere.
  static int64_t Millis(int64_t nanos, bool up) {
    constexpr int64_t kMilli = 1'000'000;
    constexpr int64_t kLast = (int64_t{1} << 43) - 2;
    const int64_t part = nanos % kMilli;
    return std::min(kLast, nanos / kMilli - (part < 0) + (up && part != 0));
  }

  int last_ = 0;
  std::map<int, int> current_;  // The number of the load of a key.
  std::map<int, int64_t> failures_;
  std::map<int, bool> claims_;
  std::map<int, int64_t> retry_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_LOAD_ORACLE_H_
