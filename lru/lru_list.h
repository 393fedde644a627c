// An intrusive list in the order of last use, generic in how its elements are
// addressed.
//
//   struct Page {
//     wheelcache::LruLinks<Page*> links;
//   };
//   struct Pages {  // The Store: where the list finds an element's links.
//     using Ref = Page*;  // Ref{} (here nullptr) is null.
//     wheelcache::LruLinks<Ref>& lru_links(Ref page) { return page->links; }
//   };
//   Page index, news;
//   wheelcache::LruList<Pages> list;
//   list.PushFront(&index);
//   list.PushFront(&news);
//   list.MoveToFront(&index);    // The most recently used.
//   Page* victim = list.back();  // The least: the news.
//   list.Remove(victim);
//
// A reference may be a pointer or an integer, for instance an index into an
// array: two 32-bit links cost 8 bytes an element.
//
// The list owns nothing, allocates nothing and takes no lock.
//
// Cost. Every method is O(1), except CheckInvariants.
//
// Threads. Thread-compatible: calls that change the list need the owner's
// lock.

#ifndef WHEELCACHE_LRU_LRU_LIST_H_
#define WHEELCACHE_LRU_LRU_LIST_H_

#include <cassert>
#include <utility>

#include "absl/status/status.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

// The part of an element that belongs to the list. Unspecified while it is in
// none.
template <typename Ref>
struct LruLinks {
  Ref newer{};
  Ref older{};
};

// A list over the elements of a `Store`, which supplies:
//   Ref               a pointer or an integer; Ref{} is null;
//   lru_links(Ref)    an LruLinks<Ref>&, untouched by anybody else.
template <typename Store>
class LruList {
 public:
  using Ref = typename Store::Ref;

  explicit LruList(Store store = Store()) : store_(std::move(store)) {}

  LruList(const LruList&) = delete;
  LruList& operator=(const LruList&) = delete;

  // The most and the least recently used element, or null.
  Ref front() const { return newest_; }
  Ref back() const { return oldest_; }
  bool empty() const { return newest_ == Ref{}; }

  // Adds an element as the most recently used.
  // REQUIRES: it is in no list.
  void PushFront(Ref ref) {
    LruLinks<Ref>& links = store_.lru_links(ref);
    links.newer = Ref{};
    links.older = newest_;
    (newest_ == Ref{} ? oldest_ : store_.lru_links(newest_).newer) = ref;
    newest_ = ref;
  }

  // Takes an element out.
  // REQUIRES: it is in this list.
  void Remove(Ref ref) {
    const LruLinks<Ref> links = store_.lru_links(ref);
    (links.newer == Ref{} ? newest_ : store_.lru_links(links.newer).older) =
        links.older;
    (links.older == Ref{} ? oldest_ : store_.lru_links(links.older).newer) =
        links.newer;
  }

  // Makes an element the most recently used.
  // REQUIRES: it is in this list.
  void MoveToFront(Ref ref) {
    if (ref == newest_) return;
    Remove(ref);
    PushFront(ref);
  }

  // Inserts an element next to `older`, as the more recently used one.
  // REQUIRES: `older` is in this list, and the element in none.
  void InsertNewer(Ref older, Ref ref) {
    const Ref newer = store_.lru_links(older).newer;
    store_.lru_links(ref) = {newer, older};
    store_.lru_links(older).newer = ref;
    (newer == Ref{} ? newest_ : store_.lru_links(newer).older) = ref;
  }

  // Puts an element in the place of another one.
  // REQUIRES: `old` is in this list, and `ref` in none.
  void Substitute(Ref old, Ref ref) {
    const LruLinks<Ref> links = store_.lru_links(old);
    store_.lru_links(ref) = links;
    (links.newer == Ref{} ? newest_ : store_.lru_links(links.newer).older) =
        ref;
    (links.older == Ref{} ? oldest_ : store_.lru_links(links.older).newer) =
        ref;
  }

  // Empties the list without touching its elements, whose `older` links still
  // lead from the returned front to the back.
  Ref TakeAll() {
    oldest_ = Ref{};
    return std::exchange(newest_, Ref{});
  }

  // For tests: finds the first broken invariant. O(elements).
  absl::Status CheckInvariants() {
    Ref newer{};
    for (Ref ref = newest_; ref != Ref{}; ref = store_.lru_links(ref).older) {
      if (store_.lru_links(ref).newer != newer) {
        return absl::InternalError("LRU list: a wrong link to the newer");
      }
      newer = ref;
    }
    if (oldest_ != newer) {
      return absl::InternalError("LRU list: back() is not the last element");
    }
    return absl::OkStatus();
  }

 private:
  Store store_;

  // Both null, or the two ends of a list linked in both directions.
  Ref newest_{};
  Ref oldest_{};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_LRU_LRU_LIST_H_
