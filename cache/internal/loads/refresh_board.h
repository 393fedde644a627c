// Who refreshes which key, and which failed refresh is not to be tried again
// yet; so that of all readers of a stale value one refreshes it, and the others
// see that without a lock.
//
//   auto claim = board.TryClaim(hash, now_nanos, now_nanos + retry_nanos);
//   if (claim && Refresh()) claim.Release();
//
// A board of fixed size: an array of words, eight to a cache line, of which a
// key may use those of one line. A word has a part of the key's hash and the
// time until which the key is taken. Where a line is full, its keys are not
// refreshed for a while. That bounds what a source which fails is asked.
//
// Two keys with the same part of the hash share a claim: one is refreshed when
// the other is done. That happens to one pair of keys in half a billion.
//
// Threads. Thread-safe and lock-free.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_REFRESH_BOARD_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_REFRESH_BOARD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT RefreshBoard {
 public:
  // For at most so many refreshes at a time.
  explicit RefreshBoard(int max_refreshes) : max_refreshes_(max_refreshes) {}
  RefreshBoard(const RefreshBoard&) = delete;
  RefreshBoard& operator=(const RefreshBoard&) = delete;

  // A key that nobody else may refresh meanwhile; or none, which is false. A
  // claim that is dropped lets the key be refreshed from its retry time on.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept
        : board_(other.board_),
          word_(std::exchange(other.word_, nullptr)),
          claimed_(other.claimed_),
          retry_nanos_(other.retry_nanos_) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (word_ != nullptr) RetryAt(retry_nanos_);
    }

    explicit operator bool() const { return word_ != nullptr; }

    // The key may be refreshed again: now, or from another time on.
    // REQUIRES: true.
    void Release() { End(0); }
    void RetryAt(int64_t nanos);

   private:
    friend class RefreshBoard;
    using Word = std::atomic<uint64_t>;

    Claim(RefreshBoard* board, Word* word, uint64_t claimed,
          int64_t retry_nanos)
        : board_(board),
          word_(word),
          claimed_(claimed),
          retry_nanos_(retry_nanos) {}
    void End(uint64_t replacement);

    RefreshBoard* board_ = nullptr;
    Word* word_ = nullptr;
    uint64_t claimed_ = 0;
    int64_t retry_nanos_ = 0;
  };

  // Whether a key whose refresh has failed is left alone until its retry time.
  enum class Patience { kWaits, kWaitsNot };

  // Returns a claim, if nobody else has one for the key, if none of those that
  // have ended asks to wait, and if not too many refreshes run.
  Claim TryClaim(Hash32 hash, int64_t now_nanos, int64_t retry_nanos,
                 Patience patience = Patience::kWaits);

 private:
  static constexpr size_t kWays = ABSL_CACHELINE_SIZE / sizeof(uint64_t);
  static constexpr size_t kLines = 512;
  struct alignas(ABSL_CACHELINE_SIZE) Line {
    std::array<std::atomic<uint64_t>, kWays> words = {};
  };

  // A word that the key may take, and what was read there. The word is null if
  // there is none.
  struct Place {
    std::atomic<uint64_t>* word = nullptr;
    uint64_t seen = 0;
  };
  Place FindPlace(Hash32 hash, uint64_t now, Patience patience);

  const int max_refreshes_;
  // Relaxed, as the words: what a refresh does is ordered by the lock of the
  // shard.
  std::atomic<int> running_{0};
  std::array<Line, kLines> lines_ = {};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_REFRESH_BOARD_H_
