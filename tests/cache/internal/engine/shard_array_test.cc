// The array of a cache's shards: where it lies, and what it makes and destroys.

#include "wheelcache/cache/internal/engine/shard_array.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

using Destroyed = std::vector<size_t>;

// What cannot be moved, and begins where a cache line does.
struct alignas(64) Part {
  Part(size_t number, Destroyed* destroyed)
      : number(number), destroyed(*destroyed) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() { destroyed.push_back(number); }

  const size_t number;
  Destroyed& destroyed;
};

using Parts = ShardArray<Part>;

TEST(ShardArrayTest, HasThePartsInTheirOrder) {
  Destroyed destroyed;
  {
    const Parts parts(nullptr, 3,
                      [&](size_t i) { return Part(i, &destroyed); });
    ASSERT_EQ(parts.size(), 3);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parts.begin()) % alignof(Part), 0);
    size_t number = 0;
    for (const Part& part : parts) {
      EXPECT_EQ(&part, &parts[number]);
      EXPECT_EQ(part.number, number++);
    }
    EXPECT_TRUE(destroyed.empty());
  }
  EXPECT_EQ(destroyed, (Destroyed{2, 1, 0}));
}

TEST(ShardArrayTest, ManyPartsHavePagesOfTheirOwn) {
  constexpr size_t kParts = 1000;
  Destroyed destroyed;
  {
    const Parts parts(nullptr, kParts,
                      [&](size_t i) { return Part(i, &destroyed); });
    ASSERT_EQ(parts.size(), kParts);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parts.begin()) % 4096, 0);
    for (size_t i = 0; i < kParts; ++i) EXPECT_EQ(parts[i].number, i);
  }
  EXPECT_EQ(destroyed.size(), kParts);
}

TEST(ShardArrayTest, LiesInTheMemoryThatItIsGiven) {
  Destroyed destroyed;
  alignas(Part) std::byte memory[Parts::Bytes(2)];
  {
    const Parts parts(memory, 2, [&](size_t i) { return Part(i, &destroyed); });
    EXPECT_EQ(static_cast<void*>(parts.begin()), memory);
    EXPECT_EQ(static_cast<void*>(parts.end()), memory + sizeof(memory));
  }
  EXPECT_EQ(destroyed, (Destroyed{1, 0}));
}

#ifdef __cpp_exceptions
TEST(ShardArrayTest, DestroysWhatItHasMadeIfThatIsNotAll) {
  Destroyed destroyed;
  const auto make = [&](size_t i) {
    if (i == 2) throw std::runtime_error("no memory for the third");
    return Part(i, &destroyed);
  };
  EXPECT_THROW(Parts(nullptr, 3, make), std::runtime_error);
  EXPECT_EQ(destroyed, (Destroyed{1, 0}));
}
#endif

}  // namespace
}  // namespace wheelcache::internal
