// What a cache is like after an allocation has failed.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "absl/base/attributes.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace {

// The allocations of this thread that succeed before one fails; none if
// negative.
thread_local int64_t allocations_left = -1;

}  // namespace

// Not inline, or the compiler finds fault with pairs of which it sees one half.
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* const block = std::malloc(size != 0 ? size : 1)) return block;
  throw std::bad_alloc();
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t size,
                                           std::align_val_t alignment) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  const auto align = static_cast<size_t>(alignment);
  const size_t rounded = (size + align - 1) / align * align;
  if (void* const block = std::aligned_alloc(align, rounded)) return block;
  throw std::bad_alloc();
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block) noexcept {
  std::free(block);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block, size_t) noexcept {
  std::free(block);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block,
                                             std::align_val_t) noexcept {
  std::free(block);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block, size_t,
                                             std::align_val_t) noexcept {
  std::free(block);
}

namespace wheelcache {
namespace {

// Counts the values that exist.
class Counted {
 public:
  explicit Counted(std::atomic<int64_t>* count) : count_(count) { ++*count_; }
  Counted(const Counted& other) : count_(other.count_) { ++*count_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*count_; }

 private:
  std::atomic<int64_t>* count_;
};

// Calls `call` with its first allocation failing, its second, and so on until
// none fails any more. Returns how many failed.
template <typename Call>
int CallWithEachAllocationFailing(Call&& call) {
  for (int failed = 0;; ++failed) {
    allocations_left = failed;
    try {
      call();
    } catch (const std::bad_alloc&) {
    }
    const bool all_succeeded = allocations_left >= 0;
    allocations_left = -1;
    if (all_succeeded) return failed;
  }
}

class CacheMemoryFailureTest : public CacheEnvironment {
 protected:
  // Removes the cache's means to destroy at once what leaves it: another
  // thread that reads.
  class AnotherReader {
   public:
    explicit AnotherReader(Cache<int, Counted>* cache)
        : thread_([this, cache] {
            cache->Contains(0);
            has_read_.store(true);
            while (!go_on_.load()) std::this_thread::yield();
          }) {
      while (!has_read_.load()) std::this_thread::yield();
    }
    ~AnotherReader() {
      go_on_.store(true);
      thread_.join();
    }

   private:
    std::atomic<bool> has_read_{false};
    std::atomic<bool> go_on_{false};
    std::thread thread_;
  };

  std::atomic<int64_t> values_{0};
};

TEST_F(CacheMemoryFailureTest, SetLeavesTheCacheWholeWhereTheIndexCannotGrow) {
  options_.shards = 1;
  auto cache = New<int, Counted>();
  int failures = 0;
  for (int key = 0; key < 1'000; ++key) {
    failures += CallWithEachAllocationFailing(
        [&] { cache->Set(key, Counted(&values_)); });
    ASSERT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    ASSERT_EQ(cache->size(), key + 1);
    ASSERT_EQ(values_.load(), key + 1);
  }
  EXPECT_GT(failures, 0);
}

TEST_F(CacheMemoryFailureTest, SetLeavesTheCacheWholeWhereLimboHasNoMemory) {
  options_.shards = 1;
  options_.max_entries = 100;
  auto cache = New<int, Counted>();
  {
    const AnotherReader reader(cache.get());
    for (int key = 0; key < 1'000; ++key) {
      CallWithEachAllocationFailing(
          [&] { cache->Set(key, Counted(&values_)); });
      ASSERT_TRUE(cache->Contains(key));
      ASSERT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    }
  }
  cache->RunMaintenance();
  EXPECT_EQ(values_.load(), 100);
}

TEST_F(CacheMemoryFailureTest, ClearLeavesTheCacheWholeAndUnlocked) {
  options_.shards = 4;
  auto cache = New<int, Counted>();
  for (int key = 0; key < 1'000; ++key) cache->Set(key, Counted(&values_));
  EXPECT_GT(CallWithEachAllocationFailing([&] {
              cache->Clear();
              ASSERT_TRUE(cache->CheckInvariants().ok());
            }),
            0);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(values_.load(), 0);
}

}  // namespace
}  // namespace wheelcache
