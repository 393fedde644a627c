// Whoever copies an example from the documentation gets code that compiles and
// works: each stands, word for word, in one of the programs that are run, the
// tests in this folder and those in examples/.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/documentation/code_examples.h"

namespace wheelcache {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

struct File {
  std::string path;
  std::string content;
};

// The files of the project that are laid out for the test, with this ending.
std::vector<File> FilesLike(absl::string_view ending) {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(".")) {
    const std::string path = entry.path().lexically_normal().string();
    if (!absl::EndsWith(path, ending) || !entry.is_regular_file()) continue;
    std::stringstream content;
    content << std::ifstream(path).rdbuf();
    files.push_back({path, content.str()});
  }
  return files;
}

bool IsInAProgram(absl::string_view text) {
  static const auto* const programs = new std::vector<File>(FilesLike(".cc"));
  return std::any_of(
      programs->begin(), programs->end(),
      [text](const File& program) { return IsPartOf(text, program.content); });
}

void ExpectEachInAProgram(const std::string& path,
                          const std::vector<CodeExample>& examples) {
  for (const CodeExample& example : examples) {
    if (example.language != "cpp") continue;
    EXPECT_TRUE(IsInAProgram(example.text))
        << path << ":" << example.line
        << ": no test has this example. Let one in tests/documentation/ quote "
           "it, whole:\n"
        << example.text;
  }
}

TEST(DocumentationTest, ExamplesOfHeadersAreRun) {
  const std::vector<File> headers = FilesLike(".h");
  EXPECT_THAT(headers, Not(IsEmpty()));
  for (const File& header : headers) {
    ExpectEachInAProgram(header.path, ExamplesOfHeader(header.content));
  }
}

TEST(DocumentationTest, ExamplesOfPagesAreRun) {
  const std::vector<File> pages = FilesLike(".md");
  EXPECT_THAT(pages, Not(IsEmpty()));
  for (const File& page : pages) {
    ExpectEachInAProgram(page.path, ExamplesOfPage(page.content));
  }
}

TEST(DocumentationTest, BlocksOfPagesTellTheirLanguage) {
  for (const File& page : FilesLike(".md")) {
    for (const CodeExample& example : ExamplesOfPage(page.content)) {
      EXPECT_THAT(example.language,
                  AnyOf("cmake", "cpp", "sh", "starlark", "text"))
          << page.path << ":" << example.line - 1;
    }
  }
}

bool IsNameInUpperCamel(absl::string_view text) {
  return !text.empty() && absl::ascii_isupper(text[0]) &&
         std::all_of(text.begin(), text.end(), absl::ascii_isalnum);
}

// A page names a test as `Suite.Name`.
TEST(DocumentationTest, TestsThatPagesNameExist) {
  for (const File& page : FilesLike(".md")) {
    for (absl::string_view code : absl::StrSplit(page.content, '`')) {
      const std::vector<std::string> name = absl::StrSplit(code, '.');
      if (name.size() != 2 || !IsNameInUpperCamel(name[0]) ||
          !IsNameInUpperCamel(name[1])) {
        continue;
      }
      EXPECT_TRUE(IsInAProgram(absl::StrCat("(", name[0], ",", name[1], ")")))
          << page.path << ": no test is called " << code;
    }
  }
}

TEST(CodeExamplesTest, HeaderShowsThemIndentedInItsFirstComment) {
  const std::vector<CodeExample> examples = ExamplesOfHeader(
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
  EXPECT_EQ(examples[0].line, 3);
  EXPECT_EQ(examples[1].text, "Two two;\n");
  EXPECT_EQ(examples[1].line, 9);
}

TEST(CodeExamplesTest, PageShowsThemBetweenFences) {
  const std::vector<CodeExample> examples = ExamplesOfPage(
      "Text.\n"
      "```cpp\n"
      "One one;\n"
      "```\n"
      "```\n"
      "two\n"
      "```\n");
  ASSERT_THAT(examples, SizeIs(2));
  EXPECT_EQ(examples[0].text, "One one;\n");
  EXPECT_EQ(examples[0].line, 3);
  EXPECT_EQ(examples[0].language, "cpp");
  EXPECT_EQ(examples[1].language, "");
}

TEST(CodeExamplesTest, ProgramMayBreakItsLinesDifferently) {
  EXPECT_TRUE(IsPartOf("f(a, b);\ng();\n", "int main() { f(a,\n b); g(); }"));
  EXPECT_FALSE(IsPartOf("f(a, b);\ng();\n", "f(a, c); g();"));
  EXPECT_FALSE(IsPartOf("f(a, b);\ng();\n", "f(a, b); h(); g();"));
}

TEST(CodeExamplesTest, DotsStandForWhatTheReaderSupplies) {
  EXPECT_TRUE(IsPartOf("f();\n...\ng();\n", "f(); h(); g();"));
  EXPECT_FALSE(IsPartOf("f();\n...\ng();\n", "g(); h(); f();"));
}

}  // namespace
}  // namespace wheelcache
