// Reference simulator of the scan-resistant policy; see reference_cache.h.
//
// New entries enter a window. Once the cache is full and the window over its
// target, the oldest entry of the window and the oldest of the main list
// compete, and that with the lower count in the sketch is evicted. Ghosts of
// evicted keys that come back steer the target: those from the window make it
// larger, those from the main list smaller.
//
// Both lists are lazy, in a cache of any size: a hit only gives a stamp, and
// none at all to an entry used in the last quarter of the time that the oldest
// of its list has been unused. When an entry at the old end of a list turns out
// to have been used, it moves to the place of its stamp, and the sketch counts
// that. Hits are counted in no other way, so that exact lists would make the
// sketch blind.
//
// What the shares of the limits mean: the window's is that of entries or of
// bytes, whichever is larger. Steps of the target are in mean charges.
//
// Cost: O(log n) for each call, amortized.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_SCAN_RESISTANT_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_SCAN_RESISTANT_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_ghost.h"
#include "wheelcache/tests/testing/reference_sketch.h"

namespace wheelcache::testing {

class ReferenceScanResistant : public ReferenceCache {
 public:
  // `expected_charge` tells how many entries fit where bytes are limited, for
  // the size of sketch and ghost.
  explicit ReferenceScanResistant(ReferenceLimits limits,
                                  int64_t expected_charge = 1)
      : ReferenceCache(limits),
        sketch_(EntriesThatFit(limits, expected_charge)),
        ghost_(EntriesThatFit(limits, expected_charge)) {}

  // The part of the limits that the window may take without a contest.
  double window_target() const { return target_; }
  int64_t window_size() const { return window_.size(); }
  int Count(Key key) const { return sketch_.Count(key); }

 private:
  using Stamp = int64_t;

  struct Place {
    bool in_window = true;
    Stamp stamp = 0;   // Of the last use that was noted.
    Stamp listed = 0;  // Under which the list has the entry.
  };

  // A list and the charges in it, the oldest first.
  struct List {
    std::map<Stamp, Key> keys;
    int64_t bytes = 0;

    int64_t size() const { return static_cast<int64_t>(keys.size()); }
  };

  static int64_t EntriesThatFit(const ReferenceLimits& limits, int64_t charge) {
    return std::max<int64_t>(1,
                             std::min(limits.entries, limits.bytes / charge));
  }

  void OnUse(Key key) override {
    Place& place = places_.at(key);
    const Stamp oldest = ListOf(place).keys.begin()->first;
    ++uses_;
    const bool young = 4 * (uses_ - place.stamp) < uses_ - oldest;
    if (!young) place.stamp = uses_;
  }

  void OnInsert(Key key) override {
    Steer(ghost_.Take(key));
    sketch_.Increment(key);
    places_[key] = Place();
    PutInFront(key);
    Fill(key);
  }

  // The entry stays in its list.
  void OnReplace(Key key) override {
    Unlist(key);
    PutInFront(key);
  }

  void OnRemove(Key key) override {
    Unlist(key);
    places_.erase(key);
  }

  Key ChooseVictim(Key being_set) override {
    const std::optional<Key> main = Oldest(main_, being_set);
    const std::optional<Key> candidate = Oldest(window_, being_set);
    if (!candidate || (main && Share(window_) <= target_)) {
      ghost_.Add(*main, ReferenceGhost::kMain);
      return *main;
    }
    if (!main || !Wins(*candidate, *main)) {
      ghost_.Add(*candidate, ReferenceGhost::kWindow);
      return *candidate;
    }
    MoveToMain(*candidate);
    ghost_.Add(*main, ReferenceGhost::kMain);
    return *main;
  }

  // Whether the candidate from the window stays instead of the victim.
  bool Wins(Key candidate, Key victim) {
    const int c = sketch_.Count(candidate);
    const int v = sketch_.Count(victim);
    if (c > v) return true;
    const double c_left = LifeLeft(candidate);
    const double v_left = LifeLeft(victim);
    if (c == v && c_left > 2 * v_left) return true;
    if (c * c_left > v * v_left && c_left > 4 * v_left) return true;
    // Against floods of keys that share the counters of others.
    return c >= 6 && ++strong_losers_ % 128 == 0;
  }

