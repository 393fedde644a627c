// What a reader copies from the documentation works: each example stands, word
// for word, in a program that is run; each build is one that tests/consumers
// makes; each tool is there; and what is said twice is compared.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSubsetOf;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

struct File {
  std::string path;
  std::string content;
};

std::string ContentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

// The files of the project that are laid out for the test, with this ending.
std::vector<File> FilesLike(absl::string_view ending) {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(".")) {
    const std::string path = entry.path().lexically_normal().string();
    if (!absl::EndsWith(path, ending) || !entry.is_regular_file()) continue;
    files.push_back({path, ContentOf(path)});
  }
  EXPECT_THAT(files, Not(IsEmpty())) << ending;
  return files;
}

struct Example {
  std::string text;
  int line = 0;          // Of the file, where the text begins.
  std::string language;  // Empty if a page does not tell.
};

void AddLine(absl::string_view line, std::string* text) {
  absl::StrAppend(text, line, "\n");
}

// The indented blocks of the comment that opens a header.
std::vector<Example> ExamplesOfHeader(absl::string_view header) {
  std::vector<Example> examples;
  int number = 0;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(header, '\n')) {
    ++number;
    if (!absl::ConsumePrefix(&line, "//")) break;
    // An empty line does not end an example: it may be one of its own.
    if (line.empty()) continue;
    const bool was_inside = inside;
    inside = absl::ConsumePrefix(&line, "   ");
    if (!inside) continue;
    if (!was_inside) examples.push_back({"", number, "cpp"});
    AddLine(line, &examples.back().text);
  }
  return examples;
}

// The fenced blocks of a page.
std::vector<Example> ExamplesOfPage(absl::string_view page) {
  std::vector<Example> examples;
  int number = 0;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    ++number;
    if (absl::ConsumePrefix(&line, "```")) {
      inside = !inside;
      if (inside) examples.push_back({"", number + 1, std::string(line)});
    } else if (inside) {
      AddLine(line, &examples.back().text);
    }
  }
  return examples;
}

std::string WithoutBlanks(absl::string_view text) {
  std::string result(text);
  result.erase(
      std::remove_if(result.begin(), result.end(), absl::ascii_isspace),
      result.end());
  return result;
}

// Whether the program holds the example, its parts between `...` one after the
// other and each without a gap. Blanks and line breaks do not count.
bool IsPartOf(absl::string_view example, absl::string_view program) {
  const std::string whole = WithoutBlanks(program);
  size_t from = 0;
  for (absl::string_view text : absl::StrSplit(example, "...")) {
    const std::string part = WithoutBlanks(text);
    const size_t at = whole.find(part, from);
    if (at == std::string::npos) return false;
    from = at + part.size();
  }
  return true;
}

void ExpectEachInAProgram(const std::string& path,
                          const std::vector<Example>& examples) {
  static const auto* const programs = new std::vector<File>(FilesLike(".cc"));
  for (const Example& example : examples) {
    if (example.language != "cpp") continue;
    EXPECT_TRUE(std::any_of(programs->begin(), programs->end(),
                            [&example](const File& program) {
                              return IsPartOf(example.text, program.content);
                            }))
        << path << ":" << example.line
        << ": no test has this example. Let one in tests/documentation/ quote "
           "it, whole:\n"
        << example.text;
  }
}

TEST(ExamplesTest, ThoseOfHeadersAreRun) {
  for (const File& header : FilesLike(".h")) {
    // What users include forwards to one of the internal headers.
    if (absl::StrContains(header.path, "internal/") &&
        !absl::EndsWith(header.path, "entry/handle.h")) {
      continue;
    }
    ExpectEachInAProgram(header.path, ExamplesOfHeader(header.content));
  }
}

TEST(ExamplesTest, ThoseOfPagesAreRun) {
  for (const File& page : FilesLike(".md")) {
    ExpectEachInAProgram(page.path, ExamplesOfPage(page.content));
  }
}

TEST(ExamplesTest, BlocksOfPagesTellTheirLanguage) {
  for (const File& page : FilesLike(".md")) {
    for (const Example& example : ExamplesOfPage(page.content)) {
      EXPECT_THAT(example.language,
                  AnyOf("cmake", "cpp", "sh", "starlark", "text"))
          << page.path << ":" << example.line - 1;
    }
  }
}

TEST(ExamplesTest, HeaderShowsThemIndentedInItsFirstComment) {
  const std::vector<Example> examples = ExamplesOfHeader(
      "// What it is.\n"
      "//\n"
      "//   One one;\n"
      "//\n"
      "//     one.Go();\n"
      "//\n"
      "// Between.\n"
      "//\n"
      "//   Two two;\n"
      "\n"
      "//   No example;\n");
  ASSERT_THAT(examples, SizeIs(2));
  EXPECT_EQ(examples[0].text, "One one;\n  one.Go();\n");
  EXPECT_EQ(examples[1].text, "Two two;\n");
  EXPECT_EQ(examples[1].line, 9);
}

