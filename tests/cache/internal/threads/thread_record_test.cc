// The records of threads: who has which, and who gives his back.

#include "wheelcache/cache/internal/threads/thread_record.h"

#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/tests/testing/child.h"

namespace wheelcache::internal {
namespace {

size_t IndexInANewThread() {
  size_t index = 0;
  std::thread([&] { index = ThreadIndex(); }).join();
  return index;
}

// Whether nobody has the record, and nothing is left in it.
bool IsFree(const ThreadRecord& record) {
  return !record.taken.load() && record.owner.load() == nullptr &&
         record.announced.load() == 0;
}

// Threads that live together, each of which has called ThreadIndex(), and has a
// section open.
class Threads {
 public:
  explicit Threads(int count) : indexes_(static_cast<size_t>(count)) {
    for (size_t& index : indexes_) {
      threads_.emplace_back([this, &index] {
        index = ThreadIndex();
        const ReadSection section;
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
  EXPECT_EQ(section.record()->owner.load(), &this_thread);
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
        return section.record()->owner.load() == &this_thread &&
               NoOtherRecordIsTaken(*section.record());
      },
      testing::Others::kRun));
}

}  // namespace
}  // namespace wheelcache::internal
