// Whoever copies a command from a page gets one that works: each is run by
// .ci/run, tools/nightly or a test. The blocks of commands for a user's own
// project are in user_builds_test.cc.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/documentation/code_examples.h"

namespace wheelcache {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// A command of a page, as it begins, and the file that runs it, with the words
// by which it does so. A file may run it on other input, or for a shorter time.
struct Command {
  const char* begin;
  const char* file;
  const char* words;
};

constexpr char kCi[] = ".ci/run";
constexpr char kNightly[] = "tools/nightly";
constexpr char kSanitized[] = "tools/sanitized_programs";

constexpr Command kCommands[] = {
    {"./bazelw test //...", kCi, "test_step \"default\" //..."},
    {"./bazelw test --config=asan //tests/cache/...", kCi,
     "--config=asan \"${LIBRARY[@]}\" \"${LIBRARY_TESTS[@]}\""},
    {"./bazelw test --config=tsan //tests/cache/...", kCi,
     "--config=tsan --build_tests_only"},
    {"./bazelw build --config=clang //...", kCi, "compile --config=clang"},
    {".ci/run", kCi, "#!/bin/bash"},
    {"./bazelw test --test_env=WHEELCACHE_TEST_SEED=", kNightly,
     "--test_env=WHEELCACHE_TEST_SEED="},
    {"./bazelw test --test_env=WHEELCACHE_TEST_OPERATIONS=", kNightly,
     "--test_env=WHEELCACHE_TEST_OPERATIONS="},
    {"./bazelw run --config=fuzz //tests/fuzz:", kCi, "step \"fuzz ${label}\""},
    {"cmake -S . -B build -DWHEELCACHE_BUILD_TESTING=ON", kNightly,
     "-DWHEELCACHE_BUILD_TESTING=ON"},
    {"cmake --build build --parallel", kNightly, "cmake --build"},
    {"cmake --build build --target test", kNightly, "ctest"},
    {"tools/cross_test aarch64", kNightly, "tools/cross_test aarch64"},
    {"tools/cross_test s390x", kNightly, "tools/cross_test s390x"},
    {"PAGE_BYTES=65536 tools/cross_test", kNightly, "env PAGE_BYTES=65536"},
    {"cmake -S . -B build-address", kSanitized, "-DCMAKE_CXX_FLAGS="},
    {"cmake --build build-address --parallel", kSanitized, "cmake --build"},
    {"cmake --install build-address", kSanitized, "cmake --install"},
    {"./bazelw run -c opt //examples:trace_replay -- --trace=",
     "tests/tools/trace_replay/trace_replay_test.cc",
     "--sweep --trace=sweep.csv --html="},
    {"./bazelw run -c opt //examples:trace_replay", kCi,
     "step \"run ${label}\""},
    {"./bazelw run --config=http //examples:status_server -- --port=",
     "tests/cache/status_page_browser_test.cc", "status_server"},
    {"tools/benchmark --only=", kNightly, "--only="},
    {"tools/benchmark --sections=", kNightly, "--sections="},
    {"bazel-bin/benchmarks/cache_benchmark --benchmark_filter=", kCi,
     "--benchmark_filter="},
    {"./bazelw build --config=bench //benchmarks/...", kCi,
     "build_programs bench //examples/... //benchmarks/..."},
    {"bazel-bin/benchmarks/memory_histories", kNightly,
     "bazel-bin/benchmarks/memory_histories"},
    {"./bazelw build --config=noexceptions //cache/...", kCi,
     "compile --config=noexceptions"},
    {"./bazelw run --config=bench //benchmarks:", kCi,
     "start_benchmark \"$(path_of bench \"${label}\")\""},
    {"tools/compile_commands", kCi, "tools/compile_commands --check"},
    {"tools/lint", kCi, "tools/lint tidy"},
    {"tools/compilers", kCi, "tools/compilers"},
    {"tools/newer_abseil", kNightly, "tools/newer_abseil"},
    {"tools/gdb/check", kCi, "tools/gdb/check"},
    {"tools/mutate", kCi, "tools/mutate --check"},
    {"tools/cmake_lists", kCi, "tools/cmake_lists --check"},
    {"tools/package", kNightly, "tools/package"},
    {"tests/consumers/run", kCi, "tests/consumers/run"},
    {"tools/sizes", kCi, "tools/sizes"},
    {"tools/instructions", kNightly, "tools/instructions"},
};

constexpr std::array kPages = {"README.md",
                               "CONTRIBUTING.md",
                               "docs/building.md",
                               "docs/coming_from.md",
                               "docs/comparison.md",
                               "docs/debugging.md",
                               "docs/decisions.md",
                               "docs/design.md",
                               "docs/faq.md",
                               "docs/guarantees.md",
                               "docs/guide.md",
                               "docs/near_cache.md",
                               "docs/observability.md",
                               "docs/performance.md",
                               "docs/platforms.md",
                               "docs/policy.md",
                               "docs/sanitizers.md",
                               "docs/testing.md",
                               "docs/timing_wheel.md",
                               "docs/tuning.md"};

std::string ContentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

// Of a page's blocks, each command in one line and without its comment.
void AddCommandsOfBlocks(const std::string& content,
                         std::vector<std::string>& commands) {
  for (const CodeExample& example : ExamplesOfPage(content)) {
    if (example.language != "sh") continue;
    const std::string text = absl::StrReplaceAll(example.text, {{"\\\n", ""}});
    for (absl::string_view line :
         absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      line = line.substr(0, line.find(" # "));
      commands.emplace_back(absl::StripAsciiWhitespace(line));
    }
  }
}

// Such as `./bazelw test //...`, in the middle of a sentence.
void AddCommandsOfSentences(const std::string& content,
                            std::vector<std::string>& commands) {
  for (absl::string_view code : absl::StrSplit(content, '`')) {
    if (absl::StartsWith(code, "./bazelw ") ||
        absl::StartsWith(code, "bazel-bin/")) {
      commands.emplace_back(code);
    }
  }
}

std::vector<std::string> CommandsOf(const std::string& page) {
  const std::string content = ContentOf(page);
  EXPECT_THAT(content, Not(SizeIs(0))) << page;
  std::vector<std::string> commands;
  AddCommandsOfSentences(content, commands);
  // The blocks of these two are for a user's own project.
  if (page != "README.md" && page != "docs/building.md") {
    AddCommandsOfBlocks(content, commands);
  }
  return commands;
}

TEST(CommandsTest, NoPageIsLeftOut) {
  int pages = 0;
  for (const auto& file : std::filesystem::directory_iterator("docs")) {
    const std::string page = file.path().generic_string();
    EXPECT_TRUE(std::find(kPages.begin(), kPages.end(), page) != kPages.end())
        << page;
    ++pages;
  }
  EXPECT_GT(pages, 10);
}

TEST(CommandsTest, EachOfAPageIsRun) {
  for (const std::string page : kPages) {
    for (const std::string& command : CommandsOf(page)) {
      const auto* const known =
          std::find_if(std::begin(kCommands), std::end(kCommands),
                       [&command](const Command& candidate) {
                         return absl::StartsWith(command, candidate.begin);
                       });
      if (known == std::end(kCommands)) {
        ADD_FAILURE() << page << ": nothing is known to run: " << command;
        continue;
      }
      EXPECT_TRUE(absl::StrContains(ContentOf(known->file), known->words))
          << known->file << " does not run it any more: " << command;
    }
  }
}

TEST(CommandsTest, ListNamesNoneThatPagesDoNotShow) {
  for (const Command& known : kCommands) {
    const auto shows = [&known](const std::string& page) {
      const std::vector<std::string> commands = CommandsOf(page);
      return std::any_of(commands.begin(), commands.end(),
                         [&known](const std::string& command) {
                           return absl::StartsWith(command, known.begin);
                         });
    };
    EXPECT_TRUE(std::any_of(kPages.begin(), kPages.end(), shows))
        << known.begin;
  }
}

// Without a number, CMake has make start a compiler for every file at once.
TEST(CommandsTest, EachParallelBuildHasALimit) {
  for (const std::string page : kPages) {
    EXPECT_THAT(ContentOf(page), Not(HasSubstr("--parallel\n"))) << page;
  }
}

// Whether this is the path of a program in tools/, perhaps with arguments.
bool IsTool(absl::string_view code) {
  const absl::string_view path = code.substr(0, code.find(' '));
  return absl::StartsWith(path, "tools/") &&
         path.find_first_of("/.", 6) == absl::string_view::npos;
}

// In a page, `tools/package` and `tools/nightly cpus`.
TEST(CommandsTest, EachToolThatAPageNamesIsRun) {
  const std::string runs = ContentOf(kCi) + ContentOf(kNightly);
  for (const std::string page : kPages) {
    const std::string content = ContentOf(page);
    ASSERT_THAT(content, Not(SizeIs(0))) << page;
    for (absl::string_view code : absl::StrSplit(content, '`')) {
      if (!IsTool(code)) continue;
      const std::string path(code.substr(0, code.find(' ')));
      EXPECT_TRUE(absl::StrContains(runs, path))
          << "neither .ci/run nor tools/nightly runs what " << page
          << " names: " << code;
    }
  }
}

}  // namespace
}  // namespace wheelcache
