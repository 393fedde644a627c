// What the library asks of the operating system; nothing else of it does.
//
// platform_linux.cc has what Linux alone offers, platform_portable.cc the same
// on other systems: by the C++ library, or not at all where that costs speed or
// memory only. platform_posix.cc has what Unix systems share, among them macOS,
// and platform_windows.cc the same on Windows.
//
// With -DWHEELCACHE_PORTABLE, Linux gets what other Unix systems get, so that
// its tests run that as well.
//
// Threads. Thread-safe, but for objects that the caller passes.

#ifndef WHEELCACHE_WHEEL_BASE_PLATFORM_H_
#define WHEELCACHE_WHEEL_BASE_PLATFORM_H_

#include <cstddef>
#include <cstdint>

#include "wheelcache/wheel/base/export.h"

#ifndef _WIN32
#include <pthread.h>
#endif
#if defined(__linux__) && !defined(WHEELCACHE_PORTABLE)
#define WHEELCACHE_HAS_LINUX_CALLS
#include <time.h>
#endif

namespace wheelcache::platform {

// Memory. Pages are private to the process. `begin` and `bytes` are multiples
// of the page size, unless a call says otherwise.

WHEELCACHE_EXPORT size_t PageBytes();

// Maps so many bytes, rounded up to pages, of zeros. `at_once` says that all of
// them are used soon: one fault for all, where the system offers that. Returns
// null if there is no room.
WHEELCACHE_EXPORT std::byte* MapPages(size_t bytes, bool at_once);

// Reserves addresses alone, for so many bytes, rounded up to pages, at a
// multiple of `alignment`. Returns null if there are none.
WHEELCACHE_EXPORT std::byte* ReservePages(size_t bytes, size_t alignment);

// Makes a part of a reservation usable zeros. Returns whether that succeeded.
WHEELCACHE_EXPORT bool CommitPages(void* begin, size_t bytes);

// Takes all that a MapPages or ReservePages returned.
WHEELCACHE_EXPORT void UnmapPages(void* begin, size_t bytes);

// Makes ranges of usable pages zeros, and gives the pages back to the system.
struct PageRange {
  void* begin;
  size_t bytes;
};
WHEELCACHE_EXPORT void ReleasePages(const PageRange* ranges, size_t count);

// Asks for huge pages for a range, or for none; a hint.
WHEELCACHE_EXPORT void PreferHugePages(void* begin, size_t bytes);
WHEELCACHE_EXPORT void RefuseHugePages(void* begin, size_t bytes);

// Clocks, in nanoseconds since a start of their own.

#ifdef WHEELCACHE_HAS_LINUX_CALLS
inline int64_t ReadClock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Stands still while the computer is suspended.
inline int64_t MonotonicNanos() { return ReadClock(CLOCK_MONOTONIC); }

// The same, cheaper; behind it by less than the lag. The kernel sets this clock
// at its own timer interrupt. If the interrupt is late, because of CPU steal by
// a hypervisor, the reading lags by more than the resolution that the kernel
// states, at times by tens of milliseconds. A second leaves a wide margin, and
// costs little: exact readings within a second of the deadline only.
inline constexpr int64_t kCoarseLagNanos = 1'000'000'000;
inline int64_t CoarseNanos() { return ReadClock(CLOCK_MONOTONIC_COARSE); }

// Goes on while the computer is suspended.
inline int64_t NanosSinceBoot() { return ReadClock(CLOCK_BOOTTIME); }
#else
WHEELCACHE_EXPORT int64_t MonotonicNanos();
inline constexpr int64_t kCoarseLagNanos = 0;
inline int64_t CoarseNanos() { return MonotonicNanos(); }
WHEELCACHE_EXPORT int64_t NanosSinceBoot();
#endif

// An alarm on the clock of NanosSinceBoot(). Opening one returns a descriptor,
// or less than zero where the system has no such alarm.
WHEELCACHE_EXPORT int OpenAlarm();
WHEELCACHE_EXPORT void CloseAlarm(int alarm);
// Has it expire at a time, which may be past, in the place of another one.
WHEELCACHE_EXPORT void SetAlarm(int alarm, int64_t nanos);
WHEELCACHE_EXPORT void AwaitAlarm(int alarm);

// Threads and processes.

#ifdef _WIN32
using ThreadResult = unsigned;
struct Thread {
  void* handle;
  unsigned id;
};
#else
using ThreadResult = void*;
using Thread = pthread_t;
#endif

// Starts a thread that blocks all signals: they are the program's own. Returns
// 0 or an error number.
WHEELCACHE_EXPORT int StartThread(Thread* thread, ThreadResult (*run)(void*),
                                  void* argument);
WHEELCACHE_EXPORT void JoinThread(Thread thread);
WHEELCACHE_EXPORT bool IsThisThread(Thread thread);

// Names the calling thread, where the system shows names; at most 15 bytes.
WHEELCACHE_EXPORT void NameThisThread(const char* name);

// Has functions called before each fork(), and after it in either process.
WHEELCACHE_EXPORT void CallAtFork(void (*before)(), void (*in_parent)(),
                                  void (*in_child)());

// Never 0, and another one in a child.
WHEELCACHE_EXPORT int ProcessId();

// A fence in each running thread of the process: whether the system has it, to
// be asked before its first use; and the fence. Ends the program if the system
// refuses what it had offered.
WHEELCACHE_EXPORT bool OffersFenceInAllThreads();
WHEELCACHE_EXPORT void FenceInAllThreads();

// Files. A call that fails returns kNoFile, false or less than zero, and sets
// errno.

#ifdef _WIN32
using File = void*;
inline constexpr File kNoFile = nullptr;
#else
using File = int;
inline constexpr File kNoFile = -1;
#endif

WHEELCACHE_EXPORT File OpenToRead(const char* path);

// Opens an empty file for one writer: others get EWOULDBLOCK until it closes.
// Sets `call` to the name of what failed.
WHEELCACHE_EXPORT File OpenToWrite(const char* path, const char** call);

// Brings an open file to the disk and to the place of another one.
WHEELCACHE_EXPORT bool MoveToPlace(File file, const char* from, const char* to,
                                   const char** call);

// Brings the names in a folder to the disk.
WHEELCACHE_EXPORT bool SyncFolder(const char* folder, const char** call);

WHEELCACHE_EXPORT int64_t SizeOf(File file);
WHEELCACHE_EXPORT int64_t ReadAt(File file, void* to, size_t bytes,
                                 int64_t offset);
WHEELCACHE_EXPORT int64_t WriteTo(File file, const void* from, size_t bytes);
WHEELCACHE_EXPORT void CloseFile(File file);
WHEELCACHE_EXPORT void RemoveFile(const char* path);

// Fills memory with what an attacker cannot guess; `bytes` is at most 16.
WHEELCACHE_EXPORT void FillWithSecret(void* to, size_t bytes);

}  // namespace wheelcache::platform

#endif  // WHEELCACHE_WHEEL_BASE_PLATFORM_H_
