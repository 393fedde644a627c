// An LRU list in which a use is one store: the order is fixed when the least
// recently used element is needed, not at each use.
//
//   struct Page {
//     wheelcache::LruLinks<Page*> links;
//     uint32_t last_use = 0;
//   };
//   struct Pages {  // The Store: where the list finds an element's fields.
//     using Ref = Page*;  // Ref{} (here nullptr) is null.
//     wheelcache::LruLinks<Ref>& lru_links(Ref page) { return page->links; }
//     uint32_t stamp(Ref page) { return page->last_use; }
//   };
//   Page index, news;
//   uint32_t uses = 0;
//   wheelcache::LazyLruList<Pages> list;
//   index.last_use = ++uses;
//   list.PushFront(&index);
//   news.last_use = ++uses;
//   list.PushFront(&news);
//   index.last_use = ++uses;  // Used: the list is not touched.
//   uint64_t budget = 100;    // The most elements that may have to be moved.
//   Page* victim = list.FindOldest(&budget);  // The news.
//   list.Remove(victim);
//
// Stamps. An element bears the time of its last use, in a unit that the owner
// chooses; larger is later. The owner may raise a stamp at any time, and from
// any thread if its own store allows that. Stamps wrap around, and are compared
// by their difference.
//
// Structure. The list is cut into up to sixteen generations, by the stamps at
// which elements were put there, each a sixteenth or so of the time between the
// first and the last. An element that was used since reaches the tail with the
// stamp of a younger generation. FindOldest moves it there and tries the next,
// until one is where it belongs.
//
// Guarantees. What FindOldest returns was last used in the oldest generation.
// If elements are moved to the front, with a new stamp, at each use, the order
// is that of an exact LRU.
//
// Cost. Every method is O(1), except CheckInvariants. FindOldest moves each
// element at most once for each use.
//
// Threads. Thread-compatible: calls need the owner's lock.

#ifndef WHEELCACHE_LRU_LAZY_LRU_LIST_H_
#define WHEELCACHE_LRU_LAZY_LRU_LIST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "wheelcache/lru/lru_list.h"

namespace wheelcache {

// A list over the elements of a `Store`, which supplies what LruList asks of
// one, and:
//   stamp(Ref)    the uint32_t time of the element's last use.
template <typename Store>
class LazyLruList {
 public:
  using Ref = typename Store::Ref;

  explicit LazyLruList(Store store = Store()) : store_(store), list_(store) {}

  LazyLruList(const LazyLruList&) = delete;
  LazyLruList& operator=(const LazyLruList&) = delete;

  // The two ends of the list, or null. Elements that were used since they were
  // put there may be at the wrong one.
  Ref front() const { return list_.front(); }
  Ref back() const { return list_.back(); }
  bool empty() const { return list_.empty(); }

  // Adds an element as the most recently used.
  // REQUIRES: it is in no list, and no element of this one has a later stamp
  // than it, as far as order matters.
  void PushFront(Ref ref);

  // Adds an element in the generation of its stamp, which may be anywhere.
  // REQUIRES: it is in no list.
  void Insert(Ref ref);

  // Takes an element out.
  // REQUIRES: it is in this list.
  void Remove(Ref ref);

  // Makes an element the most recently used, after it was given a new stamp.
  // REQUIRES: it is in this list.
  void MoveToFront(Ref ref) {
    Remove(ref);
    PushFront(ref);
  }

  // Puts an element with the same stamp in the place of another one.
  // REQUIRES: `old` is in this list, and `ref` in none.
  void Substitute(Ref old, Ref ref) {
    std::replace(newest_.begin(), newest_.end(), old, ref);
    list_.Substitute(old, ref);
  }

  // Returns the least recently used element, which is then back(), or null if
  // there is none. Decrements *budget for each element that it moves; also
  // returns null if it must move one and *budget is 0. Calls `moved(ref)` for
  // each element that it moves: it was used since it was put there.
  template <typename Moved>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindOldest(uint64_t* budget, Moved&& moved);
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindOldest(uint64_t* budget) {
    return FindOldest(budget, [](Ref) {});
  }

