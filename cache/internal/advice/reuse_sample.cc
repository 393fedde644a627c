#include "wheelcache/cache/internal/advice/reuse_sample.h"

#include <algorithm>
#include <limits>

#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr std::array<double, ReuseSample::kSizes> kFactors = {0.5, 1, 2, 4};

// What the sample keeps, in multiples of the limits: a little more than the
// largest size needs, and after it had to forget some, a little less of that.
constexpr double kMostKept = 4.5;
constexpr double kLeastKept = 4.2;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// A cache of so many keys that nothing is ever evicted.
double Scaled(int64_t limit, double by) {
  return limit == kUnlimited ? std::numeric_limits<double>::infinity()
                             : static_cast<double>(limit) * by;
}

}  // namespace

ReuseSample::ReuseSample(Limits limits, int64_t now_nanos)
    : limits_(limits), begin_nanos_(static_cast<uint64_t>(now_nanos)) {
  Restart();
}

void ReuseSample::Restart() {
  keys_ = 0;
  hand_ = 1;
  ranks_.Clear();
  buckets_.fill(0);
  slots_.fill({});
  free_ = 0;
  for (uint32_t slot = kMostKeys; slot > 0; --slot) {
    slots_[slot].SetNext(free_);
    free_ = slot;
  }
  SetThreshold(ThresholdFor(limits_));
}

uint64_t ReuseSample::ThresholdFor(const Limits& limits) {
  const double most = Scaled(limits.entries, kMostKept);
  if (most <= kMostKeys || limits.entries == kUnlimited) {
    return static_cast<uint64_t>(kAllHashes);
  }
  return static_cast<uint64_t>(kAllHashes * (kMostKeys / most)) + 1;
}

void ReuseSample::SetThreshold(uint64_t threshold) {
  threshold_ = threshold;
  weight_ = 1 / rate();
  for (size_t i = 0; i < kSizes; ++i) {
    entries_[i] = Scaled(limits_.entries, kFactors[i] * rate());
    bytes_[i] = Scaled(limits_.bytes, kFactors[i] * rate());
  }
}

void ReuseSample::SetLimits(Limits limits) {
  // By bytes alone, nobody knows how many keys there will be.
  const bool far_fewer = limits.entries == kUnlimited
                             ? limits.bytes < limits_.bytes / 2 && rate() < 1
                             : ThresholdFor(limits) / 2 > threshold_;
  FollowLimits(limits);
  if (far_fewer) Restart();
}

void ReuseSample::FollowLimits(Limits limits) {
  limits_ = limits;
  SetThreshold(threshold_);
}

auto ReuseSample::TickOf(int64_t nanos) const -> Tick {
  if (nanos == Clock::kNever) return kNever;
  if (nanos < static_cast<int64_t>(begin_nanos_)) return 1;
  const uint64_t ticks = (static_cast<uint64_t>(nanos) - begin_nanos_) >> 24;
  return static_cast<Tick>(std::min<uint64_t>(ticks + 1, kNever - 1));
}

uint32_t ReuseSample::Find(uint32_t hash) const {
  uint32_t slot = buckets_[hash % kBuckets];
  while (slot != 0 && slots_[slot].hash != hash) slot = slots_[slot].next;
  return slot;
}

// Returns a new slot for the key, or 0 if it is not sampled any more.
uint32_t ReuseSample::Add(uint32_t hash) {
  while (!HasRoom()) {
    MakeRoom();
    if (hash >= threshold_) return 0;
  }
  const uint32_t slot = free_;
  Key& key = slots_[slot];
  free_ = key.next;
  key = {};
  key.hash = hash;
  key.place = kNone;
  key.used = 1;
  key.SetNext(BucketOf(hash));
  BucketOf(hash) = static_cast<uint16_t>(slot);
  ++keys_;
  return slot;
}

void ReuseSample::Forget(uint32_t slot) {
  Remove(slot);
  Key& key = slots_[slot];
  uint16_t& bucket = BucketOf(key.hash);
  if (bucket == slot) {
    bucket = key.next;
  } else {
    uint32_t before = bucket;
    while (slots_[before].next != slot) before = slots_[before].next;
    slots_[before].next = key.next;
  }
  key.used = 0;
  key.SetNext(free_);
  free_ = slot;
  --keys_;
}

