#include "wheelcache/cache/internal/engine/eviction_order.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/admission.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {
namespace {

Admission::List ListNumber(bool in_main) {
  return in_main ? Admission::kMain : Admission::kWindow;
}

}  // namespace

struct alignas(ABSL_CACHELINE_SIZE) EvictionOrder::Main {
  Main(const Links& links, const SharedState& shared, int shard)
      : list(links),
        admission(shared.AdmissionMemoryOf(shard),
                  shared.ShareOf(shared.budget.limit()),
                  shared.window_target.get()) {}

  void PrefetchSketch(Hash32 hash) const {
    PrefetchLineToWrite(admission.SketchLineOf(hash));
  }

  List list;
  Admission admission;
  Tails tails;  // Of each Admission::List, as far as known.
  // What Recency was told last.
  uint32_t window_shown = 0;
  uint32_t main_shown = 0;
};

EvictionOrder::EvictionOrder(const Owner& shard)
    : shared_(*shard.shared),
      pool_(*shared_.pool),
      recency_(*shard.recency),
      shard_(shard.number),
      trades_by_size_(shared_.budget.limit().bytes != kUnlimited),
      list_(Links{&pool_, &recency_}),
      main_(shared_.scan_resistant
                ? std::make_unique<Main>(Links{&pool_, &recency_}, shared_,
                                         shard_)
                : nullptr) {}

EvictionOrder::~EvictionOrder() = default;

EntryRef EvictionOrder::main_back() const {
  return main_ == nullptr ? 0 : main_->list.back();
}

auto EvictionOrder::ListWith(bool in_main) -> List& {
  return in_main ? main_->list : list_;
}

void EvictionOrder::PrefetchSketch(Hash32 hash) const {
  main_->PrefetchSketch(hash);
}

void EvictionOrder::PrefetchForThisThread() const {
  PrefetchToWrite(main_.get(), main_.get() + 1);
  for (const Tail& tail : main_->tails) {
    if (tail.ref != 0) main_->PrefetchSketch(tail.hash);
  }
}

// The hash of the key of an entry that is at the tail of a list. Computed once,
// and kept until the entry is removed or another one is at that tail.
inline Hash32 EvictionOrder::HashOfTail(bool in_main, EntryRef ref) {
  Tail& tail = main_->tails[ListNumber(in_main)];
  if (ABSL_PREDICT_FALSE(tail.ref != ref)) {
    tail = {ref, pool_.operations().hash(HeaderOf(ref))};
  }
  return tail.hash;
}

// Before the entry leaves the list: another one may get its block.
inline void EvictionOrder::ForgetHash(bool in_main, EntryRef ref) {
  Tail& tail = main_->tails[ListNumber(in_main)];
  if (tail.ref == ref) tail.ref = 0;
}

// Prefetches what the eviction of the entry at a tail will touch.
inline void EvictionOrder::ExpectVictim(bool in_main) {
  const EntryRef last = ListWith(in_main).back();
  if (last == 0 || last == main_->tails[ListNumber(in_main)].ref) return;
  main_->PrefetchSketch(HashOfTail(in_main, last));
}

void EvictionOrder::Substitute(EntryRef old, EntryRef copy) {
  if (main_ == nullptr) {
    list_.Substitute(old, copy);
    return;
  }
  const bool in_main = HeaderOf(old).in_main();
  ForgetHash(in_main, old);
  ListWith(in_main).Substitute(old, copy);
}

void EvictionOrder::SetShare(Room share) {
  if (main_ != nullptr) main_->admission.SetShare(share);
}

void EvictionOrder::StampAnew(EntryRef ref) {
  const Stamp old = HeaderOf(ref).stamp.load(std::memory_order_relaxed);
  const bool marked = recency_.IsMarked(old, recency_.Now());
  const Stamp stamp = recency_.NextStamp(&uncounted_uses_);
  Restamp(ref, marked ? MarkedStamp(stamp) : stamp);
}

void EvictionOrder::Use(EntryRef ref) {
  StampAnew(ref);
  if (recency_.exact()) list_.MoveToFront(ref);
}

void EvictionOrder::MoveToFront(EntryRef ref) {
  StampAnew(ref);
  list_.MoveToFront(ref);
}

void EvictionOrder::AddToTwo(const Added& added, const Room& room) {
  Admission& admission = main_->admission;
  if (added.old != 0 && HeaderOf(added.old).in_main()) {
    HeaderOf(added.ref).EnterMain();
    main_->list.PushFront(added.ref);
    admission.Add(Admission::kMain, room);
  } else {
    list_.PushFront(added.ref);
    admission.Add(Admission::kWindow, room);
  }
  if (added.old == 0) {
    admission.NoteSet(added.hash);
    FillMain(added.ref);
  }
  ShowResolutions();
}

