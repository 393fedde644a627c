// An entry of a cache: its key, its value, and 40 bytes of what index, wheel
// and list need to know of it.
//
// An entry lies in a block of the cache's arena, its key and value behind it in
// the same block, and is kept there by pins: the cache's own, which it gives up
// when no reader can find the entry any more, and one for each handle. The last
// one to let go destroys key and value, and frees the block; nobody does so
// under a lock. Key and value of a published entry do not change: a Set on the
// same key makes another entry.
//
// The charge of an entry follows from the sizes of key and value, unless a
// weigher says it: then it is stored, behind them in the same block. All
// entries of a pool are alike in this.
//
// The end. Entries may outlive the cache. An entry that is still pinned when
// the cache lets go of it is an orphan. The pool counts the orphans and ends
// when the cache and the last of them have; so whoever pins an entry and lets
// go of it before the cache does pays nothing for that.
//
// Threads. `birth`, `created`, key, value and charge are written before the
// entry is published and constant from then on; readers look at these and at
// the atomic fields, in a ReadSection or under a pin. The links belong to the
// lock of the entry's shard or, once it has been removed, to the thread that
// removed it.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_H_

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "absl/base/attributes.h"
#include "wheelcache/cache/internal/entry/age.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/view.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace internal {

using EntryRef = Arena::Ref;  // 0 is null.

// What index, wheel and list need.
struct EntryHeader {
  LruLinks<EntryRef> lru;
  TimerLinks<EntryRef> timer;

  // When the value is no longer returned, on the cache's clock. Relaxed: the
  // index publishes the first one with the entry, later ones come with nothing.
  std::atomic<int64_t> deadline_nanos{Clock::kNever};

  // Added relaxed, by who is protected by a section, a lock or another pin; the
  // end of that orders it before the cache's Unpin. Given up with release, and
  // by the last one with acquire: all looks come before the destruction.
  std::atomic<uint32_t> pins{0};

  // The cache's count of uses at the entry's last use, as far as that was
  // noted. Relaxed: a hint, by which nothing is found.
  std::atomic<uint32_t> stamp{0};

  Birth birth = 0;
  CreationTime created = 0;  // By the cache's clock.

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
      sizeof(EntryHeader) + LayoutType::kLeastBytes;

  // The bytes from the entry's first to the last of key and value; for a pair
  // to be, given their Sources.
  template <typename K, typename V>
  static size_t Bytes(const K& key, const V& value) {
    return sizeof(Entry) + LayoutType::Bytes(key, value);
  }
  size_t Bytes() const { return sizeof(Entry) + pair().inside; }

  // Whether the entry takes no more than so many bytes, all of them in its
  // block, and to destroy it does nothing but free that.
  bool IsPlain(size_t most_bytes) const {
    if constexpr (!LayoutType::kPlain) return false;
    const auto [inside, outside] = pair();
    return outside == 0 && sizeof(Entry) + inside <= most_bytes;
  }

  // All memory that the entry takes, as far as it is known without a weigher.
  // REQUIRES: no charge is stored.
  uint64_t Memory() const {
    const auto [inside, outside] = pair();
    return Arena::BlockBytes(sizeof(Entry) + inside) + outside + kIndexBytes;
  }

  template <typename K, typename V>
  void Construct(K&& key, V&& value) {
    LayoutType::Construct(begin(), std::forward<K>(key),
                          std::forward<V>(value));
  }
  void Destroy() { LayoutType::Destroy(begin()); }

  // The charge, where the block has kChargeBytes behind key and value for it;
  // at any address.
  uint32_t stored_charge() const {
    uint32_t charge;
    std::memcpy(&charge, begin() + pair().inside, kChargeBytes);
    return charge;
  }
  void store_charge(uint32_t charge) {
    std::memcpy(begin() + pair().inside, &charge, kChargeBytes);
  }
  static_assert(kChargeBytes == sizeof(uint32_t));

 private:
  std::byte* begin() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* begin() const {
    return reinterpret_cast<const std::byte*>(this + 1);
  }
  Footprint pair() const { return LayoutType::FootprintAt(begin()); }
};

// Where the charges of a pool's entries come from: the sizes of key and value,
// or whoever makes the entries, so that they have to be stored.
enum class Charges { kFromSizes, kStored };

// The entries of a cache. Outlives the cache for as long as an orphan is left.
template <typename Key, typename Value>
class EntryPool {
 public:
  using EntryType = Entry<Key, Value>;

