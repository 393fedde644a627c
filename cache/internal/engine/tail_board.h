// How old the tail of each shard of a cache is, so that a shard which has to
// evict can leave that to one with an older tail.
//
// Time is a count of Sets. A shard tells of its own, many at a time, but fewer
// than a generation has: shards end their generations at about the same time,
// and those that end first would look older. A tail is as old as the end of the
// generation in which it was last used. With two lists, a tail stands for how
// much its shard holds.
//
// Threads. Thread-safe. All relaxed: what is read decides which shard evicts,
// never what is there.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TAIL_BOARD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TAIL_BOARD_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"

namespace wheelcache::internal {

class TailBoard {
 public:
  // A count of appends. It wraps around, and is compared by differences.
  using Time = uint32_t;

  static bool IsOlderBy(Time a, Time b, int64_t appends) {
    return static_cast<int32_t>(b - a) > appends;
  }

  explicit TailBoard(int shards) : tails_(static_cast<size_t>(shards)) {}

  int shards() const { return static_cast<int>(tails_.size()); }

  Time Now() const { return now_.load(std::memory_order_relaxed); }
  // Returns the time after so many more appends.
  Time Pass(uint32_t appends) {
    return now_.fetch_add(appends, std::memory_order_relaxed) + appends;
  }

  // That of the tail of a shard as its last search for a victim left it; Now()
  // of that time if it was empty. As exact as ShardTail::Publish was asked for.
  Time Get(int shard) const {
    return tails_[static_cast<size_t>(shard)].load(std::memory_order_relaxed);
  }
  void Set(int shard, Time tail) {
    tails_[static_cast<size_t>(shard)].store(tail, std::memory_order_relaxed);
  }

 private:
  alignas(ABSL_CACHELINE_SIZE) std::atomic<Time> now_{0};
  alignas(ABSL_CACHELINE_SIZE) std::vector<std::atomic<Time>> tails_;
};

// What one shard tells the others, and asks of them.
//
// Threads. Thread-compatible: belongs to the lock of the shard.
class ShardTail {
 public:
  using Time = TailBoard::Time;

  ShardTail(TailBoard* board, int shard) : board_(*board), shard_(shard) {}

  ShardTail(const ShardTail&) = delete;
  ShardTail& operator=(const ShardTail&) = delete;

  // How many appends this shard tells of at a time, so that not each takes the
  // cache line of the time away from other shards: a quarter of a generation,
  // or more of a small one.
  uint32_t many() const { return many_; }

  int shards() const { return board_.shards(); }

  // The time, which other shards change; and what it was when this shard had to
  // do with it last.
  Time Now() { return last_now_ = board_.Now(); }
  Time LastNow() const { return last_now_; }

  // One more append has passed, in a shard of so many entries.
  void PassOne(uint64_t entries) {
    if (++untold_ < many_) return;
    last_now_ = board_.Pass(std::exchange(untold_, 0));
    many_ = static_cast<uint32_t>(
        std::clamp<uint64_t>(entries / 64, kLeast, kMost));
  }

  // Lets the others know the tail, unless what they know differs from it by no
  // more than `slack`.
  void Publish(Time tail, uint32_t slack) {
    // One comparison for both ways: without a sign, the differences from -slack
    // to slack become 0 to 2 * slack.
    if (tail - published_ + slack > 2 * slack) {
      published_ = tail;
      board_.Set(shard_, tail);
    }
  }

  // Whether another shard has a tail that is older by more than so many
  // appends. Looks at one, the next in turn each time.
  bool PeerIsOlder(Time tail, uint32_t appends) {
    if (board_.shards() == 1) return false;
    do {
      next_peer_ = (next_peer_ + 1) & (board_.shards() - 1);
    } while (next_peer_ == shard_);
    return TailBoard::IsOlderBy(board_.Get(next_peer_), tail, appends);
  }

 private:
  static constexpr uint32_t kLeast = 64;
  static constexpr uint32_t kMost = 1024;

  TailBoard& board_;
  const int shard_;
  int next_peer_ = 0;
  uint32_t untold_ = 0;
  uint32_t many_ = kLeast;
  Time last_now_ = 0;
  Time published_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TAIL_BOARD_H_
