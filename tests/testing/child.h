// Runs part of a test in the child of a fork().

#ifndef WHEELCACHE_TESTS_TESTING_CHILD_H_
#define WHEELCACHE_TESTS_TESTING_CHILD_H_

#include <unistd.h>

#include "absl/base/config.h"

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#endif

#ifdef _WIN32
namespace wheelcache {
inline int fork() { return -1; }
}  // namespace wheelcache
#endif

namespace wheelcache::testing {

// ThreadSanitizer loses its way in a child that starts threads.
#ifdef ABSL_HAVE_THREAD_SANITIZER
inline constexpr bool kChildMayStartThreads = false;
#else
inline constexpr bool kChildMayStartThreads = true;
#endif

// What the other threads do at a fork().
enum class Others {
  kSleep,  // Nothing, before long.
  kRun,    // Their work, in which no other than the library's allocate.
};

// Returns once no other thread runs, so that none is in AddressSanitizer's
// allocator, which would then be locked for ever in the child. Other
// allocators take care of themselves.
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
void AwaitSleepOfOthers();
#else
inline void AwaitSleepOfOthers() {}
#endif

#ifdef _WIN32

// There is no fork(), and so nothing that fails in a child.
inline void EndInAMinute() {}
inline bool EndedWell(int) { return true; }
template <typename Predicate>
bool HoldsInChild(Predicate&&, Others = Others::kSleep) {
  return true;
}

#else

// In a child: ends it in a minute, whatever it waits for. Of use on threads
// that take no signals, too, as the reaper's.
inline void EndInAMinute() {
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(60);
}

// Waits for a child; returns whether it ended with _exit(0).
inline bool EndedWell(pid_t child) {
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child &&
         WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Returns whether the child of a fork() came to an end within a minute, and
// `holds` returned true there.
template <typename Predicate>
bool HoldsInChild(Predicate&& holds, Others others = Others::kSleep) {
  if (others == Others::kSleep) AwaitSleepOfOthers();
  const pid_t child = fork();
  if (child == 0) {
    EndInAMinute();
    _exit(holds() ? 0 : 1);
  }
  return EndedWell(child);
}

#endif

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_CHILD_H_
