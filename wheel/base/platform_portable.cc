#include "wheelcache/wheel/base/platform.h"

#ifndef WHEELCACHE_HAS_LINUX_CALLS

#include <chrono>
#include <cstring>
#include <random>

#ifdef __APPLE__
#include <time.h>
#endif
#ifndef _WIN32
#include <sys/mman.h>
#endif

namespace wheelcache::platform {

#ifndef _WIN32

namespace {

void* MapAt(void* begin, size_t bytes, int flags) {
  return mmap(begin, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

}  // namespace

std::byte* MapPages(size_t bytes, bool) {
  void* const pages = MapAt(nullptr, bytes, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

// By new pages in the place of the old ones: madvise, which leaves zeros on
// Linux, may leave what was there on other systems.
void ReleasePages(const PageRange* ranges, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (MapAt(ranges[i].begin, ranges[i].bytes, MAP_FIXED) != MAP_FAILED)
      continue;
    std::memset(ranges[i].begin, 0, ranges[i].bytes);
  }
}

#endif

// Windows has FlushProcessWriteBuffers(), which Wine 8 accepts and ignores: a
// reader could be missed there.
bool OffersFenceInAllThreads() { return false; }
void FenceInAllThreads() {}

void PreferHugePages(void*, size_t) {}
void RefuseHugePages(void*, size_t) {}

#ifdef __APPLE__
// Its CLOCK_MONOTONIC, and so its steady_clock, goes on while it is suspended.
int64_t MonotonicNanos() {
  return static_cast<int64_t>(clock_gettime_nsec_np(CLOCK_UPTIME_RAW));
}
int64_t NanosSinceBoot() {
  return static_cast<int64_t>(clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW));
}
#else
int64_t MonotonicNanos() {
  const std::chrono::nanoseconds now =
      std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}
int64_t NanosSinceBoot() { return MonotonicNanos(); }
#endif

int OpenAlarm() { return -1; }
void CloseAlarm(int) {}
void SetAlarm(int, int64_t) {}
void AwaitAlarm(int) {}

void NameThisThread([[maybe_unused]] const char* name) {
#ifdef __APPLE__
  pthread_setname_np(name);
#endif
}

void FillWithSecret(void* to, size_t bytes) {
  std::random_device device;
  const std::random_device::result_type words[] = {device(), device(), device(),
                                                   device()};
  std::memcpy(to, words, bytes);
}

}  // namespace wheelcache::platform

#endif
