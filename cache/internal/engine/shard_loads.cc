// The placeholders of a shard: loads in flight, failures that are remembered,
// and refreshes that wait for their retry.

#include <atomic>

#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/removal_order_impl.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/loads/load.h"

namespace wheelcache::internal {

EntryRef Shard::BeginLoad(const KeyQuery& key, const NewLoad& load,
                          Departures* departures) {
  MutexLock lock(&mu_);
  const int64_t now_nanos = clock_.NowNanos();
  const EntryRef live = FindLiveLocked(key, now_nanos);
  const bool refreshes = load.refreshes != 0;
  if (refreshes && live != load.refreshes) return 0;
  if (!refreshes && live != 0 &&
      AgeNanos(At(live).created(), now_nanos) <= load.max_age_nanos) {
    pool_.Pin(live);
    return live;
  }
  const EntryRef other = FindPlaceholderLocked(key);
  if (other != 0 && !IsOver(other, now_nanos)) {
    const auto state = LoadAt(other).in_shard.state;
    if (refreshes && !(load.at_once && state == Load::InShard::kRetry)) {
      return 0;
    }
    // Not of a queued refresh: whoever is to run it may be waiting for this
    // very thread.
    if (state == Load::InShard::kJoined || state == Load::InShard::kFailure) {
      pool_.Pin(other);
      return other;
    }
  }
  ReserveCellLocked();
  if (other != 0) RemovePlaceholderLocked(other, departures);
  Load::InShard& mine = LoadAt(load.placeholder).in_shard;
  mine.state = refreshes ? Load::InShard::kQueued : Load::InShard::kJoined;
  mine.era.store(era_.load(std::memory_order_relaxed),
                 std::memory_order_relaxed);
  index_.Insert(PlaceholderHash(key.hash().for_index), load.placeholder);
  EnterRingLocked(load.placeholder);
  ++placeholders_;
  return load.placeholder;
}

bool Shard::StartRefresh(EntryRef placeholder, Hash32 of_key) {
  MutexLock lock(&mu_);
  if (!IsCurrentLocked(placeholder, of_key)) return false;
  LoadAt(placeholder).in_shard.state = Load::InShard::kJoined;
  return true;
}

void Shard::EndLoad(const EndedLoad& ended, Departures* departures) {
  const EntryRef placeholder = ended.placeholder;
  const EntryKeyQuery key(pool_, placeholder, ended.of_key);
  MutexLock lock(&mu_);
  if (!index_.Holds(PlaceholderHash(ended.of_key.for_index), placeholder)) {
    return;
  }
  // It leaves with the value.
  const int64_t now_nanos = clock_.NowNanos();
  const bool awaits_retry = ended.retry_nanos > 0 && IsOfThisEra(placeholder) &&
                            FindLiveLocked(key, now_nanos) != 0;
  if (!awaits_retry) {
    RemovePlaceholderLocked(placeholder, departures);
    return;
  }
  LoadAt(placeholder).in_shard.state = Load::InShard::kRetry;
  At(placeholder)
      .deadline_nanos.store(Clock::NanosAfter(now_nanos, ended.retry_nanos),
                            std::memory_order_relaxed);
}

bool Shard::IsCurrentLocked(EntryRef placeholder, Hash32 of_key) const {
  return index_.Holds(PlaceholderHash(of_key), placeholder) &&
         IsOfThisEra(placeholder);
}

EntryRef Shard::FindPlaceholderLocked(const KeyQuery& key) const {
  return index_.Find(PlaceholderHash(key.hash().for_index),
                     [&](EntryRef ref) { return key.Matches(At(ref)); });
}

void Shard::RemovePlaceholderLocked(EntryRef placeholder,
                                    Departures* departures) {
  index_.Erase(CellHashOf(placeholder), placeholder);
  --placeholders_;
  if (LoadAt(placeholder).in_shard.state == Load::InShard::kFailure) {
    const Room room = RoomOf(placeholder);
    used_.Add({-room.entries, -room.bytes});
    departures->claim.Add(room);
    order_.Remove(placeholder, room.bytes);
    --failures_;
  } else {
    LeaveRingLocked(placeholder);
  }
  departures->AddUntold(placeholder);
}

void Shard::EnterRingLocked(EntryRef placeholder) {
  LruLinks<EntryRef>& links = At(placeholder).lru;
  if (newest_load_ == 0) {
    links = {placeholder, placeholder};
  } else {
    EntryHeader& newest = At(newest_load_);
    links = {/*newer=*/newest.lru.newer, /*older=*/newest_load_};
    At(newest.lru.newer).lru.older = placeholder;
    newest.lru.newer = placeholder;
  }
  newest_load_ = placeholder;
}

void Shard::LeaveRingLocked(EntryRef placeholder) {
  const auto [newer, older] = At(placeholder).lru;
  At(newer).lru.older = older;
  At(older).lru.newer = newer;
  if (newest_load_ == placeholder) {
    newest_load_ = older == placeholder ? 0 : older;
  }
}

void Shard::ForgetLocked(const KeyQuery& key, Departures* departures) {
  const EntryRef placeholder = FindPlaceholderLocked(key);
  if (placeholder != 0) RemovePlaceholderLocked(placeholder, departures);
}

bool Shard::LeavesAmongLoadsLocked(EntryRef ref, Departures* departures) {
  if (At(ref).is_placeholder()) {
    RemovePlaceholderLocked(ref, departures);
    return true;
  }
  const EntryKeyQuery key(pool_, ref, {0, order_.HashOf(ref)});
  const EntryRef placeholder = FindPlaceholderLocked(key);
  if (placeholder != 0 &&
      LoadAt(placeholder).in_shard.state == Load::InShard::kRetry) {
    RemovePlaceholderLocked(placeholder, departures);
  }
  return false;
}

}  // namespace wheelcache::internal
