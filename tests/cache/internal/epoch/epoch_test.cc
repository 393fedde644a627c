// Epochs: who holds back what, on both kinds of fence.
//
// That a fence keeps apart what comes before it and what comes after is the
// affair of the CPU, which no test can force. That it is there, and in its
// place, is shown at the named points: what was to come before has happened at
// the fence, and what happens to others there is seen after it.

#include "wheelcache/cache/internal/epoch/epoch.h"

#include <unistd.h>

#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <optional>
#include <thread>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/asymmetric_fence.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

// A thread that has a section open until it is told to close it.
class Reader {
 public:
  Reader() : thread_([this] { Run(); }) {
    while (!open_.load()) std::this_thread::yield();
  }
  ~Reader() { Close(); }

  void Close() {
    close_.store(true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    const ReadSection section;
    open_.store(true);
    while (!close_.load()) std::this_thread::yield();
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> close_{false};
  std::thread thread_;
};

class EpochTest : public ::testing::TestWithParam<bool> {
 protected:
  EpochTest() { UseMembarrier(GetParam()); }
  ~EpochTest() override { UseMembarrier(true); }
};

INSTANTIATE_TEST_SUITE_P(Fences, EpochTest, ::testing::Bool(),
                         [](const auto& fence) {
                           return fence.param ? "Membarrier" : "PlainFence";
                         });

TEST_P(EpochTest, AnOpenSectionHoldsBackWhatIsUnlinkedNow) {
  Reader reader;
  const Epoch ended = AdvanceEpoch();
  EXPECT_GT(NewestReaderUpTo(ended), 0u);
  reader.Close();
  EXPECT_EQ(NewestReaderUpTo(ended), 0u);
}

TEST_P(EpochTest, ASectionOpenedLaterHoldsBackNothingFromBefore) {
  const Epoch ended = AdvanceEpoch();
  Reader reader;
  EXPECT_EQ(NewestReaderUpTo(ended), 0u);
}

TEST_P(EpochTest, AnInnerSectionDoesNotEndTheOuter) {
  const ReadSection outer;
  EXPECT_FALSE(outer.nested());
  const Epoch ended = AdvanceEpoch();
  {
    const ReadSection inner;
    EXPECT_TRUE(inner.nested());
    EXPECT_GT(NewestReaderUpTo(ended), 0u);
  }
  EXPECT_GT(NewestReaderUpTo(ended), 0u);
}

TEST_P(EpochTest, WhatIsMadeAfterAdvanceBirthIsNotHeldBack) {
  Reader reader;
  const Birth before = BirthNow();
  const Epoch ended = AdvanceBirth();
  const Birth after = BirthNow();
  const Epoch held_by = NewestReaderUpTo(ended);
  EXPECT_TRUE(MaySee(held_by, before));
  EXPECT_FALSE(MaySee(held_by, after));
}

// The first epoch of a birth belongs to it.
TEST_P(EpochTest, ASectionOfTheEpochInWhichABirthBeginsMaySeeThatBirth) {
  while (current_epoch.load() % (1 << kEpochsPerBirthBits) != 0) {
    AdvanceEpoch();
  }
  Reader reader;
  const Birth birth = BirthNow();
  const Epoch held_by = NewestReaderUpTo(AdvanceEpoch());
  EXPECT_TRUE(MaySee(held_by, birth));
}

TEST_P(EpochTest, ASectionDoesNotCoverWhatIsMadeAfterIt) {
  ReadSection section;
  EXPECT_TRUE(section.Covers());
  AdvanceBirth();
  EXPECT_FALSE(section.Covers());
  section.Announce();
  EXPECT_TRUE(section.Covers());
}

TEST_P(EpochTest, NobodyReadsWhileThisThreadIsAlone) {
  {
    const ReadSection section;
    EXPECT_FALSE(NobodyReads());
  }
  EXPECT_TRUE(NobodyReads());
  Reader reader;
  EXPECT_FALSE(NobodyReads());
  reader.Close();
  EXPECT_TRUE(NobodyReads());
}

TEST_P(EpochTest, TenThousandShortThreadsShareAFewRecords) {
  const int before = CountThreadRecords();
  for (int i = 0; i < 10'000; ++i) {
    std::thread([] { const ReadSection section; }).join();
  }
  EXPECT_LE(CountThreadRecords(), before + 1);
  EXPECT_TRUE(NobodyReads());
}

// A thread-local object whose destructor reads after the thread's record went.
struct LateReader {
  ~LateReader() { const ReadSection section; }
};

TEST_P(EpochTest, ThreadsThatReadAtTheirVeryEndLeaveNoRecordTaken) {
  for (int i = 0; i < 100; ++i) {
    std::thread([] {
      thread_local LateReader late;  // Destroyed after what comes later.
      (void)&late;
      const ReadSection section;
    }).join();
  }
  EXPECT_TRUE(NobodyReads());
}

// Forks at the very end of its thread, in a section within another.
struct LateForker {
  ~LateForker() {
    const Epoch before = AdvanceEpoch();
    {
      const ReadSection outer;
      const ReadSection inner;
      child = fork();
      if (child != 0) return;
      if (NewestReaderUpTo(AdvanceEpoch()) <= before) _exit(1);
      if (NobodyReads()) _exit(2);
    }
    if (NewestReaderUpTo(AdvanceEpoch()) != 0) _exit(3);
    _exit(NobodyReads() ? 0 : 4);
  }
  static inline pid_t child = -1;
};

TEST_P(EpochTest, AThreadThatForksAtItsVeryEndKeepsItsSectionsInTheChild) {
  std::thread([] {
    thread_local LateForker late;  // Destroyed after what comes later.
    (void)&late;
    const ReadSection section;
  }).join();
  EXPECT_TRUE(testing::EndedWell(LateForker::child));
  EXPECT_TRUE(NobodyReads());
}

// The forced form of what the fences are for: a writer must not miss a reader
// that may still have looked at the old link.
TEST_P(EpochTest, AReaderNeverLooksAtWhatWasReused) {
  struct Object {
    std::atomic<int> version{0};
    std::atomic<bool> reused{false};
  };
  constexpr int kVersions = 20'000;
  Object objects[2];
  std::atomic<Object*> current{&objects[0]};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) {
      const ReadSection section;
      const Object* object = current.load(std::memory_order_acquire);
      EXPECT_FALSE(object->reused.load(std::memory_order_relaxed));
    }
  });
  for (int i = 1; i <= kVersions; ++i) {
    Object* const old = current.load();
    Object* const next = &objects[i % 2];
    next->reused.store(false, std::memory_order_relaxed);
    current.store(next, std::memory_order_release);
    const Epoch ended = AdvanceEpoch();
    while (NewestReaderUpTo(ended) != 0) std::this_thread::yield();
    old->reused.store(true, std::memory_order_relaxed);
  }
  done.store(true);
  reader.join();
}

