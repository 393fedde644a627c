#include "wheelcache/wheel/base/platform.h"

#ifdef _WIN32

#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <process.h>
#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <system_error>

namespace wheelcache::platform {
namespace {

void SetErrno() {
  const DWORD error = GetLastError();
  errno = error == ERROR_SHARING_VIOLATION
              ? EWOULDBLOCK
              : std::system_category()
                    .default_error_condition(static_cast<int>(error))
                    .value();
}

File Open(const char* path, DWORD access, DWORD sharing, DWORD disposition) {
  void* const file = CreateFileA(path, access, sharing, nullptr, disposition,
                                 FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file != INVALID_HANDLE_VALUE) return file;
  SetErrno();
  return kNoFile;
}

DWORD AtMost4GiB(size_t bytes) {
  return static_cast<DWORD>(
      std::min<size_t>(bytes, std::numeric_limits<DWORD>::max()));
}

}  // namespace

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

File OpenToRead(const char* path) {
  return Open(path, GENERIC_READ,
              FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
              OPEN_EXISTING);
}

// Whoever opens it cannot write to it, but may move and remove it.
File OpenToWrite(const char* path, const char** call) {
  *call = "open";
  return Open(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE,
              CREATE_ALWAYS);
}

bool MoveToPlace(File file, const char* from, const char* to,
                 const char** call) {
  *call = "flush";
  bool done = FlushFileBuffers(file) != 0;
  if (done) {
    *call = "rename";
    done = MoveFileExA(from, to,
                       MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0;
  }
  if (!done) SetErrno();
  return done;
}

// MoveToPlace has done it.
bool SyncFolder(const char*, const char**) { return true; }

int64_t SizeOf(File file) {
  LARGE_INTEGER size;
  if (GetFileSizeEx(file, &size) != 0) return size.QuadPart;
  SetErrno();
  return -1;
}

int64_t ReadAt(File file, void* to, size_t bytes, int64_t offset) {
  OVERLAPPED at = {};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD count = 0;
  if (ReadFile(file, to, AtMost4GiB(bytes), &count, &at) != 0 ||
      GetLastError() == ERROR_HANDLE_EOF) {
    return count;
  }
  SetErrno();
  return -1;
}

int64_t WriteTo(File file, const void* from, size_t bytes) {
  DWORD count = 0;
  if (WriteFile(file, from, AtMost4GiB(bytes), &count, nullptr) != 0) {
    return count;
  }
  SetErrno();
  return -1;
}

void CloseFile(File file) { CloseHandle(file); }

void RemoveFile(const char* path) { DeleteFileA(path); }

}  // namespace wheelcache::platform

#endif
