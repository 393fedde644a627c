#include "wheelcache/tests/testing/child.h"

#include "absl/base/config.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

namespace wheelcache::testing {
namespace {

// Whether a thread sleeps, by its state in /proc, or has gone.
bool Sleeps(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  // After the name, which is in parentheses and may contain any.
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end, 3, ") S") == 0;
}

bool OthersSleep() {
  const std::string self = std::to_string(syscall(SYS_gettid));
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (thread.path().filename() != self && !Sleeps(thread.path())) {
      return false;
    }
  }
  return true;
}

}  // namespace

void AwaitSleepOfOthers() {
  while (!OthersSleep()) std::this_thread::yield();
}

}  // namespace wheelcache::testing

#endif
