#include "wheelcache/cache/internal/engine/two_lists.h"

#include <algorithm>

#include "wheelcache/cache/internal/engine/tail_board.h"
#include "wheelcache/cache/types/options.h"

namespace wheelcache::internal {
namespace {

// The part of what fits that one entry or byte is in a shard that has so many
// of them, while so much of the limit is used; 0 if there is no limit.
double PartOfOne(int64_t used, int64_t limit, int64_t of_shard) {
  if (limit == kUnlimited) return 0;  // Ahead of divisions.
  return static_cast<double>(used) / static_cast<double>(limit) /
         static_cast<double>(std::max<int64_t>(of_shard, 1));
}

}  // namespace

TwoLists::TwoLists(const Owner& owner)
    : pool_(*owner.pool),
      budget_(*owner.budget),
      most_entries_(owner.ghosts.entries),
      target_(*owner.target),
      ghosts_(reinterpret_cast<GhostList::Bucket*>(owner.ghosts.begin),
              GhostList::BucketsFor(GhostMemory::GhostsFor(most_entries_))),
      window_(&window_generations_,
              {owner.pool, owner.recency, kWindow, nullptr}),
      main_(&main_generations_, {owner.pool, owner.recency, kMain, nullptr}) {
  SetShare(owner.share);
}

void TwoLists::SetShare(Room share) {
  // As if the shard had its share, and that were all of the limit.
  const auto part = [](int64_t of_shard) {
    return PartOfOne(/*used=*/1, of_shard == kUnlimited ? kUnlimited : 1,
                     of_shard);
  };
  part_of_entry_ = part(share.entries);
  part_of_byte_ = part(share.bytes);
  measured_ = {};
}

void TwoLists::Add(const Added& added, const Room& room) {
  const bool to_main =
      added.old != 0 ? At(added.old).in_main() : TakeGhost(added.hash);
  if (to_main) {
    At(added.ref).EnterMain();
    main_.PushFront(added.ref);
  } else {
    window_.PushFront(added.ref);
  }
  sizes_[to_main ? kMain : kWindow] += room;
  if (added.old == 0 && ABSL_PREDICT_FALSE(MainHasRoomFor({1, 0}))) {
    FillMain(added.ref);
  }
}

// Whether the key was evicted lately. Then the window was too small if the key
// had left that, and too large if it had left the main list.
bool TwoLists::TakeGhost(Hash32 hash) {
  constexpr uint32_t kSetsBetweenFits = 64;
  if (sets_++ % kSetsBetweenFits == 0) {
    ghosts_.Fit(
        GhostMemory::GhostsFor(static_cast<uint64_t>(EntriesThatFit())));
  }
  const auto of_window =
      static_cast<double>(ghosts_.size(GhostList::kFirst) + 1);
  const auto of_main =
      static_cast<double>(ghosts_.size(GhostList::kSecond) + 1);
  const GhostList::Part left = ghosts_.Take(hash);
  if (left == GhostList::kNone) return false;
  const double steps = left == GhostList::kFirst
                           ? std::max(1.0, of_main / of_window)
                           : -std::max(1.0, of_window / of_main);
  target_.Move(steps, EntriesThatFit());
  return true;
}

// Moves the tail of the window to the main list, while there is room; never the
// entry that was added last.
void TwoLists::FillMain(EntryRef newest) {
  constexpr int kMost = 8;
  for (int i = 0; i < kMost; ++i) {
    const EntryRef oldest = window_.back();
    if (oldest == 0 || oldest == newest) return;
    if (!MainHasRoomFor({1, pool_.Charge(oldest)})) return;
    MoveToMain(oldest);
  }
}

void TwoLists::MoveToMain(EntryRef ref) {
  const Room room = {1, pool_.Charge(ref)};
  window_.Remove(ref);
  sizes_[kWindow] -= room;
  At(ref).EnterMain();
  main_.PushFront(ref);
  sizes_[kMain] += room;
}

void TwoLists::Remove(EntryRef ref, int64_t charge) {
  const ListId id = ListOf(At(ref));
  sizes_[id] -= Room{1, charge};
  if (id == kMain) {
    main_.Remove(ref);
  } else {
    window_.Remove(ref);
  }
}

void TwoLists::RemoveVictim(EntryRef ref, Hash32 hash, int64_t charge) {
  ghosts_.Add(hash, At(ref).in_main() ? GhostList::kSecond : GhostList::kFirst);
  Remove(ref, charge);
}

void TwoLists::Substitute(EntryRef old, EntryRef copy) {
  if (At(old).in_main()) {
    main_.Substitute(old, copy);
  } else {
    window_.Substitute(old, copy);
  }
}

void TwoLists::MoveToFront(EntryRef ref) {
  if (At(ref).in_main()) {
    main_.MoveToFront(ref);
  } else {
    window_.MoveToFront(ref);
  }
}

EntryRef TwoLists::FindVictim(EntryRef keep, const Room& incoming,
                              uint64_t* budget) {
  MeasurePart();
  const Room to_window = keep == 0 ? incoming : Room();
  bool main_is_over = false;
  while (!main_is_over && WindowIsOver(to_window)) {
    if (window_.back() == keep && keep != 0) window_.MoveToFront(keep);
    const EntryRef oldest = window_.back();
    if (oldest == 0 || oldest == keep) break;
    if (!window_.BackWasUsed()) return oldest;
    if (*budget == 0) return 0;
    --*budget;
    MoveToMain(oldest);
    main_is_over = PartOf(sizes_[kMain]) > 1 - target_.Get();
  }
  const EntryRef victim = FindOldestBut(keep, &main_, budget);
  if (victim != 0 || *budget == 0) return victim;
  if (window_.back() == keep && keep != 0) window_.MoveToFront(keep);
  return window_.back() == keep ? 0 : window_.back();
}

Room TwoLists::total() const {
  Room all = sizes_[kWindow];
  all += sizes_[kMain];
  return all;
}

// The part of what fits.
double TwoLists::PartOf(Room room) const {
  return std::max(static_cast<double>(room.entries) * part_of_entry_,
                  static_cast<double>(room.bytes) * part_of_byte_);
}

// The shard has to evict: what it holds is the same part of what fits as what
// the cache uses is of its limits.
void TwoLists::MeasurePart() {
  const Room limit = budget_.limit();
  const Room used = budget_.taken();
  const Room all = total();
  if (limit.bytes == kUnlimited) {
    // Mostly nothing has changed, and there is nothing to divide.
    if (ABSL_PREDICT_TRUE(measured_.used == used.entries &&
                          measured_.limit == limit.entries &&
                          measured_.of_shard == all.entries)) {
      return;
    }
    measured_ = {used.entries, limit.entries, all.entries};
  }
  part_of_entry_ = PartOfOne(used.entries, limit.entries, all.entries);
  part_of_byte_ = PartOfOne(used.bytes, limit.bytes, all.bytes);
}

double TwoLists::EntriesThatFit() const {
  const Room all = total();
  const double part = PartOf(all);
  const auto most = static_cast<double>(most_entries_);
  if (part <= 0) return most;
  return std::clamp(static_cast<double>(all.entries) / part, 1.0, most);
}

// Whether the window will be over its target with what is about to enter it.
bool TwoLists::WindowIsOver(Room incoming) const {
  incoming += sizes_[kWindow];
  return PartOf(incoming) > target_.Get();
}

// Whether an entry that takes so much is to leave the window for the main list,
// as the cache and that have room. What the window gives up in a full cache has
// to prove its worth first.
bool TwoLists::MainHasRoomFor(Room room) const {
  const Room all = total();
  const int64_t mean = all.bytes / std::max<int64_t>(all.entries, 1);
  if (ABSL_PREDICT_TRUE(!budget_.Has({1, mean}))) return false;
  room += sizes_[kMain];
  const double target = target_.Get();
  const double whole = std::max(PartOf(all), 1.0);
  return PartOf(room) <= (1 - target) * whole &&
         PartOf(sizes_[kWindow]) > target;
}

// As a tail that is the older the more the shard holds of the cache. The margin
// is a 64th of the shard, and a few entries of the mean size.
Standing TwoLists::standing() const {
  constexpr double kWhole = 1 << 30;  // Half of what tails can tell apart.
  constexpr double kMarginInEntries = 4;
  const Room limit = budget_.limit();
  const Room room = total();
  const auto part_of = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  const double part = std::max(part_of(room.entries, limit.entries),
                               part_of(room.bytes, limit.bytes));
  const double of_one =
      part / static_cast<double>(std::max<int64_t>(room.entries, 1));
  const double margin = std::min(part / 64 + kMarginInEntries * of_one, 1.0);
  return {TailBoard::Time{0} -
              static_cast<TailBoard::Time>(std::min(part, 1.0) * kWhole),
          static_cast<uint32_t>(margin * kWhole)};
}

std::pair<EntryRef, EntryRef> TwoLists::TakeAll() {
  sizes_ = {};
  const EntryRef oldest = window_.back();
  const EntryRef newest = window_.TakeAll();
  const EntryRef main_oldest = main_.back();
  const EntryRef main_newest = main_.TakeAll();
  if (main_newest == 0) return {newest, oldest};
  if (newest == 0) return {main_newest, main_oldest};
  At(oldest).lru.older = main_newest;
  return {newest, main_oldest};
}

absl::Status TwoLists::CheckInvariants(
    absl::FunctionRef<absl::Status(EntryRef)> visit) {
  absl::Status status = CheckList(&window_, kWindow, visit);
  return status.ok() ? CheckList(&main_, kMain, visit) : status;
}

template <typename List>
absl::Status TwoLists::CheckList(
    List* list, ListId id, absl::FunctionRef<absl::Status(EntryRef)> visit) {
  if (auto status = list->CheckInvariants(); !status.ok()) return status;
  Room sum;
  for (EntryRef ref = list->front(); ref != 0; ref = At(ref).lru.older) {
    if (ListOf(At(ref)) != id) {
      return absl::InternalError("an entry is in the list that its bit denies");
    }
    if (auto status = visit(ref); !status.ok()) return status;
    sum += Room{1, pool_.Charge(ref)};
  }
  if (!(sum == sizes_[id])) {
    return absl::InternalError("a list has another size than was recorded");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::internal
