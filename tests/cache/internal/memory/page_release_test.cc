// Tests of PageRelease on the kernel of this machine, on one that takes many
// ranges in a call, and on those that do not.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/pages.h"

extern "C" {
// The names that the linker gives to what --wrap replaces.
int __real_madvise(void* at, size_t bytes, int advice);
long __real_syscall(long number, ...);
}

namespace wheelcache::internal {
namespace {

enum class Kernel { kReal, kTakesAll, kTakesTheFirst, kTakesNone };

Kernel kernel = Kernel::kReal;
int calls = 0;  // That give pages back, of either kind.

// What process_madvise does: it stops early where it cannot go on.
long TakeRanges(const iovec* ranges, long count) {
  if (kernel == Kernel::kTakesNone) {
    errno = EBADF;
    return -1;
  }
  if (kernel == Kernel::kTakesTheFirst) count = 1;
  long bytes = 0;
  for (long i = 0; i < count; ++i) {
    __real_madvise(ranges[i].iov_base, ranges[i].iov_len, MADV_DONTNEED);
    bytes += static_cast<long>(ranges[i].iov_len);
  }
  return bytes;
}

class PageReleaseTest : public ::testing::TestWithParam<Kernel> {
 protected:
  static constexpr size_t kPages = 400;

  PageReleaseTest() {
    kernel = GetParam();
    std::memset(memory_, 1, kPages * page_);
    calls = 0;
  }
  ~PageReleaseTest() override { kernel = Kernel::kReal; }

  void Add(PageRelease* release, size_t page) {
    release->Add(memory_ + page * page_, page_);
  }

  // Whether every second of the first pages is zeros, and all others are not.
  void ExpectEverySecondReleased(size_t released) {
    for (size_t page = 0; page < kPages; ++page) {
      const bool is_zero = page % 2 == 0 && page / 2 < released;
      EXPECT_EQ(memory_[page * page_], is_zero ? 0 : 1) << page;
      EXPECT_EQ(memory_[page * page_ + page_ - 1], is_zero ? 0 : 1) << page;
    }
  }

  static bool TakesMany() { return kernel == Kernel::kTakesAll; }

  const size_t page_ = Pages::RoundUp(1);
  const Pages pages_ = Pages::Map(kPages * page_, Pages::Kind::kAtOnce);
  char* const memory_ = reinterpret_cast<char*>(pages_.begin());
};

TEST_P(PageReleaseTest, NothingIsReleasedWithoutARange) {
  { PageRelease release; }
  EXPECT_EQ(calls, 0);
  ExpectEverySecondReleased(0);
}

TEST_P(PageReleaseTest, OneRangeIsReleasedByOneCall) {
  {
    PageRelease release;
    Add(&release, 0);
  }
  EXPECT_EQ(calls, 1);
  ExpectEverySecondReleased(1);
}

TEST_P(PageReleaseTest, ManyRangesAreReleasedInOneCallIfTheKernelTakesThem) {
  {
    PageRelease release;
    for (size_t i = 0; i < 10; ++i) Add(&release, 2 * i);
  }
  if (kernel != Kernel::kReal) {
    EXPECT_EQ(calls, TakesMany() ? 1 : 11);
  }
  ExpectEverySecondReleased(10);
}

TEST_P(PageReleaseTest, MoreRangesThanItHoldsAreReleased) {
  {
    PageRelease release;
    for (size_t i = 0; i < kPages / 2; ++i) Add(&release, 2 * i);
  }
  if (TakesMany()) {
    EXPECT_EQ(calls, 4);  // Of 64 ranges each.
  }
  ExpectEverySecondReleased(kPages / 2);
}

INSTANTIATE_TEST_SUITE_P(Kernels, PageReleaseTest,
                         ::testing::Values(Kernel::kReal, Kernel::kTakesAll,
                                           Kernel::kTakesTheFirst,
                                           Kernel::kTakesNone));

}  // namespace
}  // namespace wheelcache::internal

extern "C" {

int __wrap_madvise(void* at, size_t bytes, int advice) {
  ++wheelcache::internal::calls;
  return __real_madvise(at, bytes, advice);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e) {
#ifdef SYS_process_madvise
  using namespace wheelcache::internal;  // NOLINT(google-build-using-namespace)
  if (number == SYS_process_madvise) {
    ++calls;
    if (kernel != Kernel::kReal) {
      return TakeRanges(reinterpret_cast<const iovec*>(b), c);
    }
  }
#endif
  return __real_syscall(number, a, b, c, d, e);
}
}
