// What tests of the cache have in common: caches on a simulated clock, with no
// jitter and no thread unless a test asks for them, and a record of what left.
//
//   class MyTest : public CacheEnvironment {};
//
//   TEST_F(MyTest, ExpiredEntriesAreToldAsExpired) {
//     RemovalLog<std::string, int> log;
//     auto cache = New<std::string, int>(log.hooks());
//     cache->Set("key", 1, absl::Seconds(1));
//     clock_.Advance(absl::Seconds(1));
//     cache->RunMaintenance();
//     EXPECT_THAT(log.Take(), ElementsAre(Left("key", 1, kExpired)));
//   }

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_ENVIRONMENT_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_ENVIRONMENT_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/view.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {

inline std::ostream& operator<<(std::ostream& out, RemovalCause cause) {
  return out << RemovalCauseName(cause);
}

class CacheEnvironment : public ::testing::Test {
 protected:
  CacheEnvironment() {
    options_.clock = &clock_;
    options_.reaper = nullptr;
    options_.jitter = 0;
  }

  // A cache with options_ as they are now.
  template <typename Key, typename Value, typename Hash = DefaultHash<Key>>
  auto New(typename Cache<Key, Value, Hash>::Hooks hooks = {}) {
    return std::move(
        *Cache<Key, Value, Hash>::Create(options_, std::move(hooks)));
  }

  // The same with a listener that is given the cache as well. It must not be
  // called in the end of the cache.
  template <typename Key, typename Value, typename Listener>
  std::unique_ptr<Cache<Key, Value>> NewListening(
      Listener listener, typename Cache<Key, Value>::Hooks hooks = {}) {
    auto of_listener = std::make_shared<Cache<Key, Value>*>();
    hooks.on_removal = [of_listener, listener = std::move(listener)](
                           View<Key> key, View<Value> value,
                           RemovalCause cause) mutable {
      listener(**of_listener, key, value, cause);
    };
    auto cache = New<Key, Value>(std::move(hooks));
    *of_listener = cache.get();
    return cache;
  }

  SimulatedClock clock_;
  CacheOptions options_;
};

// One call of a removal listener.
template <typename Key, typename Value>
struct Removal {
  Key key;
  Value value;
  RemovalCause cause;
  std::thread::id thread;

  // The thread is for those who ask for it.
  friend bool operator==(const Removal& a, const Removal& b) {
    return a.key == b.key && a.value == b.value && a.cause == b.cause;
  }
  friend bool operator<(const Removal& a, const Removal& b) {
    return std::tie(a.key, a.value, a.cause) <
           std::tie(b.key, b.value, b.cause);
  }
  friend std::ostream& operator<<(std::ostream& out, const Removal& removal) {
    return out << removal.key << "=" << removal.value << " " << removal.cause;
  }
};

// Records the calls of a removal listener. Thread-safe.
template <typename Key, typename Value>
class RemovalLog {
 public:
  typename Cache<Key, Value>::Hooks hooks() {
    typename Cache<Key, Value>::Hooks hooks;
    hooks.on_removal = [this](View<Key> key, View<Value> value,
                              RemovalCause cause) {
      MutexLock lock(&mu_);
      removals_.push_back(
          {Key(key), Value(value), cause, std::this_thread::get_id()});
    };
    return hooks;
  }

  // What was recorded since the last call, in the order of the calls.
  std::vector<Removal<Key, Value>> Take() {
    MutexLock lock(&mu_);
    return std::exchange(removals_, {});
  }

 private:
  Mutex mu_;
  std::vector<Removal<Key, Value>> removals_ ABSL_GUARDED_BY(mu_);
};

// The bytes that an entry is charged beyond what the weigher says.
template <typename Key, typename Value>
int64_t OverheadOfAnEntry() {
  CacheOptions options;
  options.reaper = nullptr;
  typename Cache<Key, Value>::Hooks hooks;
  hooks.weigher = [](View<Key>, View<Value>) { return uint64_t{0}; };
  auto cache = *Cache<Key, Value>::Create(options, std::move(hooks));
  cache->Set(Key(), Value());
  return cache->bytes();
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_ENVIRONMENT_H_
