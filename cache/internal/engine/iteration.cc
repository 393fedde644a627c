#include "wheelcache/cache/internal/engine/iteration.h"

#include <algorithm>
#include <limits>

#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {
namespace {

constexpr uint64_t kMostBudget = 256;
// A step ends behind a bucket.
constexpr size_t kMostBeyond = IndexTable::kCellsPerBucket;

constexpr uint64_t kNoTable = std::numeric_limits<uint64_t>::max();

}  // namespace

Iteration::Iteration(EntryPool* pool, const ShardArray<Shard>* shards,
                     Rules rules)
    : pool_(*pool),
      shards_(*shards),
      clock_(*rules.clock),
      budget_(std::min(rules.budget, kMostBudget)) {
  BeginShard();
}

Iteration::~Iteration() {
  for (; next_in_batch_ < batch_.size(); ++next_in_batch_) {
    pool_.UnpinOutside(batch_[next_in_batch_]);
  }
  ForgetPath();
}

void Iteration::BeginShard() {
  position_ = 0;
  table_ = kNoTable;
  on_path_ = false;
}

// Makes one step. Returns false if nothing is left.
bool Iteration::TakeBatch() {
  if (shard_ == shards_.size()) return false;
  Interleave("iteration: before a step");
  // All that may throw comes before the lock, and before anything is pinned.
  const size_t most = budget_ + kMostBeyond;
  batch_.clear();
  next_in_batch_ = 0;
  batch_shard_ = shard_;
  path_in_batch_ = 0;
  batch_.reserve(most);
  if (away_.capacity() - away_.size() < most) {
    away_.reserve(std::max(2 * away_.capacity(), away_.size() + most));
  }
  bool collects = false;
  shards_[shard_].Look([&](const Index& index) {
    if (index.table_number() != table_) {
      table_ = index.table_number();
      collected_ = false;
      collected_buckets_ = 0;
      away_.clear();
      place_ = {};
    }
    collects = !collected_;
    if (collects) {
      Collect(index);
    } else {
      Take(index);
    }
  });
  if (collects && collected_) {
    std::sort(away_.begin(), away_.end());
    next_away_ = 0;
  }
  if (on_path_) {
    RememberPath();
  } else {
    ForgetPath();
  }
  if (position_ == kHashes) {
    ++shard_;
    BeginShard();
  }
  return true;
}

// The entries of a bucket are read behind those of the one before it.
void Iteration::PrefetchEntries(const Index& index, size_t bucket) const {
  if (bucket >= index.buckets()) return;
  index.ForEachIn(
      bucket, [this](EntryRef ref) { PrefetchLineToWrite(&pool_.At(ref)); });
}

// Adds what is not at home in the next few buckets.
void Iteration::Collect(const Index& index) {
  uint64_t left = budget_;
  while (left > 0 && collected_buckets_ < index.buckets()) {
    PrefetchEntries(index, collected_buckets_ + 1);
    uint64_t looked_at = 1;
    index.ForEachIn(collected_buckets_, [&](EntryRef ref) {
      const Hash32 hash = HashOf(ref);
      if (hash >= position_ && index.Home(hash) != collected_buckets_) {
        away_.push_back(hash);
      }
      ++looked_at;
    });
    left -= std::min(left, looked_at);
    ++collected_buckets_;
  }
  collected_ = collected_buckets_ == index.buckets();
}

// Takes the entries with the next few hashes.
void Iteration::Take(const Index& index) {
  now_nanos_ = clock_.NowNanos();
  uint64_t left = budget_;
  while (left > 0 && position_ < kHashes) {
    const uint64_t looked_at =
        on_path_ ? TakeFromPath(index) : TakeFromHome(index);
    left -= std::min(left, looked_at);
  }
}

// Takes from the home bucket of position_ what is at home there, up to the next
// hash that has entries elsewhere.
uint64_t Iteration::TakeFromHome(const Index& index) {
  while (next_away_ < away_.size() && away_[next_away_] < position_) {
    ++next_away_;
  }
  const size_t bucket = index.Home(static_cast<Hash32>(position_));
  const uint64_t next =
      next_away_ < away_.size() ? uint64_t{away_[next_away_]} : kHashes;
  const uint64_t end = std::min(index.FirstHashOf(bucket + 1), next);
  uint64_t looked_at = 1;
  if (position_ < end) {
    PrefetchEntries(index, bucket + 1);
    index.ForEachIn(bucket, [&](EntryRef ref) {
      const Hash32 hash = HashOf(ref);
      if (position_ <= hash && hash < end) TakeIfLive(ref);
      ++looked_at;
    });
    position_ = end;
  }
  on_path_ = position_ == next && position_ < kHashes;
  if (on_path_) {
    place_ = {};
    path_in_batch_ = batch_.size();
  }
  return looked_at;
}

// Takes from the next bucket on the path of position_ the entries of this hash.
uint64_t Iteration::TakeFromPath(const Index& index) {
  const auto hash = static_cast<Hash32>(position_);
  uint64_t looked_at = 1;
  const bool goes_on = index.VisitOnPath(hash, &place_, [&](EntryRef ref) {
    if (HashOf(ref) == hash &&
        !std::binary_search(taken_from_path_.begin(), taken_from_path_.end(),
                            ref)) {
      TakeIfLive(ref);
    }
    ++looked_at;
  });
  if (!goes_on) {
    on_path_ = false;
    ++position_;
  }
  return looked_at;
}

void Iteration::TakeIfLive(EntryRef ref) {
  const EntryHeader& entry = pool_.At(ref);
  if (entry.is_placeholder()) return;
  // With an idle TTL, a hit may be about to extend its life: the caller has to
  // look again in any case.
  if (entry.ExpiredAt(now_nanos_) && !pool_.idle().on()) return;
  pool_.Pin(ref);
  batch_.push_back(ref);
}

// Where a step has ended within a path.
void Iteration::RememberPath() {
  for (size_t i = path_in_batch_; i < batch_.size(); ++i) {
    const EntryRef ref = batch_[i];
    const auto at =
        std::lower_bound(taken_from_path_.begin(), taken_from_path_.end(), ref);
    if (at != taken_from_path_.end() && *at == ref) continue;
    taken_from_path_.insert(at, ref);
    pool_.Pin(ref);
  }
}

void Iteration::ForgetPath() {
  for (const EntryRef ref : taken_from_path_) pool_.UnpinOutside(ref);
  taken_from_path_.clear();
}

}  // namespace wheelcache::internal
