// An LRU list in which a use is one store at most: the order is fixed when the
// least recently used element is needed, not at each use.
//
//   struct Page {
//     wheelcache::LruLinks<Page*> links;
//     uint32_t last_use = 0;
//   };
//   struct Pages {  // The Store: where the list finds an element's fields.
//     using Ref = Page*;  // Ref{} (here nullptr) is null.
//     wheelcache::LruLinks<Ref>& lru_links(Ref page) { return page->links; }
//     uint32_t number(Ref page) const { return page->last_use; }
//     void set_number(Ref page, uint32_t number) { page->last_use = number; }
//     void Publish(uint32_t) {}     // Asked for by number().
//     uint32_t Now() { return 0; }  // No time is kept.
//   };
//   Page index, news;
//   using List = wheelcache::GenerationalList<Pages>;
//   List::Generations generations = {};
//   List list(&generations);
//   list.PushFront(&index);
//   list.PushFront(&news);
//   index.last_use = list.number();  // Used: the list is not touched.
//   uint64_t budget = 100;           // The most elements that may be moved.
//   Page* victim = list.FindOldest(&budget);  // The news.
//   list.Remove(victim);
//
// Structure. The list is cut into generations, each of which has a number and
// holds its elements in the order in which they came. An element bears the
// number of the generation in which it was last used. What is used more than
// once in a generation need not be touched again.
//
// An element is appended when it is pushed or moved. After a sixteenth as many
// appends as there are elements, or another part, a generation ends, and the
// next one begins. Of more than twice that many generations and two, the two
// neighbours that span the fewest numbers are joined. Some may be empty.
//
// An element that was used since reaches the back with the number of a younger
// generation. FindOldest appends it to that one and tries the next, until one
// belongs where it is.
//
// Numbers. They grow by four, wrap around, and are compared by their
// difference. The lowest two bits are the owner's. The owner may give an
// element the number of the list at any time, and from any thread if its own
// store allows that. An element whose number is not known to the list counts as
// used now, if the number is ahead, and as unused, if it is behind.
//
// Guarantees. What FindOldest returns was last used in the oldest generation.
// An exact list has a number for each element: if elements are moved to the
// front at each use, the order is that of an exact LRU.
//
// Cost. Every method is O(1), except CheckInvariants. FindOldest moves each
// element at most once for each use.
//
// Threads. Thread-compatible: calls need the owner's lock.

#ifndef WHEELCACHE_LRU_GENERATIONAL_LIST_H_
#define WHEELCACHE_LRU_GENERATIONAL_LIST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "wheelcache/lru/lru_list.h"

namespace wheelcache {

// A list over the elements of a `Store`, which supplies what LruList asks of
// one, and:
//   number(Ref)           the uint32_t number of the element's last use, a
//                         multiple of four;
//   set_number(Ref, uint32_t);
//   Publish(uint32_t)     the list has another number();
//   Now()                 the uint32_t time, in a unit that the owner chooses.
// Of about `Parts` generations.
template <typename Store, uint32_t Parts = 16>
class GenerationalList {
 public:
  using Ref = typename Store::Ref;

  // What is known of the generations that have ended.
  struct Generations;

  // A list that keeps its generations in zeroed memory, which must outlive it:
  // a list of few elements need not take the room of many.
  explicit GenerationalList(Generations* generations, Store store = Store(),
                            bool exact = false)
      : exact_(exact), store_(store), list_(store), of_(*generations) {}

  GenerationalList(const GenerationalList&) = delete;
  GenerationalList& operator=(const GenerationalList&) = delete;

  const Store& store() const { return store_; }

  // The two ends of the list, or null. Elements that were used since they were
  // put there may be at the wrong one.
  Ref front() const { return list_.front(); }
  Ref back() const { return list_.back(); }
  bool empty() const { return list_.empty(); }
  uint64_t size() const { return size_; }

  // The number of an element that is used now.
  uint32_t number() const { return number_; }

  // Adds an element as the most recently used.
  // REQUIRES: it is in no list.
  void PushFront(Ref ref) {
    // The oldest generation begins now.
    if (ABSL_PREDICT_FALSE(size_++ == 0)) before_oldest_.time = store_.Now();
    Append(ref);
  }

  // Takes an element out.
  // REQUIRES: it is in this list.
  void Remove(Ref ref) {
    Unlink(ref);
    --size_;
  }

  // Makes an element the most recently used.
  // REQUIRES: it is in this list.
  void MoveToFront(Ref ref) {
    Unlink(ref);
    Append(ref);
  }

  // Puts an element with the same number in the place of another one.
  // REQUIRES: `old` is in this list, and `ref` in none.
  void Substitute(Ref old, Ref ref) {
    std::replace(of_.newest.begin(), of_.newest.end(), old, ref);
    list_.Substitute(old, ref);
  }

  // Returns the least recently used element, which is then back(), or null if
  // there is none. Decrements *budget for each element that it moves; also
  // returns null if it must move one and *budget is 0.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref FindOldest(uint64_t* budget) {
    if (list_.empty()) return Ref{};
    if (ABSL_PREDICT_TRUE(!BackWasUsed())) return list_.back();
    return MoveUntilOldest(budget);
  }

