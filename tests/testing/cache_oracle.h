// The oracle of the cache: what a cache must do, in the plainest way.
//
// A sorted map with the time of each key's last use, searched from one end to
// the other. It shares no code with the cache. Where there are several shards
// the choice of a victim is the cache's: then the oracle is told of it, and
// says whether there had to be one.

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_ORACLE_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_ORACLE_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/removal.h"

namespace wheelcache {

class CacheOracle {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Entry {
    int64_t value, charge, created, deadline, last_use, id;
    int64_t hard_deadline;  // The other one may be earlier, for want of uses.
  };
  // What is to be stored.
  struct New {
    int64_t value, charge, ttl;
    bool keeps_deadline = false;  // That of the value it replaces.
  };
  struct Left {
    int key;
    int64_t value;
    RemovalCause cause;
  };

  CacheOracle(int64_t max_entries, int64_t max_bytes, int64_t tick,
              int64_t idle_ttl = kNever)
      : max_entries_(max_entries),
        max_bytes_(max_bytes),
        tick_(idle_ttl == kNever ? tick : tick + tick % 2),
        idle_ttl_(idle_ttl) {}

  bool Set(int key, int64_t value, int64_t charge, int64_t ttl) {
    if (ttl <= 0) {
      Del(key);
      return false;
    }
    if (charge > max_bytes_) {
      Leave(key, RemovalCause::kReplaced);
      return false;
    }
    Reclaim();
    if (!Live(key)) Leave(key, RemovalCause::kExpired);
    while (!HasRoom(key, charge)) Leave(Victim(key), RemovalCause::kEvicted);
    Leave(key, RemovalCause::kReplaced);
    entries[key] = {value, charge, now, 0, ++uses_, ++ids_, Deadline(ttl)};
    BeginIdling(&entries[key]);
    return true;
  }

  // A failure of a load is an entry under a key of its own, of which nobody is
  // told.
  static int FailureOf(int key) { return kFailures + key; }
  void RememberFailure(int key, int64_t charge, int64_t ttl) {
    if (charge > max_bytes_) return;
    Reclaim();
    const int hidden = FailureOf(key);
    while (!HasRoom(hidden, charge)) Leave(Victim(-1), RemovalCause::kEvicted);
    entries[hidden] = {0,       charge, now,          Deadline(ttl),
                       ++uses_, ++ids_, Deadline(ttl)};
  }
  void ForgetFailure(int key) { entries.erase(FailureOf(key)); }

  // What a handle pins that is got now: never the same twice, 0 for none.
  int64_t Id(int key) const { return Live(key) ? entries.at(key).id : 0; }

  // REQUIRES: where it keeps a deadline, a value is expected.
  Put SetIf(int key, int64_t expected, const New& entry) {
    const int64_t ttl = entry.keeps_deadline ? kNever : entry.ttl;
    const bool lives = ttl > 0;
    if (lives && entry.charge <= max_bytes_) {
      Reclaim();
      if (Id(key) != expected) return Put::kLost;
      const int64_t kept = expected == 0 ? 0 : entries[key].hard_deadline;
      Set(key, entry.value, entry.charge, ttl);
      if (entry.keeps_deadline) {
        entries[key].hard_deadline = kept;
        BeginIdling(&entries[key]);
      }
      return Put::kStored;
    }
    if (Id(key) != expected) return Put::kLost;
    if (expected != 0) {
      Leave(key, lives ? RemovalCause::kReplaced : RemovalCause::kDeleted);
    }
    return Put::kRefused;
  }

  bool DelIf(int key, int64_t expected) {
    return expected != 0 && Id(key) == expected && Del(key);
  }

  // What has expired stays until it is reclaimed.
  std::optional<int64_t> Take(int key) {
    const std::optional<int64_t> value = Get(key);
    if (value.has_value()) Del(key);
    return value;
  }

  std::optional<int64_t> Get(int key) {
    if (!Live(key)) return std::nullopt;
    Entry& entry = entries[key];
    entry.last_use = ++uses_;
    // Within a 16th after the last time it is not put off; a hard one never is.
    if (idle_ttl_ != kNever && entry.deadline % 2 == 0 &&
        entry.deadline - now < idle_ttl_ - idle_ttl_ / 16) {
      BeginIdling(&entry);
    }
    return entry.value;
  }

  bool Touch(int key, int64_t ttl) {
    if (ttl <= 0) return Del(key);
    if (!Get(key)) return false;
    entries[key].hard_deadline = Deadline(ttl);
    BeginIdling(&entries[key]);
    return true;
  }

  bool Del(int key) {
    const bool live = Live(key);
    Leave(key, RemovalCause::kDeleted);
    return live;
  }

  void Clear() {
    while (!entries.empty()) {
      const auto [key, entry] = *entries.begin();
      if (key < kFailures) {
        left.push_back({key, entry.value, RemovalCause::kDeleted});
      }
      entries.erase(entries.begin());
    }
  }

