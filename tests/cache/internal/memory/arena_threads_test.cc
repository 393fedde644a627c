// Threads that share the memory of entries: a block is one thread's at a time,
// and what one frees serves all.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/tests/testing/arena_blocks.h"

namespace wheelcache::internal {
namespace {

using testing::ArenaBlocks;

TEST(ArenaThreadsTest, WhatOneThreadFreesAnotherCanUse) {
  Arena arena;
  std::vector<Arena::Ref> refs(10'000);
  for (int round = 0; round < 20; ++round) {
    for (Arena::Ref& ref : refs) ref = arena.Allocate(100);
    std::thread([&] {
      for (const Arena::Ref ref : refs) arena.Free(ref, 100);
    }).join();
  }
  EXPECT_LT(arena.carved_bytes(), refs.size() * 104 + (128 << 10));
}

TEST(ArenaThreadsTest, ThreadsGetBlocksOfTheirOwn) {
  Arena arena;
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&arena, seed] {
      std::mt19937_64 random(seed);
      ArenaBlocks blocks(&arena);
      for (int i = 0; i < 20'000; ++i) {
        if (blocks.size() > random() % 200) {
          blocks.FreeAt(random() % blocks.size());
        } else {
          blocks.Allocate(Arena::kMinBytes + random() % 1000);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
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
