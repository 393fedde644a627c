// The loads of a shard that are under way, so that a key is loaded by one
// caller while the others wait for the result.
//
// A load is superseded by a Set, Del or Clear that comes while it runs: then
// its result still goes to those who wait, who all asked before that, but not
// into the cache; and who asks later starts a load of their own.
//
// Threads. Loads belongs to the lock of its shard. A Load is thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_LOADS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_LOADS_H_

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace internal {

// One run of a loader, and the place where the others wait for it.
template <typename Key, typename Value>
class Load {
 public:
  explicit Load(Key key) : key_(std::move(key)) {}

  const Key& key() const { return key_; }

  // Hands the result to all who wait, now and later. Called once.
  void Finish(absl::StatusOr<Value> result) {
    result_.emplace(std::move(result));
    Fail();
  }

  // As Finish, where there is no result: those who wait get an error. Allocates
  // nothing.
  void Fail() {
    MutexLock lock(&mu_);
    finished_ = true;
    has_finished_.SignalAll();
  }

  // Blocks until the result is there. A loader that waits for its own result
  // gets an error: it would wait for ever.
  absl::StatusOr<Value> Wait() {
    if (std::this_thread::get_id() == loader_thread_) {
      return absl::FailedPreconditionError(
          "the loader of a key asked for that key");
    }
    {
      MutexLock lock(&mu_);
      while (!finished_) has_finished_.Wait(&mu_);
    }
    if (!result_.has_value()) return failure_;
    return *result_;
  }

  // In the child of fork(), where nobody waits any more, and a thread that is
  // gone may have held the lock.
  void ResetAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ::new (&mu_) Mutex;
    ::new (&has_finished_) CondVar;
  }

 private:
  const Key key_;
  const std::thread::id loader_thread_ = std::this_thread::get_id();

  // Written before, and constant once finished_ is set; so that it is copied,
  // which is user code, without a lock.
  std::optional<absl::StatusOr<Value>> result_;
  const absl::Status failure_ =
      absl::UnknownError("the loader threw an exception");

  Mutex mu_;
  CondVar has_finished_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

// The current load of each key that has one.
template <typename Key, typename Value, typename Hash, typename Equal>
class Loads {
 public:
  using LoadType = Load<Key, Value>;

  template <typename K>
  std::shared_ptr<LoadType> Find(const K& key) const {
    const auto it = loads_.find(key);
    return it == loads_.end() ? nullptr : *it;
  }

  // REQUIRES: the key has no load.
  void Add(std::shared_ptr<LoadType> load) { loads_.insert(std::move(load)); }

  bool IsCurrent(const std::shared_ptr<LoadType>& load) const {
    return Find(load->key()) == load;
  }

  // Forgets the key's load, which goes on superseded. No key is destroyed:
  // the thread that loads still has it.
  template <typename K>
  void Supersede(const K& key) {
    if (loads_.empty()) return;
    const auto it = loads_.find(key);
    if (it != loads_.end()) loads_.erase(it);
  }

  void SupersedeAll() { loads_.clear(); }

  // In the child of fork(), where at most the forking thread is still loading.
  void ResetAfterFork() {
    for (const auto& load : loads_) load->ResetAfterFork();
    SupersedeAll();
  }

 private:
  struct HashLoad {
    using is_transparent = void;
    size_t operator()(const std::shared_ptr<LoadType>& load) const {
      return Hash()(load->key());
    }
    template <typename K>
    size_t operator()(const K& key) const {
      return Hash()(key);
    }
  };
  struct EqualLoad {
    using is_transparent = void;
    bool operator()(const std::shared_ptr<LoadType>& a,
                    const std::shared_ptr<LoadType>& b) const {
      return Equal()(a->key(), b->key());
    }
    template <typename K>
    bool operator()(const std::shared_ptr<LoadType>& load, const K& key) const {
      return Equal()(load->key(), key);
    }
    template <typename K>
    bool operator()(const K& key, const std::shared_ptr<LoadType>& load) const {
      return Equal()(load->key(), key);
    }
  };

  absl::flat_hash_set<std::shared_ptr<LoadType>, HashLoad, EqualLoad> loads_;
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_LOADS_H_
