// A tape of bytes from which a test reads its choices.
//
// A random test writes the tape from a seed, a fuzzer from what it has learned
// so far; the code that reads it is the same, and any failure is repeated by
// reading the same tape again.
//
//   Tape tape(bytes);
//   while (!tape.empty()) {
//     switch (tape.Below(3)) { ... }
//   }

#ifndef WHEELCACHE_TESTS_TESTING_TAPE_H_
#define WHEELCACHE_TESTS_TESTING_TAPE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"

namespace wheelcache {

class Tape {
 public:
  // The bytes must outlive the tape.
  explicit Tape(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return next_ == bytes_.size(); }

  // A choice from [0, bound): one byte, or eight if the bound needs them. 0
  // from the end of the tape on.
  uint64_t Below(uint64_t bound) {
    return (bound <= 256 ? Byte() : Word()) % bound;
  }

  bool OneIn(uint64_t n) { return Below(n) == n - 1; }

  // A number with a random count of bits, so that each magnitude is as likely.
  uint64_t Number() {
    const uint64_t bits = Below(65);
    return bits == 0 ? 0 : Word() >> (64 - bits);
  }

 private:
  uint64_t Byte() { return empty() ? 0 : bytes_[next_++]; }

  uint64_t Word() {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word = word << 8 | Byte();
    return word;
  }

  absl::Span<const uint8_t> bytes_;
  size_t next_ = 0;
};

// A tape's worth of random bytes, the same for the same seed.
inline std::vector<uint8_t> RandomBytes(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_TAPE_H_
