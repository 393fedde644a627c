// Runs part of a test in the child of a fork().

#ifndef WHEELCACHE_TESTS_TESTING_CHILD_H_
#define WHEELCACHE_TESTS_TESTING_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include "absl/base/config.h"

namespace wheelcache::testing {

// ThreadSanitizer loses its way in a child that starts threads.
#ifdef ABSL_HAVE_THREAD_SANITIZER
inline constexpr bool kChildMayStartThreads = false;
#else
inline constexpr bool kChildMayStartThreads = true;
#endif

// Returns whether the child of a fork() came to an end within a minute, and
// `holds` returned true there.
template <typename Predicate>
bool HoldsInChild(Predicate&& holds) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(holds() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child &&
         WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_CHILD_H_
