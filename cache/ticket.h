// The duty to load a key, for programs that load without blocking a thread.
//
//   auto ticket = cache->BeginLoad(
//       id, {}, [reply](const auto& user) { reply.Send(user); });
//   if (!ticket) return;  // A hit, or another caller loads.
//   connection.Read(id, [ticket = std::move(ticket)](const Row& row) mutable {
//     ticket.Finish(Parse(row));
//   });
//
// BeginLoad calls `done` exactly once: at once, if there is a live value or a
// failure that is remembered; else when the load ends, on the thread that ends
// it. No lock is held. What it throws goes no further.
//
// A ticket is empty, unless its caller is the one who has to load. Finish hands
// the result to all who wait, and stores it if nothing has superseded the load
// (cache/load.h). A ticket that is dropped ends its load as cancelled, so that
// no key stays stuck. Or it goes to the first of those who wait that can load:
// to BeginLoad's callers by their `lead`, which is called with it, once at
// most, on the thread that drops the ticket; within a `lead`, after that has
// returned. `done` is still called at the end.
//
// Invalidation feeds. Take the ticket before the read is sent; Del on each
// message; Clear on a lost connection. Then no value is stored that was read
// before its invalidation.
//
// Waiting. FindOrLoad blocks for a load with a ticket as for any other; a
// thread that has a ticket and asks FindOrLoad for the same key waits for
// itself, if LoadOptions::wait has no end. BeginLoad itself waits for no other.
// Where another caller loads, `done` is called when that load ends, or when
// `wait` is over: then maintenance calls it, with kDeadlineExceeded.
//
// Lifetime. A ticket may be finished on any thread, and after the end of the
// cache: then it hands out the result and stores nothing. The end of the cache
// waits for a Finish that is storing.
//
// Threads. Thread-compatible. Movable.

#ifndef WHEELCACHE_CACHE_TICKET_H_
#define WHEELCACHE_CACHE_TICKET_H_

#include <cassert>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/statusor.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/view.h"

namespace wheelcache {

// `InternalLead` is what it says: name it Cache<Key, Value>::Ticket.
template <typename Key, typename Value, typename InternalLead>
class CacheTicket {
 public:
  using Lead = InternalLead;

  // An empty ticket.
  CacheTicket() = default;
  explicit CacheTicket(Lead lead) : lead_(std::move(lead)) {}

  explicit operator bool() const { return !lead_.empty(); }

  // A string is shown as a std::string_view, anything else as a const
  // reference. REQUIRES, as Finish: the ticket is not empty.
  View<Key> key() const ABSL_ATTRIBUTE_LIFETIME_BOUND {
    assert(*this && "an empty ticket");
    return lead_.key();
  }

  // Ends the load with a value or an error, and empties the ticket. Returns
  // whether the value is in the cache. If making an entry of the value throws,
  // those who wait receive kUnknown.
  bool Finish(absl::StatusOr<Loaded<Value>> result) {
    assert(*this && "an empty ticket");
    return lead_.Finish(std::move(result));
  }

 private:
  Lead lead_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TICKET_H_
