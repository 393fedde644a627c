#include "wheelcache/cache/internal/engine/admission.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/lru/frequency_sketch.h"
#include "wheelcache/lru/ghost_list.h"

namespace wheelcache::internal {
namespace {

// Of the window, as a part of the shard.
constexpr double kMostTarget = 0.99;

// The most that one key which comes back may change that.
constexpr double kMostStep = 0.02;

// The part of what fits that one entry or byte is, where `count` of them are so
// much of it; 0 if there is no limit.
double PartOfOne(double part, int64_t count, int64_t limit) {
  if (limit == kUnlimited) return 0;
  return part / static_cast<double>(std::max<int64_t>(count, 1));
}

}  // namespace

Admission::Admission(AdmissionMemory memory, Room share)
    : most_entries_(memory.entries),
      sketch_(reinterpret_cast<FrequencySketch::Block*>(memory.begin),
              FrequencySketch::BlocksFor(memory.entries)),
      ghosts_(reinterpret_cast<GhostList::Bucket*>(
                  memory.begin + AdmissionMemory::SketchBytes(memory.entries)),
              GhostList::BucketsFor(memory.entries / 4)) {
  SetShare(share);
}

void Admission::SetShare(Room share) {
  part_of_entry_ = PartOfOne(1, share.entries, share.entries);
  part_of_byte_ = PartOfOne(1, share.bytes, share.bytes);
  slack_ = 0;
}

void Admission::NoteFull(Room used, Room limit) {
  Room all = sizes_[kWindow];
  all += sizes_[kMain];
  const auto of_cache = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  part_of_entry_ = PartOfOne(of_cache(used.entries, limit.entries), all.entries,
                             limit.entries);
  part_of_byte_ =
      PartOfOne(of_cache(used.bytes, limit.bytes), all.bytes, limit.bytes);
  // In entries of the mean size.
  constexpr double kSlack = 8;
  slack_ = limit.bytes == kUnlimited || all.entries == 0
               ? 0
               : kSlack * PartOf(all) / static_cast<double>(all.entries);
}

void Admission::NoteSet(Hash32 hash) {
  constexpr uint32_t kSetsBetweenFits = 64;
  if (sets_++ % kSetsBetweenFits == 0) {
    const auto entries = static_cast<uint64_t>(EntriesThatFit());
    sketch_.Fit(entries);
    ghosts_.Fit(entries / 4);
  }
  const auto from_window =
      static_cast<double>(ghosts_.size(GhostList::kFirst) + 1);
  const auto from_main =
      static_cast<double>(ghosts_.size(GhostList::kSecond) + 1);
  switch (ghosts_.Take(hash)) {
    case GhostList::kFirst:
      MoveTarget(std::max(1.0, from_main / from_window));
      break;
    case GhostList::kSecond:
      MoveTarget(-std::max(1.0, from_window / from_main));
      break;
    case GhostList::kNone:
      break;
  }
  sketch_.Increment(hash);
}

// By so many entries.
void Admission::MoveTarget(double steps) {
  const double entries = EntriesThatFit();
  const double most = kMostStep + 1 / entries;
  target_ = std::clamp(target_ + std::clamp(steps / entries, -most, most),
                       kLeastTarget, kMostTarget);
}

double Admission::EntriesThatFit() const {
  Room all = sizes_[kWindow];
  all += sizes_[kMain];
  const double part = PartOf(all);
  const auto most = static_cast<double>(most_entries_);
  if (part <= 0) return most;
  return std::clamp(static_cast<double>(all.entries) / part, 1.0, most);
}

bool Admission::Wins(Candidate window, Candidate main) {
  const uint32_t f = sketch_.Frequency(window.hash);
  const uint32_t g = sketch_.Frequency(main.hash);
  if (f > g) return true;
  // What lives longer is worth more.
  const double life = window.life_left;
  if (f == g && life > 2 * main.life_left) return true;
  if (f * life > g * main.life_left && life > 4 * main.life_left) return true;
  // Keys whose hashes collide could hold the main list for ever.
  constexpr uint32_t kSuspicious = 6;
  return f >= kSuspicious && IsLucky();
}

// One time in 128: by a linear congruential generator.
bool Admission::IsLucky() {
  random_ = random_ * 1664525 + 1013904223;
  return random_ >> 25 == 0;
}

}  // namespace wheelcache::internal