  // Whether the element at the back was used after the oldest generation ended.
  // REQUIRES: the list is not empty.
  bool BackWasUsed() const {
    return ended_ > 0 &&
           IsBefore(of_.ends[0].number, store_.number(list_.back()));
  }

  // Counts uses as so many appends, where elements are used that are not moved.
  void CountUses(uint32_t appends) {
    appends_ += appends;
    if (!list_.empty()) EndIfLong();
  }

  // Whether a generation has ended, so that BackTime can tell.
  bool knows_back_time() const { return ended_ > 0; }

  // When the element at the back was appended, as Now tells the time, or
  // `now` if no generation has ended. Estimated: from where the oldest
  // generation began on, `each` has passed for each element that has left it at
  // the back.
  uint32_t BackTime(uint32_t now, uint32_t each) const {
    if (ended_ == 0) return now;
    const uint32_t whole = of_.ends[0].time - before_oldest_.time;
    const uint64_t passed = uint64_t{left_} * each;
    return before_oldest_.time +
           static_cast<uint32_t>(std::min<uint64_t>(passed, whole));
  }

  // Empties the list without touching its elements, whose `older` links still
  // lead from the returned front to the back.
  Ref TakeAll() {
    of_.newest.fill(Ref{});
    ended_ = 0;
    appends_ = 0;
    left_ = 0;
    size_ = 0;
    return list_.TakeAll();
  }

  // For tests: finds the first broken invariant. O(elements).
  absl::Status CheckInvariants();

 private:
  static constexpr uint32_t kStep = 4;  // From a number to the next.
  static constexpr uint32_t kMostEnded = 2 * Parts + 1;
  // So many that compilers compare them four at a time.
  static constexpr uint32_t kNewest = (kMostEnded + 3) / 4 * 4;

  // Of a generation.
  struct End {
    uint32_t number;  // Its last one. It covers all since the one before.
    uint32_t time;    // As Now said.
  };

  static bool IsBefore(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a - b) < 0;
  }

  void Append(Ref ref) {
    if (ABSL_PREDICT_FALSE(exact_)) NextNumber();
    store_.set_number(ref, number_);
    list_.PushFront(ref);
    CountAppend();
  }
  void CountAppend() {
    ++appends_;
    EndIfLong();
  }
  // Ends the youngest generation after size_ / Parts appends.
  void EndIfLong() {
    if (ABSL_PREDICT_FALSE((uint64_t{appends_} + 1) * Parts > size_)) {
      EndYoungest();
    }
  }
  void NextNumber() {
    number_ += kStep;
    store_.Publish(number_);
  }

  void Unlink(Ref ref) {
    if (ref == list_.back()) {
      ++left_;
      // It can be that of the oldest generation first of all.
      if (ABSL_PREDICT_FALSE(ref == of_.newest[0])) HandOn(ref);
    } else if (ABSL_PREDICT_FALSE(IsNewest(ref))) {
      HandOn(ref);
    }
    list_.Remove(ref);
  }
  // Whether the element is the newest up to the end of a generation.
  // Branchless: rarely one is.
  bool IsNewest(Ref ref) const {
    uint32_t found = 0;
    for (const Ref newest : of_.newest) {
      found |= newest == ref ? ~uint32_t{0} : 0;
    }
    return found != 0;
  }

  // Rarely called: out of line.
  ABSL_ATTRIBUTE_NOINLINE void EndYoungest();
  ABSL_ATTRIBUTE_NOINLINE void HandOn(Ref ref);
  ABSL_ATTRIBUTE_NOINLINE Ref MoveUntilOldest(uint64_t* budget);
  void MoveBack();
  void InsertIn(uint32_t generation, Ref ref);
  void Forget(uint32_t begin, uint32_t count);
  void ForgetOldest(uint32_t count);
  uint32_t Shortest() const;

  const bool exact_;
  Store store_;
  LruList<Store> list_;
  uint64_t size_ = 0;

  // The youngest generation has not ended: it takes what is used and appended
  // now, and reaches to the front of the list.
  uint32_t number_ = 0;
  uint32_t appends_ = 0;  // Since it began.

  // How many have ended.
  uint32_t ended_ = 0;
  End before_oldest_ = {0 - kStep, 0};  // Of the last one that was forgotten.
  uint32_t left_ = 0;  // The elements that have left the oldest at the back.

  Generations& of_;
};

// The oldest first, which is not empty.
template <typename Store, uint32_t Parts>
struct GenerationalList<Store, Parts>::Generations {
  // The newest element up to the end of each: its own, or if it is empty, that
  // of an older one. Null beyond those that have ended.
  std::array<Ref, kNewest> newest;
  std::array<End, kMostEnded> ends;
};

// Ends the youngest generation and begins the next. If there are too many,
// joins two neighbours, under the name of the younger one.
template <typename Store, uint32_t Parts>
void GenerationalList<Store, Parts>::EndYoungest() {
  if (ended_ == kMostEnded) Forget(Shortest(), 1);
  of_.newest[ended_] = list_.front();
  of_.ends[ended_] = {number_, store_.Now()};
  ++ended_;
  appends_ = 0;
  NextNumber();
}

