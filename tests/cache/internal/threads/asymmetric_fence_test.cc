// Fences between a store and a load: of two threads that each store to one word
// and then load the other's, at least one sees what the other has stored.
//
// No test can force a CPU to reorder the two. So each store waits behind others
// to lines that the other thread has just written: without a fence the load
// overtakes it in some of so many rounds.

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

constexpr int kRounds = 5'000;

struct alignas(64) Word {
  std::atomic<int> value{0};
};

// What the two threads of a round have.
struct Round {
  std::array<Word, 2> words;
  std::array<int, 2> seen = {};
};

class TwoThreads {
 public:
  // In how many rounds neither thread has seen the other's store.
  template <typename FirstFence, typename SecondFence>
  int CountMisses(FirstFence first, SecondFence second) {
    std::thread other([&] { Run(1, second); });
    Run(0, first);
    other.join();
    int misses = 0;
    for (const Round& round : rounds_) {
      misses += round.seen[0] == 0 && round.seen[1] == 0 ? 1 : 0;
    }
    return misses;
  }

 private:
  template <typename Fence>
  void Run(size_t self, Fence fence) {
    for (int i = 0; i < kRounds; ++i) {
      Round& round = rounds_[static_cast<size_t>(i)];
      // They meet here.
      at_[self].value.store(i + 1);
      for (int looks = 0; at_[1 - self].value.load() < i + 1; ++looks) {
        if (looks > 1000) std::this_thread::yield();
      }
      for (Word& word : slow_) word.value.store(i, std::memory_order_relaxed);
      round.words[self].value.store(1, std::memory_order_relaxed);
      fence();
      round.seen[self] =
          round.words[1 - self].value.load(std::memory_order_relaxed);
    }
  }

  std::array<Word, 2> at_;
  std::array<Word, 16> slow_;
  std::vector<Round> rounds_ = std::vector<Round>(kRounds);
};

class AsymmetricFenceTest : public ::testing::TestWithParam<bool> {
 protected:
  AsymmetricFenceTest() {
    PrepareFences();
    UseMembarrier(GetParam());
  }
  ~AsymmetricFenceTest() override { UseMembarrier(true); }

  TwoThreads threads_;
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
  EXPECT_EQ(threads_.CountMisses(HeavyFence, HeavyFence), 0);
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
