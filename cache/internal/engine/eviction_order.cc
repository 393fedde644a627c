#include "wheelcache/cache/internal/engine/eviction_order.h"

#include <algorithm>

#include "wheelcache/cache/types/options.h"

namespace wheelcache::internal {

EvictionOrder::EvictionOrder(const Owner& shard)
    : shared_(*shard.shared),
      pool_(*shared_.pool),
      recency_(*shard.recency),
      shard_(shard.number),
      trades_by_size_(shared_.budget.limit().bytes != kUnlimited),
      list_(EvictionLinks{&pool_, &recency_}),
      main_(shared_.scan_resistant
                ? std::make_unique<MainList>(EvictionLinks{&pool_, &recency_},
                                             shared_, shard_)
                : nullptr) {}

EvictionOrder::~EvictionOrder() = default;

void EvictionOrder::PrefetchForThisThread() const {
  PrefetchToWrite(main_.get(), main_.get() + 1);
  for (const Tail& tail : tails_) {
    if (tail.ref != 0) PrefetchSketch(tail.hash);
  }
}

void EvictionOrder::Substitute(EntryRef old, EntryRef copy) {
  ForgetTail(old);
  ListWith(HeaderOf(old).in_main()).Substitute(old, copy);
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
    admission.RecordSet(added.hash);
    if (ABSL_PREDICT_FALSE(admission.MainHasRoomFor({1, 0}))) {
      FillMain(added.ref);
    }
  }
  PublishResolutions();
}

// Tells readers how young is young.
inline void EvictionOrder::PublishResolutions() {
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

void EvictionOrder::RemoveFromTwo(EntryRef ref) {
  TakeOutOfTwo(ref, HeaderOf(ref).in_main(), pool_.Charge(ref));
}

// Moves the tail of the window to the main list, while that has room; never the
// entry that was added last.
void EvictionOrder::FillMain(EntryRef newest) {
  uint64_t budget = 8;
  do {
    const EntryRef oldest = MoveToOldestBut(/*keep=*/0, &list_, &budget);
    if (oldest == 0 || oldest == newest) return;
    if (!main_->admission.MainHasRoomFor(RoomOf(oldest))) return;
    MoveToMain(oldest);
    if (budget > 0) --budget;
  } while (budget > 0 && main_->admission.MainHasRoomFor({1, 0}));
}

void EvictionOrder::MoveToMain(EntryRef ref) {
  const Room room = RoomOf(ref);
  TakeOutOfTwo(ref, /*in_main=*/false, room.bytes);
  HeaderOf(ref).EnterMain();
  main_->list.Insert(ref);
  main_->admission.Add(Admission::kMain, room);
}

// Returns the least recently used entry of one of two lists but for `keep`, or
// null. Mostly it was found at the end before.
inline auto EvictionOrder::FindOldestBut(EntryRef keep, bool in_main,
                                         uint64_t* budget) -> Oldest {
  EvictionList& list = ListWith(in_main);
  const Tail& tail = tails_[ListNumber(in_main)];
  if (ABSL_PREDICT_TRUE(tail.ref == list.back()) &&
      ABSL_PREDICT_TRUE(tail.ref != 0) && ABSL_PREDICT_TRUE(tail.ref != keep)) {
    const EntryHeader& entry = HeaderOf(tail.ref);
    if (ABSL_PREDICT_TRUE(list.IsOldest(StampOf(entry)))) {
      return {tail.ref, tail.hash, &entry};
    }
  }
  const EntryRef oldest = MoveToOldestBut(keep, &list, budget);
  if (oldest == 0) return {};
  return {oldest, HashOf(oldest), &HeaderOf(oldest)};
}

EntryRef EvictionOrder::MoveToOldestBut(EntryRef keep, EvictionList* list,
                                        uint64_t* budget) {
  const auto moved = [&](EntryRef ref) {
    main_->admission.RecordUsed(pool_.operations().hash(HeaderOf(ref)));
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
  admission.RecordFull(shared_.budget.used_of(limit), limit);
  const Oldest main = FindOldestBut(keep, /*in_main=*/true, budget);
  if (main.ref == 0 && *budget == 0) return 0;
  PublishMain(main);
  if (main.ref != 0 && !admission.WindowIsFullFor(incoming)) return main.ref;
  const Oldest window = FindOldestBut(keep, /*in_main=*/false, budget);
  if (window.ref == 0) return *budget == 0 ? 0 : main.ref;
  if (main.ref == 0) return window.ref;
  if (!WindowWins(window, main, now_nanos)) return window.ref;
  // Not twice for one eviction: the caller returns with another budget.
  if (*budget == 0) return 0;
  MoveToMain(window.ref);
  // With a budget of 1 the move comes with the eviction.
  if (*budget > 1) --*budget;
  return main.ref;
}

// Whether the tail of the window stays, and that of the main list goes.
inline bool EvictionOrder::WindowWins(const Oldest& window, const Oldest& main,
                                      int64_t now_nanos) {
  const auto candidate = [&](const Oldest& oldest) -> Admission::Candidate {
    const double left = static_cast<double>(oldest.entry->deadline()) -
                        static_cast<double>(now_nanos);
    return {oldest.hash, std::max(left, 0.0)};
  };
  return main_->admission.Wins(candidate(window), candidate(main));
}

void EvictionOrder::PublishOldest(uint64_t* budget) {
  if (main_ == nullptr) {
    FindVictim(/*keep=*/0, Room(), /*now_nanos=*/0, budget);
    return;
  }
  const Oldest oldest = FindOldestBut(/*keep=*/0, /*in_main=*/true, budget);
  if (oldest.ref != 0 || *budget > 0) PublishMain(oldest);
}

// Lets the other shards know how old the tail of the main list is, or how large
// the shard.
inline void EvictionOrder::PublishMain(const Oldest& oldest) {
  if (ABSL_PREDICT_FALSE(trades_by_size_)) {
    PublishSize();
  } else if (ABSL_PREDICT_FALSE(oldest.ref == 0)) {
    PublishNoTail();
  } else {
    PublishTail(*oldest.entry, recency_.MainMargin());
  }
}

void EvictionOrder::PublishSize() {
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
  tails_ = {};
  EntryRef oldest = list_.back();
  EntryRef newest = list_.TakeAll();
  if (main_ == nullptr) return {newest, oldest};
  main_->admission.Clear();
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
  EvictionList& list = ListWith(in_main);
  if (auto status = list.CheckInvariants(); !status.ok()) return status;
  Room sum;
  Tail tail = tails_[ListNumber(in_main)];
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