void ReuseSample::Remove(uint32_t slot) {
  Key& key = slots_[slot];
  if (key.place == kNone) return;
  ranks_.Remove(key.place, key.charge);
  key.place = kNone;
}

void ReuseSample::PutInFront(uint32_t slot) {
  Remove(slot);
  if (ranks_.full()) {
    ranks_.Pack(
        [this](uint32_t moved, uint32_t place) {
          slots_[moved].place = static_cast<uint16_t>(place);
        },
        [this](uint32_t of) { return WeightOf(of); });
  }
  Key& key = slots_[slot];
  key.place = static_cast<uint16_t>(ranks_.Push(slot, key.charge));
  key.surplus = static_cast<float>(Surplus());
}

void ReuseSample::MakeRoom() {
  constexpr uint32_t kFew = kMostKeys / 16;
  // What was removed still tells why a read missed. It may have half of the
  // slots.
  if (keys_ - ranks_.size() > kMostKeys / 2 && ForgetRemoved() > 0) return;
  if (ForgetOldest() >= kFew) return;
  LowerThreshold();
}

uint32_t ReuseSample::ForgetRemoved() {
  uint32_t forgotten = 0;
  for (uint32_t slot = 1; slot <= kMostKeys; ++slot) {
    if (slots_[slot].used == 0 || slots_[slot].place != kNone) continue;
    Forget(slot);
    ++forgotten;
  }
  return forgotten;
}

// Forgets what the largest size would have evicted.
uint32_t ReuseSample::ForgetOldest() {
  const double entries = Scaled(limits_.entries, kLeastKept * rate());
  const double bytes = Scaled(limits_.bytes, kLeastKept * rate());
  uint32_t forgotten = 0;
  while (!ranks_.empty() && (ranks_.size() > entries ||
                             static_cast<double>(ranks_.weight()) > bytes)) {
    Forget(ranks_.Oldest());
    ++forgotten;
  }
  return forgotten;
}

void ReuseSample::LowerThreshold() {
  SetThreshold(threshold_ - std::max<uint64_t>(threshold_ / 8, 1));
  for (uint32_t slot = 1; slot <= kMostKeys; ++slot) {
    if (slots_[slot].used != 0 && slots_[slot].hash >= threshold_) Forget(slot);
  }
}

// Looks at a few keys in each call, so that what has expired at each size does
// not count as used later than others for long.
void ReuseSample::RemoveExpired(Tick now) {
  constexpr int kLooks = 4;
  for (int i = 0; i < kLooks; ++i) {
    const Key& key = slots_[hand_];
    if (key.place != kNone && key.used != 0 &&
        *std::max_element(key.deadlines.begin(), key.deadlines.end()) <= now) {
      Remove(hand_);
    }
    hand_ = hand_ == kMostKeys ? 1 : hand_ + 1;
  }
}

// From above 0 to 1: where between two sampled keys the access lies. Evenly
// spread over any few calls (a golden ratio sequence). 1 where all are sampled.
double ReuseSample::NextFraction() {
  if (weight_ == 1) return 1;
  fraction_ += 0.61803398874989485;
  if (fraction_ > 1) fraction_ -= 1;
  return fraction_;
}

bool ReuseSample::AllHold(const Key& key, double above, Tick now) const {
  for (const Tick deadline : key.deadlines) {
    if (deadline <= now) return false;
  }
  return limits_.bytes == kUnlimited && above + 1 <= entries_[kHalf];
}

std::array<bool, ReuseSample::kSizes> ReuseSample::Holders(const Key& key,
                                                           double above,
                                                           Tick now) {
  const double fraction = NextFraction();
  const double entries = above + fraction;
  double bytes = 0;
  if (limits_.bytes != kUnlimited) {
    const uint64_t weight = ranks_.WeightAbove(
        key.place, [this](uint32_t slot) { return WeightOf(slot); });
    bytes = static_cast<double>(weight) + key.charge * fraction;
  }
  std::array<bool, kSizes> holders;
  for (size_t i = 0; i < kSizes; ++i) {
    holders[i] =
        key.deadlines[i] > now && entries <= entries_[i] && bytes <= bytes_[i];
  }
  return holders;
}

