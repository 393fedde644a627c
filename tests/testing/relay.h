// A relay between clients and a Redis server, that holds back or drops one
// direction of one kind of connection.
//
//   Relay relay(server.port());
//   options.url = relay.url();
//   ...
//   relay.Hold(Relay::kReads, Relay::kToClient);
//   ...
//   ASSERT_TRUE(relay.AwaitHeld(Relay::kReads, Relay::kToClient, "old"));
//   relay.Release(Relay::kReads, Relay::kToClient);
//
// A connection is of a kind from the first command on that tells it.
//
// Threads. Thread-safe. It has a thread of its own.

#ifndef WHEELCACHE_TESTS_TESTING_RELAY_H_
#define WHEELCACHE_TESTS_TESTING_RELAY_H_

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::testing {

class Relay final {
 public:
  enum Kind { kUnknown, kReads, kWrites, kLargeWrites, kSubscription, kKinds };
  enum Direction { kToServer, kToClient, kDirections };

  explicit Relay(int server_port);
  ~Relay();

  int port() const { return port_; }
  std::string url() const { return absl::StrCat("redis://127.0.0.1:", port_); }

  // From now on, bytes of that direction stay in the relay.
  void Hold(Kind kind, Direction direction);

  // From now on, they stay behind the next occurrence of `text`, which passes.
  void HoldAfter(Kind kind, Direction direction, absl::string_view text);

  // Waits until that text has passed. Returns false if it does not come soon.
  bool AwaitPassed(Kind kind, Direction direction);

  // From now on, they are lost, and so are those that were held.
  void Drop(Kind kind, Direction direction);

  // From now on, they pass again, and first those that were held.
  void Release(Kind kind, Direction direction);
  void ReleaseAll();

  // Whether bytes with this text are held now.
  bool Holds(Kind kind, Direction direction, absl::string_view text);

  // Waits until they are. Returns false if none come.
  bool AwaitHeld(Kind kind, Direction direction, absl::string_view text);

  // Sends bytes to the server on the connections of a kind, as if a client had.
  void Inject(Kind kind, absl::string_view bytes);

  // Connects to another server from now on.
  void SetServer(int port);

  // Closes all connections of a kind.
  void Close(Kind kind);

 private:
  enum class Mode { kPass, kHold, kHoldAfter, kDrop };
  struct Rule {
    Mode mode = Mode::kPass;
    std::string text;  // Of kHoldAfter.
  };
  struct Connection {
    Kind kind = kUnknown;
    std::array<int, kDirections> to;  // Where each direction leads.
    std::array<std::string, kDirections> held;
    bool is_closed = false;
  };

  void Run();
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Receive(Connection& connection, int direction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forward(Connection& connection, int direction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Set(Kind kind, Direction direction, Rule rule);
  bool HoldsLocked(Kind kind, Direction direction, absl::string_view text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CloseClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake() const;

  int listener_ = -1;
  int port_ = 0;
  int wake_fd_ = -1;

  Mutex mu_;
  CondVar changed_;
  int server_port_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::array<std::array<Rule, kDirections>, kKinds> rules_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_RELAY_H_
