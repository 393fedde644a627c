// The programs that a newcomer copies, as they run.

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace wheelcache {
namespace {

// What the program prints, on standard error too; and how it ends, if not well.
std::string OutputOf(absl::string_view program) {
  const std::string command = "examples/" + std::string(program) + " 2>&1";
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  if (pclose(pipe) != 0) output += "it failed";
  return output;
}

TEST(ExamplePrograms, Hello) { EXPECT_EQ(OutputOf("hello"), "12 apples\n"); }

TEST(ExamplePrograms, Quickstart) {
  EXPECT_EQ(OutputOf("quickstart"),
            "ada: admin\n"
            "bob, guest, left: evicted\n"
            "ada stays for 9m43.858782622s\n"
            "ada, admin, left: expired\n"
            "cyd, guest, left: expired\n"
            "1 hit, 1 eviction, 2 expirations, 0 entries\n");
}

}  // namespace
}  // namespace wheelcache
