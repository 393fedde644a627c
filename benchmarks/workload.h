// What the benchmarks ask of a cache: which keys, in which order, and when to
// write.
//
//   const AccessOptions options = {/*keys=*/kCapacity, /*skew=*/kZipfSkew};
//   AccessCursor cursor(AccessesOf(options), thread, threads);
//   const Access& access = cursor.Next();
//   cache.Find(access.key.view());
//
// Everything is made before the clock starts and is the same in each run and
// for each subject. Accesses hold the bytes of their keys, one after the other,
// and not references to them: a service's key, too, has come with the request,
// and lies in the CPU's cache while the entry does not. There are so many
// that in no measurement the sequence repeats, only the popularity.
//
// Threads. AccessesOf is for one thread at a time; each thread has a cursor of
// its own.

#ifndef WHEELCACHE_BENCHMARKS_WORKLOAD_H_
#define WHEELCACHE_BENCHMARKS_WORKLOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/string_view.h"

namespace wheelcache::benchmarks {

// Builds for debugging measure nothing: there it is enough that programs run.
#ifdef NDEBUG
inline constexpr bool kMeasures = true;
#else
inline constexpr bool kMeasures = false;
#endif

// The entries that the caches under test may hold.
inline constexpr int64_t kCapacity = kMeasures ? 1'000'000 : 10'000;

// The skew of the published traces of web caches.
inline constexpr double kZipfSkew = 0.99;

// A key as a service might form it: a name and 16 hexadecimal digits.
struct Key {
  static constexpr size_t kBytes = 21;

  absl::string_view view() const { return {bytes.data(), kBytes}; }

  std::array<char, kBytes> bytes;
};

// The key of a number. Different numbers have different keys.
Key MakeKey(uint64_t number);

// One of a few values of 64 bytes that stay in the CPU's cache.
absl::string_view ValueFor(uint64_t number);

// Reads all of a value, as a user of it would.
inline uint64_t ReadAll(absl::string_view value) {
  uint64_t sum = 0;
  for (size_t i = 0; i + sizeof(sum) <= value.size(); i += sizeof(sum)) {
    uint64_t word;
    std::memcpy(&word, value.data() + i, sizeof(word));
    sum += word;
  }
  return sum;
}

// A read or a write of a key; 22 bytes.
struct Access {
  Key key;
  bool write;
};

// What distribution the accesses have.
struct AccessOptions {
  int64_t keys = kCapacity;  // Numbered from 0.
  double skew = 0;           // Of a Zipf distribution; 0 is uniform.
  double writes = 0;         // Their fraction.
};

inline constexpr size_t kAccessCount = size_t{1} << (kMeasures ? 24 : 18);

// Returns kAccessCount of them, which stay until others are asked for.
const std::vector<Access>& AccessesOf(const AccessOptions& options);

// Returns the numbers of the `count` keys that were last used after accesses of
// this kind without end, the last one first: what an LRU cache would hold.
std::vector<int64_t> LastUsed(const AccessOptions& options, int64_t count);

// Walks over one thread's part of the accesses, and over it again.
class AccessCursor {
 public:
  AccessCursor(const std::vector<Access>& accesses, int thread, int threads)
      : begin_(&accesses[accesses.size() / threads * thread]),
        end_(begin_ + accesses.size() / threads),
        next_(begin_) {}

  const Access& Next() {
    if (next_ == end_) next_ = begin_;
    return *next_++;
  }

 private:
  const Access* begin_;
  const Access* end_;
  // The cursors of two threads may be neighbours, and move on all the time.
  alignas(64) const Access* next_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_WORKLOAD_H_
