// A TimerQueue whose entries have keys and values.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_TABLE_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_TABLE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/requirements.h"
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
      : TimerQueue(interval, executor, reaper, {sizeof(Item), alignof(Item)}),
        callback_(callback) {}

  ~TimerTable() override { Close(); }

  absl::Status Set(Key key, Value value, absl::Duration delay) {
    const size_t hash = HashOf(key);
    void* block;
    if constexpr (std::is_nothrow_swappable_v<Value>) {
      const absl::StatusOr<void*> free =
          UpdateOrAllocate(hash, std::addressof(key), delay, [&](Entry& entry) {
            using std::swap;
            swap(ContentsOf(entry).value, value);
          });
      if (!free.ok() || *free == nullptr) return free.status();
      block = *free;
    } else {
      block = Allocate(ShardOf(hash));
    }
    Item* const item = NewItem(hash, block, std::move(key), std::move(value));
    return Insert(Own(item), std::addressof(item->contents.key), delay,
                  /*replaces=*/true);
  }

  absl::Status SetIfAbsent(Key key, Value value, absl::Duration delay) {
    const size_t hash = HashOf(key);
    Item* const item = NewItem(hash, Allocate(ShardOf(hash)), std::move(key),
                               std::move(value));
    return Insert(Own(item), std::addressof(item->contents.key), delay,
                  /*replaces=*/false);
  }

  absl::Status SetEvery(Key key, Value value, absl::Duration period) {
    absl::Status status = CheckPeriod("period", period);
    if (!status.ok()) return status;
    const size_t hash = HashOf(key);
    auto* const item =
        new PeriodicItem(hash, std::move(key), std::move(value), period,
                         [](const Value& original) { return Value(original); });
    return Insert(Own(item), std::addressof(item->contents.key), period,
                  /*replaces=*/true);
  }

  absl::Status Move(const Key& key, absl::Duration delay) {
    return TimerQueue::Move(HashOf(key), std::addressof(key), delay);
  }

  absl::Status Remove(const Key& key) {
    return TimerQueue::Remove(HashOf(key), std::addressof(key));
  }

  template <typename Drained>
  absl::StatusOr<size_t> Drain(Drained& drained) {
    return TimerQueue::Drain([&](Entry& entry) {
      Contents& contents = ContentsOf(entry);
      drained(std::as_const(contents.key), std::move(contents.value));
    });
  }

 private:
  struct Contents {
    Key key;
    Value value;
  };

  struct Item final : Entry {
    Item(size_t hash, Key&& key, Value&& value)
        : Entry(hash), contents{std::move(key), std::move(value)} {}

    Contents contents;
  };

  struct PeriodicItem final : PeriodicEntry {
    PeriodicItem(size_t hash, Key&& key, Value&& value, absl::Duration period,
                 Value (*copy_value)(const Value&))
        : PeriodicEntry(hash, period),
          contents{std::move(key), std::move(value)},
          copy(copy_value) {}

    Contents contents;
    // Not all values can be copied.
    Value (*const copy)(const Value&);
  };

  static size_t HashOf(const Key& key) { return absl::Hash<Key>()(key); }

  static Contents& ContentsOf(Entry& entry) {
    return entry.is_periodic() ? static_cast<PeriodicItem&>(entry).contents
                               : static_cast<Item&>(entry).contents;
  }

  bool HasKey(const Entry& entry, const void* key) const override {
    return ContentsOf(const_cast<Entry&>(entry)).key ==
           *static_cast<const Key*>(key);
  }

  void Execute(Entry& entry) override {
    Contents& contents = ContentsOf(entry);
    callback_(contents.key,
              entry.is_periodic()
                  ? static_cast<PeriodicItem&>(entry).copy(contents.value)
                  : std::move(contents.value));
  }

  void Destroy(Entry* entry) override {
    if (entry->is_periodic()) {
      delete static_cast<PeriodicItem*>(entry);
      return;
    }
    const size_t shard = entry->shard();
    auto* const item = static_cast<Item*>(entry);
    item->~Item();
    Free(shard, item);
  }

  // Creates an item in the block; frees that if a constructor throws.
  Item* NewItem(size_t hash, void* block, Key&& key, Value&& value) {
    struct Block {
      ~Block() {
        if (at != nullptr) table.Free(shard, at);
      }
      TimerTable& table;
      size_t shard;
      void* at;
    };
    Block owned{*this, ShardOf(hash), block};
    auto* const item =
        ::new (block) Item(hash, std::move(key), std::move(value));
    owned.at = nullptr;
    return item;
  }

  const Callback& callback_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_TABLE_H_
