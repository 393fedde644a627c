// Decides which entries a scan-resistant order keeps: how large the window for
// new entries is, and which of two candidates for eviction has to go.
//
//   Admission admission({pages.begin(), /*entries=*/1'000, /*shards=*/1},
//                       /*share=*/{1'000, kUnlimited}, &target);
//   admission.RecordSet(hash);                     // A new key, and
//   admission.Add(Admission::kWindow, {1, 64});  // its entry in the window.
//   if (admission.WindowIsFullFor({1, 64}) &&
//       admission.Wins(candidate, other)) {
//     admission.RecordEvicted(other.hash, Admission::kMain);
//   }
//
// The shard keeps its entries in two lists. New ones enter the window. What
// leaves the window's tail moves to the main list while that has room. In a
// full shard it has to win against the tail of the main list: by a sketch of
// how often each key was Set, or was found used at a tail, of late.
//
// The size of the window follows the keys that come back after they were
// evicted. If they had left the window, it was too small; if they had left the
// main list, it was too large. A GhostList remembers them, and the WindowTarget
// follows. One target does not need many of them: of a large cache a sample of
// the keys is remembered, chosen by their hashes, and each stands for several.
//
// How much of the shard a list takes is the larger of its parts of the entries
// and of the bytes that fit.
//
// Slack. Where the bytes are limited, a victim may be much larger than the
// entry that needs its room; other shards take the rest. A window that has lost
// such a victim is below its target by chance, and would not compete: the shard
// would evict from its main list without a comparison. So a window competes
// from a few entries below its target on, though never below kLeast.
//
// Cost. Every method is O(1); what each Set of a new key calls in a full shard
// is inlined. RecordSet touches a cache line of the sketch, Wins two; RecordSet
// and RecordEvicted one of the ghosts, for a key of the sample. Nothing is
// allocated.
//
// Threads. Thread-compatible: all of it belongs to the lock of its shard, also
// SketchLineOf, which depends on how much is in use.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ADMISSION_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ADMISSION_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/lru/frequency_sketch.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// How much of each shard the window of a scan-resistant order may take: one
// number for all shards of a cache. It depends on the requests, which are the
// same mixture in each shard, and a shard of a hundred entries sees too few of
// them come back to find it out alone.
//
// Threads. Thread-safe. Of two moves at the same time one may be lost: it is
// one of many.
class WindowTarget {
 public:
  // As a part of a shard.
  static constexpr double kLeast = 0.05;
  static constexpr double kMost = 0.99;

  explicit WindowTarget(int shards) : shards_(shards) {}

  double Get() const { return part_.load(std::memory_order_relaxed); }

  // Moves it by `steps` entries of the cache for each of `keys` keys that came
  // back to a shard into which `entries` fit. One key counts for no more than a
  // fiftieth of the shard and an entry, all of them for a fiftieth of the cache
  // and an entry.
  void Move(double steps, double keys, double entries) {
    const double most = std::min(keys * (kMostStep * entries + 1),
                                 kMostStep * entries * shards_ + 1);
    const double by =
        std::clamp(keys * steps, -most, most) / (entries * shards_);
    part_.store(std::clamp(Get() + by, kLeast, kMost),
                std::memory_order_relaxed);
  }

 private:
  static constexpr double kMostStep = 0.02;  // As a part of shard or cache.

  const int shards_;
  // Read by each Set of a new key, and written when a ghost comes back.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<double> part_{0.1};
};

// Zeroed memory for the sketch and the ghosts of one shard.
struct AdmissionMemory {
  // The bytes of the memory for so many entries of one of so many shards: whole
  // cache lines.
  static size_t BytesFor(uint64_t entries, int shards) {
    return SketchBytes(entries) + GhostBytes(entries, shards);
  }
  static size_t SketchBytes(uint64_t entries) {
    return FrequencySketch::BlocksFor(entries) * sizeof(FrequencySketch::Block);
  }
  static size_t GhostBytes(uint64_t entries, int shards) {
    const uint64_t ghosts = std::min(entries / 4, MostGhosts(shards));
    const uint64_t pairs = (GhostList::BucketsFor(ghosts) + 1) / 2;
    return pairs * 2 * sizeof(GhostList::Bucket);
  }
  // The most ghosts that one of so many shards remembers. All of them steer one
  // target, so the whole cache needs no more than one large shard does.
  static uint64_t MostGhosts(int shards) {
    constexpr uint64_t kOfCache = 4096;
    constexpr uint64_t kLeastOfShard = 64;
    return std::max(kOfCache / static_cast<uint64_t>(shards), kLeastOfShard);
  }

  std::byte* begin;
  uint64_t entries;
  int shards;
};

class WHEELCACHE_EXPORT Admission {
 public:
  enum List { kWindow = 0, kMain = 1 };

  // An entry at the tail of a list.
  struct Candidate {
    Hash32 hash;
    double life_left;  // In nanoseconds.
  };

  // For a shard of which so much is expected to fit. `target` is that of all
  // shards, and must outlive it.
  Admission(AdmissionMemory memory, Room share, WindowTarget* target);

  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Changes the room that the shard is expected to have.
  void SetShare(Room share);

  // An entry has come into a list, or has left it.
  void Add(List list, Room room) { sizes_[list] += room; }
  void Remove(List list, Room room) { sizes_[list] -= room; }
  Room size(List list) const { return sizes_[list]; }
  // All entries have left.
  void Clear() { sizes_ = {}; }

