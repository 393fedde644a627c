#include "wheelcache/cache/share/internal/choice.h"

#include <algorithm>
#include <cmath>

namespace wheelcache::internal {
namespace {

// A part of max_bytes, and of the bytes of whoever gives.
constexpr int64_t kStep = 64;
constexpr int64_t kGivenPart = 32;

constexpr double kLeastGain = 1.1;
constexpr double kStandardErrors = 3;

int64_t StepOf(int64_t max_bytes) {
  return std::max<int64_t>(max_bytes / kStep, 1);
}

// What a member may need for what it is given in the next step.
int64_t MarginOf(const Holding& member, int64_t step) {
  return std::max(member.bytes / kGivenPart, step);
}

// Twice the margin remains, so that what was given is not taken back at once.
int64_t SpareOf(const Holding& member, int64_t step) {
  return member.bytes - member.used - 2 * MarginOf(member, step);
}

bool IsFull(const Holding& member, int64_t step) {
  return member.bytes - member.used <= MarginOf(member, step);
}

// The full member that gains most.
const Holding* Taker(absl::Span<const Holding> members, int64_t step) {
  const Holding* taker = nullptr;
  for (const Holding& member : members) {
    if (member.gain <= 0 || !IsFull(member, step)) continue;
    if (taker == nullptr || member.gain > taker->gain) taker = &member;
  }
  return taker;
}

double LossOf(const Holding& member, int64_t step) {
  return SpareOf(member, step) > 0 ? 0 : member.loss;
}

// The one above its floor that loses least.
const Holding* Giver(absl::Span<const Holding> members, const Holding* taker,
                     int64_t step) {
  const Holding* giver = nullptr;
  for (const Holding& member : members) {
    if (&member == taker || member.bytes <= member.min_bytes) continue;
    if (giver == nullptr || LossOf(member, step) < LossOf(*giver, step)) {
      giver = &member;
    }
  }
  return giver;
}

}  // namespace

std::optional<Move> ChooseMove(absl::Span<const Holding> members, int64_t free,
                               int64_t max_bytes) {
  const int64_t step = StepOf(max_bytes);
  const Holding* const taker = Taker(members, step);
  if (taker == nullptr) return std::nullopt;
  Move move;
  move.to = static_cast<size_t>(taker - members.data());
  move.gain = taker->gain;
  if (free > 0) {
    move.bytes = std::min(free, step);
    return move;
  }
  const Holding* const giver = Giver(members, taker, step);
  if (giver == nullptr) return std::nullopt;
  move.from = static_cast<size_t>(giver - members.data());
  move.loss = LossOf(*giver, step);
  if (move.gain < move.loss * kLeastGain ||
      move.gain - move.loss <
          kStandardErrors * std::hypot(taker->error, giver->error)) {
    return std::nullopt;
  }
  // Along the curve, the slope is inverse to the bytes.
  const double equal =
      (move.gain - move.loss) / (move.gain / static_cast<double>(taker->bytes) +
                                 move.loss / static_cast<double>(giver->bytes));
  move.bytes = std::min({step, std::max<int64_t>(giver->bytes / kGivenPart, 1),
                         giver->bytes - giver->min_bytes,
                         static_cast<int64_t>(equal / 2)});
  if (const int64_t spare = SpareOf(*giver, step); spare > 0) {
    move.bytes = std::min(move.bytes, spare);
  }
  if (move.bytes < 1) return std::nullopt;
  return move;
}

std::vector<int64_t> SpreadLoss(absl::Span<const Holding> members,
                                int64_t most) {
  double all = 0;
  for (const Holding& member : members) {
    all += static_cast<double>(member.bytes - member.min_bytes);
  }
  std::vector<int64_t> given(members.size());
  int64_t left = most;
  for (size_t i = 0; i < members.size(); ++i) {
    const int64_t can = members[i].bytes - members[i].min_bytes;
    const double part = all > 0 ? static_cast<double>(can) / all : 0;
    const double gives = static_cast<double>(most) * part;
    // As a double, the largest number of bytes is one too many.
    const bool gives_all = gives >= static_cast<double>(can);
    given[i] = std::min(left, gives_all ? can : static_cast<int64_t>(gives));
    left -= given[i];
  }
  // What rounding has left.
  for (size_t i = 0; i < members.size() && left > 0; ++i) {
    const int64_t more =
        std::min(left, members[i].bytes - members[i].min_bytes - given[i]);
    given[i] += more;
    left -= more;
  }
  return given;
}

}  // namespace wheelcache::internal
