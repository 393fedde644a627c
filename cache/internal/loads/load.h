// A load in flight: the place where all callers of its key get its result
// (single-flight).
//
// One caller leads: it runs its loader, or has a ticket, and ends the load.
// The others block in Wait, or leave a callback. A load that ends may stay in
// the table of its shard (cache/internal/loads/loads.h) as a failure that is
// remembered.
//
// This is what the engine knows of a load; TypedLoad
// (cache/internal/loads/typed_load.h) has the key.
//
// Loaders may load other keys, and so wait for each other. Each thread notes
// which load it waits for without a limit, over all caches of the process, and
// a wait that would close a cycle is refused.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Load {
 public:
  // Who leads at first: the calling thread, or whoever has a ticket.
  enum class Leader { kThisThread, kTicket };

  // Is told of the end.
  using Done = absl::AnyInvocable<void(const Load&)>;

  // A load for the cache with this pool, which began at `now_nanos`.
  Load(EntryPool* pool, int64_t now_nanos, Leader leader, Hash32 hash);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  virtual ~Load();

  Hash32 hash() const { return hash_; }  // Of its key.
  int64_t begin_nanos() const { return begin_nanos_; }

  // Whether the entry has the key of this load.
  virtual bool HasKeyOf(const EntryHeader& entry) const = 0;

  // Why a load has failed whose loader threw, or whose leader gave it up. Made
  // beforehand: at that time there may be no memory.
  static const absl::Status& Thrown();
  static const absl::Status& GivenUp();

  // Ends the load: those who wait get the entry, of which the load takes over a
  // pin, or, if that is null, the status. Called once, by the leader. Allocates
  // nothing. Runs the callbacks, in their order; what they throw goes no
  // further.
  void End(absl::Status status, EntryRef ref = 0);

  // As End with this status, and returns true, but leaves it to the caller to
  // Tell. Where other threads wait, hands the load over to the one that has
  // waited longest instead.
  bool EndOrHandOver(const absl::Status& cancelled, std::vector<Done>* done);

  // Runs callbacks of a load that has ended.
  void Tell(std::vector<Done>* done) const;

  // How a wait has ended.
  enum class Waited {
    kForResult,
    kToLead,    // The load is the caller's now, who has to run and end it.
    kInVain,    // The time is up.
    kNotAtAll,  // It would be for ever: the leader waits for this thread.
  };

  // Makes the calling thread the leader of a load that has none but a ticket.
  void LeadFromThisThread();

  // Whether this is a refresh that nobody has begun to run: nobody joins it,
  // and a load for the same key takes its place. Under the lock of the shard.
  bool is_queued() const { return queued_; }
  void set_queued(bool queued) { queued_ = queued; }

  // Blocks until the load ends, or until `deadline_nanos`, kNever for no limit.
  Waited Wait(Clock* clock, int64_t deadline_nanos);

  // Calls `done` when the load ends, on that thread; now, if it has ended.
  void WhenDone(Done done);

  // The result of a load that has ended: the entry, in which the load has a
  // pin; or if that is null, the failure.
  EntryRef ref() const { return ref_; }
  const absl::Status& status() const { return status_; }
  bool has_ended() const {
    MutexLock lock(&mu_);
    return ended_;
  }

 private:
  // A thread that is blocked, in the order in which they came.
  struct Waiter;

  static thread_local Load* waits_for;

  Waited WaitAsListed(Waiter* waiter, Clock* clock, int64_t deadline_nanos);
  bool WaitsForThisThread();
  void EndLocked(absl::Status status, EntryRef ref, std::vector<Done>* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnlistLocked(Waiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  EntryPool& pool_;
  const int64_t begin_nanos_;
  const Hash32 hash_;
  bool queued_ = false;

  mutable Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Waiter* first_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::vector<Done> done_ ABSL_GUARDED_BY(mu_);
  // What the leading thread waits for. Valid until the load has ended or was
  // handed over. Null if the leader is no thread that is known.
  Load** leader_waits_for_ ABSL_GUARDED_BY(mu_);

  // Written before the end and constant from then on.
  absl::Status status_;
  EntryRef ref_ = 0;
};

using LoadPtr = std::shared_ptr<Load>;

class KeyQuery {
 public:
  explicit KeyQuery(KeyHash hash) : hash_(hash) {}
  KeyQuery(const KeyQuery&) = delete;
  KeyQuery& operator=(const KeyQuery&) = delete;

  KeyHash hash() const { return hash_; }

  // Whether the key is that of the entry, or of the load.
  virtual bool Matches(const EntryHeader& entry) const = 0;
  virtual bool Matches(const Load& load) const = 0;

 protected:
  ~KeyQuery() = default;

 private:
  const KeyHash hash_;
};

// The key of an entry.
class EntryKeyQuery final : public KeyQuery {
 public:
  EntryKeyQuery(const EntryPool& pool, EntryRef ref, KeyHash hash)
      : KeyQuery(hash),
        same_key_(pool.operations().same_key),
        entry_(pool.At(ref)) {}

  bool Matches(const EntryHeader& entry) const override {
    return same_key_(entry, entry_);
  }
  bool Matches(const Load& load) const override {
    return load.HasKeyOf(entry_);
  }

 private:
  bool (*const same_key_)(const EntryHeader&, const EntryHeader&);
  const EntryHeader& entry_;
};

// Of a loader that returns another number of results than it got keys.
WHEELCACHE_EXPORT absl::Status WrongCount(size_t results, size_t keys);

// A load with its key.
template <typename Key, typename Value, typename Equal>
class TypedLoad final : public Load {
 public:
  // What a load needs besides its key.
  struct Setting {
    EntryPool* pool;
    int64_t now_nanos;
    Leader leader;
  };

  TypedLoad(Key key, KeyHash hash, const Setting& setting)
      : Load(setting.pool, setting.now_nanos, setting.leader, hash.for_index),
        key_(std::move(key)),
        key_hash_(hash) {}

  const Key& key() const { return key_; }
  KeyHash key_hash() const { return key_hash_; }

  bool HasKeyOf(const EntryHeader& entry) const override {
    return Equal()(static_cast<const Entry<Key, Value>&>(entry).key(), key_);
  }

 private:
  const Key key_;
  const KeyHash key_hash_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_H_
