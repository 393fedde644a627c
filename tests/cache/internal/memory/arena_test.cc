// The memory of entries: blocks do not overlap, whatever their sizes and
// threads; memory that was freed in one size serves all others; what a thread
// frees in chains stays in the depot for a while; and nobody waits for the
// thread that gives it back to the heap.

#include "wheelcache/cache/internal/memory/arena.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/tests/testing/arena_blocks.h"

namespace wheelcache::internal {
namespace {

using testing::ArenaBlocks;

// Mostly small, up to the largest.
size_t SomeSize(std::mt19937_64& random) {
  const size_t most = size_t{64} << random() % 11;
  return Arena::kMinBytes + random() % (most - Arena::kMinBytes + 1);
}

TEST(ArenaTest, BlocksAreAlignedAndNotNull) {
  Arena arena;
  ArenaBlocks blocks(&arena);
  for (size_t bytes = Arena::kMinBytes; bytes < 1000; ++bytes) {
    const Arena::Ref ref = blocks.Allocate(bytes);
    EXPECT_NE(ref, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.At(ref)) % 8, 0u);
  }
}

TEST(ArenaTest, BlocksKeepWhatIsInThem) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Arena arena;
    ArenaBlocks blocks(&arena);
    for (int i = 0; i < 20'000; ++i) {
      if (blocks.size() > 0 && random() % 1000 >= 1000 - blocks.size() / 2) {
        blocks.FreeAt(random() % blocks.size());
      } else {
        blocks.Allocate(SomeSize(random));
      }
      if (i % 1000 == 0) {
        ASSERT_EQ(arena.CheckInvariants(), absl::OkStatus());
      }
    }
  }
}

TEST(ArenaTest, TheBlockThatWasFreedLastIsUsedFirst) {
  Arena arena;
  for (const size_t bytes : {size_t{56}, size_t{512}}) {
    const Arena::Ref first = arena.Allocate(bytes);
    const Arena::Ref second = arena.Allocate(bytes);
    arena.Free(second, bytes);
    arena.Free(first, bytes);
    EXPECT_EQ(arena.Allocate(bytes), first);
    EXPECT_EQ(arena.Allocate(bytes), second);
  }
}

// Without what it was once divided into being left over.
TEST(ArenaTest, MemoryServesOneSizeAfterTheOther) {
  constexpr size_t kTotal = 4 << 20;
  Arena arena;
  for (const size_t bytes : {size_t{56}, size_t{4096}, size_t{136},
                             size_t{Arena::kMaxBytes}, size_t{16}}) {
    ArenaBlocks blocks(&arena);
    while (blocks.bytes() < kTotal) blocks.Allocate(bytes);
  }
  // What a stripe keeps.
  EXPECT_LT(arena.carved_bytes(), kTotal + (1 << 20));
}

// Three chunks and a bit: granules with neighbouring references lie side by
// side within one alone.
TEST(ArenaTest, NoBlockReachesFromOneChunkIntoAnother) {
  constexpr size_t kTotal = 200 << 20;
  Arena arena;
  std::mt19937_64 random(1);
  std::vector<std::pair<Arena::Ref, size_t>> blocks;
  for (int round = 0; round < 3; ++round) {
    for (size_t total = 0; total < kTotal;) {
      const size_t bytes = Arena::kMaxBytes - random() % 40'000 / 8 * 8;
      const Arena::Ref ref = arena.Allocate(bytes);
      const size_t last = bytes - Chunks::kGranuleBytes;
      ASSERT_EQ(arena.At(ref + last / Chunks::kGranuleBytes),
                static_cast<std::byte*>(arena.At(ref)) + last);
      blocks.emplace_back(ref, bytes);
      total += bytes;
    }
    for (const auto& [ref, bytes] : blocks) arena.Free(ref, bytes);
    blocks.clear();
    ASSERT_TRUE(arena.CheckInvariants().ok()) << arena.CheckInvariants();
  }
  EXPECT_LT(arena.carved_bytes(), kTotal + (1 << 20));
}

