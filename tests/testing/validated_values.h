// Values that validate themselves: each tells its key, its version and its
// deadline, with a checksum over all of it, so that a torn, foreign, freed or
// outdated value gives itself away.

#ifndef WHEELCACHE_TESTS_TESTING_VALIDATED_VALUES_H_
#define WHEELCACHE_TESTS_TESTING_VALIDATED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace wheelcache {

struct Stamp {
  uint64_t key = 0;
  uint64_t version = 0;
  int64_t deadline_nanos = 0;

  uint64_t Checksum() const {
    uint64_t sum = key;
    for (const uint64_t part :
         {version, static_cast<uint64_t>(deadline_nanos), uint64_t{77}}) {
      sum = (sum ^ part) * 0x9e3779b97f4a7c15;
      sum ^= sum >> 29;
    }
    return sum;
  }

  // Versions differ in size, so that entries do.
  size_t Repetitions() const { return 1 + version % 7; }
};

// A value with memory of its own, which it ruins in the end.
class HeapValue {
 public:
  explicit HeapValue(const Stamp& stamp)
      : stamp_(stamp), sums_(stamp.Repetitions(), stamp.Checksum()) {}
  HeapValue(const HeapValue&) = default;
  HeapValue(HeapValue&&) = default;
  HeapValue& operator=(const HeapValue&) = default;
  HeapValue& operator=(HeapValue&&) = default;
  ~HeapValue() {
    stamp_.key = ~stamp_.key;
    for (uint64_t& sum : sums_) sum = 0;
  }

  static HeapValue Make(const Stamp& stamp) { return HeapValue(stamp); }

  // Returns the stamp, or one with an impossible key if anything is wrong.
  static Stamp Check(const HeapValue& value) {
    if (value.sums_.size() != value.stamp_.Repetitions()) return {~0u};
    for (const uint64_t sum : value.sums_) {
      if (sum != value.stamp_.Checksum()) return {~0u};
    }
    return value.stamp_;
  }

 private:
  Stamp stamp_;
  std::vector<uint64_t> sums_;
};

// The same as a string, of which a cache stores the bytes.
struct StringValue {
  static std::string Make(const Stamp& stamp) {
    std::string text;
    const uint64_t sum = stamp.Checksum();
    for (size_t i = 0; i < stamp.Repetitions(); ++i) {
      text.append(reinterpret_cast<const char*>(&stamp), sizeof(stamp));
      text.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    }
    return text;
  }

  static Stamp Check(std::string_view text) {
    Stamp stamp;
    if (text.size() < sizeof(stamp)) return {~0u};
    std::memcpy(&stamp, text.data(), sizeof(stamp));
    return text == Make(stamp) ? stamp : Stamp{~0u};
  }
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_VALIDATED_VALUES_H_
