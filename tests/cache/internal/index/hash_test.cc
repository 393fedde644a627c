// How keys are hashed and compared: each byte counts, wherever it is; keys as
// services form them are spread as chance would spread them; the parts of a
// hash are independent of each other; and bytes are found and compared as by a
// loop.
//
// What is bounded is some ten standard deviations from what chance gives, so
// that no seed of the process comes near it.

#include "wheelcache/cache/hash.h"

#ifdef __linux__
#include <sys/personality.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/types/hash.h"
#include "wheelcache/cache/types/hash_strings.h"

namespace wheelcache::internal {
namespace {

constexpr size_t kShortest = 8;  // Of those that are hashed here.
constexpr size_t kLongest = 32;

std::string RandomString(size_t size, std::mt19937_64& random) {
  std::string s(size, '\0');
  for (char& c : s) c = static_cast<char>(random());
  return s;
}

// Among other bytes each time.
TEST(HashStringsTest, WhatIsBesideTheStringDoesNotCount) {
  constexpr size_t kBeside = 40;
  std::mt19937_64 random(1);
  for (size_t size = 0; size <= 2 * kLongest; ++size) {
    const std::string s = RandomString(size, random);
    const std::string among =
        RandomString(kBeside, random) + s + RandomString(kBeside, random);
    EXPECT_EQ(HashString(s),
              HashString(std::string_view(among).substr(kBeside, size)))
        << size;
  }
}

TEST(HashStringsTest, EachByteCountsAtEveryLength) {
  std::mt19937_64 random(1);
  for (size_t size = 1; size <= 2 * kLongest; ++size) {
    const std::string s = RandomString(size, random);
    for (size_t i = 0; i < size; ++i) {
      std::string other = s;
      other[i] = static_cast<char>(other[i] ^ 1);
      EXPECT_NE(HashString(s), HashString(other)) << size << ", byte " << i;
    }
  }
}

TEST(HashStringsTest, TheLengthCounts) {
  for (const char c : {'\0', 'x', '\xff'}) {
    std::unordered_set<uint64_t> hashes;
    for (size_t size = 0; size <= 2 * kLongest; ++size) {
      EXPECT_TRUE(hashes.insert(HashString(std::string(size, c))).second)
          << size;
    }
  }
}

// Half of all bits change, and each bit half of the time, with any bit of the
// string.
TEST(HashStringsTest, EachBitOfTheStringChangesHalfOfTheHash) {
  constexpr int kStrings = 400;
  std::mt19937_64 random(2);
  for (size_t size = kShortest; size <= kLongest; ++size) {
    std::vector<std::string> strings;
    for (int i = 0; i < kStrings; ++i) {
      strings.push_back(RandomString(size, random));
    }
    for (size_t bit = 0; bit < size * 8; ++bit) {
      std::array<int, 64> changes = {};
      for (const std::string& s : strings) {
        std::string other = s;
        other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
        uint64_t changed = HashString(s) ^ HashString(other);
        for (; changed != 0; changed &= changed - 1) {
          ++changes[absl::countr_zero(changed)];
        }
      }
      for (const int count : changes) {
        EXPECT_NEAR(count, kStrings * 0.5, kStrings * 0.25)
            << size << " bytes, bit " << bit;
      }
    }
  }
}

// The most that fall together, of those that a test looks at, in either half
// of the hash, by which shard, bucket and tag are chosen.
class Collisions {
 public:
  void Add(std::string_view s) {
    const uint64_t hash = HashString(s);
    whole_ += all_.insert(hash).second ? 0 : 1;
    low_ += lows_.insert(static_cast<uint32_t>(hash)).second ? 0 : 1;
    high_ += highs_.insert(static_cast<uint32_t>(hash >> 32)).second ? 0 : 1;
  }

  // As few as among so many numbers by chance.
  void ExpectAsByChance() const {
    const auto strings = static_cast<double>(all_.size());
    const double by_chance = strings * strings / 2 / 4294967296.0;
    EXPECT_EQ(whole_, 0);
    EXPECT_LE(low_, by_chance * 2 + 20);
    EXPECT_LE(high_, by_chance * 2 + 20);
  }

