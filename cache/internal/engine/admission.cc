#include "wheelcache/cache/internal/engine/admission.h"

namespace wheelcache::internal {

Admission::Admission(AdmissionMemory memory, Room share, WindowTarget* target)
    : most_entries_(memory.entries),
      most_ghosts_(AdmissionMemory::MostGhosts(memory.shards)),
      target_(*target),
      sketch_(reinterpret_cast<FrequencySketch::Block*>(memory.begin),
              FrequencySketch::BlocksFor(memory.entries)),
      ghosts_(
          reinterpret_cast<GhostList::Bucket*>(
              memory.begin + AdmissionMemory::SketchBytes(memory.entries)),
          GhostList::BucketsFor(std::min(memory.entries / 4, most_ghosts_))) {
  SetShare(share);
}

void Admission::SetShare(Room share) {
  // As if the shard had its share, and that were all of the limit.
  const auto part = [](int64_t of_shard) {
    return PartOfOne(/*used=*/1, of_shard == kUnlimited ? kUnlimited : 1,
                     of_shard);
  };
  part_of_entry_ = part(share.entries);
  part_of_byte_ = part(share.bytes);
  noted_ = {};
  slack_ = 0;
}

// How far below its target the window competes if the bytes are limited.
double Admission::Slack() const {
  constexpr double kEntries = 8;  // Of the mean size.
  const Room all = total();
  if (all.entries == 0) return 0;
  return kEntries * PartOf(all) / static_cast<double>(all.entries);
}

// Makes the sketch and the ghosts as large as is worth it.
void Admission::Fit() {
  const auto entries = static_cast<uint64_t>(EntriesThatFit());
  sketch_.Fit(entries);
  const uint64_t keys = std::max<uint64_t>(entries / 4, 1);
  const uint64_t ghosts = std::min(keys, most_ghosts_);
  ghosts_.Fit(ghosts);
  keys_per_sample_ = static_cast<double>(keys) / static_cast<double>(ghosts);
  last_sampled_ = static_cast<Hash32>(0x1p32 / keys_per_sample_ - 1);
}

// The window was too small for a key that has left it and came back; too large,
// for one that has left the main list.
void Admission::TakeGhost(Hash32 hash) {
  const auto from_window =
      static_cast<double>(ghosts_.size(GhostList::kFirst) + 1);
  const auto from_main =
      static_cast<double>(ghosts_.size(GhostList::kSecond) + 1);
  const double steps = ghosts_.Take(hash) == GhostList::kFirst
                           ? std::max(1.0, from_main / from_window)
                           : -std::max(1.0, from_window / from_main);
  target_.Move(steps, keys_per_sample_, EntriesThatFit());
}

double Admission::EntriesThatFit() const {
  const Room all = total();
  const double part = PartOf(all);
  const auto most = static_cast<double>(most_entries_);
  if (part <= 0) return most;
  return std::clamp(static_cast<double>(all.entries) / part, 1.0, most);
}

// Whether what lives longer is worth more than what is used no less often.
bool Admission::IsWorthMore(uint32_t f, double life, uint32_t other_f,
                            double other_life) {
  if (f == other_f) return life > 2 * other_life;
  return f * life > other_f * other_life && life > 4 * other_life;
}

// One time in 128: by a linear congruential generator.
bool Admission::IsLucky() {
  random_ = random_ * 1664525 + 1013904223;
  return random_ >> 25 == 0;
}

}  // namespace wheelcache::internal
