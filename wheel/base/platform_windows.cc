#include "wheelcache/wheel/base/platform.h"

#ifdef _WIN32

#include <process.h>
#include <windows.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace wheelcache::platform {

size_t PageBytes() {
  static const size_t bytes = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<size_t>(info.dwPageSize);
  }();
  return bytes;
}

std::byte* MapPages(size_t bytes, bool) {
  return static_cast<std::byte*>(
      VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
}

// What is reserved is released as a whole: there is no cutting off its ends.
// So this looks for a place that is large enough, and takes a part of it,
// unless another thread has done so first.
std::byte* ReservePages(size_t bytes, size_t alignment) {
  for (;;) {
    void* const place =
        VirtualAlloc(nullptr, bytes + alignment, MEM_RESERVE, PAGE_NOACCESS);
    if (place == nullptr) return nullptr;
    VirtualFree(place, 0, MEM_RELEASE);
    const auto begin = reinterpret_cast<uintptr_t>(place);
    const uintptr_t aligned = (begin + alignment - 1) & ~(alignment - 1);
    void* const pages = VirtualAlloc(reinterpret_cast<void*>(aligned), bytes,
                                     MEM_RESERVE, PAGE_NOACCESS);
    if (pages != nullptr) return static_cast<std::byte*>(pages);
  }
}

bool CommitPages(void* begin, size_t bytes) {
  return VirtualAlloc(begin, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

void UnmapPages(void* begin, size_t) { VirtualFree(begin, 0, MEM_RELEASE); }

void ReleasePages(const PageRange* ranges, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    VirtualFree(ranges[i].begin, ranges[i].bytes, MEM_DECOMMIT);
    if (CommitPages(ranges[i].begin, ranges[i].bytes)) continue;
    // Others have taken it meanwhile. Without it, the next use would end the
    // program with less of an explanation.
    std::fputs("wheelcache: the system has no memory left\n", stderr);
    std::abort();
  }
}

int StartThread(Thread* thread, ThreadResult (*run)(void*), void* argument) {
  const uintptr_t handle =
      _beginthreadex(nullptr, 0, run, argument, 0, &thread->id);
  thread->handle = reinterpret_cast<void*>(handle);
  return handle == 0 ? errno : 0;
}

void JoinThread(Thread thread) {
  WaitForSingleObject(thread.handle, INFINITE);
  CloseHandle(thread.handle);
}

bool IsThisThread(Thread thread) { return thread.id == GetCurrentThreadId(); }

// There is no fork().
void CallAtFork(void (*)(), void (*)(), void (*)()) {}
int ProcessId() { return 1; }

bool OffersFenceInAllThreads() { return true; }
void FenceInAllThreads() { FlushProcessWriteBuffers(); }

}  // namespace wheelcache::platform

#endif