  double LifeLeft(Key key) const {
    const int64_t deadline = value(key).deadline;
    if (deadline == kReferenceUnlimited) {
      return std::numeric_limits<double>::infinity();
    }
    return static_cast<double>(deadline - now());
  }

  // Where a ghost of a list comes back, that list was too small. What is rare
  // in the ghost counts the more.
  void Steer(ReferenceGhost::From from) {
    if (from == ReferenceGhost::kNone) return;
    const double windows =
        static_cast<double>(ghost_.live(ReferenceGhost::kWindow) + 1);
    const double mains =
        static_cast<double>(ghost_.live(ReferenceGhost::kMain) + 1);
    const double capacity = Capacity();
    const double most = 0.02 * capacity + 1;
    if (from == ReferenceGhost::kWindow) {
      target_ += std::min(most, std::max(1.0, mains / windows)) / capacity;
    } else {
      target_ -= std::min(most, std::max(1.0, windows / mains)) / capacity;
    }
    target_ = std::clamp(target_, 0.05, 0.99);
  }

  // Moves what is over the window's target into a main list that has room for
  // it, without a contest. Room for less is not enough: where a small winner
  // has taken the place of a large entry, what follows would need no contest.
  void Fill(Key being_set) {
    for (int i = 0; i < 8; ++i) {
      if (Share(window_) <= target_) return;
      const std::optional<Key> oldest = Oldest(window_, being_set);
      if (!oldest) return;
      if (Share(main_, 1, value(*oldest).charge) > 1 - target_) return;
      MoveToMain(*oldest);
    }
  }

  // How many entries like those of now fit.
  double Capacity() const {
    const double charge =
        static_cast<double>(bytes()) / static_cast<double>(size());
    return std::min(static_cast<double>(limits().entries),
                    static_cast<double>(limits().bytes) / charge);
  }

  // The part of the limits that the list takes, or would with more in it.
  double Share(const List& list, int64_t entries = 0, int64_t bytes = 0) const {
    return std::max(static_cast<double>(list.size() + entries) /
                        static_cast<double>(limits().entries),
                    static_cast<double>(list.bytes + bytes) /
                        static_cast<double>(limits().bytes));
  }

  List& ListOf(const Place& place) { return place.in_window ? window_ : main_; }

  void PutInFront(Key key) {
    Place& place = places_.at(key);
    place.stamp = ++uses_;
    Enlist(key);
  }

  void MoveToMain(Key key) {
    Unlist(key);
    places_.at(key).in_window = false;
    Enlist(key);
  }

  // Puts the entry at the place of its stamp.
  void Enlist(Key key) {
    Place& place = places_.at(key);
    place.listed = place.stamp;
    ListOf(place).keys[place.listed] = key;
    ListOf(place).bytes += value(key).charge;
    charges_[key] = value(key).charge;
  }

  void Unlist(Key key) {
    const Place& place = places_.at(key);
    ListOf(place).keys.erase(place.listed);
    ListOf(place).bytes -= charges_.at(key);
  }

  // Returns the least recently used entry of the list, other than that of
  // `being_set`. Moves those on the way that were used since they were put
  // there, and counts them.
  std::optional<Key> Oldest(List& list, Key being_set) {
    while (!list.keys.empty()) {
      const Key key = list.keys.begin()->second;
      const Place& place = places_.at(key);
      if (place.listed == place.stamp) {
        if (key != being_set) return key;
        return std::nullopt;  // It is the newest, so it is alone.
      }
      Unlist(key);
      Enlist(key);
      sketch_.Increment(key);
    }
    return std::nullopt;
  }

  ReferenceSketch sketch_;
  ReferenceGhost ghost_;
  List window_;
  List main_;
  std::unordered_map<Key, Place> places_;
  std::unordered_map<Key, int64_t> charges_;  // As the lists have them.
  double target_ = 0.1;
  Stamp uses_ = 0;
  int64_t strong_losers_ = 0;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_SCAN_RESISTANT_H_