 private:
  std::unordered_set<uint64_t> all_;
  std::unordered_set<uint32_t> lows_;
  std::unordered_set<uint32_t> highs_;
  int whole_ = 0;
  int low_ = 0;
  int high_ = 0;
};

constexpr int kKeys = 20'000;

TEST(HashStringsTest, NumberedKeysAreSpread) {
  for (const int digits : {8, 12, 16, 17, 24, 32}) {
    Collisions decimal;
    Collisions hexadecimal;
    for (int i = 0; i < kKeys; ++i) {
      decimal.Add(absl::StrFormat("%0*d", digits, i));
      hexadecimal.Add(absl::StrFormat("%0*x", digits, i));
    }
    decimal.ExpectAsByChance();
    hexadecimal.ExpectAsByChance();
  }
  Collisions named;
  for (int i = 0; i < kKeys; ++i) {
    named.Add(absl::StrFormat("user:%d:name", 1'000'000 + i));
  }
  named.ExpectAsByChance();
}

// The number in the middle, where the words at the two ends overlap or meet.
TEST(HashStringsTest, ANumberAnywhereIsSpread) {
  for (size_t size = 16; size <= kLongest; ++size) {
    for (size_t at = 0; at + 4 <= size; at += 4) {
      Collisions collisions;
      std::string s(size, '-');
      for (uint32_t i = 0; i < 8'000; ++i) {
        for (int byte = 0; byte < 4; ++byte) {
          s[at + byte] = static_cast<char>(i >> byte * 8);
        }
        collisions.Add(s);
      }
      collisions.ExpectAsByChance();
    }
  }
}

TEST(HashStringsTest, StringsOfFewBitsAreSpread) {
  for (size_t size = kShortest; size <= kLongest; ++size) {
    Collisions collisions;
    for (size_t first = 0; first < size * 8; ++first) {
      for (size_t second = first; second < size * 8; ++second) {
        std::string s(size, '\0');
        s[first / 8] = static_cast<char>(s[first / 8] | 1 << first % 8);
        s[second / 8] = static_cast<char>(s[second / 8] | 1 << second % 8);
        collisions.Add(s);
      }
    }
    collisions.ExpectAsByChance();
  }
}

// So many that each half of a string must keep most of its 64 bits on the way
// to the hash, or some would fall together.
TEST(HashStringsTest, NeitherHalfOfAStringLosesBits) {
  constexpr int kMany = 300'000;
  for (const bool first_half : {false, true}) {
    std::mt19937_64 random(first_half ? 3 : 4);
    std::string s = RandomString(kLongest, random);
    std::vector<uint64_t> hashes;
    for (uint64_t i = 0; i < kMany; ++i) {
      std::memcpy(s.data() + (first_half ? 0 : kLongest / 2), &i, sizeof(i));
      hashes.push_back(HashString(s));
    }
    std::sort(hashes.begin(), hashes.end());
    EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
  }
}

constexpr char kKey[] = "a key of 17 bytes";

const uint64_t kHashAtLoad = HashString(kKey);

TEST(HashStringsTest, HashIsTheSameFromLoadTimeOn) {
  PrepareHashSeed();  // As each cache does.
  EXPECT_EQ(kHashAtLoad, HashString(kKey));
  EXPECT_NE(hash_seed.load(), 0u);
}

#ifdef __linux__

// For runs of this program by the next test.
TEST(HashStringsTest, DISABLED_PrintsHashes) {
  std::cout << "hashes " << HashString(kKey) << ' ' << HashString("short")
            << std::endl;
}

// Runs this program at the addresses that it has without randomization, and
// returns what PrintsHashes printed.
std::string HashesOfAnotherRun() {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    personality(ADDR_NO_RANDOMIZE);
    // Without Bazel's environment: its files are this run's.
    char* const no_environment[] = {nullptr};
    execle("/proc/self/exe", "run", "--gtest_also_run_disabled_tests",
           "--gtest_filter=*PrintsHashes", nullptr, no_environment);
    _exit(1);
  }
  close(ends[1]);
  std::string output;
  char buffer[1024];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    output.append(buffer, n);
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  const size_t begin = output.find("hashes ");
  return begin == std::string::npos
             ? output
             : output.substr(begin, output.find('\n', begin) - begin);
}

TEST(HashStringsTest, HashesDifferFromRunToRunAtTheSameAddresses) {
  const std::string hashes = HashesOfAnotherRun();
  EXPECT_EQ(hashes.find("hashes "), 0) << hashes;
  EXPECT_NE(hashes, HashesOfAnotherRun());
}

#endif

struct Identity {
  size_t operator()(uint64_t key) const { return key; }
};

constexpr int kNumbers = 640'000;

// Sorts keys into 64 parts by a number of each, and expects as many in each.
class Parts {
 public:
  void Add(uint32_t part) { ++counts_[part % counts_.size()]; }
  void ExpectEven() const {
    int all = 0;
    for (const int count : counts_) all += count;
    const double each = all / 64.0;
    for (const int count : counts_) EXPECT_NEAR(count, each, each * 0.35);
  }