  // Whether an element with this stamp belongs to the oldest generation. If the
  // one at the back does, FindOldest has nothing to move, and returns it.
  // REQUIRES: the list is not empty.
  bool IsOldest(uint32_t stamp) const {
    return count_ == 1 || IsBefore(stamp, begins_[count_ - 2]);
  }

  // The difference in stamps below which the order is not kept.
  uint32_t Resolution() const { return resolution_; }

  // Empties the list without touching its elements, whose `older` links still
  // lead from the returned front to the back.
  Ref TakeAll() {
    newest_.fill(Ref{});
    count_ = 0;
    resolution_ = 1;
    return list_.TakeAll();
  }

  // For tests: finds the first broken invariant. O(elements).
  absl::Status CheckInvariants();

 private:
  static constexpr uint32_t kGenerations = 16;

  static bool IsBefore(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a - b) < 0;
  }

  // Whether an element with this stamp begins a generation at the front.
  bool BeginsAnother(uint32_t stamp) const {
    return count_ == 0 || !IsBefore(stamp, begins_[0] + Resolution(stamp));
  }

  uint32_t Resolution(uint32_t now) const {
    return std::max((now - begins_[count_ - 1]) / kGenerations, uint32_t{1});
  }

  // The generation to which an element belongs by its stamp.
  // REQUIRES: that is not the oldest one.
  uint32_t GenerationOf(uint32_t stamp) const {
    uint32_t generation = 0;
    while (IsBefore(stamp, begins_[generation])) ++generation;
    return generation;
  }

  // Whether the element is the newest of a generation. The last one can be that
  // of the oldest alone. For others, branchless: rarely one is.
  bool IsNewest(Ref ref) const {
    if (ref == list_.back()) return ref == newest_[count_ - 1];
    uint32_t found = 0;
    for (uint32_t i = 0; i < kGenerations; ++i) {
      found |= newest_[i] == ref ? ~uint32_t{0} : 0;
    }
    return found != 0;
  }

  // FindOldest, where the last element belongs to another generation.
  template <typename Moved>
  ABSL_ATTRIBUTE_NOINLINE Ref MoveUntilOldest(uint64_t* budget, Moved& moved);
  ABSL_ATTRIBUTE_NOINLINE void HandOnNewest(Ref ref);
  // Rarely called: out of line, to keep PushFront short.
  ABSL_ATTRIBUTE_NOINLINE void Open(uint32_t begin, Ref first);
  void Close(uint32_t generation);
  uint32_t Shortest(uint32_t now) const;

  Store store_;
  LruList<Store> list_;

  // The generations, the youngest first. Each goes from its newest element to
  // the one before the next generation's newest; none is empty. Null beyond
  // count_.
  std::array<Ref, kGenerations> newest_ = {};
  // The first stamp of each. What is older than the oldest one's belongs there.
  std::array<uint32_t, kGenerations> begins_ = {};
  uint32_t count_ = 0;
  uint32_t resolution_ = 1;  // At the first stamp of the youngest.
};

template <typename Store>
inline void LazyLruList<Store>::PushFront(Ref ref) {
  const uint32_t stamp = store_.stamp(ref);
  list_.PushFront(ref);
  if (BeginsAnother(stamp)) {
    Open(stamp, ref);
  } else {
    newest_[0] = ref;
  }
}

template <typename Store>
inline void LazyLruList<Store>::Remove(Ref ref) {
  if (IsNewest(ref)) HandOnNewest(ref);
  list_.Remove(ref);
}

// Makes the next older element the newest of the generation, or closes that,
// before its newest is removed.
template <typename Store>
void LazyLruList<Store>::HandOnNewest(Ref ref) {
  uint32_t generation = 0;
  while (newest_[generation] != ref) ++generation;
  const Ref older = store_.lru_links(ref).older;
  const bool last = older == Ref{} || (generation + 1 < count_ &&
                                       older == newest_[generation + 1]);
  if (last) {
    Close(generation);
  } else {
    newest_[generation] = older;
  }
}

template <typename Store>
void LazyLruList<Store>::Insert(Ref ref) {
  const uint32_t stamp = store_.stamp(ref);
  if (count_ == 0 || !IsBefore(stamp, begins_[0] + Resolution())) {
    PushFront(ref);
    return;
  }
  uint32_t generation = 0;
  while (generation + 1 < count_ && IsBefore(stamp, begins_[generation])) {
    ++generation;
  }
  list_.InsertNewer(newest_[generation], ref);
  newest_[generation] = ref;
}

