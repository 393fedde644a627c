// The part of a TimerService that is independent of key and value types: locks,
// wheels, indexes, and the path of a due timer to its callback.
//
// The entries are spread over shards by their hashes. An entry is in the wheel
// of its shard until its tick has come, and then in the ready list until a task
// takes it. From the start of its callback on it is in no list, and not in the
// index; a periodic one stays in the index, where it can be moved and removed,
// and returns to the wheel after the callback.
//
// A ready entry waits for a task. The tasks of a shard are interchangeable:
// each calls back the entry that has been ready longest, if any. They run on
// the reaper's thread or, if there is an executor, wherever that runs them.
//
// No key or value is destroyed under a lock: entries are created before it is
// taken and destroyed after it is released.
//
// Threads. Thread-safe. Of user code, only the equality of keys and the swap of
// values run under a lock.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_QUEUE_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

// Return the error of a bad option or argument.
WHEELCACHE_EXPORT absl::Status CheckTimerOptions(absl::Duration interval,
                                                 bool has_execute,
                                                 bool has_clock,
                                                 bool has_reaper);
WHEELCACHE_EXPORT absl::Status CheckPeriod(absl::string_view field,
                                           absl::Duration period);
WHEELCACHE_EXPORT absl::Status NoCallbackError(absl::string_view field);

class WHEELCACHE_EXPORT TimerQueue
    : public Reaper::Client,
      public std::enable_shared_from_this<TimerQueue> {
 public:
  using Executor = std::function<void(std::function<void()>)>;

  // REQUIRES: the queue is closed.
  ~TimerQueue() override;

  absl::Status Start() { return reaper_.Register(this); }

  // Drops all entries and refuses new ones.
  void Close();

  // Whether this thread runs a callback of the queue.
  bool InCallback() const;

  // Waits for the callbacks that are running.
  // REQUIRES: the queue is closed, and this thread runs none of them.
  void Join();

  size_t size() const;
  int64_t exceptions() const { return exceptions_; }

 protected:
  class Entry {
   public:
    // `hash` is that of the key.
    explicit Entry(size_t hash, bool is_periodic = false)
        : hash_(static_cast<uint32_t>(hash)),
          shard_(static_cast<uint8_t>(ShardOf(hash))),
          is_periodic_(is_periodic) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    size_t shard() const { return shard_; }
    bool is_periodic() const { return is_periodic_; }

   private:
    friend class TimerQueue;

    enum class State : uint8_t {
      kScheduled,  // In the wheel.
      kReady,      // In the ready list.
      kRunning,    // In the list of periodic entries whose callback runs.
      kLeft,       // Its task, or the call that took it out, destroys it.
    };

    TimerLinks<Entry*> links_;  // Of the wheel or the list.
    uint64_t tick_ = 0;         // When it is to be handed out.
    const uint32_t hash_;
    const uint8_t shard_;
    const bool is_periodic_;
    State state_ = State::kLeft;
  };

  class PeriodicEntry : public Entry {
   public:
    // REQUIRES: CheckPeriod.
    PeriodicEntry(size_t hash, absl::Duration period)
        : Entry(hash, /*is_periodic=*/true),
          period_(static_cast<uint64_t>(absl::ToInt64Nanoseconds(period))) {}

   private:
    friend class TimerQueue;

    const uint64_t period_;
    uint64_t due_ = 0;  // Before it is put off to the end of an interval.
  };

  struct Destroyer {
    void operator()(Entry* entry) const { queue->Destroy(entry); }
    TimerQueue* queue;
  };
  using Owner = std::unique_ptr<Entry, Destroyer>;

  // `executor` may be an empty function. Both references must outlive the last
  // callback.
  struct Layout {
    size_t bytes;
    size_t alignment;
  };
  TimerQueue(absl::Duration interval, const Executor& executor, Reaper& reaper,
             Layout most_entries);

  // Whether the entry has this key.
  virtual bool HasKey(const Entry& entry, const void* key) const = 0;

  // Runs the callback of the entry.
  virtual void Execute(Entry& entry) = 0;
  virtual void Destroy(Entry* entry) = 0;

  Owner Own(Entry* entry) { return Owner(entry, Destroyer{this}); }

  // Memory for an entry of the size that most have.
  void* Allocate(size_t shard);
  void Free(size_t shard, void* block);

  // Has the entry of the key fire after the delay, and calls `update` with it,
  // under the lock. Returns null, or memory for an entry if there is none or
  // it is periodic.
  absl::StatusOr<void*> UpdateOrAllocate(
      size_t hash, const void* key, absl::Duration delay,
      absl::FunctionRef<void(Entry&)> update);

  static size_t ShardOf(size_t hash) {
    return hash >> (8 * sizeof(size_t) - kShardBits);
  }

  // Adds an entry, which fires after the delay. Another of the same key is
  // dropped or, unless this `replaces`, stays.
  absl::Status Insert(Owner entry, const void* key, absl::Duration delay,
                      bool replaces);
  absl::Status Move(size_t hash, const void* key, absl::Duration delay);
  absl::Status Remove(size_t hash, const void* key);

  // Takes all entries out and shows them before it destroys them; but those
  // whose callback runs.
  absl::StatusOr<size_t> Drain(absl::FunctionRef<void(Entry&)> drained);

 private:
  static constexpr size_t kShardBits = 4;
  static constexpr size_t kShards = size_t{1} << kShardBits;

  struct Store;
  struct Shard;
  class AllLocked;
  struct FreeSlots {
    void operator()(void* slots) const;
  };

  int64_t RunDue(int64_t now_nanos) final;
  bool ClaimTask(Shard& shard);
  bool StartTask(Shard& shard);
  void RunTask(Shard& shard);
  Entry* TakeReady(Shard& shard);
  bool Reschedule(Shard& shard, Entry& entry);
  bool ContainAndCount(absl::FunctionRef<void()> function);
  void SetTickLocked(Shard& shard, Entry& entry, uint64_t tick);
  uint64_t TickOfSet(absl::Duration delay) const;

  uint64_t TickAfter(absl::Duration delay) const;
  uint64_t TickAt(int64_t nanos) const;
  uint64_t EndOfInterval(uint64_t tick) const;
  int64_t NanosAt(uint64_t tick) const;
  void SetDue(PeriodicEntry& entry, uint64_t due) const;
  void SetNextDue(PeriodicEntry& entry) const;

  const uint64_t interval_;
  const Executor& executor_;
  Reaper& reaper_;
  const int64_t start_nanos_;  // Tick 0. A tick is a nanosecond.
  std::atomic<int64_t> exceptions_{0};

  // Of all wheels: where no timer is, the pages are not resident.
  const std::unique_ptr<void, FreeSlots> slots_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_QUEUE_H_