// Tells readers how young is young.
inline void EvictionOrder::ShowResolutions() {
  const uint32_t window = list_.Resolution();
  const uint32_t main = main_->list.empty() ? window : main_->list.Resolution();
  if (ABSL_PREDICT_TRUE(window == main_->window_shown &&
                        main == main_->main_shown)) {
    return;
  }
  main_->window_shown = window;
  main_->main_shown = main;
  recency_.SetResolutions(window, main);
}

auto EvictionOrder::RemoveVictim(EntryRef ref, Hash32 hash, int64_t charge)
    -> const Tails& {
  const bool in_main = HeaderOf(ref).in_main();
  main_->admission.NoteEvicted(hash, ListNumber(in_main));
  TakeOutOfTwo(ref, in_main, charge);
  ExpectVictim(/*in_main=*/false);
  ExpectVictim(/*in_main=*/true);
  return main_->tails;
}

void EvictionOrder::RemoveFromTwo(EntryRef ref) {
  TakeOutOfTwo(ref, HeaderOf(ref).in_main(), pool_.Charge(ref));
}

inline void EvictionOrder::TakeOutOfTwo(EntryRef ref, bool in_main,
                                        int64_t charge) {
  ForgetHash(in_main, ref);
  main_->admission.Remove(ListNumber(in_main), {1, charge});
  ListWith(in_main).Remove(ref);
}

// Moves the tail of the window to the main list, while that has room; never the
// entry that was added last.
inline void EvictionOrder::FillMain(EntryRef newest) {
  uint64_t budget = 8;
  while (budget > 0 && main_->admission.MainHasRoomFor({1, 0})) {
    const EntryRef oldest = FindOldestBut(/*keep=*/0, &list_, &budget);
    if (oldest == 0 || oldest == newest) return;
    if (!main_->admission.MainHasRoomFor(RoomOf(oldest))) return;
    MoveToMain(oldest);
    if (budget > 0) --budget;
  }
}

void EvictionOrder::MoveToMain(EntryRef ref) {
  const Room room = RoomOf(ref);
  TakeOutOfTwo(ref, /*in_main=*/false, room.bytes);
  HeaderOf(ref).EnterMain();
  main_->list.Insert(ref);
  main_->admission.Add(Admission::kMain, room);
}

// Returns the least recently used entry of one of two lists but for `keep`, or
// null. Mostly it is at the end already.
inline EntryRef EvictionOrder::FindOldestBut(EntryRef keep, List* list,
                                             uint64_t* budget) {
  const EntryRef oldest = list->OldestAtBack();
  if (ABSL_PREDICT_TRUE(oldest != 0 && oldest != keep)) return oldest;
  return MoveToOldestBut(keep, list, budget);
}

EntryRef EvictionOrder::MoveToOldestBut(EntryRef keep, List* list,
                                        uint64_t* budget) {
  const auto moved = [&](EntryRef ref) {
    main_->admission.NoteUsed(pool_.operations().hash(HeaderOf(ref)));
    // Begins another generation if it is time: few entries enter a main list at
    // its front.
    if (list->front() == ref) list->MoveToFront(ref);
  };
  EntryRef oldest = list->FindOldest(budget, moved);
  if (oldest == keep && oldest != 0) {
    StampAnew(keep);
    list->MoveToFront(keep);
    oldest = list->FindOldest(budget, moved);
    if (oldest == keep) oldest = 0;
  }
  return oldest;
}

EntryRef EvictionOrder::FindVictimOfTwo(EntryRef keep, Room incoming,
                                        int64_t now_nanos, uint64_t* budget) {
  Admission& admission = main_->admission;
  const Room limit = shared_.budget.limit();
  admission.NoteFull(shared_.budget.used_of(limit), limit);
  const EntryRef main = FindOldestBut(keep, &main_->list, budget);
  if (main == 0 && *budget == 0) return 0;
  ShowMain(main);
  if (main != 0 && !admission.WindowIsFullFor(incoming)) return main;
  const EntryRef window = FindOldestBut(keep, &list_, budget);
  if (window == 0) return *budget == 0 ? 0 : main;
  if (main == 0) return window;
  if (!WindowWins(window, main, now_nanos)) return window;
  // Not twice for one eviction: the caller returns with another budget.
  if (*budget == 0) return 0;
  MoveToMain(window);
  // With a budget of 1 the move comes with the eviction.
  if (*budget > 1) --*budget;
  return main;
}