// Makes the next older element the newest of the generations whose newest one
// is about to leave. The oldest ones may be empty then, and are forgotten.
template <typename Store, uint32_t Parts>
void GenerationalList<Store, Parts>::HandOn(Ref ref) {
  const Ref older = store_.lru_links(ref).older;
  std::replace(of_.newest.begin(), of_.newest.begin() + ended_, ref, older);
  uint32_t empty = 0;
  while (empty < ended_ && of_.newest[empty] == Ref{}) ++empty;
  if (empty > 0) ForgetOldest(empty);
}

template <typename Store, uint32_t Parts>
auto GenerationalList<Store, Parts>::MoveUntilOldest(uint64_t* budget) -> Ref {
  while (BackWasUsed()) {
    if (*budget == 0) return Ref{};
    --*budget;
    MoveBack();
  }
  return list_.back();
}

// Appends the element at the back to the generation of its last use.
// REQUIRES: that is not the oldest one.
template <typename Store, uint32_t Parts>
void GenerationalList<Store, Parts>::MoveBack() {
  const Ref ref = list_.back();
  const uint32_t number = store_.number(ref);
  if (IsBefore(number_, number)) store_.set_number(ref, number_);
  uint32_t generation = 1;
  while (generation < ended_ && IsBefore(of_.ends[generation].number, number)) {
    ++generation;
  }
  if (generation < ended_ && of_.newest[generation] == ref) {
    ForgetOldest(generation);  // It is the only one up to there.
  } else {
    const uint32_t younger = ended_ - generation;
    Unlink(ref);
    InsertIn(ended_ - younger, ref);
  }
  CountAppend();
}

// Adds an element as the newest of a generation.
template <typename Store, uint32_t Parts>
void GenerationalList<Store, Parts>::InsertIn(uint32_t generation, Ref ref) {
  if (generation == ended_) {
    list_.PushFront(ref);
    return;
  }
  // Also that of the empty ones that follow.
  const Ref older = of_.newest[generation];
  list_.InsertNewer(older, ref);
  std::replace(of_.newest.begin() + generation, of_.newest.begin() + ended_,
               older, ref);
}

// Forgets some generations. What belongs to them belongs to the next younger
// one then.
template <typename Store, uint32_t Parts>
void GenerationalList<Store, Parts>::Forget(uint32_t begin, uint32_t count) {
  const auto erase = [&](auto* array) {
    std::copy(array->begin() + begin + count, array->begin() + ended_,
              array->begin() + begin);
  };
  erase(&of_.newest);
  erase(&of_.ends);
  std::fill(of_.newest.begin() + ended_ - count, of_.newest.begin() + ended_,
            Ref{});
  ended_ -= count;
}

template <typename Store, uint32_t Parts>
void GenerationalList<Store, Parts>::ForgetOldest(uint32_t count) {
  before_oldest_ = of_.ends[count - 1];
  left_ = 0;
  Forget(0, count);
}

// The older of the two neighbours that span the fewest numbers together.
template <typename Store, uint32_t Parts>
uint32_t GenerationalList<Store, Parts>::Shortest() const {
  uint32_t shortest = 0;
  uint32_t least = of_.ends[1].number - before_oldest_.number;
  for (uint32_t i = 1; i + 1 < ended_; ++i) {
    const uint32_t span = of_.ends[i + 1].number - of_.ends[i - 1].number;
    if (span < least) {
      least = span;
      shortest = i;
    }
  }
  return shortest;
}

template <typename Store, uint32_t Parts>
absl::Status GenerationalList<Store, Parts>::CheckInvariants() {
  if (auto status = list_.CheckInvariants(); !status.ok()) return status;
  uint64_t size = 0;
  uint32_t younger = 0;
  for (Ref ref = list_.front(); ref != Ref{};
       ref = store_.lru_links(ref).older) {
    ++size;
    while (younger < ended_ && of_.newest[ended_ - younger - 1] == ref) {
      ++younger;
    }
  }
  if (size != size_) {
    return absl::InternalError("LRU list: size() is not that of the list");
  }
  if (younger != ended_) {
    return absl::InternalError("LRU list: a generation is not in the list");
  }
  for (uint32_t i = 0; i < kMostEnded; ++i) {
    if ((of_.newest[i] != Ref{}) != (i < ended_)) {
      return absl::InternalError("LRU list: a wrong number of generations");
    }
    const uint32_t before =
        i == 0 ? before_oldest_.number : of_.ends[i - 1].number;
    if (i < ended_ && !IsBefore(before, of_.ends[i].number)) {
      return absl::InternalError("LRU list: generations out of order");
    }
  }
  if (ended_ > 0 && !IsBefore(of_.ends[ended_ - 1].number, number_)) {
    return absl::InternalError("LRU list: the number is that of the past");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache

#endif  // WHEELCACHE_LRU_GENERATIONAL_LIST_H_
