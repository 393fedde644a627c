// What a read of a key has to return, by the promise of near caches
// (cache/near/near_cache.h), while several threads write and read it.
//
//   PromisedKey key("1", Clock::Monotonic(), max_staleness);
//   ...
//   MutexLock lock(&key.writing);
//   const int64_t version = key.NextVersion();
//   if (near->Set(key.name(), absl::StrCat(version)).ok()) {
//     key.ExecutedBy(0, version);
//   } else {
//     key.Rename();  // It may happen yet.
//   }
//   ...
//   const PromisedKey::Claim claim = key.ClaimNow(0);
//   ... a Get of claim.name through cache 0 returns a version ...
//   EXPECT_EQ(key.Judge(claim, version, &reads), "");
//
// `reads` holds what this thread has read of the key before.
//
// The writes of a key are versions: numbers that only grow, since each key has
// one writer at a time. Where it is not known whether a write will happen yet,
// the key gets another name, and all begins anew.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_TESTS_CACHE_NEAR_REDIS_PROMISED_KEY_H_
#define WHEELCACHE_TESTS_CACHE_NEAR_REDIS_PROMISED_KEY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

// Get, or, as often, BeginGet and its end.
template <typename Near>
typename Near::Result GetSomehow(Near& near, const std::string& name,
                                 std::mt19937_64& random) {
  if (random() % 2 == 0) return near.Get(name);
  testing::Notification has_ended;
  typename Near::Result result = std::nullopt;
  near.BeginGet(name, [&](typename Near::Result got) {
    result = std::move(got);
    has_ended.Notify();
  });
  has_ended.Wait();
  return result;
}

class PromisedKey {
 public:
  static constexpr size_t kCaches = 2;

  // Names of the key begin with `start`. The clock must outlive it.
  PromisedKey(std::string start, Clock& clock, absl::Duration max_staleness)
      : start_(std::move(start)),
        clock_(clock),
        bound_nanos_(absl::ToInt64Nanoseconds(max_staleness)) {
    Rename();
  }

  // Held while one writes.
  Mutex writing;

  struct Claim {
    size_t cache;
    std::string name;
    int64_t least;
  };

  // What a read through a cache that begins now must return at least: the
  // greatest version that was executed max_staleness ago, or that a write of
  // this cache has returned OK for.
  Claim ClaimNow(size_t cache) {
    const int64_t latest = clock_.NowNanos() - bound_nanos_;
    MutexLock lock(&mu_);
    // The last of those that are old enough stays, as the least version.
    while (executed_.size() > 1 && executed_[1].nanos <= latest) {
      executed_.pop_front();
    }
    int64_t least = own_[cache];
    if (!executed_.empty() && executed_[0].nanos <= latest) {
      least = std::max(least, executed_[0].version);
    }
    return {cache, name_, least};
  }

  // What one thread has read of the key through one cache.
  struct Reads {
    std::string name;
    int64_t latest = 0;
  };

  // Returns what is wrong with a read that began after ClaimNow(), or "".
  std::string Judge(const Claim& claim, int64_t version, Reads* reads) {
    if (reads->name != claim.name) *reads = {claim.name, 0};
    const int64_t least = std::max(claim.least, reads->latest);
    reads->latest = std::max(reads->latest, version);
    // With another name by now, its writes may have been lost.
    if (version >= least || name() != claim.name) return "";
    return absl::StrCat("cache ", claim.cache, ", key ", claim.name,
                        ": read version ", version, "; due was ", claim.least,
                        "; the thread has seen ", reads->latest);
  }

  // Draws the version of the next write. REQUIRES: `writing` is held.
  int64_t NextVersion() {
    MutexLock lock(&mu_);
    return ++version_;
  }
  std::string name() {
    MutexLock lock(&mu_);
    return name_;
  }

  // The write of a version was executed at that time or before.
  // REQUIRES: `writing` is held.
  void Executed(int64_t version, int64_t nanos) {
    MutexLock lock(&mu_);
    executed_.push_back({version, nanos});
  }
  void ExecutedBy(size_t cache, int64_t version) {
    Executed(version, clock_.NowNanos());
    MutexLock lock(&mu_);
    own_[cache] = version;
  }

  // Begins anew, without a value. REQUIRES: `writing` is held.
  void Rename() {
    MutexLock lock(&mu_);
    name_ = absl::StrCat(start_, ":", ++names_);
    version_ = 0;
    executed_.clear();
    own_.fill(0);
  }

 private:
  struct Write {
    int64_t version;
    int64_t nanos;
  };

  const std::string start_;
  Clock& clock_;
  const int64_t bound_nanos_;

  Mutex mu_;
  std::string name_ ABSL_GUARDED_BY(mu_);
  int names_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Write> executed_ ABSL_GUARDED_BY(mu_);
  std::array<int64_t, kCaches> own_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_CACHE_NEAR_REDIS_PROMISED_KEY_H_