  // A pool that will hold so many entries; 0 for not known.
  explicit EntryPool(Charges charges, uint64_t entries = 0)
      : charge_bytes_(charges == Charges::kStored ? kChargeBytes : 0),
        arena_(EntryType::LayoutType::kOneSize ? Arena::Sizes::kOne
                                               : Arena::Sizes::kMany,
               entries *
                   Arena::BlockBytes(EntryType::kLeastBytes + charge_bytes_)) {}
  EntryPool(const EntryPool&) = delete;
  EntryPool& operator=(const EntryPool&) = delete;

  EntryType& At(EntryRef ref) const {
    return *static_cast<EntryType*>(arena_.At(ref));
  }

  // Makes an entry with one pin, the cache's.
  template <typename K, typename V>
  EntryRef New(K&& key, V&& value) {
    return NewFrom(Stored<Key>::Source(std::forward<K>(key)),
                   Stored<Value>::Source(std::forward<V>(value)));
  }

  // The bytes that are accounted to an entry.
  int64_t Charge(EntryRef ref) const {
    const EntryType& entry = At(ref);
    return charge_bytes_ != 0 ? entry.stored_charge()
                              : static_cast<int64_t>(entry.Memory());
  }

  // REQUIRES: charges are stored, and the entry is not published yet.
  void SetCharge(EntryRef ref, uint32_t charge) {
    assert(charge_bytes_ != 0 && "the charge follows from the sizes");
    At(ref).store_charge(charge);
  }

  // Adds a pin. REQUIRES: the entry has one that stays during the call.
  void Pin(EntryRef ref) {
    At(ref).pins.fetch_add(1, std::memory_order_relaxed);
  }

  // Gives up the pin of the cache; if it was the last, destroys the entry.
  void Unpin(EntryRef ref) {
    // Nobody finds the entry any more, so a last pin stays the last.
    if (At(ref).pins.load(std::memory_order_acquire) == 1 || DropPin(ref)) {
      Delete(ref);
    } else {
      owners_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // Gives up any other pin, at any time: during and after the end of the
  // cache, too.
  void UnpinOutside(EntryRef ref) {
    if (!DropPin(ref)) return;
    Delete(ref);
    DropOwners(1);
  }

  // Ends the pool as soon as the last orphan has gone, now if there is none.
  // REQUIRES: the cache has given up all of its pins. Nobody may call New, Pin
  // or Unpin any more.
  void Abandon() { DropOwners(kCache); }

  // For tests.
  const Arena& arena() const { return arena_; }

  // Around fork(); see Arena.
  void BeforeFork() { arena_.BeforeFork(); }
  void AfterForkInParent() { arena_.AfterForkInParent(); }
  void AfterForkInChild() { arena_.AfterForkInChild(); }

 private:
  // The cache counts as more owners than there can be orphans: an orphan may be
  // counted off just before it is counted.
  static constexpr int64_t kCache = int64_t{1} << 40;

  // Frees the block of an entry whose construction throws.
  struct NewBlock {
    ~NewBlock() {
      if (ref != 0) arena->Free(ref, bytes);
    }
    Arena* arena;
    size_t bytes;
    EntryRef ref;
  };

  ~EntryPool() = default;

  template <typename K, typename V>
  EntryRef NewFrom(K&& key, V&& value) {
    const size_t bytes = EntryType::Bytes(key, value) + charge_bytes_;
    NewBlock block{&arena_, bytes, arena_.Allocate(bytes)};
    auto* entry = ::new (arena_.At(block.ref)) EntryType;
    entry->Construct(std::forward<K>(key), std::forward<V>(value));
    entry->birth = BirthNow();
    entry->pins.store(1, std::memory_order_relaxed);
    return std::exchange(block.ref, 0);
  }

  // Returns whether that was the last.
  bool DropPin(EntryRef ref) {
    return At(ref).pins.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  void Delete(EntryRef ref) {
    EntryType& entry = At(ref);
    const size_t bytes = entry.Bytes() + charge_bytes_;
    entry.Destroy();
    arena_.Free(ref, bytes);
  }

  void DropOwners(int64_t owners) {
    if (owners_.fetch_sub(owners, std::memory_order_acq_rel) == owners) {
      delete this;
    }
  }

  const size_t charge_bytes_;  // Of each entry's block, for its stored charge.
  Arena arena_;

  // The cache, and each orphan. Counted up relaxed, by the cache, which is
  // still an owner; down with release and acquire: whoever is last comes after
  // all.
  std::atomic<int64_t> owners_{kCache};
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_H_