template <typename Store>
template <typename Moved>
inline auto LazyLruList<Store>::FindOldest(uint64_t* budget, Moved&& moved)
    -> Ref {
  if (list_.empty()) return Ref{};
  const Ref last = list_.back();
  if (ABSL_PREDICT_TRUE(IsOldest(store_.stamp(last)))) return last;
  return MoveUntilOldest(budget, moved);
}

template <typename Store>
template <typename Moved>
auto LazyLruList<Store>::MoveUntilOldest(uint64_t* budget, Moved& moved)
    -> Ref {
  while (!list_.empty()) {
    const Ref ref = list_.back();
    const uint32_t stamp = store_.stamp(ref);
    if (IsOldest(stamp)) return ref;
    if (*budget == 0) return Ref{};
    --*budget;
    const uint32_t generation = GenerationOf(stamp);
    Remove(ref);
    list_.InsertNewer(newest_[generation], ref);
    newest_[generation] = ref;
    moved(ref);
  }
  return Ref{};
}

// Begins a generation at the front, with one element so far. If there are too
// many, merges two neighbours.
template <typename Store>
void LazyLruList<Store>::Open(uint32_t begin, Ref first) {
  if (count_ == kGenerations) {
    const uint32_t shortest = Shortest(begin);
    newest_[shortest + 1] = newest_[shortest];
    Close(shortest);
  }
  std::copy_backward(newest_.begin(), newest_.begin() + count_,
                     newest_.begin() + count_ + 1);
  std::copy_backward(begins_.begin(), begins_.begin() + count_,
                     begins_.begin() + count_ + 1);
  newest_[0] = first;
  begins_[0] = begin;
  ++count_;
  resolution_ = Resolution(begin);
}

// Forgets a generation. Stamps of its time belong to the next older one.
template <typename Store>
void LazyLruList<Store>::Close(uint32_t generation) {
  std::copy(newest_.begin() + generation + 1, newest_.begin() + count_,
            newest_.begin() + generation);
  std::copy(begins_.begin() + generation + 1, begins_.begin() + count_,
            begins_.begin() + generation);
  newest_[--count_] = Ref{};
  resolution_ = count_ == 0 ? 1 : Resolution(begins_[0]);
}

// The generation which, together with the next older one, spans the least time.
template <typename Store>
uint32_t LazyLruList<Store>::Shortest(uint32_t now) const {
  uint32_t shortest = 0;
  uint32_t least = now - begins_[1];
  for (uint32_t i = 1; i + 1 < count_; ++i) {
    const uint32_t time = begins_[i - 1] - begins_[i + 1];
    if (time < least) {
      least = time;
      shortest = i;
    }
  }
  return shortest;
}

template <typename Store>
absl::Status LazyLruList<Store>::CheckInvariants() {
  if (auto status = list_.CheckInvariants(); !status.ok()) return status;
  uint32_t generation = 0;
  for (Ref ref = list_.front(); ref != Ref{};
       ref = store_.lru_links(ref).older) {
    if (generation < count_ && newest_[generation] == ref) ++generation;
    if (generation == 0) {
      return absl::InternalError("LRU list: the front is in no generation");
    }
  }
  if (generation != count_) {
    return absl::InternalError("LRU list: a generation is not in the list");
  }
  if (resolution_ != (count_ == 0 ? 1 : Resolution(begins_[0]))) {
    return absl::InternalError("LRU list: an outdated resolution");
  }
  for (uint32_t i = 0; i < kGenerations; ++i) {
    if ((newest_[i] != Ref{}) != (i < count_)) {
      return absl::InternalError("LRU list: a wrong number of generations");
    }
    if (i > 0 && i < count_ && !IsBefore(begins_[i], begins_[i - 1])) {
      return absl::InternalError("LRU list: generations out of order");
    }
  }
  return absl::OkStatus();
}

}  // namespace wheelcache

#endif  // WHEELCACHE_LRU_LAZY_LRU_LIST_H_
