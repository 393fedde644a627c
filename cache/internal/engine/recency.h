// Decides what a hit has to record for the LRU order, and tells which shard has
// the entry that is longest unused.
//
// A cache counts its uses. An entry bears the count of its last use as its
// stamp. One whose stamp is among the newest is young: a hit leaves it as it
// is, so that hits on what is used most write nothing. Other hits give the
// entry a new stamp, and the list of its shard finds out when the entry comes
// to the end (lru/lazy_lru_list.h). In exact mode only the entry at the very
// front is young, and each hit on another one moves it there at once, unless
// the lock is taken: then it gives a stamp, too.
//
// A scan-resistant order has two lists, each with a youth of its own: what was
// used in the last quarter of the time that the list spans.
//
// Young is what was used in the last quarter of the time that the oldest entry
// has been unused. The price is the order among entries used at about the same
// time.
//
// The shards of a cache share one count, so that stamps can be compared: the
// one whose last entry has the oldest stamp is the one to evict from. Where
// there are two lists, the tails of the main ones are compared, or with a limit
// of bytes, how much the shards hold.
//
// Marks. An Advisor has to see the hits on sampled keys. The stamps of their
// entries are stored more than a billion uses too old. So a marked entry is
// never young, and the comparison that every hit makes takes it off the inlined
// path.
//
// Threads. UseClock is thread-safe. Of Recency, exact, IsYoung,
// IsYoungInMain, IsPlain, IsMarked, Unmarked and Now are for all, the rest for
// whoever holds the shard's lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_RECENCY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_RECENCY_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/base/optimization.h"

namespace wheelcache::internal {

// A count of uses. Counts wrap around, and are compared by their difference:
// what was not used for two billion uses, or for one billion where stamps bear
// marks, may be taken for young.
using Stamp = uint32_t;

// How much older a marked stamp seems. By so much more than the differences
// that count, that a stamp may also be a little ahead of the count.
inline constexpr Stamp kMarkAge = (Stamp{1} << 30) + (Stamp{1} << 20);
inline constexpr Stamp kLeastMarkedAge = Stamp{1} << 30;

inline Stamp MarkedStamp(Stamp stamp) { return stamp - kMarkAge; }
inline Stamp UnmarkedStamp(Stamp marked) { return marked + kMarkAge; }

inline bool IsOlderBy(Stamp a, Stamp b, int64_t uses) {
  return static_cast<int32_t>(b - a) > uses;
}

// What the shards of a cache share.
class UseClock {
 public:
  explicit UseClock(int shards) : tails_(static_cast<size_t>(shards)) {}

  int shards() const { return static_cast<int>(tails_.size()); }
  Stamp Now() const { return now_.load(std::memory_order_relaxed); }
  void Advance(uint32_t uses) {
    now_.fetch_add(uses, std::memory_order_relaxed);
  }

  // Whoever counts uses counts so many at a time, so that not each takes the
  // cache line of the count away from all who read it.
  static constexpr uint32_t kStride = 16;

  // The stamp of the entry that was last chosen to be evicted from a shard;
  // Now() of that time if there was none. As exact as set_tail was asked for.
  // Or how much the shard holds: see EvictionOrder.
  Stamp tail(int shard) const {
    return tails_[static_cast<size_t>(shard)].load(std::memory_order_relaxed);
  }
  // Leaves a tail as it is that differs by no more than `slack`: it shares its
  // cache line with those of other shards, which their threads read and write.
  void set_tail(int shard, Stamp stamp, uint32_t slack = 0) {
    // One comparison for both ways: without a sign, the differences from -slack
    // to slack become 0 to 2 * slack.
    if (stamp - tail(shard) + slack > 2 * slack) {
      tails_[static_cast<size_t>(shard)].store(stamp,
                                               std::memory_order_relaxed);
    }
  }

 private:
  // All relaxed, youth_ below as well: they decide which entry is moved or goes
  // first, never what is there.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<Stamp> now_{0};
  alignas(ABSL_CACHELINE_SIZE) std::vector<std::atomic<Stamp>> tails_;
};

// What each shard has.
class Recency {
 public:
  // One list, in the order of the stamps at its tail or always; or two.
  enum class Order { kLazy, kExact, kTwoLists };

