#include "wheelcache/cache/internal/engine/eviction_order.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/admission.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {
namespace {

Admission::List ListOf(const EntryHeader& entry) {
  return entry.in_main() ? Admission::kMain : Admission::kWindow;
}

}  // namespace

struct EvictionOrder::Main {
  struct Tail {
    EntryRef ref = 0;
    Hash32 hash = 0;
  };

  Main(const Links& links, const AdmissionMemory& memory, Room share)
      : list(links), admission(memory, share) {}

  List list;
  Admission admission;
  std::array<Tail, 2> tails;  // Of the window and of the main list.
};

EvictionOrder::EvictionOrder(const Owner& shard)
    : shared_(*shard.shared),
      pool_(*shared_.pool),
      recency_(*shard.recency),
      shard_(shard.number),
      list_(Links{&pool_, &recency_}),
      main_(
          shared_.scan_resistant
              ? std::make_unique<Main>(Links{&pool_, &recency_},
                                       shared_.AdmissionMemoryOf(shard_),
                                       shared_.ShareOf(shared_.budget.limit()))
              : nullptr) {}

EvictionOrder::~EvictionOrder() = default;

EntryRef EvictionOrder::main_back() const {
  return main_ == nullptr ? 0 : main_->list.back();
}

auto EvictionOrder::ListWith(bool in_main) -> List& {
  return in_main ? main_->list : list_;
}

void EvictionOrder::PrefetchHistory(Hash32 hash) const {
  PrefetchLineToWrite(main_->admission.GhostLineOf(hash));
  PrefetchLineToWrite(main_->admission.SketchLineOf(hash));
}

Hash32 EvictionOrder::HashOfTail(EntryRef ref) {
  for (const Main::Tail& tail : main_->tails) {
    if (tail.ref == ref) return tail.hash;
  }
  const EntryHeader& entry = HeaderOf(ref);
  const Hash32 hash = pool_.operations().hash(entry);
  main_->tails[ListOf(entry)] = {ref, hash};
  return hash;
}

// Another entry may get its block.
void EvictionOrder::ForgetHash(EntryRef ref) {
  for (Main::Tail& tail : main_->tails) {
    if (tail.ref == ref) tail = Main::Tail();
  }
}

void EvictionOrder::NoteEvicted(EntryRef ref, Hash32 hash) {
  main_->admission.NoteEvicted(hash, ListOf(HeaderOf(ref)));
}

void EvictionOrder::Substitute(EntryRef old, EntryRef copy) {
  if (main_ != nullptr) ForgetHash(old);
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

void EvictionOrder::AddToTwo(const Added& added) {
  const bool is_new = added.old == 0;
  EntryHeader& entry = HeaderOf(added.ref);
  if (!is_new && HeaderOf(added.old).in_main()) entry.EnterMain();
  ListWith(entry.in_main()).PushFront(added.ref);
  main_->admission.Add(ListOf(entry), RoomOf(added.ref));
  if (is_new) {
    main_->admission.NoteSet(added.hash);
    FillMain(added.ref);
  }
  const uint32_t window = list_.Resolution();
  recency_.SetResolutions(
      window, main_->list.empty() ? window : main_->list.Resolution());
}

void EvictionOrder::RemoveFromTwo(EntryRef ref) {
  ForgetHash(ref);
  const EntryHeader& entry = HeaderOf(ref);
  main_->admission.Remove(ListOf(entry), RoomOf(ref));
  ListWith(entry.in_main()).Remove(ref);
}

// Moves the tail of the window to the main list, while that has room; never the
// entry that was added last.
void EvictionOrder::FillMain(EntryRef newest) {
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
  list_.Remove(ref);
  main_->admission.Remove(Admission::kWindow, room);
  HeaderOf(ref).EnterMain();
  main_->list.Insert(ref);
  main_->admission.Add(Admission::kMain, room);
}

// Returns the least recently used entry of one of two lists but for `keep`, or
// null.
EntryRef EvictionOrder::FindOldestBut(EntryRef keep, List* list,
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
  admission.NoteFull(shared_.budget.used(), shared_.budget.limit());
  const EntryRef main = FindOldestBut(keep, &main_->list, budget);
  if (main == 0 && *budget == 0) return 0;
  ShowTail(main, recency_.MainMargin());
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
bool EvictionOrder::WindowWins(EntryRef window, EntryRef main,
                               int64_t now_nanos) {
  const auto candidate = [&](EntryRef ref) -> Admission::Candidate {
    const double left = static_cast<double>(HeaderOf(ref).deadline()) -
                        static_cast<double>(now_nanos);
    return {HashOfTail(ref), std::max(left, 0.0)};
  };
  return main_->admission.Wins(candidate(window), candidate(main));
}

void EvictionOrder::ShowOldest(uint64_t* budget) {
  if (main_ == nullptr) {
    FindVictim(/*keep=*/0, Room(), /*now_nanos=*/0, budget);
    return;
  }
  const EntryRef oldest = FindOldestBut(/*keep=*/0, &main_->list, budget);
  if (oldest != 0 || *budget > 0) ShowTail(oldest, recency_.MainMargin());
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
  for (EntryRef ref = list.front(); ref != 0; ref = HeaderOf(ref).lru.older) {
    if (HeaderOf(ref).in_main() != in_main) {
      return absl::InternalError("an entry is in the list that its bit denies");
    }
    if (auto status = visit(ref); !status.ok()) return status;
    if (main_ != nullptr) sum += RoomOf(ref);
  }
  const auto number = in_main ? Admission::kMain : Admission::kWindow;
  if (main_ != nullptr && !(sum == main_->admission.size(number))) {
    return absl::InternalError("a list of two has another size than was noted");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