// The same for who asks whether there are readers at all, while one comes.
TEST_P(EpochTest, AReaderThatComesNeverLooksAtWhatWasReusedForWantOfReaders) {
  constexpr int kReaders = 4'000;
  std::array<std::atomic<bool>, 1024> reused = {};
  alignas(64) std::atomic<size_t> current{0};
  // Taken away by each reader as it comes: the writer's stores to these take
  // long, and the one that follows waits behind, as it may without a fence.
  struct alignas(64) Line {
    std::atomic<int> word{0};
  };
  std::array<Line, 32> slow;
  std::atomic<int> come{0};
  std::thread readers([&] {
    for (int i = 0; i < kReaders; ++i) {
      std::thread([&] {
        for (Line& line : slow) line.word.store(1, std::memory_order_relaxed);
        const ReadSection section;
        const size_t seen = current.load(std::memory_order_acquire);
        for (int looks = 0; looks < 1000; ++looks) {
          ASSERT_FALSE(reused[seen].load(std::memory_order_relaxed));
        }
      }).join();
      come.store(i + 1);
    }
  });
  while (come.load() < kReaders) {
    const size_t old = current.load(std::memory_order_relaxed);
    const size_t next = (old + 1) % reused.size();
    reused[next].store(false, std::memory_order_relaxed);
    for (Line& line : slow) line.word.store(0, std::memory_order_relaxed);
    current.store(next, std::memory_order_release);
    if (NobodyReads()) {
      reused[old].store(true, std::memory_order_relaxed);
    } else {
      const Epoch ended = AdvanceEpoch();
      while (NewestReaderUpTo(ended) != 0) std::this_thread::yield();
    }
  }
  readers.join();
}

