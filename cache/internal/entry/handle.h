// A handle that pins an entry of a cache.
//
//   if (auto user = cache->Find("alice")) {
//     Send(user->name);
//     if (user.TimeToLive() < absl::Seconds(1)) Refresh(user.key());
//   }
//
// A handle is empty or keeps one entry's key and value unchanged for as long as
// it lives, even if the entry is replaced, expires, is evicted or deleted, and
// beyond the end of the cache. A removed entry no longer counts toward the
// cache's limits. A handle keeps no other entry from being reclaimed.
//
// Threads. Thread-compatible; the value it shows may be read by other threads.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_HANDLE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_HANDLE_H_

#include <cassert>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
template <typename, typename, typename, typename>
class Cache;
namespace internal {
template <typename>
class TypedLead;
template <typename>
class TypedLoads;
template <typename>
class TypedRefreshes;
}  // namespace internal

template <typename Key, typename Value>
class CacheHandle {
 public:
  // An empty handle.
  CacheHandle() = default;

  CacheHandle(CacheHandle&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        ref_(other.ref_),
        clock_(other.clock_) {}
  CacheHandle& operator=(CacheHandle&& other) noexcept {
    CacheHandle moved(std::move(other));  // Takes the old value along.
    std::swap(pool_, moved.pool_);
    std::swap(ref_, moved.ref_);
    std::swap(clock_, moved.clock_);
    return *this;
  }
  ~CacheHandle() {
    if (pool_ != nullptr) pool_->UnpinOutside(ref_);
  }

  explicit operator bool() const { return pool_ != nullptr; }

  // REQUIRES, as all that follow: the handle is not empty. A string is shown
  // as a std::string_view, anything else as a const reference.
  View<Key> key() const ABSL_ATTRIBUTE_LIFETIME_BOUND { return entry().key(); }
  View<Value> value() const ABSL_ATTRIBUTE_LIFETIME_BOUND {
    return entry().value();
  }
  View<Value> operator*() const ABSL_ATTRIBUTE_LIFETIME_BOUND {
    return value();
  }
  auto operator->() const ABSL_ATTRIBUTE_LIFETIME_BOUND {
    if constexpr (std::is_reference_v<View<Value>>) {
      return std::addressof(value());
    } else {
      return Arrow{value()};
    }
  }

  // How long the value may still be used; infinite if it does not expire, zero
  // or less if its deadline has passed. Reflects a later Touch, or use with
  // idle_ttl: between two calls, a result of zero or less may grow again. The
  // cache's clock must still exist.
  absl::Duration TimeToLive() const { return Until(entry().deadline()); }

  // The same, however much it is used: with idle_ttl, what is left of its TTL.
  absl::Duration HardTimeToLive() const {
    return Until(pool().HardDeadlineOf(entry()));
  }

  // How long ago the value was Set, or stored by a load; a Touch does not
  // change it. In steps of 20 ms: exact for a multiple of that, else off by
  // less than a step either way. Reaches up to 466 days; greater ages are
  // reported too small. Never negative: zero if the clock was turned back
  // since, by up to 31 days. The cache's clock must still exist.
  absl::Duration Age() const {
    return absl::Nanoseconds(
        internal::AgeNanos(entry().created(), clock_->NowNanos()));
  }

  // The bytes that were charged to the entry.
  int64_t charge() const { return pool().Charge(ref_); }

 private:
  template <typename, typename, typename, typename>
  friend class Cache;
  template <typename>
  friend class internal::TypedLead;
  template <typename>
  friend class internal::TypedLoads;
  template <typename>
  friend class internal::TypedRefreshes;

  using Pool = internal::EntryPool;

  // Lets -> return a view.
  struct Arrow {
    auto operator->() const { return &view; }
    View<Value> view;
  };

  // Takes over a pin.
  CacheHandle(Pool* pool, internal::EntryRef ref, const Clock* clock)
      : pool_(pool), ref_(ref), clock_(clock) {}

  // Another handle of the entry, or of another one of its cache that is pinned.
  CacheHandle Share() const { return Share(ref_); }
  CacheHandle Share(internal::EntryRef other) const {
    pool_->Pin(other);
    return CacheHandle(pool_, other, clock_);
  }

  absl::Duration Until(int64_t deadline) const {
    if (deadline == Clock::kNever) return absl::InfiniteDuration();
    return absl::Nanoseconds(deadline) - clock_->Now();
  }

  const Pool& pool() const {
    assert(pool_ != nullptr && "an empty handle");
    return *pool_;
  }
  const internal::Entry<Key, Value>& entry() const {
    return static_cast<const internal::Entry<Key, Value>&>(pool().At(ref_));
  }

  Pool* pool_ = nullptr;
  internal::EntryRef ref_ = 0;
  const Clock* clock_ = nullptr;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_HANDLE_H_
