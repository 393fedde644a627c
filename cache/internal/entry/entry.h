// An entry of a cache: a header of 40 bytes with the fields of index, wheel and
// list, and behind it in the same block key and value.
//
// Once an entry is published, its key and value do not change: a Set on the
// same key makes another entry. EntryPool (cache/internal/entry/entry_pool.h)
// makes entries and destroys them.
//
// The engine does not know the types of key and value. It handles them through
// a table of functions, EntryOperations, one for each type of cache.
//
// A placeholder is an entry with a key and a load in the place of a value. It
// is in the index besides the entry of its key, if there is one, under a hash
// of its own (cache/internal/index/key_hash.h).
//
// Threads. `birth`, key, value and charge are written before the entry is
// published and constant from then on; readers read these and the atomic
// fields, in a ReadSection or under a pin. The links belong to the lock
// of the entry's shard or, once it has been removed, to the thread that removed
// it.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/cache/types/weigh.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

// The age of a value, kept in 31 bits of its entry.
//
//   const CreationTime created = CreationTimeAt(clock.NowNanos());
//   clock.Advance(absl::Seconds(5));
//   AgeNanos(created, clock.NowNanos());  // 5'000'000'000.
//
// A clock is read in steps of 20 ms from its start, and the time of creation is
// the number of the step, modulo 2^31. An age is a whole number of steps: exact
// for whole steps, else off by less than a step either way.
//
// Range. 2^31 steps are 497 days. The first 15 of 16 parts of that, 466 days,
// stand for ages; the last one, 31 days, for a clock that was turned back since
// by as much: the age is zero then. Greater distances count modulo 497 days.
//
// Threads. Functions of their arguments alone.
// The highest bit is of no account: an entry keeps something else there.
using CreationTime = uint32_t;

// A step. Shorter ones would reach less far, and ages matter in seconds.
inline constexpr int64_t kAgeStepNanos = 20'000'000;

// The largest age, in steps.
inline constexpr uint32_t kMaxAge = (uint32_t{15} << 27) - 1;

constexpr CreationTime CreationTimeAt(int64_t now_nanos) {
  // Rounded down before the clock's start, too, so that all steps are alike.
  const bool rounded_up = now_nanos % kAgeStepNanos < 0;
  return static_cast<CreationTime>(now_nanos / kAgeStepNanos - rounded_up);
}

// The age in steps of what was created at one time, at another one.
constexpr uint32_t AgeSteps(CreationTime created, CreationTime now) {
  const uint32_t steps = (now - created) & ((uint32_t{1} << 31) - 1);
  return steps <= kMaxAge ? steps : 0;
}

constexpr int64_t AgeNanos(CreationTime created, int64_t now_nanos) {
  return AgeSteps(created, CreationTimeAt(now_nanos)) * kAgeStepNanos;
}

using EntryRef = GranuleRef;  // The number of its block; 0 is null.

// What a placeholder has in the place of a value, to those who only destroy it:
// a Load (cache/internal/loads/load.h).
class AnyLoad {
 public:
  AnyLoad() = default;
  AnyLoad(const AnyLoad&) = delete;
  AnyLoad& operator=(const AnyLoad&) = delete;
  virtual ~AnyLoad() = default;
};

// What index, wheel and list need.
struct EntryHeader {
  LruLinks<EntryRef> lru;
  TimerLinks<EntryRef> timer;

  // When the value is no longer returned, on the cache's clock. Relaxed: the
  // index publishes the first one with the entry, and later ones publish no
  // other data.
  std::atomic<int64_t> deadline_nanos{Clock::kNever};

  // Added relaxed, by a thread that a section, a lock or another pin protects,
  // whose end orders it before the cache's Unpin. Given up with release, and by
  // the last one with acquire: all reads come before the destruction. kMoved is
  // set when a copy has taken the entry's place: nobody may keep a pin that is
  // added after that.
  // kPlaceholder is set from the beginning or never.
  static constexpr uint32_t kMoved = uint32_t{1} << 31;
  static constexpr uint32_t kPlaceholder = uint32_t{1} << 30;
  static constexpr uint32_t kPins = kPlaceholder - 1;
  std::atomic<uint32_t> pins{0};

  // When the entry was last used, as cache/internal/engine/recency.h says.
  // Relaxed: a hint that publishes nothing.
  std::atomic<uint32_t> stamp{0};

  Birth birth = 0;