  // A key without an entry is Set.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void RecordSet(Hash32 hash) {
    constexpr uint32_t kSetsBetweenFits = 64;
    if (sets_++ % kSetsBetweenFits == 0) Fit();
    if (IsSampled(hash) && ghosts_.Has(hash)) TakeGhost(hash);
    sketch_.Increment(hash);
  }
  // An entry at a tail was used.
  void RecordUsed(Hash32 hash) { sketch_.Increment(hash); }
  // An entry is evicted from the list.
  void RecordEvicted(Hash32 hash, List list) {
    if (!IsSampled(hash)) return;
    ghosts_.Add(hash, list == kWindow ? GhostList::kFirst : GhostList::kSecond);
  }

  // The shard has to evict, and the cache uses so much of its limits: what the
  // shard holds is the same part of what fits. Reads of `used` only what has a
  // limit.
  void RecordFull(Room used, Room limit) {
    const Room all = total();
    if (limit.bytes == kUnlimited) {
      // Mostly nothing has changed, and there is nothing to divide.
      const Fullness full = {used.entries, limit.entries, all.entries};
      if (ABSL_PREDICT_TRUE(full == noted_)) return;
      noted_ = full;
    } else {
      noted_ = {};
    }
    part_of_entry_ = PartOfOne(used.entries, limit.entries, all.entries);
    part_of_byte_ = PartOfOne(used.bytes, limit.bytes, all.bytes);
    slack_ = limit.bytes == kUnlimited ? 0 : Slack();
  }

  // Whether the window will be over its target with what is about to enter it,
  // or nearly so where the bytes are limited, so that its tail is a candidate.
  bool WindowIsFullFor(Room incoming) const {
    incoming += sizes_[kWindow];
    return PartOf(incoming) >
           std::max(target_.Get() - slack_, WindowTarget::kLeast);
  }
  // Whether an entry that takes so much is to leave the window for the main
  // list, which has room.
  bool MainHasRoomFor(Room room) const {
    room += sizes_[kMain];
    const double target = target_.Get();
    // In a full shard, the first of these mostly decides.
    return PartOf(room) <= 1 - target && PartOf(sizes_[kWindow]) > target;
  }
  // Whether the tail of the window stays, and that of the main list goes.
  bool Wins(Candidate window, Candidate main) {
    // Keys whose hashes collide could hold the main list for ever.
    constexpr uint32_t kSuspicious = 6;
    // The tail of the main list mostly wins, and stays.
    const uint32_t g = sketch_.KeepFrequency(main.hash);
    const uint32_t f =
        sketch_.FrequencyBeyond(std::min(g, kSuspicious - 1), window.hash);
    if (f > g) return true;
    if (ABSL_PREDICT_FALSE(window.life_left > 2 * main.life_left) &&
        IsWorthMore(sketch_.Frequency(window.hash), window.life_left, g,
                    main.life_left)) {
      return true;
    }
    return f >= kSuspicious && IsLucky();
  }

  // The cache line of the sketch that is touched for a hash.
  const void* SketchLineOf(Hash32 hash) const { return sketch_.LineOf(hash); }

 private:
  // What the part of an entry depends on, in entries.
  struct Fullness {
    int64_t used = 0;
    int64_t limit = 0;
    int64_t of_shard = 0;
    bool operator==(const Fullness& other) const {
      return used == other.used && limit == other.limit &&
             of_shard == other.of_shard;
    }
  };

  Room total() const {
    Room all = sizes_[kWindow];
    all += sizes_[kMain];
    return all;
  }
  // The part of what fits that one entry or byte is in a shard that has so many
  // of them, while so much of the limit is used; 0 if there is no limit.
  static double PartOfOne(int64_t used, int64_t limit, int64_t of_shard) {
    if (limit == kUnlimited) return 0;  // Ahead of divisions.
    return static_cast<double>(used) / static_cast<double>(limit) /
           static_cast<double>(std::max<int64_t>(of_shard, 1));
  }
  // The part of what fits.
  double PartOf(Room room) const {
    return std::max(static_cast<double>(room.entries) * part_of_entry_,
                    static_cast<double>(room.bytes) * part_of_byte_);
  }
  // Whether the key with this hash is in the sample. By a threshold: a sample
  // that shrinks loses keys and gets no others.
  bool IsSampled(Hash32 hash) const {
    return hash * Hash32{0x85ebca6b} <= last_sampled_;
  }
  double EntriesThatFit() const;
  double Slack() const;
  void Fit();
  void TakeGhost(Hash32 hash);
  static bool IsWorthMore(uint32_t f, double life, uint32_t other_f,
                          double other_life);
  bool IsLucky();

  const uint64_t most_entries_;  // That the memory is made for.
  const uint64_t most_ghosts_;   // That are remembered.
  WindowTarget& target_;
  FrequencySketch sketch_;
  GhostList ghosts_;
  std::array<Room, 2> sizes_ = {};
  double part_of_entry_ = 0;  // Of what fits; 0 if unlimited.
  double part_of_byte_ = 0;
  double slack_ = 0;  // How far below its target the window competes.
  Fullness noted_;    // By RecordFull, last, if the bytes are unlimited.
  uint32_t sets_ = 0;
  uint32_t random_ = 1;
  Hash32 last_sampled_ = ~Hash32{0};
  double keys_per_sample_ = 1;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ADMISSION_H_
