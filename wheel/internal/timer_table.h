// A TimerQueue with an index, which finds the entries by their keys.
//
// The index holds pointers only, so that no key or value is moved, let alone
// destroyed, under the lock; entries are created before it is taken and
// destroyed after it is released.
//
// Threads. Thread-safe. Of user code, only hash and equality of keys run under
// the lock.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_TABLE_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/requirements.h"
#include "wheelcache/wheel/internal/timer_blocks.h"
#include "wheelcache/wheel/internal/timer_queue.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache::internal {

template <typename Key, typename Value>
class TimerTable final : public TimerQueue {
  static_assert(!kIsCharacters<Key>,
                "a timer service would compare the addresses of characters, "
                "not text: make the Key a std::string");
  static_assert(std::is_default_constructible_v<absl::Hash<Key>>,
                "the Key has no hash: give it an AbslHashValue");
  static_assert(kHasEquality<Key>,
                "the Key has no equality: give it an operator==");

 public:
  using Callback = std::function<void(const Key&, Value)>;

  // `callback` must outlive its last call.
  TimerTable(absl::Duration interval, const Callback& callback,
             const Executor& executor, Reaper& reaper)
      : TimerQueue(interval, executor, reaper), callback_(callback) {}

  ~TimerTable() override { Close(); }

  absl::Status Set(Key key, Value value, absl::Duration delay);
  absl::Status Move(const Key& key, absl::Duration delay);
  absl::Status Remove(const Key& key);

  template <typename Drained>
  absl::StatusOr<size_t> Drain(Drained& drained);

  // Drops all entries and refuses new ones.
  void Close();

  size_t size() const {
    MutexLock lock(&mu_);
    return index_.size();
  }

 private:
  struct Item final : Entry {
    Item(Key&& k, Value&& v) : key(std::move(k)), value(std::move(v)) {}

    const Key key;
    Value value;
  };

  // Destroys an item, without the lock; the last one with what the index of
  // many has taken.
  struct Destroy {
    void operator()(Item* item) const {
      item->~Item();
      if (table->blocks_.Free(item)) table->ShrinkIndex();
    }
    TimerTable* table;
  };
  using Owner = std::unique_ptr<Item, Destroy>;

  Owner Own(Item* item) { return Owner(item, Destroy{this}); }
  Owner NewItem(Key&& key, Value&& value);
  void ShrinkIndex();

  // Mutable, so that an item may replace another of equal key.
  struct Slot {
    mutable Item* item;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const Slot& slot) const {
      return (*this)(slot.item->key);
    }
    size_t operator()(const Key& key) const { return absl::Hash<Key>()(key); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const Slot& a, const Slot& b) const {
      return a.item->key == b.item->key;
    }
    bool operator()(const Slot& slot, const Key& key) const {
      return slot.item->key == key;
    }
  };
  using Index = absl::flat_hash_set<Slot, Hash, Equal>;

  void UnindexLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) override {
    index_.erase(Slot{static_cast<Item*>(&entry)});
  }

  void Execute(Entry& entry) override {
    const Owner item = Own(static_cast<Item*>(&entry));
    callback_(item->key, std::move(item->value));
  }

  const Callback& callback_;
  TimerBlocks blocks_{sizeof(Item), alignof(Item)};
  Index index_ ABSL_GUARDED_BY(mu_);
};

template <typename Key, typename Value>
absl::Status TimerTable<Key, Value>::Set(Key key, Value value,
                                         absl::Duration delay) {
  absl::Status status = CheckDelay(delay);
  if (!status.ok()) return status;
  Owner item = NewItem(std::move(key), std::move(value));
  const uint64_t tick = TickAfterSet(delay);
  Owner replaced = Own(nullptr);
  MutexLock lock(&mu_);
  if (closed_) return ClosedError();
  const auto [slot, is_new] = index_.insert(Slot{item.get()});
  if (!is_new) {
    replaced.reset(std::exchange(slot->item, item.get()));
    UnscheduleLocked(*replaced);
  }
  ScheduleLocked(*item.release(), tick);
  return absl::OkStatus();
}

template <typename Key, typename Value>
absl::Status TimerTable<Key, Value>::Move(const Key& key,
                                          absl::Duration delay) {
  absl::Status status = CheckDelay(delay);
  if (!status.ok()) return status;
  const uint64_t tick = TickAfterMove(delay);
  MutexLock lock(&mu_);
  if (closed_) return ClosedError();
  const auto slot = index_.find(key);
  if (slot == index_.end()) return UnknownKeyError();
  ScheduleLocked(*slot->item, tick);
  return absl::OkStatus();
}

template <typename Key, typename Value>
absl::Status TimerTable<Key, Value>::Remove(const Key& key) {
  Owner removed = Own(nullptr);
  MutexLock lock(&mu_);
  if (closed_) return ClosedError();
  const auto slot = index_.find(key);
  if (slot == index_.end()) return UnknownKeyError();
  removed.reset(slot->item);
  index_.erase(slot);
  UnscheduleLocked(*removed);
  return absl::OkStatus();
}

template <typename Key, typename Value>
template <typename Drained>
absl::StatusOr<size_t> TimerTable<Key, Value>::Drain(Drained& drained) {
  Timers timers;
  Index index;
  {
    MutexLock lock(&mu_);
    if (closed_) return ClosedError();
    std::swap(timers, timers_);
    std::swap(index, index_);
  }
  for (const Slot& slot : index) {
    const Owner item = Own(slot.item);
    ContainAndCount([&] { drained(item->key, std::move(item->value)); });
  }
  return index.size();
}

template <typename Key, typename Value>
void TimerTable<Key, Value>::Close() {
  Timers timers;
  Index index;
  {
    MutexLock lock(&mu_);
    closed_ = true;
    std::swap(timers, timers_);
    std::swap(index, index_);
  }
  for (const Slot& slot : index) Own(slot.item).reset();
}

template <typename Key, typename Value>
auto TimerTable<Key, Value>::NewItem(Key&& key, Value&& value) -> Owner {
  // Frees the block if a constructor throws.
  struct Block {
    ~Block() {
      if (at != nullptr) blocks.Free(at);
    }
    TimerBlocks& blocks;
    void* at;
  };
  Block block{blocks_, blocks_.Allocate()};
  Item* const item = ::new (block.at) Item(std::move(key), std::move(value));
  block.at = nullptr;
  return Own(item);
}

// An index keeps its size when it becomes empty.
template <typename Key, typename Value>
void TimerTable<Key, Value>::ShrinkIndex() {
  Index before;
  MutexLock lock(&mu_);
  if (index_.empty()) std::swap(before, index_);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_TABLE_H_
