// The version stands in wheel/base/version.h. What cannot read it from there
// repeats it, and is compared here.

#include "wheelcache/wheel/base/version.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace wheelcache {
namespace {

using ::testing::HasSubstr;

std::string ContentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

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

TEST(VersionTest, ModuleOfBazelHasIt) {
  EXPECT_THAT(ContentOf("MODULE.bazel"),
              HasSubstr("module(\n    name = \"wheelcache\",\n    version = "
                        "\"" WHEELCACHE_VERSION "\",\n)"));
}

TEST(VersionTest, ChangelogBeginsWithIt) {
  const std::string changelog = ContentOf("CHANGELOG.md");
  const size_t heading = changelog.find("\n## ");
  ASSERT_NE(heading, std::string::npos);
  EXPECT_EQ(changelog.find("\n## " WHEELCACHE_VERSION), heading);
}

TEST(VersionTest, PackagesHaveIt) {
  EXPECT_EQ(ContentOf("tools/packaging/debian/changelog")
                .find("wheelcache (" WHEELCACHE_VERSION "-"),
            0);
  EXPECT_THAT(ContentOf("tools/packaging/conan/conanfile.py"),
              HasSubstr("\n    version = \"" WHEELCACHE_VERSION "\"\n"));
  EXPECT_THAT(ContentOf("tools/packaging/vcpkg/vcpkg.json"),
              HasSubstr("\n  \"version\": \"" WHEELCACHE_VERSION "\",\n"));
}

}  // namespace
}  // namespace wheelcache
