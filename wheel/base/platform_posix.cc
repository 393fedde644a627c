#include "wheelcache/wheel/base/platform.h"

#ifndef _WIN32

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace wheelcache::platform {
namespace {

// Whether a path leads to this open file.
bool IsAt(const char* path, int file) {
  struct stat opened;
  struct stat named;
  return fstat(file, &opened) == 0 && stat(path, &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Keeps errno.
void CloseAfterFailure(int file) {
  const int error = errno;
  close(file);
  errno = error;
}

// Calls a function again while a signal interrupts it.
template <typename Function>
ssize_t Uninterrupted(Function function) {
  for (;;) {
    const ssize_t result = function();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

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

File OpenToRead(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

File OpenToWrite(const char* path, const char** call) {
  for (;;) {
    *call = "open";
    const int file =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return kNoFile;
    *call = "flock";
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      CloseAfterFailure(file);
      return kNoFile;
    }
    // Else another writer has moved it to its place since it was opened.
    if (IsAt(path, file)) {
      *call = "ftruncate";
      if (ftruncate(file, 0) == 0) return file;
      unlink(path);
      CloseAfterFailure(file);
      return kNoFile;
    }
    close(file);
  }
}

bool MoveToPlace(File file, const char* from, const char* to,
                 const char** call) {
  *call = "fsync";
  if (fsync(file) != 0) return false;
  *call = "rename";
  return rename(from, to) == 0;
}

bool SyncFolder(const char* folder, const char** call) {
  *call = "open";
  const int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return false;
  *call = "fsync";
  const bool synced = fsync(file) == 0;
  CloseAfterFailure(file);
  return synced;
}

int64_t SizeOf(File file) {
  struct stat opened;
  return fstat(file, &opened) == 0 ? opened.st_size : -1;
}

int64_t ReadAt(File file, void* to, size_t bytes, int64_t offset) {
  return Uninterrupted([&] { return pread(file, to, bytes, offset); });
}

int64_t WriteTo(File file, const void* from, size_t bytes) {
  return Uninterrupted([&] { return write(file, from, bytes); });
}

void CloseFile(File file) { close(file); }

void RemoveFile(const char* path) { unlink(path); }

}  // namespace wheelcache::platform

#endif
