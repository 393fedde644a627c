// Samples numbers by a Zipf distribution: the k-th most popular of n has a
// probability in proportion to k to the power of -skew.
//
//   ZipfSampler sampler(1'000'000, 0.99);
//   std::mt19937_64 random(1);
//   int64_t number = sampler.Sample(random());
//
// Which numbers are the popular ones is drawn at random, once and for all, so
// that popularity tells nothing of the order in which keys were stored.
//
// Cost. A sample is O(1), by the alias method (Walker 1977, as Vose builds it):
// exact but for the 32 bits of a probability. The table takes 8 bytes a number.
//
// Threads. Sample may be called by any number of threads.

#ifndef WHEELCACHE_BENCHMARKS_ZIPF_H_
#define WHEELCACHE_BENCHMARKS_ZIPF_H_

#include <cstdint>
#include <vector>

namespace wheelcache::benchmarks {

class ZipfSampler {
 public:
  // Of the numbers below `size`. A skew of 0 is the uniform distribution.
  ZipfSampler(int64_t size, double skew);

  // Turns 64 random bits into a number.
  int64_t Sample(uint64_t bits) const {
    const uint64_t drawn = ((bits >> 32) * columns_.size()) >> 32;
    const Column& column = columns_[drawn];
    const uint64_t number =
        static_cast<uint32_t>(bits) <= column.keep_up_to ? drawn : column.alias;
    return static_cast<int64_t>(number);
  }

  int64_t size() const { return static_cast<int64_t>(columns_.size()); }
  double skew() const { return skew_; }

 private:
  // Column i is drawn as often as any other. It stands for the number i, and
  // for that part of it which i is too rare to fill, for another one.
  struct Column {
    uint32_t keep_up_to;
    uint32_t alias;
  };

  std::vector<Column> columns_;
  double skew_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_ZIPF_H_
