// Checks whether a store of your own keeps the promises of RemoteStore, on
// which the bound of near caches rests: with your server, and with faults.
//
//   PostgresUnderTest subject(&server);  // A StoreUnderTest of your own.
//   EXPECT_THAT(wheelcache::CheckRemoteStore(subject), IsEmpty());
//
// What is checked: bytes, absence, TTLs and conditions; locks, if the store has
// them; that each write is told before a
// lease certifies it, also while answers are late; that a lease certifies
// nothing that the store cannot have heard of; that a lost connection ends the
// session, and the next one has another number, which new fetches bear; that
// calls return in time, and a late answer is given to nobody; that the calls of
// a listener do not overlap, and end with Detach.
//
// It is a function, and no suite of a test framework, so that this room needs
// none. It looks for counterexamples: a fault that it reports is one, whatever
// the load of the machine, unless it says that something did not happen in 30
// seconds. To report none proves nothing; write down why the store is right.
//
// Threads. It calls the subject from several threads, but faults and Pause from
// one.
//
// Cost. With max_staleness at 300 ms, some 5 s.

#ifndef WHEELCACHE_CACHE_NEAR_TESTING_CHECK_STORE_H_
#define WHEELCACHE_CACHE_NEAR_TESTING_CHECK_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// A store, one server behind it, and what is between them.
class WHEELCACHE_EXPORT StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;

  // Returns another store of the server.
  virtual std::unique_ptr<RemoteStore> NewStore() = 0;

  // What another client does, which no fault concerns but Restart. Each returns
  // when the server has done it.
  virtual void Set(absl::string_view key, absl::string_view bytes,
                   absl::Duration ttl) = 0;
  virtual void Del(absl::string_view key) = 0;

  // From now on, what the server sends to the stores stays on the way; or comes
  // through again, in its order, and first what has stayed. The server does not
  // notice.
  virtual void Hold() = 0;
  virtual void Release() = 0;

  // Ends the connections that the stores have now.
  virtual void Cut() = 0;

  // Ends the server, and starts it again, with or without its data.
  virtual void Restart() = 0;

  // Lets some time pass on the clock of the stores: 1 ms, if it is a real one.
  virtual void Pause();

  // Of the listeners. So long that a busy machine loses few sessions.
  virtual absl::Duration max_staleness() const;
};

// Returns what is wrong with the store, a sentence for each check that fails.
WHEELCACHE_EXPORT std::vector<std::string> CheckRemoteStore(
    StoreUnderTest& subject);

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_TESTING_CHECK_STORE_H_
