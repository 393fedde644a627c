// Base of the reference simulators of eviction policies: what every policy has
// in common, of plain containers and independent of the engine.
//
//   ReferenceLru lru({/*entries=*/1000});
//   for (const Access& access : trace) {
//     lru.AdvanceTo(access.seconds);
//     if (lru.Get(access.key)) {
//       ++hits;
//     } else {
//       lru.Set(access.key, {/*charge=*/1, access.seconds + ttl});
//     }
//   }
//
// Guarantees: an entry is gone from its deadline on. What has expired leaves
// before anything live is evicted. The limits hold after each call.
//
// A policy derives from it and says what a use and a new entry do to its order,
// and which entry is the victim.
//
// Threads: thread-compatible.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_CACHE_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_CACHE_H_

#include <cstdint>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

namespace wheelcache::testing {

inline constexpr int64_t kReferenceUnlimited =
    std::numeric_limits<int64_t>::max();

struct ReferenceLimits {
  int64_t entries = kReferenceUnlimited;
  int64_t bytes = kReferenceUnlimited;  // The most that charges may add up to.
};

struct ReferenceValue {
  int64_t charge = 1;
  int64_t deadline = kReferenceUnlimited;  // In the unit of AdvanceTo.
};

class ReferenceCache {
 public:
  using Key = uint64_t;
  static constexpr Key kNoKey = std::numeric_limits<Key>::max();

  explicit ReferenceCache(ReferenceLimits limits) : limits_(limits) {}
  virtual ~ReferenceCache() = default;
  ReferenceCache(const ReferenceCache&) = delete;
  ReferenceCache& operator=(const ReferenceCache&) = delete;

  // Removes what expires up to `now`. An earlier time than the latest one does
  // nothing.
  void AdvanceTo(int64_t now) {
    if (now > now_) now_ = now;
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
      ++expirations_;
      Remove(deadlines_.begin()->second);
    }
  }

  // Returns whether the key is present. If so, it is used.
  bool Get(Key key) {
    if (!Contains(key)) return false;
    OnUse(key);
    return true;
  }

  // Stores a value and evicts until the limits hold. Returns false, with the
  // key absent, if the value is too large or has expired already.
  bool Set(Key key, ReferenceValue value) {
    if (value.charge > limits_.bytes || value.deadline <= now_) {
      Del(key);
      return false;
    }
    const bool is_new = !Contains(key);
    if (!is_new) Forget(key);
    values_[key] = value;
    bytes_ += value.charge;
    deadlines_.insert({value.deadline, key});
    is_new ? OnInsert(key) : OnReplace(key);
    while (size() > limits_.entries || bytes_ > limits_.bytes) {
      ++evictions_;
      Remove(ChooseVictim(key));
    }
    return true;
  }

  void Del(Key key) {
    if (Contains(key)) Remove(key);
  }

  // Evicts until the new limits hold. A policy keeps what it was made with for
  // the first ones.
  void SetLimits(ReferenceLimits limits) {
    limits_ = limits;
    while (size() > limits_.entries || bytes_ > limits_.bytes) {
      ++evictions_;
      Remove(ChooseVictim(kNoKey));
    }
  }

  bool Contains(Key key) const { return values_.count(key) != 0; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  int64_t bytes() const { return bytes_; }
  int64_t evictions() const { return evictions_; }
  int64_t expirations() const { return expirations_; }

 protected:
  const ReferenceLimits& limits() const { return limits_; }
  int64_t now() const { return now_; }
  const ReferenceValue& value(Key key) const { return values_.at(key); }

  // The policy. Each is called with the value in place, OnRemove before it
  // goes.
  virtual void OnUse(Key key) = 0;
  virtual void OnInsert(Key key) = 0;
  virtual void OnReplace(Key key) = 0;
  virtual void OnRemove(Key key) = 0;
  // Returns the entry to evict, which is not that of `being_set`, or kNoKey.
  virtual Key ChooseVictim(Key being_set) = 0;

 private:
  void Remove(Key key) {
    OnRemove(key);
    Forget(key);
    values_.erase(key);
  }

  void Forget(Key key) {
    bytes_ -= value(key).charge;
    deadlines_.erase({value(key).deadline, key});
  }

  ReferenceLimits limits_;
  int64_t now_ = std::numeric_limits<int64_t>::min();
  std::unordered_map<Key, ReferenceValue> values_;
  std::set<std::pair<int64_t, Key>> deadlines_;
  int64_t bytes_ = 0;
  int64_t evictions_ = 0;
  int64_t expirations_ = 0;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_CACHE_H_
