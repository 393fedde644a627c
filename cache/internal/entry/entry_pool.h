// The reference-counted entries of a cache: makes them, resolves references to
// them, and destroys them with their last pin.
//
//   EntryPool* const pool = new EntryPool(&operations, Charges::kFromSizes);
//   const EntryRef ref = MakeEntry<int, int>(pool, 1, 2);  // One pin.
//   pool->Pin(ref);           // For a handle.
//   pool->Unpin(ref);         // The cache's pin: no reader can find it.
//   pool->UnpinOutside(ref);  // The last pin: destroys the entry.
//   pool->Abandon();          // The cache ends.
//
// Pins keep an entry in its block of the arena: the cache's own, which it gives
// up when no reader can find the entry any more, and one for each handle. The
// thread that gives up the last pin destroys key and value and frees the block;
// never under a lock.
//
// The charge of an entry follows from the sizes of key and value, unless there
// is a weigher: then the charge is stored, behind them in the same block.
// Behind that is the hard deadline, if there is an idle TTL. Both are the same
// for all entries of a pool.
//
// The end. Entries may outlive the cache. An entry that is still pinned when
// the cache gives up its own pin is an orphan. The pool counts the orphans, and
// ends when the cache and the last orphan have ended; so a handle that ends
// before its entry is removed costs nothing here.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_POOL_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/idle_ttl.h"
#include "wheelcache/cache/internal/entry/layout.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/types/weigh.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Where the charges of a pool's entries come from: the sizes of key and value,
// or a weigher, so that they have to be stored.
enum class Charges { kFromSizes, kStored };

class WHEELCACHE_EXPORT EntryPool {
 public:
  // A pool that will hold about `entries` entries; 0 if unknown.
  EntryPool(const EntryOperations* operations, Charges charges,
            uint64_t entries = 0, IdleTtl idle = IdleTtl(Clock::kNever));
  EntryPool(const EntryPool&) = delete;
  EntryPool& operator=(const EntryPool&) = delete;

  const EntryOperations& operations() const { return operations_; }

  EntryHeader& At(EntryRef ref) const {
    return *static_cast<EntryHeader*>(arena_.At(ref));
  }

  // Allocate a block for an entry of `bytes`; free one whose entry was not made
  // after all. For MakeEntry, below.
  EntryRef Allocate(size_t bytes) {
    return arena_.Allocate(bytes + tail_bytes_);
  }
  void Free(EntryRef ref, size_t bytes) {
    arena_.Free(ref, bytes + tail_bytes_);
  }

  // The memory that an entry with this footprint takes, its share of the index
  // included.
  uint64_t MemoryOf(Footprint footprint) const {
    return MemoryOf(footprint, tail_bytes_);
  }

  // The least charge of entries that take at least this.
  static uint64_t LeastCharge(Footprint least, Charges charges, IdleTtl idle) {
    return charges == Charges::kStored ? kEntryOverhead
                                       : MemoryOf(least, idle.entry_bytes());
  }

  // Records what a new entry takes outside its block. For MakeEntry, below.
  void AddOutside(uint64_t bytes) {
    outside_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }

  // What an entry takes.
  Footprint FootprintOf(EntryRef ref) const {
    return operations_.footprint(At(ref));
  }

  // The bytes charged to an entry; the second, given its footprint.
  int64_t Charge(EntryRef ref) const { return Charge(ref, FootprintOf(ref)); }
  int64_t Charge(EntryRef ref, Footprint footprint) const {
    return charge_bytes_ == 0 ? static_cast<int64_t>(MemoryOf(footprint))
                              : StoredCharge(ref, footprint);
  }

  // REQUIRES: charges are stored, and the entry is not published yet.
  void SetCharge(EntryRef ref, uint32_t charge);

  // For an entry that may come not to be charged for, but to be shown.
  void SetNoCharge(EntryRef ref) {
    if (charge_bytes_ != 0) SetCharge(ref, 0);
  }

  // The load of a placeholder, which owns it. Set once, by MakePlaceholder,
  // below; a stored charge is the least there is then.
  AnyLoad* LoadOf(EntryRef ref) const {
    return LoadPointer<AnyLoad>(BehindTail(ref));
  }
  void SetLoad(EntryRef ref, AnyLoad* load) {
    if (charge_bytes_ != 0) SetCharge(ref, kEntryOverhead);
    StorePointer(BehindTail(ref), load);
    At(ref).pins.fetch_or(EntryHeader::kPlaceholder, std::memory_order_relaxed);
  }

