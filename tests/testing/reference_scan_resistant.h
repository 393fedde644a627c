// Reference simulator of the scan-resistant policy; see reference_cache.h.
//
// New entries enter a window, and those whose keys were evicted lately the main
// list. Over the limits, and the window over its target, the window's oldest
// entry goes, unless it was used since it came: then it moves to the main list,
// and that evicts in its place if it is full. Ghosts of evicted keys that come
// back steer the target: those from the window make it larger, those from the
// main list smaller.
//
// What the shares of the limits mean: the window's is that of entries or of
// bytes, whichever is larger. Steps of the target are in mean charges.
//
// Cost: O(log n) for each call, amortized.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_SCAN_RESISTANT_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_SCAN_RESISTANT_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "wheelcache/tests/testing/reference_cache.h"
#include "wheelcache/tests/testing/reference_generations.h"
#include "wheelcache/tests/testing/reference_ghost.h"

namespace wheelcache::testing {

class ReferenceScanResistant : public ReferenceCache {
 public:
  // `expected_charge` tells how many entries fit where bytes are limited, for
  // the size of the ghost.
  explicit ReferenceScanResistant(ReferenceLimits limits,
                                  int64_t expected_charge = 1)
      : ReferenceCache(limits),
        ghost_(EntriesThatFit(limits, expected_charge)) {}

  // The part of the limits that the window may take.
  double window_target() const { return target_; }
  int64_t window_size() const { return window_.keys.size(); }

 private:
  struct List {
    ReferenceGenerations keys;
    int64_t bytes = 0;
  };

  static int64_t EntriesThatFit(const ReferenceLimits& limits, int64_t charge) {
    return std::max<int64_t>(1,
                             std::min(limits.entries, limits.bytes / charge));
  }

  void OnUse(Key key) override { ListOf(key).keys.Use(key); }

  void OnInsert(Key key) override {
    const ReferenceGhost::From from = ghost_.Take(key);
    if (from != ReferenceGhost::kNone) Steer(from);
    Put(key, from == ReferenceGhost::kNone ? window_ : main_);
    Fill(key);
  }

  // The entry stays in its list.
  void OnReplace(Key key) override {
    List& list = ListOf(key);
    TakeOut(key);
    Put(key, list);
  }

  void OnRemove(Key key) override { TakeOut(key); }

  Key ChooseVictim(Key being_set) override {
    while (!window_.keys.empty() && Share(window_) > target_) {
      const Key oldest = window_.keys.oldest();
      if (oldest == being_set) break;
      if (!window_.keys.OldestWasUsed()) return Evict(oldest, window_);
      TakeOut(oldest);
      Put(oldest, main_);
      if (Share(main_) > 1 - target_) break;
    }
    while (!main_.keys.empty() &&
           (main_.keys.OldestWasUsed() || main_.keys.oldest() == being_set)) {
      if (main_.keys.oldest() == being_set) {
        if (main_.keys.size() == 1) break;
        TakeOut(being_set);
        Put(being_set, main_);
      } else {
        main_.keys.MoveOldest();
      }
    }
    if (!main_.keys.empty() && main_.keys.oldest() != being_set) {
      return Evict(main_.keys.oldest(), main_);
    }
    return Evict(window_.keys.oldest(), window_);
  }

  Key Evict(Key key, const List& list) {
    ghost_.Add(key, &list == &window_ ? ReferenceGhost::kWindow
                                      : ReferenceGhost::kMain);
    return key;
  }

  // Where a ghost of a list comes back, that list was too small. What is rare
  // in the ghost counts the more.
  void Steer(ReferenceGhost::From from) {
    // As it was before that one was taken.
    const auto live = [&](ReferenceGhost::From of) {
      return static_cast<double>(ghost_.live(of) + (of == from ? 2 : 1));
    };
    const double windows = live(ReferenceGhost::kWindow);
    const double mains = live(ReferenceGhost::kMain);
    const double capacity = Capacity();
    const double most = 0.02 * capacity + 1;
    if (from == ReferenceGhost::kWindow) {
      target_ += std::min(most, std::max(1.0, mains / windows)) / capacity;
    } else {
      target_ -= std::min(most, std::max(1.0, windows / mains)) / capacity;
    }
    target_ = std::clamp(target_, 0.05, 0.99);
  }

  // Moves what is over the window's target into a main list that has room, as
  // long as the cache has.
  void Fill(Key being_set) {
    for (int i = 0; i < 8; ++i) {
      if (window_.keys.empty() || Share(window_) <= target_) return;
      const Key oldest = window_.keys.oldest();
      if (oldest == being_set) return;
      const int64_t charge = value(oldest).charge;
      if (size() + 1 > limits().entries || bytes() + charge > limits().bytes) {
        return;
      }
      if (Share(main_, 1, charge) > 1 - target_) return;
      TakeOut(oldest);
      Put(oldest, main_);
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
    return std::max(static_cast<double>(list.keys.size() + entries) /
                        static_cast<double>(limits().entries),
                    static_cast<double>(list.bytes + bytes) /
                        static_cast<double>(limits().bytes));
  }

  List& ListOf(Key key) { return window_.keys.Contains(key) ? window_ : main_; }

  void Put(Key key, List& list) {
    list.keys.Append(key);
    list.bytes += value(key).charge;
    charges_[key] = value(key).charge;
  }
  void TakeOut(Key key) {
    List& list = ListOf(key);
    list.keys.Remove(key);
    list.bytes -= charges_.at(key);
    charges_.erase(key);
  }

  ReferenceGhost ghost_;
  List window_{ReferenceGenerations(1)};
  List main_{ReferenceGenerations(16)};
  std::unordered_map<Key, int64_t> charges_;  // As the lists have them.
  double target_ = 0.1;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_SCAN_RESISTANT_H_
