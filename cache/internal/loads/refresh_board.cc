#include "wheelcache/cache/internal/loads/refresh_board.h"

#include <algorithm>

namespace wheelcache::internal {
namespace {

// A word: 20 bits of the hash, and a time in milliseconds.
constexpr int kTimeBits = 44;
constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;
// The time of a refresh that runs.
constexpr uint64_t kRunning = kTimeMask;

uint64_t TagOf(Hash32 hash) { return uint64_t{hash >> 12} << kTimeBits; }

// Whole milliseconds from long before any clock's start; rounded down, or up by
// one for a time that must not come too early.
uint64_t TimeOf(int64_t nanos, bool up) {
  constexpr int64_t kNanosPerMilli = 1'000'000;
  constexpr int64_t kStart = int64_t{1} << (kTimeBits - 1);
  const int64_t part = nanos % kNanosPerMilli;
  const int64_t millis =
      nanos / kNanosPerMilli - (part < 0) + (up && part != 0);
  return static_cast<uint64_t>(std::clamp<int64_t>(
      millis + kStart, 0, static_cast<int64_t>(kRunning) - 1));
}

}  // namespace

RefreshBoard::Place RefreshBoard::FindPlace(Hash32 hash, uint64_t now,
                                            Patience patience) {
  const uint64_t tag = TagOf(hash);
  Place place;
  Place spare;  // Of another key, whose failure is forgotten for this one.
  for (std::atomic<uint64_t>& word : lines_[hash % kLines].words) {
    const uint64_t seen = word.load(std::memory_order_relaxed);
    const uint64_t until = seen & kTimeMask;
    // An empty word belongs to no key, also not to the one whose tag is zero.
    if (seen != 0 && (seen & ~kTimeMask) == tag) {
      const bool taken =
          patience == Patience::kWaits ? until > now : until == kRunning;
      return taken ? Place() : Place{&word, seen};
    }
    if (until <= now && place.word == nullptr) place = {&word, seen};
    if (until != kRunning) spare = {&word, seen};
  }
  const bool takes_spare =
      place.word == nullptr && patience == Patience::kWaitsNot;
  return takes_spare ? spare : place;
}

auto RefreshBoard::TryClaim(Hash32 hash, int64_t now_nanos, int64_t retry_nanos,
                            Patience patience) -> Claim {
  Place place = FindPlace(hash, TimeOf(now_nanos, /*up=*/false), patience);
  // Most callers find their key taken, and have written nothing so far.
  if (place.word == nullptr) return Claim();
  if (running_.fetch_add(1, std::memory_order_relaxed) < max_refreshes_) {
    const uint64_t claimed = TagOf(hash) | kRunning;
    // Whoever changed it meanwhile may be refreshing this key.
    if (place.word->compare_exchange_strong(place.seen, claimed,
                                            std::memory_order_relaxed)) {
      return Claim(this, place.word, claimed, retry_nanos);
    }
  }
  running_.fetch_sub(1, std::memory_order_relaxed);
  return Claim();
}

void RefreshBoard::Claim::RetryAt(int64_t nanos) {
  End((claimed_ & ~kTimeMask) | TimeOf(nanos, /*up=*/true));
}

void RefreshBoard::Claim::End(uint64_t replacement) {
  word_->store(replacement, std::memory_order_relaxed);
  board_->running_.fetch_sub(1, std::memory_order_relaxed);
  word_ = nullptr;
}

}  // namespace wheelcache::internal
