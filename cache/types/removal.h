// Why an entry was removed from the cache.
//
//   hooks.on_removal = [](std::string_view user, const Session& session,
//                         wheelcache::RemovalCause cause) {
//     if (cause == wheelcache::RemovalCause::kExpired) session.LogOut(user);
//   };
//
// A removal listener is called once for each removed entry, after its removal:
// by the thread whose call removed it (the Set that needed its room, the Del
// that named it), or by the reaper's thread. No lock of the cache is held, so
// it may call the cache, this one or another.
//
// What these calls remove from the listener's own cache is told after the
// listener has returned, in the order of removal: notifications of one cache do
// not nest on a thread, and need neither stack nor memory. So a listener that
// never stops removing entries is called for ever.

#ifndef WHEELCACHE_CACHE_TYPES_REMOVAL_H_
#define WHEELCACHE_CACHE_TYPES_REMOVAL_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

enum class RemovalCause : uint8_t {
  kExpired,   // Its TTL ran out, or it was not used for idle_ttl.
  kEvicted,   // There was no room.
  kDeleted,   // The caller asked: Del, Take, Clear, a TTL of zero or less.
  kReplaced,  // A new value was Set, even one that was then refused.
};

// The cause in one lower-case word: "expired", "evicted", ...
WHEELCACHE_EXPORT absl::string_view RemovalCauseName(RemovalCause cause);

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_REMOVAL_H_
