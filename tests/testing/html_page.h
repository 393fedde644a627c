// Reads a status page as its tests need it.
//
//   const HtmlPage page(StatusPage());
//   EXPECT_EQ(page.Error(), "");
//   EXPECT_EQ(page.Numbers("users", 1).at("wheelcache_hits_total"), "3");

#ifndef WHEELCACHE_TESTS_TESTING_HTML_PAGE_H_
#define WHEELCACHE_TESTS_TESTING_HTML_PAGE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace wheelcache::testing {

class HtmlPage {
 public:
  explicit HtmlPage(std::string html);

  // What breaks the rules of a well-formed page: tags that do not match, names
  // of tags and attributes that the page has no use for, attributes without
  // quotes. Empty if nothing does.
  const std::string& Error() const { return error_; }

  // What the page would fetch from elsewhere or run: the values of src, of href
  // that do not begin with #, scripts, and handlers of events.
  const std::vector<std::string>& Outside() const { return outside_; }

  // The text of the page without tags, its entities resolved.
  const std::string& Text() const { return text_; }

  // From each data-metric of a cache to the text of its cell.
  const std::map<std::string, std::string>& Numbers(const std::string& cache,
                                                    int id);

 private:
  void ReadTag(absl::string_view tag);
  void ReadAttributes(absl::string_view tag, absl::string_view attributes);
  void ReadText(absl::string_view text);

  std::string error_;
  std::vector<std::string> outside_;
  std::string text_;
  std::vector<std::string> open_;
  std::string section_;
  std::string metric_;
  std::map<std::string, std::map<std::string, std::string>> numbers_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_HTML_PAGE_H_