  // `marks` says whether stamps may be marked.
  Recency(UseClock* clock, Order order, bool marks = false)
      : clock_(*clock),
        exact_(order == Order::kExact),
        marks_(marks),
        stride_(order == Order::kExact ||
                        (order == Order::kTwoLists && clock->shards() == 1)
                    ? 1
                    : UseClock::kStride),
        least_age_for_list_(order != Order::kLazy ? 0
                            : marks               ? kLeastMarkedAge
                                    : std::numeric_limits<Stamp>::max()) {}

  Recency(const Recency&) = delete;
  Recency& operator=(const Recency&) = delete;

  bool exact() const { return exact_; }

  // Whether a use, now, of an entry with this stamp need not be noted.
  bool IsYoung(Stamp stamp, Stamp now) const {
    return !IsOlderBy(stamp, now, youth_.load(std::memory_order_relaxed) - 1);
  }

  // The same for an entry of the main list, where there are two. IsYoung is
  // then for those of the window, and never holds for one of the main list that
  // is not young.
  bool IsYoungInMain(Stamp stamp, Stamp now) const {
    return !IsOlderBy(stamp, now,
                      main_youth_.load(std::memory_order_relaxed) - 1);
  }

  // Whether a use of an entry that is not young is one store: in one list that
  // is not exact, unless the entry is marked.
  bool IsPlain(Stamp stamp, Stamp now) const {
    return now - stamp < least_age_for_list_;
  }

  bool IsMarked(Stamp stored, Stamp now) const {
    return marks_ && (now - stored) >> 30 == kLeastMarkedAge >> 30;
  }
  // The stamp itself, marked or not.
  Stamp Unmarked(Stamp stored) const {
    if (ABSL_PREDICT_TRUE(!marks_)) return stored;
    return IsMarked(stored, Now()) ? UnmarkedStamp(stored) : stored;
  }

  // The stamp of an entry that is used now.
  Stamp Now() const { return clock_.Now(); }

  // The stamp of an entry that is put at the front of the list now. Counts
  // that: `uncounted` is how many uses of the shard the clock does not know of
  // yet.
  Stamp NextStamp(uint32_t* uncounted) {
    if (++*uncounted >= stride_) {
      clock_.Advance(*uncounted);
      *uncounted = 0;
    }
    return clock_.Now();
  }

  // Tells what difference in stamps the shard's list does not see.
  void SetResolution(uint32_t resolution) {
    Change(&youth_, exact() ? 1 : YouthOf(resolution));
  }
  // The same of both lists.
  void SetResolutions(uint32_t window, uint32_t main) {
    Change(&youth_, YouthOf(std::min(window, main)));
    Change(&main_youth_, YouthOf(main));
  }

  // By how many uses another shard's last entry has to be older than this
  // one's to be the better victim: 1/64 of the time that the oldest entry has
  // been unused. Shards of equal size differ by chance by that much, and would
  // take victims from each other all the time if they had to differ by less.
  uint32_t Margin() const {
    return MarginOf(youth_.load(std::memory_order_relaxed));
  }
  // The same of two entries in main lists.
  uint32_t MainMargin() const {
    return MarginOf(main_youth_.load(std::memory_order_relaxed));
  }

 private:
  // A youth is at least 1, and far below 2^32.
  uint32_t MarginOf(int64_t youth) const {
    return static_cast<uint32_t>(youth) / 16 + stride_;
  }
  static int64_t YouthOf(uint32_t resolution) {
    constexpr int64_t kLongest = kLeastMarkedAge;
    return std::min(int64_t{resolution} * 4, kLongest);
  }
  // Rarely different, and in a line that all readers have.
  static void Change(std::atomic<int64_t>* youth, int64_t to) {
    if (youth->load(std::memory_order_relaxed) != to) {
      youth->store(to, std::memory_order_relaxed);
    }
  }

  UseClock& clock_;
  const bool exact_;
  const bool marks_;
  const uint32_t stride_;
  const Stamp least_age_for_list_;
  std::atomic<int64_t> youth_{1};
  std::atomic<int64_t> main_youth_{1};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_RECENCY_H_