  // When the value was created, by the cache's clock, in the lower bits; and
  // whether the entry is in the main list of a scan-resistant order, in the
  // highest. Relaxed: the index publishes the one, and the other is a hint to
  // readers. The lock of the shard guards it.
  static constexpr uint32_t kInMain = uint32_t{1} << 31;
  std::atomic<uint32_t> created_and_list{0};

  CreationTime created() const {
    return created_and_list.load(std::memory_order_relaxed);
  }
  // REQUIRES: the entry is not published yet.
  void SetCreated(CreationTime time) {
    created_and_list.store(time & ~kInMain, std::memory_order_relaxed);
  }
  bool in_main() const { return (created() & kInMain) != 0; }
  void EnterMain() {
    created_and_list.store(created() | kInMain, std::memory_order_relaxed);
  }

  bool is_placeholder() const {
    return (pins.load(std::memory_order_relaxed) & kPlaceholder) != 0;
  }

  int64_t deadline() const {
    return deadline_nanos.load(std::memory_order_relaxed);
  }
  bool ExpiredAt(int64_t now_nanos) const { return deadline() <= now_nanos; }
};
static_assert(sizeof(EntryHeader) == kEntryBytes);

template <typename Key, typename Value>
class Entry : public EntryHeader {
 public:
  using LayoutType = Layout<Key, Value>;

  View<Key> key() const { return LayoutType::KeyOf(begin()); }
  ABSL_ATTRIBUTE_ALWAYS_INLINE View<Value> value() const {
    return LayoutType::ValueOf(begin());
  }

  // The bytes of the smallest entry.
  static constexpr size_t kLeastBytes =
      sizeof(EntryHeader) + LayoutType::LeastBytes();

  static Footprint Least() { return {kLeastBytes, LayoutType::LeastOutside()}; }

  // The bytes from the entry's first to the last of key and value; for a pair
  // to be made, given its Sources.
  template <typename K, typename V>
  static size_t Bytes(const K& key, const V& value) {
    return sizeof(Entry) + LayoutType::Bytes(key, value);
  }
  template <typename K, typename V>
  static uint64_t Outside(const K& key, const V& value) {
    return LayoutType::Outside(key, value);
  }

  // The bytes of the entry: inside its block, the header included, and
  // elsewhere.
  Footprint footprint() const {
    Footprint pair = LayoutType::FootprintAt(begin());
    pair.inside += sizeof(Entry);
    return pair;
  }

  template <typename K, typename V>
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Construct(K&& key, V&& value) {
    LayoutType::Construct(begin(), std::forward<K>(key),
                          std::forward<V>(value));
  }
  void Destroy() { LayoutType::Destroy(begin()); }
  void DestroyKey() { LayoutType::DestroyKey(begin()); }

 private:
  std::byte* begin() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* begin() const {
    return reinterpret_cast<const std::byte*>(this + 1);
  }
};

// What the engine does with the key and the value of an entry.
struct EntryOperations {
  Hash32 (*hash)(const EntryHeader& entry);  // Of the key, for the index.
  bool (*same_key)(const EntryHeader& a, const EntryHeader& b);
  Footprint (*footprint)(const EntryHeader& entry);
  void (*destroy)(EntryHeader* entry);  // Key and value, not the block.
  void (*destroy_key)(EntryHeader* entry);

  size_t least_bytes;  // Of the smallest entry's block.
  // Where an entry takes nothing outside its block: whether `destroy` does
  // nothing; and whether a copy of the block's bytes is a copy of the entry.
  bool trivial;
  bool copyable;
};

template <typename Key, typename Value, typename Hash, typename Equal>
inline constexpr EntryOperations kEntryOperations = {
    [](const EntryHeader& entry) {
      using Typed = Entry<Key, Value>;
      return HashKey<Hash>(static_cast<const Typed&>(entry).key()).for_index;
    },
    [](const EntryHeader& a, const EntryHeader& b) -> bool {
      using Typed = Entry<Key, Value>;
      return Equal()(static_cast<const Typed&>(a).key(),
                     static_cast<const Typed&>(b).key());
    },
    [](const EntryHeader& entry) {
      return static_cast<const Entry<Key, Value>&>(entry).footprint();
    },
    [](EntryHeader* entry) {
      static_cast<Entry<Key, Value>*>(entry)->Destroy();
    },
    [](EntryHeader* entry) {
      static_cast<Entry<Key, Value>*>(entry)->DestroyKey();
    },
    Entry<Key, Value>::kLeastBytes,
    Entry<Key, Value>::LayoutType::kPlain,
    Entry<Key, Value>::LayoutType::kCopyable,
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_H_
