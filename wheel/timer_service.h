// A thread-safe service that calls back when the delay of a key has passed.
//
//   using Sessions = wheelcache::TimerService<std::string, Session>;
//   Sessions::Options options;
//   options.interval = absl::Milliseconds(100);
//   options.execute = [](const std::string& user, Session session) {
//     LogOut(user, std::move(session));
//   };
//   absl::StatusOr<std::unique_ptr<Sessions>> sessions =
//       Sessions::Create(std::move(options));
//   ...
//   (*sessions)->Set("ada", session, absl::Minutes(30)).IgnoreError();
//   (*sessions)->Move("ada", absl::Minutes(30)).IgnoreError();  // Still there.
//   (*sessions)->Remove("ada").IgnoreError();  // Logged out by hand.
//   (*sessions)->Every(absl::Minutes(1), [] { Report(); }).IgnoreError();
//
// Guarantees. A timer fires once, never early, and is handed out at most one
// interval late, however often it was moved and however long the process stood
// still. A key has one timer: Set replaces it, value included. Set, Move,
// Remove, Drain and Stop prevent a callback that has not begun. A value that is
// replaced, removed or dropped is destroyed at once.
//
// A periodic timer fires at its start plus one period, two periods and so on,
// without drift. Its callbacks never overlap. Times that pass while one runs,
// or waits for an executor, or while the process stands still, count as one.
//
// Threads. Thread-safe. Callbacks run without a lock, one after the other on
// the service's thread, or on the executor that the options name, and may call
// every method, Drain and Stop included. So may the destructors of keys and
// values. The equality of keys, and the swap of values if it is noexcept, run
// under a lock of the service and must not call it.
//
// Errors. A bad argument is kInvalidArgument, a key without a timer kNotFound,
// SetIfAbsent of a key with one kAlreadyExists, any call after Stop
// kFailedPrecondition. An exception from a callback is contained and counted,
// and stops no other callback.
//
// fork(). The child has the service with all its timers, if no other thread of
// the program was in a call, or ran a task of the executor. They run from the
// child's first Set, Move or After on; see wheel/reaper.h. What an executor had
// not run yet is for the child's to run.
//
// Cost. Each call is O(1), amortized, except Drain and Stop, which are
// O(timers), but for O(1) without a lock. Keys are spread over 16 locks. The
// thread sleeps until a timer is due; there is no ticker. A service without
// timers keeps less than 2 MiB of what it took, a new one some KiB.

#ifndef WHEELCACHE_WHEEL_TIMER_SERVICE_H_
#define WHEELCACHE_WHEEL_TIMER_SERVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/internal/timer_queue.h"
#include "wheelcache/wheel/internal/timer_table.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {

// Names a timer that has no key. Never used twice.
enum class TimerId : uint64_t {};

// `Key` needs absl::Hash and equality. Both types need only be movable.
template <typename Key, typename Value>
class TimerService {
 public:
  struct Options {
    // How late a callback may be: what is due within one interval is called
    // back at its end, together. Positive.
    absl::Duration interval = absl::Seconds(1);

    // Called for each key whose delay has passed. Required.
    std::function<void(const Key& key, Value value)> execute = {};

    // If set, receives a task for each callback, to be run once, at any time
    // and by any thread; a task that runs after Stop does nothing. If the
    // executor throws, it is called again an interval later.
    std::function<void(std::function<void()> task)> executor = {};

    // The time source; Clock::Monotonic() if null.
    Clock* clock = nullptr;

    // The thread to run on, instead of the service's own; has its own clock.
    // Meant for services with an executor: a slow callback holds up the
    // reaper's other clients.
    Reaper* reaper = nullptr;
  };

  // Returns the error of the first bad option, or of creating the thread.
  static absl::StatusOr<std::unique_ptr<TimerService>> Create(Options options);

  // Stops. REQUIRES: not called from a callback of this service.
  ~TimerService() { Stop(); }

  TimerService(const TimerService&) = delete;
  TimerService& operator=(const TimerService&) = delete;

  // Calls back with `key` and `value` after `delay`; replaces the key's timer.
  // A delay of zero is due at once, an infinite one never.
  absl::Status Set(Key key, Value value, absl::Duration delay) {
    return items_->Set(std::move(key), std::move(value), delay);
  }

  // As Set, for a key without a timer.
  absl::Status SetIfAbsent(Key key, Value value, absl::Duration delay) {
    return items_->SetIfAbsent(std::move(key), std::move(value), delay);
  }

  // Calls back with `key` and a copy of `value` after each `period`, until the
  // timer is removed or replaced; replaces the key's timer. A period of less
  // than an interval does not wait for the end of the interval.
  absl::Status SetEvery(Key key, Value value, absl::Duration period) {
    return items_->SetEvery(std::move(key), std::move(value), period);
  }

