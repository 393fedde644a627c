// The program that shows two processes with near caches, with a Redis.

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/redis_server.h"

namespace wheelcache {
namespace {

using ::testing::MatchesRegex;

TEST(NearExampleProgram, ShowsAWriteOfOneProcessInTheOther) {
  const absl::StatusOr<std::unique_ptr<testing::RedisServer>> server =
      testing::RedisServer::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string command =
      absl::StrCat("examples/near_cache ", (*server)->url(), " 2>&1");
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_THAT(output, MatchesRegex("seen after [0-9]+ us, and [0-9]+ local "
                                   "reads before\n"));
}

}  // namespace
}  // namespace wheelcache