#if defined(WHEELCACHE_HAS_LINUX_CALLS) && defined(SYS_membarrier)

// Enters a sandbox in which membarrier(2) fails. Returns whether it could.
bool ForbidMembarrier() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Readers rely on it and have no fence of their own.
TEST(EpochDeathTest, ProgramEndsWhereMembarrierFailsAfterItWasGranted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  UseMembarrier(true);
  if (!light_fence_is_free.load()) GTEST_SKIP();
  if (!testing::HoldsInChild(ForbidMembarrier)) {
    GTEST_SKIP() << "no sandbox to be had";
  }
  EXPECT_EXIT(
      {
        AdvanceEpoch();
        ForbidMembarrier();
        AdvanceEpoch();
      },
      ::testing::KilledBySignal(SIGABRT), "");
}

#endif

using EpochFenceTest = InterruptedCacheEnvironment;

TEST_F(EpochFenceTest, ASectionAnnouncesItsEpochBeforeTheFence) {
  { const ReadSection takes_a_record; }
  const Epoch now = current_epoch.load();
  bool announced = false;
  At("fence: light",
     [&] { announced = this_thread.record->announced.load() == now; });
  const ReadSection section;
  EXPECT_TRUE(announced);
}

TEST_F(EpochFenceTest, ASectionThatAnnouncesAnewHasAFenceToo) {
  ReadSection section;
  AdvanceBirth();
  const Epoch now = current_epoch.load();
  bool announced = false;
  At("fence: light",
     [&] { announced = this_thread.record->announced.load() == now; });
  section.Announce();
  EXPECT_TRUE(announced);
}

// A writer that finds nobody destroys at once what it unlinked.
TEST_F(EpochFenceTest, AThreadIsCountedBeforeTheFenceOfItsFirstSection) {
  std::atomic<bool> at_fence{false};
  std::atomic<bool> goes_on{false};
  std::thread reader([&] {
    At("fence: full", [&] {
      at_fence.store(true);
      while (!goes_on.load()) std::this_thread::yield();
    });
    const ReadSection section;
    EXPECT_EQ(testing::interruption.point, "");
    at_fence.store(true);
  });
  while (!at_fence.load()) std::this_thread::yield();
  EXPECT_FALSE(NobodyReads());
  goes_on.store(true);
  reader.join();
}

TEST_F(EpochFenceTest, WhoeverFindsNobodyLooksOnceMoreAfterTheFence) {
  EXPECT_TRUE(NobodyReads());
  std::optional<Reader> other;
  At("fence: full", [&] { other.emplace(); });
  EXPECT_FALSE(NobodyReads());
}

TEST_F(EpochFenceTest, AnEpochHasEndedBeforeTheFence) {
  const Epoch now = current_epoch.load();
  Epoch next = 0;
  At("fence: full", [&] { next = current_epoch.load(); });
  EXPECT_EQ(AdvanceEpoch(), now);
  EXPECT_EQ(next, now + 1);
}

}  // namespace
}  // namespace wheelcache::internal
