#include "wheelcache/cache/internal/engine/refresh_board.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wheelcache/cache/internal/index/hash32.h"

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
  return std::min(static_cast<uint64_t>(millis + kStart), kRunning - 1);
}

}  // namespace

auto RefreshBoard::TryClaim(Hash32 hash, int64_t now_nanos, int64_t retry_nanos)
    -> Claim {
  const uint64_t tag = TagOf(hash);
  const uint64_t now = TimeOf(now_nanos, /*up=*/false);
  Line& line = lines_[hash % kLines];
  if (running_.fetch_add(1, std::memory_order_relaxed) < max_refreshes_) {
    std::atomic<uint64_t>* free = nullptr;
    uint64_t seen = 0;
    for (std::atomic<uint64_t>& word : line.words) {
      const uint64_t other = word.load(std::memory_order_relaxed);
      const bool taken = (other & kTimeMask) > now;
      if ((other & ~kTimeMask) == tag) {
        free = taken ? nullptr : &word;
        seen = other;
        break;
      }
      if (!taken && free == nullptr) {
        free = &word;
        seen = other;
      }
    }
    // Whoever changed it meanwhile may be refreshing this key.
    if (free != nullptr &&
        free->compare_exchange_strong(seen, tag | kRunning,
                                      std::memory_order_relaxed)) {
      return Claim(this, free, tag | kRunning, retry_nanos);
    }
  }
  running_.fetch_sub(1, std::memory_order_relaxed);
  return Claim();
}

void RefreshBoard::Claim::RetryAt(int64_t nanos) {
  End((claimed_ & ~kTimeMask) | TimeOf(nanos, /*up=*/true));
}

void RefreshBoard::Claim::End(uint64_t replacement) {
  // Not in the child of a fork() that has ended the claim.
  if (word_->compare_exchange_strong(claimed_, replacement,
                                     std::memory_order_relaxed)) {
    board_->running_.fetch_sub(1, std::memory_order_relaxed);
  }
  word_ = nullptr;
}

void RefreshBoard::ResetAfterFork() {
  for (Line& line : lines_) {
    for (std::atomic<uint64_t>& word : line.words) {
      if ((word.load(std::memory_order_relaxed) & kTimeMask) == kRunning) {
        word.store(0, std::memory_order_relaxed);
      }
    }
  }
  running_.store(0, std::memory_order_relaxed);
}

}  // namespace wheelcache::internal