  // Clears, and stores what was alive as it was, but as new. Returns how many.
  int64_t Restart() {
    std::map<int64_t, std::pair<int, Entry>> saved;  // By their last uses.
    for (const auto& [key, entry] : entries) {
      if (key < kFailures && Live(key)) saved[entry.last_use] = {key, entry};
    }
    Clear();
    for (auto& [last_use, key_and_entry] : saved) {
      auto& [key, entry] = key_and_entry;
      entry.created = now;
      entry.last_use = ++uses_;
      entry.id = ++ids_;
      if (entry.deadline == entry.hard_deadline - 1) BeginIdling(&entry);
      entries[key] = entry;
    }
    return static_cast<int64_t>(saved.size());
  }

  // The live values, in the order of their keys.
  std::vector<std::pair<int, int64_t>> AllLive() const {
    std::vector<std::pair<int, int64_t>> all;
    for (const auto& [key, entry] : entries) {
      if (key < kFailures && Live(key)) all.emplace_back(key, entry.value);
    }
    return all;
  }

  // Deletes the live values for which `predicate(value)` holds. Returns how
  // many.
  template <typename Predicate>
  int64_t EraseIf(Predicate&& predicate) {
    int64_t erased = 0;
    for (const auto& [key, value] : AllLive()) {
      if (predicate(value)) erased += Del(key) ? 1 : 0;
    }
    return erased;
  }

  void SetLimits(int64_t max_entries, int64_t max_bytes) {
    max_entries_ = max_entries;
    max_bytes_ = max_bytes;
    if (IsWithinLimits()) return;
    Reclaim();
    while (!IsWithinLimits()) Leave(Victim(-1), RemovalCause::kEvicted);
  }
  int64_t max_entries() const { return max_entries_; }
  int64_t max_bytes() const { return max_bytes_; }

  // Removes what has expired, as far as whole ticks tell.
  void Reclaim() {
    const auto copy = entries;
    for (const auto& [key, entry] : copy) {
      if (ReclaimTime(entry) <= now) Leave(key, RemovalCause::kExpired);
    }
  }

  bool Live(int key) const {
    const auto it = entries.find(key);
    return it != entries.end() && now < it->second.deadline;
  }

  // The first tick from the deadline on.
  int64_t ReclaimTime(const Entry& entry) const {
    const int64_t ticks = entry.deadline / tick_ + (entry.deadline % tick_ > 0);
    return ticks > kNever / tick_ ? kNever : ticks * tick_;
  }

  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& [key, entry] : entries) bytes += entry.charge;
    return bytes;
  }

  int64_t now = 0;
  std::map<int, Entry> entries;
  std::vector<Left> left;  // What was removed, in the order of its removal.

  // The cache's victims in their order, if it need not choose as the oracle.
  std::optional<std::deque<int>> told_victims;

 private:
  static constexpr int kFailures = 1 << 20;

  int64_t Deadline(int64_t ttl) const {
    // By comparisons that do not overflow, wherever the clock began.
    return ttl == kNever || now > kNever - ttl ? kNever : now + ttl;
  }

  // The deadline of an entry that was used now. It is even, or odd where that
  // is the hard one: so it may come a nanosecond early.
  void BeginIdling(Entry* entry) const {
    entry->deadline = entry->hard_deadline;
    if (idle_ttl_ == kNever) return;
    const int64_t idle = (now + idle_ttl_) & ~int64_t{1};
    if (entry->hard_deadline > idle) {
      entry->deadline = idle;
    } else if (entry->hard_deadline % 2 == 0) {
      --entry->deadline;
    }
  }

  bool HasRoom(int key, int64_t charge) const {
    const auto it = entries.find(key);
    const bool replaces = it != entries.end();
    const auto count = static_cast<int64_t>(entries.size()) + !replaces;
    return count <= max_entries_ &&
           bytes() + charge - (replaces ? it->second.charge : 0) <= max_bytes_;
  }

  bool IsWithinLimits() const {
    return static_cast<int64_t>(entries.size()) <= max_entries_ &&
           bytes() <= max_bytes_;
  }

  // The least recently used but for `spared`.
  int Victim(int spared) {
    if (told_victims.has_value()) {
      if (told_victims->empty()) return entries.begin()->first;  // Mismatch.
      const int victim = told_victims->front();
      told_victims->pop_front();
      return victim;
    }
    int victim = spared;
    int64_t oldest = kNever;
    for (const auto& [key, entry] : entries) {
      if (key == spared || entry.last_use > oldest) continue;
      victim = key;
      oldest = entry.last_use;
    }
    return victim;
  }

  void Leave(int key, RemovalCause cause) {
    const auto it = entries.find(key);
    if (it == entries.end()) return;
    const bool expired = now >= it->second.deadline;
    // Evicted within the last tick counts as that.
    if (expired && cause != RemovalCause::kEvicted) {
      cause = RemovalCause::kExpired;
    }
    if (key < kFailures) left.push_back({key, it->second.value, cause});
    entries.erase(it);
  }

  int64_t max_entries_;
  int64_t max_bytes_;
  const int64_t tick_;
  const int64_t idle_ttl_;
  int64_t uses_ = 0;
  int64_t ids_ = 0;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_ORACLE_H_
