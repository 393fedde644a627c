// An entry of a cache: its key, its value, and 40 bytes of what index, wheel
// and list need to know of it.
//
// An entry lives in a slot of the cache's SlotPool and is kept there by pins:
// the cache's own, which it gives up when no reader can find the entry any
// more, and one for each handle. The last one to let go destroys key and
// value, and frees the slot; nobody does so under a lock. Key and value of a
// published entry do not change: a Set on the same key makes another entry.
//
// Threads. `birth`, `charge`, key and value are written before the entry is
// published and constant from then on; readers look at these and at the atomic
// fields, in a ReadSection or under a pin. The links belong to the lock of the
// entry's shard or, once it has been removed, to the thread that removed it.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/epoch.h"
#include "wheelcache/cache/internal/slot_pool.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace internal {

using EntryRef = uint32_t;  // 0 is null.

template <typename Key, typename Value>
class Entry {
 public:
  LruLinks<EntryRef> lru;
  TimerLinks<EntryRef> timer;

  // When the value is no longer returned, on the cache's clock.
  std::atomic<int64_t> deadline_nanos{Clock::kNever};

  std::atomic<uint32_t> pins{0};

  // The shard's count of uses at the entry's last move to the front of the LRU
  // list. The pool's while the slot is free.
  std::atomic<uint32_t> stamp{0};

  Birth birth = 0;
  uint32_t charge = 0;

  const Key& key() const {
    return *std::launder(reinterpret_cast<const Key*>(key_));
  }
  const Value& value() const {
    return *std::launder(reinterpret_cast<const Value*>(value_));
  }

  int64_t deadline() const {
    return deadline_nanos.load(std::memory_order_relaxed);
  }
  bool ExpiredAt(int64_t now_nanos) const { return deadline() <= now_nanos; }

  template <typename K, typename V>
  void Construct(K&& key, V&& value) {
    ::new (static_cast<void*>(key_)) Key(std::forward<K>(key));
    Undo undo{this};
    ::new (static_cast<void*>(value_)) Value(std::forward<V>(value));
    undo.entry = nullptr;
  }

  void Destroy() {
    std::destroy_at(const_cast<Value*>(&value()));
    std::destroy_at(const_cast<Key*>(&key()));
  }

 private:
  // Destroys the key if the construction of the value throws.
  struct Undo {
    ~Undo() {
      if (entry != nullptr) std::destroy_at(const_cast<Key*>(&entry->key()));
    }
    Entry* entry;
  };

  alignas(Key) std::byte key_[sizeof(Key)];
  alignas(Value) std::byte value_[sizeof(Value)];
};

// The entries of a cache. Outlives the cache for as long as a pin is left.
template <typename Key, typename Value>
class EntryPool {
 public:
  using EntryType = Entry<Key, Value>;

  EntryPool() = default;
  EntryPool(const EntryPool&) = delete;
  EntryPool& operator=(const EntryPool&) = delete;

  EntryType& At(EntryRef ref) const { return slots_.At(ref); }

  // Makes an entry with one pin, the caller's.
  template <typename K, typename V>
  EntryRef New(K&& key, V&& value) {
    NewSlot slot{this, slots_.Allocate()};
    EntryType& entry = At(slot.ref);
    entry.Construct(std::forward<K>(key), std::forward<V>(value));
    entry.timer = {};  // A Clear leaves the links of its entries as they were.
    entry.birth = BirthNow();
    entry.pins.store(kPin | kExists, std::memory_order_relaxed);
    return std::exchange(slot.ref, 0);
  }

  // REQUIRES: the entry has a pin that stays during the call.
  void Pin(EntryRef ref) {
    At(ref).pins.fetch_add(kPin, std::memory_order_relaxed);
  }

  // Gives up a pin; with the last one, destroys the entry.
  // REQUIRES: a call of the cache, which the cache therefore survives.
  void Unpin(EntryRef ref) {
    EntryType& entry = At(ref);
    if (!DropPin(entry)) return;
    entry.Destroy();
    entry.pins.store(0, std::memory_order_relaxed);
    slots_.Free(ref);
  }

  // As Unpin, at any time: during and after the end of the cache, too.
  void UnpinOutside(EntryRef ref) {
    EntryType& entry = At(ref);
    if (!DropPin(entry)) return;
    entry.Destroy();
    // From the exchange on Abandon() need not find this entry pinned; the
    // count keeps it from deleting the pool while the slot is freed.
    freeing_.fetch_add(1, std::memory_order_relaxed);
    const uint32_t before = entry.pins.exchange(0, std::memory_order_acq_rel);
    const bool abandoned = (before & kAbandoned) != 0;
    if (!abandoned) slots_.Free(ref);
    freeing_.fetch_sub(1, std::memory_order_release);
    if (abandoned) CountOff(1);
  }

  // Ends the pool as soon as the last pin is given up, now if there is none.
  // Nobody may call New, Pin or Unpin any more.
  void Abandon() {
    // Each entry that is still pinned gets a mark, by which its last
    // UnpinOutside counts it off. The large number keeps the count up until
    // all are known.
    constexpr int64_t kCounting = int64_t{1} << 40;
    left_.store(kCounting, std::memory_order_relaxed);
    int64_t pinned = 0;
    slots_.ForEachUsed([&pinned](EntryType& entry) {
      if (entry.pins.load(std::memory_order_acquire) == 0) return;
      const uint32_t before =
          entry.pins.fetch_or(kAbandoned, std::memory_order_acq_rel);
      if (before != 0) ++pinned;
    });
    while (freeing_.load(std::memory_order_acquire) != 0) {
      std::this_thread::yield();
    }
    CountOff(kCounting - pinned);
  }

  // Around fork(); see SlotPool.
  void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { slots_.BeforeFork(); }
  void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    slots_.AfterForkInParent();
  }
  void AfterForkInChild() { slots_.AfterForkInChild(); }

 private:
  // The layout of Entry::pins: a flag for as long as key and value exist, the
  // number of pins, and the mark of Abandon().
  static constexpr uint32_t kExists = 1;
  static constexpr uint32_t kPin = 2;
  static constexpr uint32_t kAbandoned = uint32_t{1} << 31;

  // Frees a slot whose entry's construction throws.
  struct NewSlot {
    ~NewSlot() {
      if (ref != 0) pool->slots_.Free(ref);
    }
    EntryPool* pool;
    EntryRef ref;
  };

  ~EntryPool() = default;

  // Returns whether that was the last.
  static bool DropPin(EntryType& entry) {
    const uint32_t before =
        entry.pins.fetch_sub(kPin, std::memory_order_acq_rel);
    return (before & ~(kExists | kAbandoned)) == kPin;
  }

  void CountOff(int64_t entries) {
    if (left_.fetch_sub(entries, std::memory_order_acq_rel) == entries) {
      delete this;
    }
  }

  SlotPool<EntryType> slots_;
  std::atomic<int64_t> left_{0};     // Pinned entries after Abandon().
  std::atomic<int64_t> freeing_{0};  // Calls of UnpinOutside that free a slot.
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_H_
