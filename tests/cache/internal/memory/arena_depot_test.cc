// What a thread frees in chains: how long the depot keeps it, who gets it, and
// that nobody waits for who gives it back to the heap.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/tests/testing/arena_blocks.h"

namespace wheelcache::internal {
namespace {

using testing::ArenaBlocks;

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
TEST(ArenaDepotTest, TheDepotGivesBackOneChainAtATime) {
  Arena arena;
  std::vector<Arena::Ref> refs(50'000);
  for (Arena::Ref& ref : refs) ref = arena.Allocate(136);
  for (size_t i = 0; i < 3'000; i += 2) arena.Free(refs[i], 136);
  size_t kept = arena.depot_bytes();
  ASSERT_GT(kept, 50'000u);
  while (kept > 0) {
    arena.Allocate(4096);  // For which no free neighbours are enough.
    EXPECT_LE(kept - arena.depot_bytes(), size_t{16 << 10} + 136);
    ASSERT_LT(arena.depot_bytes(), kept);
    kept = arena.depot_bytes();
  }
}

// One block of a page that the depot kept would keep the page.
TEST(ArenaDepotTest, TheDepotIsEmptyWhileMemoryGoesBackToTheSystem) {
  Arena arena;
  std::vector<Arena::Ref> refs(100'000);
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
  const size_t most = arena.carved_bytes() / 64 + (1 << 20) + (17 << 10);
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

}  // namespace
}  // namespace wheelcache::internal
