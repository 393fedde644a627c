// Waits for what RemoteStore::BeginFetch tells.
//
//   AwaitedFetch awaited;
//   store->BeginFetch("key", timeout, awaited.done());
//   EXPECT_EQ(awaited.result()->bytes, "value");

#ifndef WHEELCACHE_TESTS_TESTING_AWAITED_FETCH_H_
#define WHEELCACHE_TESTS_TESTING_AWAITED_FETCH_H_

#include <utility>

#include "absl/status/statusor.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache::testing {

class AwaitedFetch {
 public:
  RemoteStore::FetchDone done() {
    return [this](absl::StatusOr<RemoteStore::Fetched> result) {
      result_ = std::move(result);
      has_ended_.Notify();
    };
  }

  const absl::StatusOr<RemoteStore::Fetched>& result() {
    has_ended_.Wait();
    return result_;
  }

 private:
  Notification has_ended_;
  absl::StatusOr<RemoteStore::Fetched> result_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_AWAITED_FETCH_H_