// The oldest go, as in a cache without hits, or any; the total is constant.
TEST(ArenaTest, RandomSizesWasteLessThanATwentieth) {
  constexpr size_t kTotal = 16 << 20;
  for (const bool oldest_first : {true, false}) {
    std::mt19937_64 random(1);
    Arena arena;
    std::vector<std::pair<Arena::Ref, size_t>> blocks;
    size_t total = 0;
    size_t next = 0;
    for (int i = 0; i < 100'000; ++i) {
      const size_t bytes = 64 + random() % 4081;
      while (total + bytes > kTotal) {
        const size_t victim =
            oldest_first ? next : next + random() % (blocks.size() - next);
        arena.Free(blocks[victim].first, blocks[victim].second);
        total -= blocks[victim].second;
        blocks[victim] = blocks[next++];
      }
      blocks.emplace_back(arena.Allocate(bytes), bytes);
      total += bytes;
    }
    EXPECT_LT(arena.carved_bytes(), kTotal + kTotal / 20) << oldest_first;
    EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
  }
}

// Another size is freed and allocated all the time, but all that it leaves free
// are gaps of 512 bytes.
TEST(ArenaTest, ASizeThatNobodyAsksForLeavesTheStripes) {
  Arena arena;
  // Some batches of them.
  std::vector<Arena::Ref> gone(size_t{9} * Depot::ChainBlocks(64 / 8));
  std::vector<Arena::Ref> busy(1024);
  for (Arena::Ref& ref : gone) ref = arena.Allocate(64);
  for (Arena::Ref& ref : busy) ref = arena.Allocate(512);
  for (int round = 0; round < 10; ++round) {
    if (round == 1) {
      for (const Arena::Ref ref : gone) arena.Free(ref, 64);
    }
    for (size_t i = 0; i < busy.size(); i += 2) arena.Free(busy[i], 512);
    for (size_t i = 0; i < busy.size(); i += 2) busy[i] = arena.Allocate(512);
  }
  const size_t carved = arena.carved_bytes();
  for (int i = 0; i < 6; ++i) arena.Allocate(8000);
  EXPECT_EQ(arena.carved_bytes(), carved);
}

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
TEST(ArenaDeathTest, UseOfAFreeBlockIsReported) {
  Arena arena;
  const Arena::Ref ref = arena.Allocate(100);
  auto* const block = static_cast<volatile char*>(arena.At(ref));
  arena.Free(ref, 100);
  EXPECT_DEATH(block[50] = 1, "AddressSanitizer");
}
#endif

