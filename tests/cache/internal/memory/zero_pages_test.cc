// Pages from the system: zeros at first, and gone in the end.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/pages.h"

namespace wheelcache::internal {
namespace {

TEST(PagesTest, AreZeroAndWritable) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000}}) {
    const Pages pages = Pages::Map(bytes);
    ASSERT_NE(pages.begin(), nullptr);
    std::byte* const end = pages.begin() + bytes;
    EXPECT_EQ(std::count(pages.begin(), end, std::byte{0}), bytes);
    std::fill(pages.begin(), end, std::byte{1});
    EXPECT_EQ(std::count(pages.begin(), end, std::byte{1}), bytes);
  }
}

TEST(PagesTest, AreNoneWhereNoneIsAskedFor) {
  EXPECT_EQ(Pages::Map(0).begin(), nullptr);
}

// msync() fails where nothing is mapped.
TEST(PagesTest, GoBackToTheSystem) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = nullptr;
  {
    const Pages pages = Pages::Map(page);
    memory = pages.begin();
    EXPECT_EQ(msync(memory, page, MS_ASYNC), 0);
  }
  EXPECT_NE(msync(memory, page, MS_ASYNC), 0);
}

}  // namespace
}  // namespace wheelcache::internal
