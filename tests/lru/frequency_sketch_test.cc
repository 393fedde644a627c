// The sketch against the true numbers of occurrences.

#include "wheelcache/lru/frequency_sketch.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

class Sketch {
 public:
  explicit Sketch(uint64_t elements)
      : blocks_(FrequencySketch::BlocksFor(elements)),
        sketch_(blocks_.data(), blocks_.size()) {
    sketch_.Fit(elements);
  }
  FrequencySketch* operator->() { return &sketch_; }

 private:
  std::vector<FrequencySketch::Block> blocks_;
  FrequencySketch sketch_;
};

TEST(FrequencySketchTest, TakesEightBytesAnElementUpToAPowerOfTwo) {
  EXPECT_EQ(FrequencySketch::BlocksFor(0), 1u);
  EXPECT_EQ(FrequencySketch::BlocksFor(8), 1u);
  EXPECT_EQ(FrequencySketch::BlocksFor(9), 2u);
  EXPECT_EQ(FrequencySketch::BlocksFor(8'192), 1'024u);
  EXPECT_EQ(FrequencySketch::BlocksFor(8'193), 2'048u);
  EXPECT_EQ(sizeof(FrequencySketch::Block), 64u);
}

TEST(FrequencySketchTest, CountsUpToFifteen) {
  Sketch sketch(1'000);
  for (uint32_t i = 0; i <= 20; ++i) {
    EXPECT_EQ(sketch->Frequency(7), std::min(i, 15u));
    sketch->Increment(7);
  }
  EXPECT_EQ(sketch->Frequency(8), 0u);
}

TEST(FrequencySketchTest, FrequencyIsNeverTooLowAndRarelyTooHigh) {
  constexpr uint32_t kElements = 4'096;
  Sketch sketch(kElements);
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  std::map<uint32_t, uint32_t> counts;
  for (uint32_t i = 0; i < 2 * kElements; ++i) {
    const uint32_t hash =
        random() % 4 == 0 ? random() : random() % 512 * 77'777;
    ++counts[hash];
    sketch->Increment(hash);
  }
  uint32_t too_high = 0;
  for (const auto& [hash, count] : counts) {
    EXPECT_GE(sketch->Frequency(hash), std::min(count, 15u));
    if (sketch->Frequency(hash) > std::min(count, 15u)) ++too_high;
  }
  EXPECT_LT(too_high, counts.size() / 50);
}

TEST(FrequencySketchTest, CountersOfOneLineDoNotOverflowIntoOthers) {
  Sketch sketch(8);  // One line.
  for (uint32_t hash = 0; hash < 128; ++hash) {
    for (uint32_t i = 0; i < 20 && sketch->Frequency(hash) < 15; ++i) {
      const uint32_t before = sketch->Frequency(hash);
      const uint32_t other = sketch->Frequency(hash + 1);
      sketch->Fit(1'000'000);  // Not to be halved meanwhile.
      sketch->Increment(hash);
      ASSERT_EQ(sketch->Frequency(hash), before + 1) << hash;
      ASSERT_LE(sketch->Frequency(hash + 1), other + 1) << hash;
    }
  }
}

TEST(FrequencySketchTest, AKeptFrequencyIsThePresentOne) {
  constexpr uint32_t kElements = 64;
  Sketch sketch(kElements);
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  uint32_t kept = 0;
  for (uint32_t i = 0; i < 100 * kElements; ++i) {
    if (random() % 20 == 0) kept = random() % kElements;
    // Back and forth between one block and all of them.
    if (random() % 50 == 0) sketch->Fit(random() % 2 == 0 ? 1 : kElements);
    if (random() % 4 == 0) sketch->Increment(random() % kElements);
    ASSERT_EQ(sketch->KeepFrequency(kept), sketch->Frequency(kept))
        << "seed " << TestSeed();
  }
}

TEST(FrequencySketchTest, AFrequencyBeyondANumberIsExact) {
  constexpr uint32_t kElements = 64;
  Sketch sketch(kElements);
  for (uint32_t i = 0; i < 4 * kElements; ++i) sketch->Increment(i * i);
  int above = 0;
  for (uint32_t hash = 0; hash < 1'000; ++hash) {
    const uint32_t frequency = sketch->Frequency(hash);
    for (uint32_t most = 0; most <= 15; ++most) {
      const uint32_t found = sketch->FrequencyBeyond(most, hash);
      ASSERT_GE(found, frequency) << hash << " " << most;
      ASSERT_LE(found, std::max(frequency, most)) << hash << " " << most;
      if (found > frequency) ++above;
    }
  }
  EXPECT_GT(above, 0);
}

TEST(FrequencySketchTest, HalvesAllAfterTenIncrementsForEachElement) {
  constexpr uint32_t kElements = 800;
  Sketch sketch(kElements);
  for (uint32_t i = 0; i < 12; ++i) sketch->Increment(1);
  for (uint32_t i = 12; i < 10 * kElements - 1; ++i) sketch->Increment(2);
  EXPECT_EQ(sketch->Frequency(1), 12u);
  EXPECT_EQ(sketch->Frequency(2), 15u);
  for (uint64_t i = 0; i < sketch->blocks(); ++i) sketch->Increment(3);
  EXPECT_EQ(sketch->Frequency(1), 6u);
  EXPECT_EQ(sketch->Frequency(2), 7u);
}

TEST(FrequencySketchTest, FitsFewerElementsInFewerBlocks) {
  Sketch sketch(8'000);
  EXPECT_EQ(sketch->blocks(), 1'024u);
  sketch->Fit(3'000);  // Not for a factor of two.
  EXPECT_EQ(sketch->blocks(), 1'024u);
  sketch->Fit(500);
  EXPECT_EQ(sketch->blocks(), 64u);
  sketch->Increment(1);
  EXPECT_EQ(sketch->Frequency(1), 1u);
  sketch->Fit(1'000'000);  // As many as there are.
  EXPECT_EQ(sketch->blocks(), 1'024u);
}

TEST(FrequencySketchTest, CountsAnewWhereItsBlocksChange) {
  Sketch sketch(8'000);
  for (uint32_t i = 0; i < 10 * 500; ++i) sketch->Increment(i);
  sketch->Fit(500);
  const uint32_t before = sketch->Frequency(7);
  for (uint32_t i = 0; i < 6; ++i) sketch->Increment(7);
  for (uint64_t i = 0; i < sketch->blocks(); ++i) sketch->Increment(8);
  EXPECT_EQ(sketch->Frequency(7), before + 6);
}

TEST(FrequencySketchTest, SpreadsSequencesOverItsLines) {
  Sketch sketch(uint64_t{64} * 1024);
  for (const uint32_t stride : {1u, 64u, 65'536u, 1u << 24}) {
    std::map<const void*, int> lines;
    for (uint32_t i = 0; i < 256; ++i) {
      ++lines[sketch->LineOf(i * stride)];
    }
    EXPECT_GT(lines.size(), 220u) << stride;
  }
}

}  // namespace
}  // namespace wheelcache
