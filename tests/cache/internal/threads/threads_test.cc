// The records of threads: who has which, and who gives his back; and fences
// between a store and a load: of two threads that each store to one word and
// then load the other's, at least one sees what the other has stored.
//
// No test can force a CPU to reorder the two. But without a fence it does so in
// some of so many rounds, where the load finds its line in the cache and the
// store has to wait: for the line, and for stores before it. Optimized, as GCC
// else takes every store for a sequentially consistent one.

#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/asymmetric_fence.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

size_t IndexInANewThread() {
  size_t index = 0;
  std::thread([&] { index = ThreadIndex(); }).join();
  return index;
}

// Whether nobody has the record, and nothing is left in it.
bool IsFree(const ThreadRecord& record) {
  return !record.taken.load() && record.announced.load() == 0;
}

// Threads that live together, each of which has called ThreadIndex().
class Threads {
 public:
  explicit Threads(int count) : indexes_(static_cast<size_t>(count)) {
    for (size_t& index : indexes_) {
      threads_.emplace_back([this, &index] {
        index = ThreadIndex();
        ++ready_;
        while (!done_.load()) std::this_thread::yield();
      });
    }
    while (ready_.load() < count) std::this_thread::yield();
  }
  ~Threads() {
    done_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

  const std::vector<size_t>& indexes() const { return indexes_; }

 private:
  std::vector<size_t> indexes_;
  std::atomic<int> ready_{0};
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

TEST(ThreadRecordTest, ThreadsThatLiveTogetherHaveDifferentIndexes) {
  constexpr int kThreads = 50;
  ThreadIndex();
  const Threads threads(kThreads);
  std::set<size_t> all(threads.indexes().begin(), threads.indexes().end());
  all.insert(ThreadIndex());
  EXPECT_EQ(all.size(), kThreads + 1u);
  EXPECT_EQ(all.count(kSharedThreadIndex), 0u);
}

TEST(ThreadRecordTest, IndexesCountFromZero) {
  const Threads threads(5);
  const auto count = static_cast<size_t>(CountThreadRecords());
  std::set<size_t> all;
  for (const ThreadRecord* record = FirstThreadRecord(); record != nullptr;
       record = record->next) {
    all.insert(record->index);
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(*all.begin(), 0u);
  EXPECT_EQ(*all.rbegin(), count - 1);
}

TEST(ThreadRecordTest, ANewThreadTakesTheRecordOfOneThatHasEnded) {
  ThreadIndex();
  const size_t index = IndexInANewThread();
  EXPECT_NE(index, ThreadIndex());
  EXPECT_EQ(IndexInANewThread(), index);
}

TEST(ThreadRecordTest, AThreadKeepsItsRecord) {
  const ReadSection section;
  EXPECT_EQ(section.record(), this_thread.record);
  EXPECT_EQ(section.record()->index, ThreadIndex());
  EXPECT_TRUE(section.record()->taken.load());
  const ReadSection inner;
  EXPECT_EQ(inner.record(), section.record());
}

TEST(ThreadRecordTest, AThreadThatHasEndedLeavesNothingInItsRecord) {
  const ThreadRecord* record = nullptr;
  std::thread([&] {
    const ReadSection section;
    record = section.record();
  }).join();
  EXPECT_TRUE(IsFree(*record));
}

// Without a record of its own, it may not count another's.
TEST(ThreadRecordTest, AThreadWithoutARecordSeesThatOthersHaveOne) {
  ThreadIndex();
  std::thread([] {
    EXPECT_FALSE(HasThreadRecord());
    EXPECT_FALSE(NobodyReads());
    EXPECT_FALSE(HasThreadRecord());
  }).join();
  EXPECT_TRUE(NobodyReads());
}

// A thread-local object, destroyed after the thread's record went.
struct Late {
  ~Late() {
    EXPECT_FALSE(HasThreadRecord());
    EXPECT_EQ(ThreadIndex(), kSharedThreadIndex);
    EXPECT_GT(ThreadIndex(), static_cast<size_t>(CountThreadRecords()));
    {
      const ReadSection section;
      record = section.record();
      EXPECT_TRUE(record->taken.load());
      EXPECT_NE(record->announced.load(), 0u);
    }
    EXPECT_TRUE(IsFree(*record));
    EXPECT_FALSE(HasThreadRecord());
  }
  static inline const ThreadRecord* record = nullptr;
};

TEST(ThreadRecordTest, AThreadAtItsVeryEndHasARecordForOneReadAlone) {
  std::thread([] {
    thread_local Late late;  // Destroyed after what comes later.
    (void)&late;
    const ReadSection section;
  }).join();
  ASSERT_NE(Late::record, nullptr);
  EXPECT_TRUE(NobodyReads());
}

TEST(ThreadRecordTest, AChildOfForkHasNoRecordButItsOwn) {
  const ReadSection section;
  const Threads threads(3);
  EXPECT_TRUE(testing::HoldsInChild(
      [&] {
        for (const ThreadRecord* record = FirstThreadRecord();
             record != nullptr; record = record->next) {
          if (record == section.record()) {
            if (!record->taken.load() || record->announced.load() == 0) {
              return false;
            }
          } else if (!IsFree(*record)) {
            return false;
          }
        }
        return NoOtherRecordIsTaken(*section.record());
      },
      testing::Others::kRun));
}

constexpr int kRounds = 20'000;
constexpr int kFewRounds = 6'000;  // Of a system call each.

struct alignas(128) Word {
  std::atomic<int> value{0};
};

// Keeps the calling thread on one CPU, another one for each number, as long as
// this lives: on a busy machine, two threads may else share one for long.
class Pinned {
 public:
  explicit Pinned(size_t number) {
#ifdef __linux__
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_) || number-- != 0) continue;
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof(one), &one);
      break;
    }
#endif
  }
  ~Pinned() {
#ifdef __linux__
    sched_setaffinity(0, sizeof(before_), &before_);
#endif
  }

#ifdef __linux__
 private:
  cpu_set_t before_;
#endif
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
    const Pinned pinned(self);
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

#if defined(WHEELCACHE_HAS_LINUX_CALLS) && defined(SYS_membarrier) && \
    !defined(ABSL_HAVE_THREAD_SANITIZER)

TEST(MembarrierDeathTest, IsUsedFromLoadTimeOnWhereTheKernelHasIt) {
  constexpr int kQuery = 0;
  constexpr int kPrivateExpedited = 1 << 3;
  const auto commands = syscall(SYS_membarrier, kQuery, 0, 0);
  const bool has_it = commands > 0 && (commands & kPrivateExpedited) != 0;
  // In a new process, in which nothing has prepared the fences yet.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(light_fence_is_free.load() == has_it ? 0 : 1),
              ::testing::ExitedWithCode(0), "");
  UseMembarrier(false);
  EXPECT_FALSE(light_fence_is_free.load());
  UseMembarrier(true);
  EXPECT_EQ(light_fence_is_free.load(), has_it);
}

// Has membarrier fail from now on, as sandboxes do. Returns whether it does.
bool ForbidMembarrier() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(MembarrierDeathTest, ProgramSaysWhyItEndsWhereASandboxForbidsIt) {
  if (!light_fence_is_free.load() || prctl(PR_GET_SECCOMP) < 0) GTEST_SKIP();
  EXPECT_DEATH(ForbidMembarrier() ? HeavyFence() : _exit(0),
               "membarrier.* is forbidden now, as by a seccomp filter");
}

#endif

}  // namespace
}  // namespace wheelcache::internal