TEST(ExamplesTest, ProgramMayBreakItsLinesDifferently) {
  EXPECT_TRUE(IsPartOf("f(a, b);\ng();\n", "int main() { f(a,\n b); g(); }"));
  EXPECT_FALSE(IsPartOf("f(a, b);\ng();\n", "f(a, b); h(); g();"));
}

TEST(ExamplesTest, DotsStandForWhatTheReaderSupplies) {
  EXPECT_TRUE(IsPartOf("f();\n...\ng();\n", "f(); h(); g();"));
  EXPECT_FALSE(IsPartOf("f();\n...\ng();\n", "g(); h(); f();"));
}

// What a program prints, on standard error too; and how it ends, if not well.
std::string OutputOf(const std::string& program) {
  std::FILE* const pipe = popen((program + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  if (pclose(pipe) != 0) output += "it failed";
  return output;
}

TEST(ExampleProgramsTest, Hello) {
  EXPECT_EQ(OutputOf("examples/hello"), "12 apples\n");
}

TEST(ExampleProgramsTest, Quickstart) {
  EXPECT_EQ(OutputOf("examples/quickstart"),
            "ada: admin\n"
            "bob, guest, left: evicted\n"
            "ada stays for 11m42.621090013s\n"
            "cyd, guest, left: expired\n"
            "ada, admin, left: expired\n"
            "1 hit, 1 eviction, 2 expirations, 0 entries\n");
}

TEST(ExampleProgramsTest, EventLoop) {
  const std::string output = OutputOf("examples/event_loop");
  EXPECT_THAT(absl::StrSplit(output, '\n'),
              UnorderedElementsAre("a leaves after 1 request(s)",
                                   "b leaves after 3 request(s)",
                                   "c leaves after 3 request(s)", ""));
}

// Ended by a signal, and by the end of what it reads.
TEST(ExampleProgramsTest, Snapshot) {
  const std::string file = ::testing::TempDir() + "visits.snapshot";
  EXPECT_EQ(OutputOf(absl::StrCat(
                "file=", file, "; mkfifo $file.in; ",
                "sh -c 'echo $$; exec examples/snapshot '$file <$file.in | { ",
                "exec 3>$file.in; read pid; read start; printf aba >&3; ",
                "read first; read second; read third; kill -TERM $pid; ",
                "cat; echo $start, $first, $second, $third; }")),
            "a cold start: NOT_FOUND, a: visit 1, b: visit 1, a: visit 2\n");
  EXPECT_EQ(OutputOf("printf a | examples/snapshot " + file),
            "2 user(s) are known\na: visit 3\n");
  EXPECT_EQ(OutputOf("printf a | examples/snapshot " + file),
            "2 user(s) are known\na: visit 4\n");
}

// A page names tools as `tools/package` and `tools/nightly cpus`.
TEST(PagesTest, ToolsThatTheyNameExist) {
  for (const File& page : FilesLike(".md")) {
    for (absl::string_view code : absl::StrSplit(page.content, '`')) {
      const std::string path(code.substr(0, code.find(' ')));
      if (!absl::StartsWith(path, "tools/") || absl::StrContains(path, "\n")) {
        continue;
      }
      EXPECT_TRUE(std::filesystem::exists(path)) << page.path << ": " << code;
    }
  }
}

TEST(PagesTest, MetricsAreThoseThatThereAre) {
  std::string table = ContentOf("docs/observability.md");
  table.erase(0, table.find("| Of | Metrics |"));
  table.erase(table.find("\n\n"));
  const std::vector<std::string> rows = absl::StrSplit(table, '\n');
  std::vector<std::string> known = {"CacheOptions::advise"};
  const auto expect_name = [&](const Metric& metric) {
    known.emplace_back(absl::StripPrefix(metric.name, "wheelcache_"));
    const auto row = std::find_if(
        rows.begin(), rows.end(), [&](const std::string& candidate) {
          return absl::StrContains(candidate,
                                   absl::StrCat("`", known.back(), "`"));
        });
    ASSERT_NE(row, rows.end()) << metric.name;
    if (metric.label.empty()) return;
    const std::pair<absl::string_view, absl::string_view> label =
        absl::StrSplit(metric.label, '=');
    known.emplace_back(label.first);
    EXPECT_THAT(*row, HasSubstr(std::string(absl::StripPrefix(
                          absl::StripSuffix(label.second, "\""), "\""))));
  };
  CacheStats stats;
  stats.advice = CacheAdvice();
  stats.ForEachMetric(expect_name);
  NearCacheStats().ForEachMetric(expect_name);
  const std::vector<std::string> parts = absl::StrSplit(table, '`');
  for (size_t i = 1; i < parts.size(); i += 2) {
    EXPECT_THAT(known, Contains(parts[i]));
  }
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
std::vector<std::string> CommandsOfConsumers() {
  std::vector<std::string> lines;
  for (const std::string& commands : VersionsOf("commands")) {
    for (absl::string_view line : absl::StrSplit(commands, '\n')) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

// A page that shows files and commands for a user's own project.
class UserBuildsTest : public ::testing::TestWithParam<const char*> {
 protected:
  UserBuildsTest() : examples_(ExamplesOfPage(ContentOf(GetParam()))) {
    EXPECT_THAT(examples_, Not(IsEmpty()));
  }
  const std::vector<Example> examples_;
};

TEST_P(UserBuildsTest, FilesAreThoseOfAConsumer) {
  for (const Example& example : examples_) {
    absl::string_view content = example.text;
    if (!absl::ConsumePrefix(&content, "# hello/")) continue;
    const std::vector<std::string> parts =
        absl::StrSplit(content, absl::MaxSplits('\n', 1));
    // What needs a Bazel that no consumer has.
    if (parts[0] == "MODULE.bazel") continue;
    const std::string name =
        parts[0] == "BUILD.bazel" ? "hello.BUILD" : parts[0];
    EXPECT_THAT(VersionsOf(name), Contains(parts[1]))
        << GetParam() << ":" << example.line;
  }
}

TEST_P(UserBuildsTest, CommandsAreThoseOfAConsumer) {
  const std::string run = ContentOf("tests/consumers/run");
  for (const Example& example : examples_) {
    if (example.language != "sh") continue;
    for (absl::string_view line :
         absl::StrSplit(example.text, '\n', absl::SkipEmpty())) {
      // These are not for a user's own project.
      if (absl::StartsWith(line, "./bazelw ")) continue;
      if (absl::ConsumePrefix(&line, "apt-get install --yes ")) {
        EXPECT_THAT(
            run, HasSubstr(absl::StrCat("tools/install_packages ", line, "\n")))
            << GetParam() << ":" << example.line;
        continue;
      }
      EXPECT_THAT(CommandsOfConsumers(), Contains(std::string(line)))
          << GetParam() << ":" << example.line;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, UserBuildsTest,
                         ::testing::Values("README.md", "docs/building.md"));

// The version stands in wheel/base/version.h; some files have to repeat it.
TEST(VersionTest, TextIsMadeOfTheNumbers) {
  EXPECT_EQ(WHEELCACHE_VERSION, absl::StrCat(WHEELCACHE_VERSION_MAJOR, ".",
                                             WHEELCACHE_VERSION_MINOR, ".",
                                             WHEELCACHE_VERSION_PATCH));
}

TEST(VersionTest, ProgramsCanPrintIt) {
  ::testing::internal::CaptureStdout();
  std::puts("built with wheelcache " WHEELCACHE_VERSION);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            absl::StrCat("built with wheelcache ", WHEELCACHE_VERSION, "\n"));
}

TEST(VersionTest, AllFilesHaveIt) {
  EXPECT_THAT(ContentOf("MODULE.bazel"),
              HasSubstr("module(\n    name = \"wheelcache\",\n    version = "
                        "\"" WHEELCACHE_VERSION "\",\n)"));
  EXPECT_THAT(ContentOf("CHANGELOG.md"),
              HasSubstr("newest first.\n\n## " WHEELCACHE_VERSION));
  EXPECT_THAT(ContentOf("tools/packaging/debian/changelog"),
              StartsWith("wheelcache (" WHEELCACHE_VERSION "-"));
  EXPECT_THAT(ContentOf("docs/building.md"),
              HasSubstr("GIT_TAG v" WHEELCACHE_VERSION ")"));
  EXPECT_THAT(ContentOf("tools/packaging/bazel/metadata.json"),
              HasSubstr("\"versions\": [\"" WHEELCACHE_VERSION "\"]"));
  EXPECT_THAT(ContentOf("tools/packaging/bazel/source.json"),
              HasSubstr("\"wheelcache-" WHEELCACHE_VERSION "\""));
  EXPECT_THAT(ContentOf("tools/packaging/conan/conandata.yml"),
              HasSubstr("\n  \"" WHEELCACHE_VERSION "\":\n"));
  EXPECT_THAT(ContentOf("tools/packaging/conan/conanfile.py"),
              HasSubstr("\n    version = \"" WHEELCACHE_VERSION "\"\n"));
  EXPECT_THAT(ContentOf("tools/packaging/vcpkg/vcpkg.json"),
              HasSubstr("\n  \"version\": \"" WHEELCACHE_VERSION "\",\n"));
}

// What pages and recipes set is an option of CMake's, and the other way round.
TEST(VersionTest, OptionsAreThoseOfCMake) {
  const auto names_in = [](const std::string& text) {
    static const auto* const name = new std::regex("WHEELCACHE_[BI][A-Z_]+");
    std::set<std::string> names;
    for (std::sregex_iterator it(text.begin(), text.end(), *name), end;
         it != end; ++it) {
      names.insert(it->str());
    }
    return names;
  };
  const std::set<std::string> options = names_in(ContentOf("CMakeLists.txt"));
  EXPECT_EQ(names_in(ContentOf("docs/building.md")), options);
  for (const char* file : {"conan/conanfile.py", "vcpkg/portfile.cmake"}) {
    const std::string path = absl::StrCat("tools/packaging/", file);
    EXPECT_THAT(names_in(ContentOf(path)), IsSubsetOf(options)) << path;
    EXPECT_THAT(names_in(ContentOf(path)), SizeIs(3)) << path;
  }
}

}  // namespace
}  // namespace wheelcache
