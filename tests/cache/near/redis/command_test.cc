#include "wheelcache/cache/near/internal/redis/command.h"

#include <hiredis/hiredis.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

// As hiredis formats it.
std::string Formatted(const std::vector<absl::string_view>& arguments) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const absl::string_view argument : arguments) {
    texts.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  char* formatted = nullptr;
  const auto size = redisFormatCommandArgv(
      &formatted, static_cast<int>(texts.size()), texts.data(), sizes.data());
  std::string bytes(formatted, static_cast<size_t>(size));
  redisFreeCommand(formatted);
  return bytes;
}

TEST(CommandTest, BytesAreThoseThatHiredisWrites) {
  std::vector<std::string> texts;
  for (const size_t size :
       {0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 100'000}) {
    texts.emplace_back(size, 'x');
  }
  texts.emplace_back("\0\r\n$3\r\n*1\r\n", 12);
  std::vector<absl::string_view> arguments;
  for (size_t count = 1; count <= 12; ++count) {
    arguments.emplace_back(texts[count % texts.size()]);
    std::string bytes = "before";
    AppendCommand(arguments, &bytes);
    EXPECT_EQ(bytes, "before" + Formatted(arguments));
  }
}

TEST(CommandTest, PartsMakeTheSameCommand) {
  std::string whole;
  AppendCommand({"MGET", "a", ""}, &whole);
  std::string parts;
  AppendCommandStart(3, &parts);
  for (const absl::string_view argument : {"MGET", "a", ""}) {
    AppendArgument(argument, &parts);
  }
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace wheelcache::internal
