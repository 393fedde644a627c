// The commands of many threads on one connection, and their replies.
//
// Whoever waits for replies reads them: one of the waiting threads, and for the
// others too. A call thus sends, waits and receives on its own thread, as a
// blocking client does, with no other thread on the way. The I/O thread reads
// what nobody waits for.
//
// Whoever does not want to wait starts commands, and the I/O thread, which has
// a look at what the waiting threads have read for it, hands the replies over.
//
// Guarantees. Replies go to their commands in order, also those that come after
// their caller has left with DeadlineExceeded. A timeout closes nothing. No
// call waits longer than its timeout. Reads that wait for replies when the
// connection is lost are sent once more on the next one.
//
// Threads. Execute, Begin, End and Start are thread-safe. The rest is for the
// I/O thread alone, which gives the pipeline a connection, and takes it away.
// `wake` makes that thread call Request and Handle; it must not call the
// pipeline.
//
// Errors. DeadlineExceeded: no reply within the timeout. Unavailable: there is
// no connection, and why, or it was lost before the reply. ResourceExhausted:
// too many commands, or bytes of them, are in flight. Error replies of the
// server are replies.
//
// Cost. A lock, a send and a receive, and some allocations. In the last 40 ms
// before the deadline, also a poll().

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_PIPELINE_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Pipeline final {
 public:
  // Of the commands that have not left yet, unless they are those of one call:
  // beyond, a server that reads slowly costs no more memory.
  static constexpr size_t kMaxUnsentBytes = 64 << 20;

  enum class Kind { kReads, kWrites };
  struct Batch {
    Kind kind;
    std::string bytes;  // Of all the commands.
    size_t commands;
  };

  // Commands on their way. It stays where it is from Begin to End.
  class Call;

  // A connection on which nothing has come for `silence_limit` is lost before
  // anything is sent: the server may have been stopped, and replaced.
  Pipeline(Clock& clock, size_t max_in_flight, absl::Duration silence_limit,
           std::function<void()> wake);

  // The commands that may be in flight.
  size_t max_in_flight() const { return max_in_flight_; }

  // Sends the commands, and waits for all of their replies. Waits for a
  // connection as well, unless the last attempt to get one has failed.
  absl::StatusOr<std::vector<Reply>> Execute(Batch batch,
                                             absl::Duration timeout);

  // How many calls have been sent so far; and whether none of the first `count`
  // is still without its replies.
  uint64_t sent() const;
  bool HasAnswered(uint64_t count) const;

  // The same in two steps, so that one thread may have calls on several
  // pipelines. Begin does not wait.
  void Begin(Call& call);
  absl::StatusOr<std::vector<Reply>> End(Call& call);

  // The same for a thread that does not wait. The I/O thread calls `done` once,
  // which must not block.
  using Done =
      absl::AnyInvocable<void(absl::StatusOr<std::vector<Reply>> replies)>;
  void Start(Batch&& batch, absl::Duration timeout, Done done);

  // The rest is for the I/O thread.

  // Calls `done` of the started calls that have ended, or whose time is over.
  void FinishStarted();

  // There is a connection. REQUIRES: there was none.
  void Open(std::unique_ptr<Wire> wire);

  // There is none any more, or an attempt to get one has failed. Ends calls
  // that wait for replies with `why`, and in the second case those that wait
  // for a connection.
  void Lose(const absl::Status& why) { Close(why, /*then_fail=*/false); }
  void Refuse(const absl::Status& why) { Close(why, /*then_fail=*/true); }

  // Returns why a caller's thread found the connection lost; OK otherwise.
  absl::Status lost() const;

  // Sends a command for whose reply nobody waits; `wake` is called when it has
  // come. REQUIRES: none is under way.
  void Probe(std::string command);

  // Returns the reply, once, when it has come.
  std::optional<Reply> TakeProbeReply();

  // What to poll() for: room to send, the end of the stream, and replies for
  // which nobody waits.
  PollRequest Request() const;

  // Does what poll() has told to be possible.
  void Handle(PollEvents revents);

 private:
  // A Status for other threads, each of which makes its own: a prebuilt Abseil
  // hides from ThreadSanitizer how it counts the references of one.
  struct Reason {
    explicit Reason(const absl::Status& status = absl::OkStatus())
        : code(status.code()), message(status.message()) {}
    bool ok() const { return code == absl::StatusCode::kOk; }
    absl::Status ToStatus() const { return absl::Status(code, message); }

    absl::StatusCode code;
    std::string message;
  };

  // A call, and how many of its replies are to come; null if the caller has
  // left.
  struct InFlight {
    Call* call;
    size_t missing;
  };

  // A connection, and whether a thread is in poll() or in Receive for it.
  struct Channel {
    explicit Channel(std::unique_ptr<Wire> w) : wire(std::move(w)) {}
    const std::unique_ptr<Wire> wire;
    bool is_read = false;
  };

  void Close(const absl::Status& why, bool then_fail);

  void FailLocked(Call& call, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitOpenLocked(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendLocked(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitRepliesLocked(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ReadLocked(int64_t deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsSilentLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Receive(Wire& wire, int64_t deadline,
                       std::vector<Reply>* replies) const;
  void DispatchLocked(std::vector<Reply>& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginLocked(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandOverLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendStartedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeLocked(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool BeginAnew(Call& call);
  void FindLostLocked(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FailAllLocked(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  const size_t max_in_flight_;
  const int64_t silence_nanos_;
  const std::function<void()> wake_;

  mutable Mutex mu_;

  // The connection, null while there is none or it was found lost. A thread
  // that reads keeps it, so that its descriptor is not used anew.
  std::shared_ptr<Channel> channel_ ABSL_GUARDED_BY(mu_);
  Reason lost_ ABSL_GUARDED_BY(mu_);

  // Why calls fail while there is none; OK while they wait for it.
  Reason refused_ ABSL_GUARDED_BY(mu_);
  CondVar opened_or_refused_;

  int64_t received_nanos_ ABSL_GUARDED_BY(mu_) = 0;  // When something came.

  // In the order of sending. A deque does not move what stays in it.
  std::deque<InFlight> in_flight_ ABSL_GUARDED_BY(mu_);
  uint64_t sent_ ABSL_GUARDED_BY(mu_) = 0;  // All that ever were.
  size_t commands_in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Call*> waiting_ ABSL_GUARDED_BY(mu_);  // In End.

  // Those that nobody waits for, by their deadlines; and which of them have
  // ended, so that `done` is to be called.
  std::multimap<int64_t, Call> started_ ABSL_GUARDED_BY(mu_);
  std::vector<Call*> ended_ ABSL_GUARDED_BY(mu_);

  // The reply to a probe, and whether one is under way.
  std::optional<Reply> probe_reply_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Call> probe_ ABSL_GUARDED_BY(mu_);
};

class Pipeline::Call final {
 public:
  Call(Batch batch, int64_t deadline_nanos)
      : batch_(std::move(batch)), deadline_nanos_(deadline_nanos) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Leaves its replies to nobody if it has begun and not ended.
  ~Call();

 private:
  friend class Pipeline;
  enum class State { kNew, kSent, kDone };

  Batch batch_;  // Without the bytes of what is not to be sent again.
  const int64_t deadline_nanos_;
  State state_ = State::kNew;
  bool is_second_ = false;
  bool is_lost_ = false;  // The connection was, before the replies came.
  std::vector<Reply> replies_;
  Reason failure_;
  Pipeline* pipeline_ = nullptr;   // From Begin to End.
  InFlight* in_flight_ = nullptr;  // While it is sent.
  CondVar woken_;

  // Of one that was started.
  Done done_;
  bool has_ended_ = false;
  std::multimap<int64_t, Call>::iterator place_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_PIPELINE_H_