void ReuseSample::RecordMiss(Key* key, Tick now) {
  Cause cause = key->deadlines[kSame] > now ? kEvicted : kExpired;
  if (key->deleted != 0) cause = kDeleted;
  misses_[cause].Add(weight_);
  key->awaits_load = 1;
}

void ReuseSample::Read(uint32_t hash, bool hit, int64_t now_nanos) {
  if (hash >= threshold_) return;
  const Tick now = TickOf(now_nanos);
  if (!hit) sampled_misses_.Add(weight_);
  const uint32_t slot = Find(hash);
  if (slot == 0) {
    if (!hit) misses_[kFirstUse].Add(weight_);
    return;
  }
  Key& key = slots_[slot];
  if (!hit) RecordMiss(&key, now);
  // No size holds it.
  if (key.place == kNone) return;
  const double above = ranks_.CountAbove(key.place) + MissedSince(key);
  if (!hit || !AllHold(key, above, now)) {
    const std::array<bool, kSizes> holders = Holders(key, above, now);
    for (const Size size : {kHalf, kTwice, kFourTimes}) {
      more_hits_[size].Add(weight_ * (holders[size] - hit));
      if (holders[size]) continue;
      // With these limits it would have been loaded now; or is not there, until
      // it is stored.
      const uint64_t deadline = uint64_t{now} + key.ttl;
      key.deadlines[size] =
          hit ? static_cast<Tick>(std::min<uint64_t>(deadline, kNever)) : 0;
    }
  }
  PutInFront(slot);
}

void ReuseSample::Refuse(uint32_t hash) {
  if (hash < threshold_) sampled_misses_.Add(weight_);
}

void ReuseSample::Renew(Key* key, Tick deadline, Tick now) {
  key->ttl = deadline == kNever ? kNever : deadline - std::min(deadline, now);
  for (size_t i = 0; i < kSizes; ++i) {
    // Where the read before this did not miss, there was no load.
    const bool kept =
        key->awaits_load != 0 && i != kSame && key->deadlines[i] > now;
    if (!kept) key->deadlines[i] = deadline;
  }
}

void ReuseSample::Store(uint32_t hash, const SampledEntry& stored,
                        int64_t now_nanos) {
  if (hash >= threshold_) return;
  const Tick now = TickOf(now_nanos);
  if (!stored.replaces) sampled_insertions_ += weight_;
  RemoveExpired(now);
  uint32_t slot = Find(hash);
  if (slot == 0) slot = Add(hash);
  if (slot == 0) return;
  Remove(slot);
  Key& key = slots_[slot];
  Renew(&key, TickOf(stored.deadline_nanos), now);
  key.charge = stored.charge;
  key.awaits_load = 0;
  key.deleted = 0;
  PutInFront(slot);
}

void ReuseSample::Touch(uint32_t hash, int64_t deadline_nanos,
                        int64_t now_nanos) {
  const uint32_t slot = Find(hash);
  if (slot == 0 || slots_[slot].place == kNone) return;
  const Tick now = TickOf(now_nanos);
  Key& key = slots_[slot];
  key.awaits_load = 0;
  Renew(&key, TickOf(deadline_nanos), now);
  PutInFront(slot);
}

void ReuseSample::Expire(uint32_t hash) {
  if (hash < threshold_) sampled_insertions_ -= weight_;
}

void ReuseSample::Delete(uint32_t hash) {
  Expire(hash);
  const uint32_t slot = Find(hash);
  if (slot == 0) return;
  Remove(slot);
  slots_[slot].deadlines = {};
  slots_[slot].deleted = 1;
}

void ReuseSample::DeleteAll() {
  ranks_.Clear();
  for (Key& key : slots_) {
    if (key.used == 0) continue;
    key.place = kNone;
    key.deadlines = {};
    key.deleted = 1;
  }
}

}  // namespace wheelcache::internal