  // Moves the key's callback to `delay` from now; the later ones of a periodic
  // timer count from there. A delay of less than an interval does not wait for
  // the end of the interval.
  absl::Status Move(const Key& key, absl::Duration delay) {
    return items_->Move(key, delay);
  }

  // Drops the key and its value.
  absl::Status Remove(const Key& key) { return items_->Remove(key); }

  // Takes all items out and hands them to `drained(const Key&, Value)`, in this
  // call; returns how many. One whose callback has begun is not handed out, but
  // does not fire again either. An exception is contained and counted. Leaves
  // the timers of After and Every alone.
  template <typename Drained>
  absl::StatusOr<size_t> Drain(Drained&& drained) {
    return items_->Drain(drained);
  }

  // Calls `callback` after `delay`: a timer without a key.
  absl::StatusOr<TimerId> After(absl::Duration delay,
                                std::function<void()> callback);

  // Calls `callback` after each `period`, as SetEvery.
  absl::StatusOr<TimerId> Every(absl::Duration period,
                                std::function<void()> callback);

  // Drops a timer of After or Every.
  absl::Status Cancel(TimerId id) { return calls_->Remove(id); }

  // Drops all timers, uncalled, and waits for the callbacks that are running;
  // called from one of them, it does not wait. Idempotent.
  void Stop();

  // Returns the number of keys that have a timer.
  size_t size() const { return items_->size(); }

  // Returns how many exceptions were contained.
  int64_t exceptions() const {
    return items_->exceptions() + calls_->exceptions();
  }

 private:
  using Items = internal::TimerTable<Key, Value>;
  using Calls = internal::TimerTable<TimerId, std::function<void()>>;

  TimerService(Options options, std::unique_ptr<Reaper> own_reaper);

  absl::Status Start();

  TimerId NewId() {
    return TimerId{next_id_.fetch_add(1, std::memory_order_relaxed)};
  }

  const Options options_;  // With the reaper that is used.
  const std::unique_ptr<Reaper> own_reaper_;
  const typename Calls::Callback call_ =
      [](TimerId /*id*/, const std::function<void()>& callback) { callback(); };
  std::atomic<uint64_t> next_id_{1};

  // Shared with the executor's tasks, which may run after the service's end.
  const std::shared_ptr<Items> items_;
  const std::shared_ptr<Calls> calls_;
};

template <typename Key, typename Value>
absl::StatusOr<std::unique_ptr<TimerService<Key, Value>>>
TimerService<Key, Value>::Create(Options options) {
  absl::Status status = internal::CheckTimerOptions(
      options.interval, options.execute != nullptr, options.clock != nullptr,
      options.reaper != nullptr);
  if (!status.ok()) return status;
  std::unique_ptr<Reaper> own_reaper;
  if (options.reaper == nullptr) {
    own_reaper = std::make_unique<Reaper>(
        options.clock != nullptr ? *options.clock : Clock::Monotonic());
    options.reaper = own_reaper.get();
  }
  std::unique_ptr<TimerService> service(
      new TimerService(std::move(options), std::move(own_reaper)));
  status = service->Start();
  if (!status.ok()) return status;
  return service;
}

template <typename Key, typename Value>
TimerService<Key, Value>::TimerService(Options options,
                                       std::unique_ptr<Reaper> own_reaper)
    : options_(std::move(options)),
      own_reaper_(std::move(own_reaper)),
      items_(std::make_shared<Items>(options_.interval, options_.execute,
                                     options_.executor, *options_.reaper)),
      calls_(std::make_shared<Calls>(options_.interval, call_,
                                     options_.executor, *options_.reaper)) {}

template <typename Key, typename Value>
absl::Status TimerService<Key, Value>::Start() {
  absl::Status status = items_->Start();
  if (status.ok()) status = calls_->Start();
  return status;
}

template <typename Key, typename Value>
absl::StatusOr<TimerId> TimerService<Key, Value>::After(
    absl::Duration delay, std::function<void()> callback) {
  if (callback == nullptr) return internal::NoCallbackError("callback");
  const TimerId id = NewId();
  absl::Status status = calls_->Set(id, std::move(callback), delay);
  if (!status.ok()) return status;
  return id;
}

template <typename Key, typename Value>
absl::StatusOr<TimerId> TimerService<Key, Value>::Every(
    absl::Duration period, std::function<void()> callback) {
  if (callback == nullptr) return internal::NoCallbackError("callback");
  const TimerId id = NewId();
  // Copies share the function, and so what it keeps from call to call.
  absl::Status status = calls_->SetEvery(
      id,
      [call = std::make_shared<std::function<void()>>(std::move(callback))] {
        (*call)();
      },
      period);
  if (!status.ok()) return status;
  return id;
}

template <typename Key, typename Value>
void TimerService<Key, Value>::Stop() {
  items_->Close();
  calls_->Close();
  if (items_->InCallback() || calls_->InCallback()) return;
  items_->Join();
  calls_->Join();
}

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_TIMER_SERVICE_H_
