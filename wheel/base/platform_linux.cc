#include "wheelcache/wheel/base/platform.h"

#ifdef WHEELCACHE_HAS_LINUX_CALLS

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace wheelcache::platform {
namespace {

// Returns false if some ranges may be left. Each call of madvise interrupts
// every core that runs a thread of the process, so that none uses the old pages
// from its TLB. This is one call for all, of Linux 6.13, with one interrupt
// from 6.16 on.
bool ReleaseInOneCall(const PageRange* ranges, size_t count) {
#ifdef SYS_process_madvise
  static_assert(sizeof(PageRange) == sizeof(iovec));
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += ranges[i].bytes;
  // From linux/pidfd.h, which older systems lack. A kernel that does not know
  // it finds no such file descriptor.
  constexpr int kPidfdSelf = -10000;
  return syscall(SYS_process_madvise, kPidfdSelf, ranges, count, MADV_DONTNEED,
                 0) == static_cast<ssize_t>(bytes);
#else
  return false;
#endif
}

// From linux/membarrier.h, which older systems lack.
constexpr int kPrivateExpedited = 1 << 3;
constexpr int kRegisterPrivateExpedited = 1 << 4;

bool Membarrier([[maybe_unused]] int command) {
#ifdef SYS_membarrier
  return syscall(SYS_membarrier, command, 0, 0) == 0;
#else
  return false;
#endif
}

}  // namespace

std::byte* MapPages(size_t bytes, bool at_once) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at_once ? MAP_POPULATE : 0);
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

void ReleasePages(const PageRange* ranges, size_t count) {
  if (count > 1 && ReleaseInOneCall(ranges, count)) return;
  for (size_t i = 0; i < count; ++i) {
    if (madvise(ranges[i].begin, ranges[i].bytes, MADV_DONTNEED) == 0) continue;
    std::memset(ranges[i].begin, 0, ranges[i].bytes);  // Locked, by mlockall.
  }
}

void PreferHugePages(void* begin, size_t bytes) {
  madvise(begin, bytes, MADV_HUGEPAGE);
}

void RefuseHugePages(void* begin, size_t bytes) {
  madvise(begin, bytes, MADV_NOHUGEPAGE);
}

int OpenAlarm() { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC); }

void CloseAlarm(int alarm) { close(alarm); }

void SetAlarm(int alarm, int64_t nanos) {
  nanos = std::max<int64_t>(nanos, 1);  // Zero would stop the timer.
  itimerspec expiry = {};
  expiry.it_value.tv_sec = nanos / 1'000'000'000;
  expiry.it_value.tv_nsec = nanos % 1'000'000'000;
  timerfd_settime(alarm, TFD_TIMER_ABSTIME, &expiry, nullptr);
}

void AwaitAlarm(int alarm) {
  uint64_t expirations;
  while (read(alarm, &expirations, sizeof(expirations)) < 0) {
    if (errno != EINTR) break;
  }
}

void NameThisThread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

bool OffersFenceInAllThreads() { return Membarrier(kRegisterPrivateExpedited); }

void FenceInAllThreads() {
  if (Membarrier(kPrivateExpedited)) return;
  // Some kernels forget the registration at a fork.
  Membarrier(kRegisterPrivateExpedited);
  if (Membarrier(kPrivateExpedited)) return;
  // A sandbox has forbidden it since. Readers rely on it: going on without it
  // would free what they are reading.
  std::fputs(
      "wheelcache: membarrier(2), which was allowed when the program began, is "
      "forbidden now, as by a seccomp filter: add it to what that allows\n",
      stderr);
  std::abort();
}

// Random bytes from the kernel. The C library makes its stack and pointer
// guards of them: they must not leave this process.
void FillWithSecret(void* to, size_t bytes) {
  const auto* const secret =
      reinterpret_cast<const char*>(getauxval(AT_RANDOM));
  if (secret != nullptr) std::memcpy(to, secret, bytes);
}

}  // namespace wheelcache::platform

#endif
