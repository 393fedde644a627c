// A client of a simulated server (cache/near/testing/fake_server.h), for tests
// of code that uses near caches.
//
//   wheelcache::SimulatedClock clock;
//   wheelcache::FakeServer server(&clock);
//   wheelcache::FakeStore store(&server);
//   wheelcache::NearCacheOptions options;
//   options.local.clock = &clock;
//   options.local.reaper = nullptr;
//   auto users = *wheelcache::NearCache<std::string>::Create(options, &store);
//
//   server.Set("alice", "Alice");
//   EXPECT_EQ(*users->Get("alice"), "Alice");     // Fetched, and kept.
//   server.Set("alice", "Alice B.");              // Another process writes.
//   EXPECT_EQ(*users->Get("alice"), "Alice B.");  // It was told.
//   server.Stop();
//   EXPECT_EQ(*users->Get("alice"), "Alice B.");  // Within max_staleness.
//   clock.Advance(options.max_staleness);
//   EXPECT_FALSE(users->Get("alice").ok());
//
// Two stores on one server stand for two processes. A service that has no Redis
// may use one on Clock::Monotonic(), with Reaper::Shared().
//
// Faults. Requests fail as an interposer says. Disconnect breaks all
// connections, which is noticed at once; LoseMessages breaks one direction,
// which only the lease notices. HoldMessages and set_message_delay let messages
// and PONGs come late, in their order.
//
// Threads. Thread-safe. An interposer is called without a lock, and may call
// the server, stores, and near caches.

#ifndef WHEELCACHE_CACHE_NEAR_TESTING_FAKE_STORE_H_
#define WHEELCACHE_CACHE_NEAR_TESTING_FAKE_STORE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

class WHEELCACHE_EXPORT FakeStore final : public RemoteStore {
 public:
  // Where a request is when an interposer is called.
  enum class Step {
    kSent,      // An error now, and the server never gets it.
    kExecuted,  // An error now, and it has happened, but the answer is lost.
  };
  struct Request {
    enum class Command { kFetch, kPut, kRemove, kTakeLock, kEndLock };
    Command command = Command::kFetch;
    absl::Span<const absl::string_view> keys = {};
  };
  using Interposer = std::function<absl::Status(Step, const Request&)>;

  // The server must outlive the store.
  explicit FakeStore(FakeServer* server);

  Clock& clock() const override { return server_.clock(); }
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override;
  absl::Status Put(const Write& write, absl::Duration timeout) override;
  absl::StatusOr<bool> Remove(absl::string_view key,
                              absl::Duration timeout) override;
  absl::StatusOr<LockResult> TakeLock(const Lock& lock, absl::Duration life,
                                      absl::Duration timeout) override;
  absl::Status EndLock(const Lock& lock, absl::Duration timeout) override;
  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      Listener* listener) override;
  void Detach(Listener* listener) override;

  // Has each request ask this function at each step; none: all succeed.
  void set_interposer(Interposer interposer);

  // Ends all sessions. Attempts to connect begin 50 ms later, or, while the
  // store is unreachable, fail, with pauses that double up to 5 s.
  void Disconnect();

  // Whether the server can be reached. If not, requests fail with Unavailable,
  // and sessions end.
  void set_reachable(bool reachable);

  // From now on nothing that the server sends arrives, until the client gives
  // the connection up.
  void LoseMessages();

  // Messages wait, PONGs included, until they are released: the next few of
  // them, or these and all that follow.
  void HoldMessages();
  void ReleaseMessages(int count);
  void ReleaseMessages();

  // How long messages take that the server sends from now on.
  void set_message_delay(absl::Duration delay);

 private:
  friend class FakeServer;

  // Those of a request. Returns why it fails, or OK.
  absl::Status BeforeExecution(const Request& request, absl::Duration timeout);
  absl::Status AfterExecution(const Request& request);

  // The rest of a request that changes the server, which has the lock: now, or
  // when the server continues. Returns why it fails, or OK.
  absl::Status Execute(const Request& request, absl::Duration timeout,
                       std::function<void()> change);
  Interposer interposer() const;

  FakeServer& server_;

  // Belong to the lock of the server.
  std::shared_ptr<const Interposer> interposer_;
  bool reachable_ = true;
  bool holds_messages_ = false;
  int released_ = 0;  // May be delivered nevertheless.
  int64_t message_delay_nanos_ = 0;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_TESTING_FAKE_STORE_H_