 private:
  std::array<int, 64> counts_ = {};
};

// Keys in any steps; only those of one shard of sixteen.
template <typename Hash, typename KeyOf>
void ExpectSpread(KeyOf key_of) {
  Parts shards;
  Parts buckets;
  Parts tags;
  Parts shards_of_all;
  for (uint64_t i = 0; i < kNumbers; ++i) {
    const KeyHash hash = HashKey<Hash>(key_of(i));
    shards_of_all.Add(hash.for_shard);
    if (hash.for_shard % 16 != 5) continue;
    shards.Add(hash.for_shard / 16);
    buckets.Add(hash.for_index >> 26);
    tags.Add(hash.for_index);
  }
  shards_of_all.ExpectEven();
  shards.ExpectEven();
  buckets.ExpectEven();
  tags.ExpectEven();
}

TEST(KeyHashTest, NumbersAreSpreadWhereTheirHashIsTheNumber) {
  for (const uint64_t step : {uint64_t{1}, uint64_t{64}, uint64_t{4096},
                              uint64_t{1} << 32, uint64_t{1} << 40}) {
    ExpectSpread<Identity>([step](uint64_t i) { return i * step; });
  }
}

TEST(KeyHashTest, StringsAreSpread) {
  ExpectSpread<DefaultHash<std::string>>(
      [](uint64_t i) { return "user:" + std::to_string(1'000'000 + i); });
}

TEST(KeyHashTest, NumbersAreSpreadByTheDefaultHash) {
  ExpectSpread<DefaultHash<uint64_t>>([](uint64_t i) { return i; });
}

constexpr size_t kLongestCompared = 70;

// Each in memory of its own, so that AddressSanitizer sees a look beyond.
TEST(EqualStringsTest, EqualAreEqualAtEveryLength) {
  for (size_t size = 0; size <= kLongestCompared; ++size) {
    const std::string a(size, 'x');
    const std::string b(size, 'x');
    EXPECT_TRUE(EqualStrings(a, b)) << size;
  }
}

// Each among other bytes, so that a look beyond sees a difference.
TEST(EqualStringsTest, WhatIsBesideTheStringsDoesNotCount) {
  constexpr size_t kBeside = 40;
  for (size_t size = 0; size <= kLongestCompared; ++size) {
    const std::string a = std::string(kBeside, 'a') + std::string(size, 'x') +
                          std::string(kBeside, 'b');
    const std::string b = std::string(kBeside, 'c') + std::string(size, 'x') +
                          std::string(kBeside, 'd');
    EXPECT_TRUE(EqualStrings(std::string_view(a).substr(kBeside, size),
                             std::string_view(b).substr(kBeside, size)))
        << size;
  }
}

TEST(EqualStringsTest, OneBitIsSeenWhereverItIs) {
  for (size_t size = 1; size <= kLongestCompared; ++size) {
    const std::string a(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string b = a;
        b[i] = static_cast<char>(1 << bit);
        EXPECT_FALSE(EqualStrings(a, b)) << size << ", byte " << i;
      }
    }
  }
}

TEST(EqualStringsTest, StringsOfDifferentLengthsDiffer) {
  const std::string a(kLongestCompared, 'x');
  for (size_t size = 0; size < kLongestCompared; ++size) {
    EXPECT_FALSE(EqualStrings(a, std::string_view(a).substr(0, size)));
    EXPECT_FALSE(EqualStrings(std::string_view(a).substr(0, size), a));
  }
}

TEST(EqualStringsTest, EmptyViewsOfNothingAreEqual) {
  EXPECT_TRUE(EqualStrings(std::string_view(), std::string_view("")));
}

uint32_t FindInLoop(uint64_t low, uint64_t high, uint8_t byte) {
  uint32_t found = 0;
  for (int i = 0; i < 16; ++i) {
    const uint64_t word = i < 8 ? low : high;
    if ((word >> (i % 8 * 8) & 0xff) == byte) found |= 1u << i;
  }
  return found;
}

TEST(FindBytesTest, AgreesWithALoop) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    // Few values, so that neighbours are equal, and differ by one.
    const uint64_t mask = i % 2 == 0 ? 0x0303030303030303 : ~uint64_t{0};
    const uint64_t low = random() & mask;
    const uint64_t high = random() & mask;
    const auto byte = static_cast<uint8_t>(random() & mask);
    const uint32_t expected = FindInLoop(low, high, byte);
    ASSERT_EQ(FindBytes(low, high, byte), expected)
        << low << " " << high << " " << int{byte};
    ASSERT_EQ(FindBytesInWords(low, high, byte), expected)
        << low << " " << high << " " << int{byte};
  }
}

}  // namespace
}  // namespace wheelcache::internal