// What a thread frees at a stretch goes to the next one that allocates, without
// a look at each block's neighbours.
TEST(ArenaDepotTest, TheDepotKeepsChainsForWhoeverAllocates) {
  Arena arena;
  ArenaBlocks blocks(&arena);
  for (int i = 0; i < 50'000; ++i) blocks.Allocate(136);
  for (int i = 0; i < 3'000; ++i) blocks.FreeAt(0);
  const size_t most = arena.carved_bytes() / 64 + (16 << 10) + 136;
  EXPECT_GT(arena.depot_bytes(), most / 2);
  EXPECT_LE(arena.depot_bytes(), most);
  const size_t carved = arena.carved_bytes();
  for (int i = 0; i < 3'000; ++i) blocks.Allocate(136);
  EXPECT_EQ(arena.depot_bytes(), 0u);
  EXPECT_EQ(arena.carved_bytes(), carved);
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
}

// And no sooner: while other memory is free, that is used.
TEST(ArenaDepotTest, TheDepotGivesChainsBackBeforeFreshMemoryIsUsed) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  const Arena::Ref large = arena.Allocate(4096);
  for (int i = 0; i < 1'500; ++i) arena.Free(refs[i], 136);
  const size_t kept = arena.depot_bytes();
  ASSERT_GT(kept, 50'000u);
  const size_t carved = arena.carved_bytes();
  arena.Free(large, 4096);
  arena.Allocate(4096);
  EXPECT_EQ(arena.depot_bytes(), kept);
  for (int i = 0; i < 10; ++i) arena.Allocate(4096);
  EXPECT_LE(arena.depot_bytes(), kept - 40'000);
  EXPECT_EQ(arena.carved_bytes(), carved);
}

// Nobody waits while all that the depot keeps goes elsewhere.
TEST(ArenaDepotTest, TheDepotGivesBackAFewChainsAtATime) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  for (size_t i = 0; i < 3'000; i += 2) arena.Free(refs[i], 136);
  size_t kept = arena.depot_bytes();
  ASSERT_GT(kept, 50'000u);
  while (kept > 0) {
    arena.Allocate(4096);  // For which no free neighbours are enough.
    EXPECT_LE(kept - arena.depot_bytes(), size_t{30 << 10} + 136);
    ASSERT_LT(arena.depot_bytes(), kept);
    kept = arena.depot_bytes();
  }
}

// One block of a page that the depot kept would keep the page.
TEST(ArenaDepotTest, TheDepotIsEmptyWhileMemoryGoesBackToTheSystem) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  std::shuffle(refs.begin(), refs.end(), std::mt19937_64(1));
  size_t most = 0;
  for (const Arena::Ref ref : refs) {
    arena.Free(ref, 136);
    most = std::max(most, arena.depot_bytes());
  }
  EXPECT_GT(most, 0u);
  EXPECT_EQ(arena.depot_bytes(), 0u);
}

// As if a thread had lost its core in there: what others free waits for
// it, and serves those who ask for the same size.
TEST(ArenaDepotTest, NobodyWaitsForTheHeapToFree) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  const Arena::Ref odd = arena.Allocate(96);
  const Arena::Ref large = arena.Allocate(4096);
  const size_t carved = arena.carved_bytes();
  const size_t most = carved / 64;
  size_t next = 0;
  arena.InHeap([&] {
    arena.Free(odd, 96);
    arena.Free(large, 4096);
    while (next < 6'000) arena.Free(refs[next++], 136);
    EXPECT_GT(arena.depot_bytes(), 4 * most);
    for (int i = 0; i < 2'000; ++i) arena.Allocate(136);
  });
  EXPECT_GT(arena.depot_bytes(), 2 * most);
  while (next < 12'000) arena.Free(refs[next++], 136);
  EXPECT_LE(arena.depot_bytes(), most);
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
  arena.Allocate(4096);
  EXPECT_EQ(arena.carved_bytes(), carved);
}

TEST(ArenaDepotTest, NotMoreThanAMebibyteWaitsForTheHeap) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  const size_t most = arena.carved_bytes() / 64 + (1 << 20) + (30 << 10);
  std::atomic<bool> all_free{false};
  std::thread thread([&] {
    for (const Arena::Ref ref : refs) arena.Free(ref, 136);
    all_free.store(true, std::memory_order_relaxed);
  });
  for (int round = 0; round < 3; ++round) {
    arena.InHeap([&] {
      const auto thread_waits = [&] {
        return arena.depot_bytes() > (1 << 20) ||
               all_free.load(std::memory_order_relaxed);
      };
      while (!thread_waits()) std::this_thread::yield();
      for (int i = 0; i < 300; ++i) {
        EXPECT_LE(arena.depot_bytes(), most);
        std::this_thread::yield();
      }
    });
  }
  thread.join();
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
}

// More than a fifth of the memory becomes free. From then on the depot is to
// keep nothing: but nobody takes all that it has to the heap at once, nor waits
// while it still has so much.
TEST(ArenaDepotTest, WhatTheDepotHadToKeepLeavesItBitByBit) {
  Arena arena;
  std::vector<Arena::Ref> refs(400'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(512);
  size_t before = 0;
  size_t now = 0;
  for (; before <= now; before = std::exchange(now, arena.depot_bytes())) {
    ASSERT_FALSE(refs.empty());
    arena.Free(refs.back(), 512);
    refs.pop_back();
  }
  EXPECT_GT(before, size_t{2} << 20);
  EXPECT_GE(now, before - (32 << 10));
  arena.InHeap([&] {
    for (int i = 0; i < 500; ++i) {
      arena.Free(refs.back(), 512);
      refs.pop_back();
    }
  });
  while (!refs.empty()) {
    arena.Free(refs.back(), 512);
    refs.pop_back();
  }
  EXPECT_EQ(arena.depot_bytes(), 0u);
}

// A thread that only frees does not keep memory from one that only allocates.
// As if other threads were in all of them.
TEST(ArenaDepotTest, WhatNoStripeTakesOfAChainGoesBackToTheDepot) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  for (int i = 0; i < 3'000; ++i) arena.Free(refs[i], 136);
  const size_t kept = arena.depot_bytes();
  ASSERT_GT(kept, 2 * (16 << 10));
  const size_t free_bytes = arena.free_bytes();
  arena.InStripes([&] { arena.Allocate(136); });
  EXPECT_EQ(arena.depot_bytes(), kept - 136);
  EXPECT_EQ(arena.free_bytes(), free_bytes - 136);
  while (arena.depot_bytes() > 0) arena.Allocate(136);
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
}

TEST(ArenaThreadsTest, WhatOneThreadFreesAnotherCanUse) {
  Arena arena;
  std::vector<Arena::Ref> refs(10'000);
  for (int round = 0; round < 8; ++round) {
    for (Arena::Ref& ref : refs) ref = arena.Allocate(100);
    std::thread([&] {
      for (const Arena::Ref ref : refs) arena.Free(ref, 100);
    }).join();
  }
  EXPECT_LT(arena.carved_bytes(), refs.size() * 104 + (128 << 10));
}

// More threads than stripes, which free and allocate many blocks of one size at
// a time: whole chains of them go from one to the other through the depot.
TEST(ArenaThreadsTest, NothingIsLostBetweenThreads) {
  Arena arena;
  ArenaBlocks kept(&arena);
  for (int i = 0; i < 50'000; ++i) kept.Allocate(136);
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    threads.emplace_back([&arena, seed] {
      std::mt19937_64 random(seed);
      ArenaBlocks blocks(&arena);
      for (int i = 0; i < 20; ++i) {
        for (uint64_t more = random() % 1500; more > 0; --more) {
          blocks.Allocate(136);
        }
        for (uint64_t less = random() % 1500; less > 0 && blocks.size() > 0;
             --less) {
          blocks.FreeAt(random() % blocks.size());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // No block begins at the reference that is null, nor in its cache line.
  EXPECT_EQ(arena.carved_bytes(), 64 + kept.bytes() + arena.free_bytes());
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
}

// A block changes hands with all that was written to it.
TEST(ArenaThreadsTest, ThreadsMayFreeWhatOthersAllocated) {
  Arena arena;
  std::atomic<Arena::Ref> mail{0};
  constexpr int kBlocks = 50'000;
  std::thread receiver([&] {
    for (int i = 0; i < kBlocks; ++i) {
      Arena::Ref ref;
      while ((ref = mail.exchange(0, std::memory_order_acquire)) == 0) {
        std::this_thread::yield();
      }
      EXPECT_EQ(*static_cast<int*>(arena.At(ref)), i);
      arena.Free(ref, 64 + i % 7 * 100);
    }
  });
  for (int i = 0; i < kBlocks; ++i) {
    const Arena::Ref ref = arena.Allocate(64 + i % 7 * 100);
    *static_cast<int*>(arena.At(ref)) = i;
    while (mail.load(std::memory_order_relaxed) != 0) {
      std::this_thread::yield();
    }
    mail.store(ref, std::memory_order_release);
  }
  receiver.join();
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
}

}  // namespace
}  // namespace wheelcache::internal
