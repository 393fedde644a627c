#include "wheelcache/wheel/base/platform.h"

#ifndef _WIN32

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace wheelcache::platform {

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

std::byte* ReservePages(size_t bytes, size_t alignment) {
  const size_t reserved = bytes + alignment;
  void* const mapped = mmap(nullptr, reserved, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto round_up = [](uintptr_t value, size_t unit) {
    return (value + unit - 1) & ~(unit - 1);
  };
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = round_up(begin, alignment);
  const uintptr_t end = round_up(aligned + bytes, PageBytes());
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (end < begin + reserved) {
    munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  }
  return reinterpret_cast<std::byte*>(aligned);
}

bool CommitPages(void* begin, size_t bytes) {
  return mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0;
}

void UnmapPages(void* begin, size_t bytes) { munmap(begin, bytes); }

int StartThread(Thread* thread, ThreadResult (*run)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(thread, nullptr, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

void JoinThread(Thread thread) { pthread_join(thread, nullptr); }

bool IsThisThread(Thread thread) {
  return pthread_equal(thread, pthread_self()) != 0;
}

void CallAtFork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  pthread_atfork(before, in_parent, in_child);
}

int ProcessId() { return getpid(); }

}  // namespace wheelcache::platform

#endif
