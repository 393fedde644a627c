// What the local tier knows of the fetch of an entry: in which session it was
// made, or, if there was none, when it began. One word, of which bit 0 is free
// for the entry's own use.
//
// An entry of a session is as good as the lease of that. Of one without a
// session, the time of the fetch decides whether it may be served, if at all.
//
// Threads. A value.

#ifndef WHEELCACHE_CACHE_NEAR_FETCH_STAMP_H_
#define WHEELCACHE_CACHE_NEAR_FETCH_STAMP_H_

#include <cstdint>

namespace wheelcache::internal {

class FetchStamp {
 public:
  // Of a session, below 2^62; or if that is 0, of a reading of the clock before
  // the fetch.
  static FetchStamp Of(uint64_t session, int64_t begin_nanos) {
    return session != 0 ? FetchStamp(session << kShift)
                        : FetchStamp(Shifted(begin_nanos) | kHasTime);
  }

  // The session; 0 for none.
  uint64_t session() const {
    return (bits_ & kHasTime) != 0 ? 0 : bits_ >> kShift;
  }

  // Whether there was no session, and the fetch began less than `bound_nanos`
  // before this reading, or after it. Times are compared modulo 2^62 ns, which
  // is 146 years.
  bool BeganWithin(int64_t bound_nanos, int64_t nanos) const {
    return (bits_ & kHasTime) != 0 &&
           static_cast<int64_t>((bits_ & ~kHasTime) - Shifted(nanos) +
                                Shifted(bound_nanos)) > 0;
  }

  uint64_t bits() const { return bits_; }
  static FetchStamp FromBits(uint64_t bits) { return FetchStamp(bits & ~1ULL); }

 private:
  static constexpr int kShift = 2;
  static constexpr uint64_t kHasTime = 2;

  explicit FetchStamp(uint64_t bits) : bits_(bits) {}

  static uint64_t Shifted(int64_t nanos) {
    return static_cast<uint64_t>(nanos) << kShift;
  }

  uint64_t bits_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_FETCH_STAMP_H_