  // The rest is about deadlines, of an entry that is no placeholder; see
  // idle_ttl.h.

  const IdleTtl& idle() const { return idle_; }

  // When it ends however much it is used.
  int64_t HardDeadlineOf(const EntryHeader& entry) const {
    return idle_.on() ? HardDeadlineAt(entry).load() : entry.deadline();
  }

  // Gives an entry that is not published yet this deadline, the hard one if
  // there is an idle TTL. It is used now.
  void SetDeadline(EntryHeader* entry, int64_t deadline_nanos,
                   int64_t now_nanos) const {
    if (ABSL_PREDICT_FALSE(idle_.on())) {
      SetDeadlines(entry, deadline_nanos, now_nanos);
      return;
    }
    // Relaxed, as charge and key: the index publishes them together.
    entry->deadline_nanos.store(deadline_nanos, std::memory_order_relaxed);
  }

  // These require an idle TTL.

  // Gives a published one others, under the lock of the shard, while its timer
  // is not scheduled. Returns false if it has expired.
  bool ChangeDeadlines(EntryHeader* entry, int64_t hard_deadline,
                       const Clock& clock) const;

  // Extends an entry with this deadline, if it is not fresh, for a use at a
  // time before that. Returns false if it has another deadline meanwhile, which
  // is then in *deadline.
  bool TryExtend(EntryHeader* entry, int64_t* deadline,
                 int64_t now_nanos) const;

  // Whether the entry has expired; nobody extends it then. Under the lock of
  // the shard.
  static bool TryExpire(EntryHeader* entry, int64_t now_nanos);

  // Whether an entry takes at most `most_bytes`, all of them in its block, and
  // destroying it only frees that.
  bool IsPlain(Footprint footprint, size_t most_bytes) const {
    return operations_.trivial && footprint.outside == 0 &&
           footprint.inside <= most_bytes;
  }

  // Adds a pin. REQUIRES: the entry is in the index, under the shard's lock; or
  // the caller has a pin.
  void Pin(EntryRef ref) const {
    At(ref).pins.fetch_add(1, std::memory_order_relaxed);
  }

  // The same in a ReadSection, in which the entry was found. Returns false, and
  // adds nothing, if it was moved since: it is to be looked up again.
  bool TryPin(EntryRef ref) const {
    std::atomic<uint32_t>& pins = At(ref).pins;
    const uint32_t before = pins.fetch_add(1, std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(before < EntryHeader::kMoved)) return true;
    pins.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  // Copies an entry to a new block, with one pin and without links, and returns
  // that; or null if the entry has another pin than the cache's or cannot be
  // copied byte by byte, or if there is no memory. The caller puts the copy in
  // its place and retires it.
  // REQUIRES: the entry is in the index, under the shard's lock.
  EntryRef Move(EntryRef ref);

  // Gives up the pin of the cache; if it was the last, destroys the entry.
  void Unpin(EntryRef ref);

  // Gives up any other pin, at any time, also during and after the end of the
  // cache.
  void UnpinOutside(EntryRef ref);

  // Ends the pool as soon as the last orphan has ended, now if there is none.
  // REQUIRES: the cache has given up all of its pins. From now on only who has
  // a pin may call methods.
  void Abandon() { DropOwners(kCache); }

  // Where the entries lie.
  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }

  // The resident bytes of the entries' memory; and those of them that orphans
  // take. At any time.
  int64_t resident_bytes() const {
    return arena_.resident_bytes() + outside_.load(std::memory_order_relaxed);
  }
  int64_t orphan_bytes() const {
    return orphan_bytes_.load(std::memory_order_relaxed);
  }

  // The bytes of entries that were moved and whose old blocks are not free yet.
  int64_t moved_bytes() const {
    return moved_bytes_.load(std::memory_order_relaxed);
  }

 private:
  // The cache counts as more owners than there can be orphans: an orphan may be
  // counted down just before it is counted up.
  static constexpr int64_t kCache = int64_t{1} << 40;

  ~EntryPool() = default;

  static uint64_t MemoryOf(Footprint footprint, size_t tail_bytes) {
    return Arena::BlockBytes(footprint.inside + tail_bytes) +
           footprint.outside + kIndexBytes;
  }
  int64_t StoredCharge(EntryRef ref, Footprint footprint) const;
  std::byte* BehindTail(EntryRef ref) const {
    return reinterpret_cast<std::byte*>(&At(ref)) + FootprintOf(ref).inside +
           tail_bytes_;
  }
  void SetDeadlines(EntryHeader* entry, int64_t hard_deadline,
                    int64_t now_nanos) const;
  std::atomic<int64_t>& HardDeadlineAt(const EntryHeader& entry) const;
  ABSL_ATTRIBUTE_NOINLINE void UnpinMovedOrPinned(EntryRef ref);
  bool DropPin(EntryRef ref);
  void Count(std::atomic<int64_t>& bytes, Footprint footprint, int sign) const;
  void Delete(EntryRef ref);
  void DeleteAny(EntryRef ref);
  void DropOwners(int64_t owners);