// Whether the tail of the window stays, and that of the main list goes.
inline bool EvictionOrder::WindowWins(EntryRef window, EntryRef main,
                                      int64_t now_nanos) {
  const auto candidate = [&](bool in_main,
                             EntryRef ref) -> Admission::Candidate {
    const double left = static_cast<double>(HeaderOf(ref).deadline()) -
                        static_cast<double>(now_nanos);
    return {HashOfTail(in_main, ref), std::max(left, 0.0)};
  };
  return main_->admission.Wins(candidate(/*in_main=*/false, window),
                               candidate(/*in_main=*/true, main));
}

void EvictionOrder::ShowOldest(uint64_t* budget) {
  if (main_ == nullptr) {
    FindVictim(/*keep=*/0, Room(), /*now_nanos=*/0, budget);
    return;
  }
  const EntryRef oldest = FindOldestBut(/*keep=*/0, &main_->list, budget);
  if (oldest != 0 || *budget > 0) ShowMain(oldest);
}

// Lets the other shards know how old the tail of the main list is, or how large
// the shard.
inline void EvictionOrder::ShowMain(EntryRef oldest) {
  if (ABSL_PREDICT_FALSE(trades_by_size_)) {
    ShowSize();
  } else {
    ShowTail(oldest, recency_.MainMargin());
  }
}

void EvictionOrder::ShowSize() {
  const Size size = SizeInCache();
  shared_.uses.set_tail(shard_, size.stamp, /*slack=*/size.margin / 8);
}

bool EvictionOrder::AnotherShardPaysFor(EntryRef victim) {
  if (trades_by_size_) {
    const Size size = SizeInCache();
    return IsOlderBy(NextPeersTail(), size.stamp, size.margin);
  }
  return IsOlderBy(NextPeersTail(), StampOf(victim), recency_.MainMargin());
}

// The margin is a 64th of the shard, and a few entries of the mean size: shards
// differ by chance by that much.
EvictionOrder::Size EvictionOrder::SizeInCache() const {
  constexpr double kWhole = 1 << 30;  // Half of what stamps can tell apart.
  constexpr double kMarginInEntries = 4;
  const Room limit = shared_.budget.limit();
  Room room = main_->admission.size(Admission::kWindow);
  room += main_->admission.size(Admission::kMain);
  const auto part_of = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  const double part = std::max(part_of(room.entries, limit.entries),
                               part_of(room.bytes, limit.bytes));
  const auto entries =
      static_cast<double>(std::max<int64_t>(shared_.budget.used().entries, 1));
  const double margin = std::min(part / 64 + kMarginInEntries / entries, 1.0);
  return {Stamp{0} - static_cast<Stamp>(std::min(part, 1.0) * kWhole),
          static_cast<uint32_t>(margin * kWhole)};
}

std::pair<EntryRef, EntryRef> EvictionOrder::TakeAll() {
  EntryRef oldest = list_.back();
  EntryRef newest = list_.TakeAll();
  if (main_ == nullptr) return {newest, oldest};
  main_->admission.Clear();
  main_->tails = {};
  const EntryRef main_oldest = main_->list.back();
  const EntryRef main_newest = main_->list.TakeAll();
  if (main_newest == 0) return {newest, oldest};
  if (newest == 0) return {main_newest, main_oldest};
  HeaderOf(oldest).lru.older = main_newest;
  return {newest, main_oldest};
}

absl::Status EvictionOrder::CheckInvariants(
    absl::FunctionRef<absl::Status(EntryRef)> visit) {
  absl::Status status = CheckList(/*in_main=*/false, visit);
  if (!status.ok() || main_ == nullptr) return status;
  return CheckList(/*in_main=*/true, visit);
}

absl::Status EvictionOrder::CheckList(
    bool in_main, absl::FunctionRef<absl::Status(EntryRef)> visit) {
  List& list = ListWith(in_main);
  if (auto status = list.CheckInvariants(); !status.ok()) return status;
  Room sum;
  Tail tail;
  if (main_ != nullptr) tail = main_->tails[ListNumber(in_main)];
  for (EntryRef ref = list.front(); ref != 0; ref = HeaderOf(ref).lru.older) {
    const EntryHeader& entry = HeaderOf(ref);
    if (entry.in_main() != in_main) {
      return absl::InternalError("an entry is in the list that its bit denies");
    }
    if (ref == tail.ref && pool_.operations().hash(entry) == tail.hash) {
      tail.ref = 0;
    }
    if (auto status = visit(ref); !status.ok()) return status;
    if (main_ != nullptr) sum += RoomOf(ref);
  }
  if (main_ != nullptr &&
      !(sum == main_->admission.size(ListNumber(in_main)))) {
    return absl::InternalError("a list of two has another size than was noted");
  }
  if (tail.ref != 0) {
    return absl::InternalError(
        "a list has another hash of its tail, or no such entry");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
