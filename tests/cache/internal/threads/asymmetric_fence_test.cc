// Fences between a store and a load: of two threads that each store to one word
// and then load the other's, at least one sees what the other has stored.
//
// No test can force a CPU to reorder the two. But without a fence it does so in
// some of so many rounds, where the load finds its line in the cache and the
// store has to wait: for the line, and for stores before it. Optimized, as GCC
// else takes every store for a sequentially consistent one.

#include "wheelcache/cache/internal/threads/asymmetric_fence.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

constexpr int kRounds = 20'000;
constexpr int kFewRounds = 6'000;  // Of a system call each.

struct alignas(128) Word {
  std::atomic<int> value{0};
};

class TwoThreads {
 public:
  explicit TwoThreads(int rounds)
      : rounds_(rounds),
        seen_{std::vector<int>(rounds + 1), std::vector<int>(rounds + 1)} {}

  // In how many rounds neither thread has seen the other's store.
  template <typename FirstFence, typename SecondFence>
  int CountMisses(FirstFence first, SecondFence second) {
    std::thread other([&] { Run(1, second); });
    Run(0, first);
    other.join();
    int misses = 0;
    for (int i = 1; i <= rounds_; ++i) {
      misses += seen_[0][i] < i && seen_[1][i] < i ? 1 : 0;
    }
    return misses;
  }

 private:
  template <typename Fence>
  void Run(size_t self, Fence fence) {
    Word& mine = words_[self];
    const Word& others = words_[1 - self];
    for (int i = 1; i <= rounds_; ++i) {
      others.value.load(std::memory_order_relaxed);  // Into the cache.
      if (self == 1) StoreSlow(i);                   // Out of the other's.
      // They meet here, and go on together.
      at_[self].value.store(i);
      for (int looks = 0; at_[1 - self].value.load() < i; ++looks) {
        if (looks > 20'000) std::this_thread::yield();
      }
      if (self == 0) StoreSlow(i);
      mine.value.store(i, std::memory_order_relaxed);
      fence();
      seen_[self][i] = others.value.load(std::memory_order_relaxed);
    }
  }

  // Behind these stores, the next one of the first thread waits for longer than
  // the second thread takes.
  void StoreSlow(int i) {
    for (Word& word : slow_) word.value.store(i, std::memory_order_relaxed);
  }

  const int rounds_;
  std::array<Word, 2> at_;
  std::array<Word, 2> words_;
  std::array<Word, 12> slow_;
  std::array<std::vector<int>, 2> seen_;
};

class AsymmetricFenceTest : public ::testing::TestWithParam<bool> {
 protected:
  AsymmetricFenceTest() {
    PrepareFences();
    UseMembarrier(GetParam());
  }
  ~AsymmetricFenceTest() override { UseMembarrier(true); }

  TwoThreads threads_{GetParam() ? kFewRounds : kRounds};
};

INSTANTIATE_TEST_SUITE_P(Fences, AsymmetricFenceTest, ::testing::Bool(),
                         [](const auto& fence) {
                           return fence.param ? "Membarrier" : "PlainFence";
                         });

// Under ThreadSanitizer, the store before a light fence is a read-modify-write.
#ifndef ABSL_HAVE_THREAD_SANITIZER
TEST_P(AsymmetricFenceTest, LightAndHeavyFenceLeaveNobodyUnseen) {
  EXPECT_EQ(threads_.CountMisses(LightFence, HeavyFence), 0);
}
#endif

TEST_P(AsymmetricFenceTest, TwoHeavyFencesLeaveNobodyUnseen) {
  TwoThreads threads(GetParam() ? kFewRounds / 10 : kRounds);
  EXPECT_EQ(threads.CountMisses(HeavyFence, HeavyFence), 0);
}

TEST_P(AsymmetricFenceTest, TwoFullFencesLeaveNobodyUnseen) {
  EXPECT_EQ(threads_.CountMisses(FullFence, FullFence), 0);
}

#if defined(__linux__) && defined(SYS_membarrier) && \
    !defined(ABSL_HAVE_THREAD_SANITIZER)

TEST(MembarrierTest, IsUsedFromLoadTimeOnWhereTheKernelHasIt) {
  constexpr int kQuery = 0;
  constexpr int kPrivateExpedited = 1 << 3;
  const auto commands = syscall(SYS_membarrier, kQuery, 0, 0);
  const bool has_it = commands > 0 && (commands & kPrivateExpedited) != 0;
  EXPECT_EQ(light_fence_is_free.load(), has_it);
  UseMembarrier(false);
  EXPECT_FALSE(light_fence_is_free.load());
  UseMembarrier(true);
  EXPECT_EQ(light_fence_is_free.load(), has_it);
}

#endif

}  // namespace
}  // namespace wheelcache::internal
