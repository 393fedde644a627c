// Whoever builds as a page says gets a program that runs: the files and the
// commands that pages show for a user's own project are those that
// tests/consumers/run builds.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/documentation/code_examples.h"

namespace wheelcache {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::string ContentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

std::vector<CodeExample> ExamplesOf(const std::string& page) {
  std::vector<CodeExample> examples = ExamplesOfPage(ContentOf(page));
  EXPECT_THAT(examples, Not(SizeIs(0))) << page;
  return examples;
}

// What the consumers have of a file.
std::vector<std::string> VersionsOf(const std::string& name) {
  std::vector<std::string> versions;
  for (const auto& folder :
       std::filesystem::directory_iterator("tests/consumers")) {
    const std::string file = ContentOf(folder.path() / name);
    if (!file.empty()) versions.push_back(file);
  }
  return versions;
}

// Each line of each consumer's commands.
std::vector<std::string> Commands() {
  std::vector<std::string> lines;
  for (const std::string& commands : VersionsOf("commands")) {
    for (absl::string_view line : absl::StrSplit(commands, '\n')) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

class UserBuildsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(UserBuildsTest, FilesAreThoseOfAConsumer) {
  for (const CodeExample& example : ExamplesOf(GetParam())) {
    absl::string_view content = example.text;
    if (!absl::ConsumePrefix(&content, "# hello/")) continue;
    const std::vector<std::string> parts =
        absl::StrSplit(content, absl::MaxSplits('\n', 1));
    // What needs a Bazel that .ci/run does not have.
    if (parts[0] == "MODULE.bazel") continue;
    const std::string name =
        parts[0] == "BUILD.bazel" ? "hello.BUILD" : parts[0];
    EXPECT_THAT(VersionsOf(name), Contains(parts[1]))
        << GetParam() << ":" << example.line;
  }
}

TEST_P(UserBuildsTest, CommandsAreThoseOfAConsumer) {
  const std::string run = ContentOf("tests/consumers/run");
  for (const CodeExample& example : ExamplesOf(GetParam())) {
    if (example.language != "sh") continue;
    for (absl::string_view line :
         absl::StrSplit(example.text, '\n', absl::SkipEmpty())) {
      // .ci/run starts these in its own way.
      if (absl::StartsWith(line, "./bazelw ")) continue;
      if (absl::ConsumePrefix(&line, "apt-get install --yes ")) {
        EXPECT_THAT(
            run, HasSubstr(absl::StrCat("tools/install_packages ", line, "\n")))
            << GetParam() << ":" << example.line;
        continue;
      }
      EXPECT_THAT(Commands(), Contains(std::string(line)))
          << GetParam() << ":" << example.line;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, UserBuildsTest,
                         ::testing::Values("README.md", "docs/building.md"));

}  // namespace
}  // namespace wheelcache