  const EntryOperations& operations_;
  const IdleTtl idle_;
  // Of each entry's block: for its stored charge, and with the hard deadline.
  const size_t charge_bytes_;
  const size_t tail_bytes_;
  Arena arena_;

  // The cache, and each orphan. Counted up relaxed, by the cache, which is
  // still an owner; down with release and acquire: the last owner comes after
  // all others.
  std::atomic<int64_t> owners_{kCache};

  // What the entries take outside their blocks; what the orphans take in all;
  // and the old blocks of moved entries. Relaxed: numbers to look at.
  std::atomic<int64_t> outside_{0};
  std::atomic<int64_t> orphan_bytes_{0};
  std::atomic<int64_t> moved_bytes_{0};
};

// Ends a pool with the last handle, after the cache.
struct AbandonPool {
  void operator()(EntryPool* pool) const { pool->Abandon(); }
};

// Makes an entry with one pin, the cache's, and says what it takes. Throws what
// the constructors of key and value throw, or std::bad_alloc.
// REQUIRES: the pool is one of entries of this key and value.
template <typename Key, typename Value, size_t BytesBehind = 0, typename K,
          typename V>
EntryRef MakeEntry(EntryPool* pool, K&& key, V&& value,
                   Footprint* footprint = nullptr) {
  using EntryType = Entry<Key, Value>;
  // Frees the block if the construction throws.
  struct NewBlock {
    ~NewBlock() {
      if (ref != 0) pool->Free(ref, bytes + BytesBehind);
    }
    EntryPool* pool;
    size_t bytes;
    EntryRef ref;
  };
  auto&& key_source = Stored<Key>::Source(std::forward<K>(key));
  auto&& value_source = Stored<Value>::Source(std::forward<V>(value));
  const size_t bytes = EntryType::Bytes(key_source, value_source);
  NewBlock block{pool, bytes, pool->Allocate(bytes + BytesBehind)};
  const uint64_t outside = EntryType::Outside(key_source, value_source);
  auto* entry = ::new (static_cast<void*>(&pool->At(block.ref))) EntryType;
  entry->Construct(std::forward<decltype(key_source)>(key_source),
                   std::forward<decltype(value_source)>(value_source));
  if (ABSL_PREDICT_FALSE(outside != 0)) pool->AddOutside(outside);
  entry->birth = BirthNow();
  entry->pins.store(1, std::memory_order_relaxed);
  if (footprint != nullptr) *footprint = {bytes, outside};
  return std::exchange(block.ref, 0);
}

// The same for a placeholder with this load.
template <typename Key, typename Value, typename K>
EntryRef MakePlaceholder(EntryPool* pool, K&& key,
                         std::unique_ptr<AnyLoad> load) {
  const EntryRef ref = MakeEntry<Key, Value, kPointerBytes>(
      pool, std::forward<K>(key), NoValue());
  pool->SetLoad(ref, load.release());
  return ref;
}

class KeyQuery {
 public:
  explicit KeyQuery(KeyHash hash) : hash_(hash) {}
  KeyQuery(const KeyQuery&) = delete;
  KeyQuery& operator=(const KeyQuery&) = delete;

  KeyHash hash() const { return hash_; }

  // Whether the key is that of the entry.
  virtual bool Matches(const EntryHeader& entry) const = 0;

 protected:
  ~KeyQuery() = default;

 private:
  const KeyHash hash_;
};

// A key of any type that compares with the cache's; it must outlive the query.
template <typename Key, typename Value, typename Equal, typename K>
class TypedKeyQuery final : public KeyQuery {
 public:
  TypedKeyQuery(const K& key, KeyHash hash) : KeyQuery(hash), key_(key) {}

  bool Matches(const EntryHeader& entry) const override {
    return Equal()(static_cast<const Entry<Key, Value>&>(entry).key(), key_);
  }

 private:
  const K& key_;
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

 private:
  bool (*const same_key_)(const EntryHeader&, const EntryHeader&);
  const EntryHeader& entry_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_ENTRY_POOL_H_
