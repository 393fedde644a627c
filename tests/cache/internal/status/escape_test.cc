#include "wheelcache/cache/internal/status/escape.h"

#include <string>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

TEST(EscapeTest, HtmlHasNoMeaningLeft) {
  EXPECT_EQ(EscapeHtml("<a b=\"c\" d='e'>&amp;"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
}

TEST(EscapeTest, LabelStaysInItsQuotesAndItsLine) {
  EXPECT_EQ(EscapeLabel("a\\b\"c\nd{}\t"), "a\\\\b\\\"c\\nd{}\t");
}

TEST(EscapeTest, Utf8IsKept) {
  // The least and the greatest character of each length.
  for (const char* text : {"\x7E", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80",
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(EscapeLabel(text), text);
    EXPECT_EQ(EscapeHtml(text), text);
  }
}

TEST(EscapeTest, BytesThatAreNoUtf8AreReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(EscapeLabel("a\xFF"
                        "b"),
            "a" + r + "b");
  EXPECT_EQ(EscapeLabel("\x80"), r);
  EXPECT_EQ(EscapeLabel("\xC3"), r);          // Cut off.
  EXPECT_EQ(EscapeLabel("\xE2\x82"), r + r);  // Cut off.
  EXPECT_EQ(EscapeLabel("\xF0\x9F\x98"
                        "a"),
            r + r + r + "a");
  EXPECT_EQ(EscapeLabel("\xC0\x80"), r + r);  // Overlong.
  EXPECT_EQ(EscapeLabel("\xC1\xBF"), r + r);
  EXPECT_EQ(EscapeLabel("\xE0\x9F\xBF"), r + r + r);
  EXPECT_EQ(EscapeLabel("\xF0\x8F\xBF\xBF"), r + r + r + r);
  EXPECT_EQ(EscapeLabel("\xED\xA0\x80"), r + r + r);  // A surrogate.
  EXPECT_EQ(EscapeLabel("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(EscapeLabel("\xF5\x80\x80\x80"), r + r + r + r);
}

TEST(EscapeTest, ControlCharactersHaveNoPlaceInHtml) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(EscapeHtml(std::string("a\0b\n\x1F\x7F", 6)),
            "a" + r + "b" + r + r + r);
}

}  // namespace
}  // namespace wheelcache::internal
