// Reference simulator of an exact LRU cache with deadlines and limits; see
// reference_cache.h.
//
// Cost: O(log n) for each call.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_LRU_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_LRU_H_

#include <list>
#include <unordered_map>

#include "wheelcache/tests/testing/reference_cache.h"

namespace wheelcache::testing {

class ReferenceLru : public ReferenceCache {
 public:
  using ReferenceCache::ReferenceCache;

 private:
  void OnUse(Key key) override {
    order_.splice(order_.begin(), order_, places_.at(key));
  }
  void OnInsert(Key key) override {
    order_.push_front(key);
    places_[key] = order_.begin();
  }
  void OnReplace(Key key) override { OnUse(key); }
  void OnRemove(Key key) override {
    order_.erase(places_.at(key));
    places_.erase(key);
  }
  Key ChooseVictim(Key) override { return order_.back(); }

  std::list<Key> order_;  // The most recently used first.
  std::unordered_map<Key, std::list<Key>::iterator> places_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_LRU_H_
