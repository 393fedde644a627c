// Writes that depend on what the cache holds: SetIf, DelIf, Take and Update.
//
//   using Visits = wheelcache::Cache<std::string, int>;
//   visits->Update("home", [](const Visits::Handle& old) {
//     return Visits::Decision::Set(old ? *old + 1 : 1);
//   });
//   visits->SetIf("about", /*expected=*/{}, 1);  // Only if there is none.
//
// Between reading a value and storing one that depends on it, another thread
// may store its own, which a Set would overwrite. SetIf and DelIf take the
// handle that the caller has read, and do nothing if the key has another live
// value by now: they lose. Update repeats that until it wins:
//
//   // At most 100 requests a minute; those refused do not count.
//   using Requests = wheelcache::Cache<std::string, int>;
//   const bool admitted =
//       requests->Update(user, [](const Requests::Handle& old) {
//         if (!old) return Requests::Decision::Set(1, absl::Minutes(1));
//         if (*old == 100) return Requests::Decision::Keep();
//         return Requests::Decision::Set(*old + 1);  // Keeps the deadline.
//       });
//
//   // Messages may come in any order: the newest version stays.
//   using Prices = wheelcache::Cache<std::string, Price>;
//   prices->Update(name, [&](const Prices::Handle& old) {
//     const bool newer = !old || old->version < price.version;
//     return newer ? Prices::Decision::Set(price) : Prices::Decision::Keep();
//   });
//
// What is compared. The entry itself, not its value: a handle matches until its
// entry is replaced (by an equal value, too), deleted, evicted or expired. A
// Touch leaves it the same. An empty handle, such as one that was moved from,
// matches where there is no live value. A handle of another cache is an
// error: an assertion fails, and without assertions the call loses.
//
// TTLs. Without one, the new value keeps the deadline of the old one, to the
// nanosecond; where there is no old one, it gets CacheOptions::default_ttl. A
// TTL that is given counts from the call, in an Update from the decision, and
// is varied by the jitter like that of Set. SetIf also takes a Deadline.
//
// Guarantees. Whether a call wins is decided under the lock, in one step with
// the write. One that loses changes nothing and supersedes no load; it evicts
// only if it loses while it makes room. One that changes something supersedes
// loads as Set and Del do; Take always does.
//
// Threads. Thread-safe. The function of Update runs under no lock and may call
// the cache. If it writes to its own key, its decision loses, and it is called
// again; one that always does so never ends.
//
// Errors. As Set. An exception of the function changes nothing. A value that
// was given by std::move is gone even if the call loses. DelIf and Take need no
// memory.
//
// Cost. SetIf and DelIf as Set and Del, with one more reading of the clock;
// Update as Find and SetIf, once more for each lost race.

#ifndef WHEELCACHE_CACHE_TYPES_CONDITIONAL_H_
#define WHEELCACHE_CACHE_TYPES_CONDITIONAL_H_

#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "wheelcache/cache/types/requirements.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

template <typename, typename, typename, typename>
class Cache;

// What became of a value that was to be stored.
enum class Put {
  kStored,   // It is in the cache.
  kLost,     // The key has another value than was expected; it stays.
  kRefused,  // It is too large, or its TTL is zero or less. The value that was
             // expected is gone, as after a Set that is refused.
};

// Until when a value lives, to the nanosecond: a reading of the cache's clock,
// infinite for ever. For times that are fixed elsewhere:
//   sessions->SetIf(token, {}, user,
//                   wheelcache::Deadline(clock.Now() + until_logout));
struct Deadline {
  explicit Deadline(absl::Duration clock_reading,
                    absl::Duration end_if_unused = absl::InfiniteDuration())
      : reading(clock_reading), if_unused(end_if_unused) {}

  absl::Duration reading;

  // With idle_ttl: when it ends unless it is used, if that is earlier than by a
  // use now; as if it had been used before. Ignored without.
  absl::Duration if_unused;
};

// What the function of Update decides about its key.
template <typename Value>
class Decision {
 public:
  // Leaves things as they are.
  static Decision Keep() { return Decision(Kind::kKeep); }

  // Deletes the value, if there is one.
  static Decision Delete() { return Decision(Kind::kDelete); }

  // Stores a value; see TTLs above.
  template <typename V = Value>
  static Decision Set(V&& value,
                      std::optional<absl::Duration> ttl = std::nullopt) {
    static_assert(internal::kMakes<Value, V>,
                  "this does not convert to the cache's Value by itself: make "
                  "a Value of it first");
    return Decision(std::forward<V>(value), ttl);
  }

 private:
  template <typename, typename, typename, typename>
  friend class Cache;

  enum class Kind { kKeep, kDelete, kSet };

  explicit Decision(Kind kind) : kind_(kind) {}
  template <typename V>
  Decision(V&& value, std::optional<absl::Duration> ttl)
      : kind_(Kind::kSet),
        value_(std::in_place, std::forward<V>(value)),
        ttl_(ttl) {}

  Kind kind_;
  std::optional<Value> value_;  // Of kSet, as ttl_.
  std::optional<absl::Duration> ttl_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_CONDITIONAL_H_
