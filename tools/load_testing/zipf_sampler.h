// Zipf sampler: draws numbers from 0 to below n, where the k-th most popular
// has a probability in proportion to k to the power of -skew.
//
//   ZipfSampler sampler(1'000'000, 0.99);
//   std::mt19937_64 random(1);
//   int64_t number = sampler.Sample(random());
//
// Why not absl::zipf_distribution: it needs a skew above 1, and the published
// traces of web caches have less.
//
// Guarantees: the same size, skew, order and bits give the same number, with
// the same standard library.
//
// Threads: thread-compatible; any number of threads may Sample.
//
// Cost: Sample is O(1), by the alias method (Walker 1977, built as in Vose
// 1991), and exact but for rounding probabilities to 32 bits. The table takes 8
// bytes a number; the constructor is O(n).

#ifndef WHEELCACHE_TOOLS_LOAD_TESTING_ZIPF_SAMPLER_H_
#define WHEELCACHE_TOOLS_LOAD_TESTING_ZIPF_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace wheelcache::load_testing {

// Which numbers are the popular ones.
enum class ZipfOrder {
  kByNumber,  // 0 is the most popular, then 1, and so on.
  // A fixed permutation, the same on each run. For numbers that are stored in
  // order: hot entries then share no cache lines and pages.
  kShuffled,
};

class ZipfSampler {
 public:
  // Draws from `size` numbers. A skew of 0 is the uniform distribution.
  // REQUIRES: 0 < size < 2^32, skew >= 0.
  ZipfSampler(int64_t size, double skew,
              ZipfOrder order = ZipfOrder::kShuffled);

  // Maps 64 random bits to a number.
  int64_t Sample(uint64_t bits) const {
    const uint64_t drawn = ((bits >> 32) * columns_.size()) >> 32;
    const Column& column = columns_[drawn];
    const uint64_t number =
        static_cast<uint32_t>(bits) <= column.keep_up_to ? drawn : column.alias;
    return static_cast<int64_t>(number);
  }

 private:
  // All columns are equally likely. Column i yields i if the low 32 bits are at
  // most keep_up_to, and else its alias, a number more popular than average.
  struct Column {
    uint32_t keep_up_to;
    uint32_t alias;
  };

  std::vector<Column> columns_;
};

}  // namespace wheelcache::load_testing

#endif  // WHEELCACHE_TOOLS_LOAD_TESTING_ZIPF_SAMPLER_H_
