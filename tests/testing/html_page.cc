#include "wheelcache/tests/testing/html_page.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace wheelcache::testing {
namespace {

// That have no end, in HTML or because they end themselves.
bool IsVoid(absl::string_view name) {
  return name == "meta" || name == "wbr" || name == "!DOCTYPE";
}

std::string Unescape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&lt;", "<"},
                                    {"&gt;", ">"},
                                    {"&quot;", "\""},
                                    {"&#39;", "'"},
                                    {"&nbsp;", " "},
                                    {"&amp;", "&"}});
}

}  // namespace

HtmlPage::HtmlPage(std::string html) {
  absl::string_view rest = html;
  while (!rest.empty()) {
    const size_t tag = rest.find('<');
    ReadText(rest.substr(0, tag));
    if (tag == absl::string_view::npos) break;
    const size_t end = rest.find('>', tag);
    if (end == absl::string_view::npos) {
      error_ = "a tag has no end";
      break;
    }
    ReadTag(rest.substr(tag + 1, end - tag - 1));
    rest.remove_prefix(end + 1);
  }
  if (!open_.empty()) absl::StrAppend(&error_, "open: ", open_.back(), "\n");
}

void HtmlPage::ReadTag(absl::string_view tag) {
  if (absl::ConsumePrefix(&tag, "/")) {
    if (open_.empty() || open_.back() != tag) {
      absl::StrAppend(&error_, "ends what is not open: ", tag, "\n");
      return;
    }
    if (tag == "section") section_.clear();
    metric_.clear();
    open_.pop_back();
    return;
  }
  const bool ends_itself = absl::ConsumeSuffix(&tag, "/");
  const std::string name(tag.substr(0, tag.find(' ')));
  for (const char c : absl::StripPrefix(name, "!")) {
    if (!absl::ascii_isalnum(c)) absl::StrAppend(&error_, "tag: ", name, "\n");
  }
  if (name == "script" || name == "link" || name == "img" || name == "iframe") {
    outside_.push_back(name);
  }
  if (name != "!DOCTYPE") ReadAttributes(name, tag.substr(name.size()));
  if (!ends_itself && !IsVoid(name)) open_.push_back(name);
}

void HtmlPage::ReadAttributes(absl::string_view tag,
                              absl::string_view attributes) {
  std::map<std::string, std::string> values;
  while (absl::ConsumePrefix(&attributes, " ")) {
    const size_t equals = attributes.find("=\"");
    const size_t end = equals == absl::string_view::npos
                           ? equals
                           : attributes.find('"', equals + 2);
    if (end == absl::string_view::npos) break;
    const std::string name(attributes.substr(0, equals));
    const std::string value(attributes.substr(equals + 2, end - equals - 2));
    if (name.find_first_of(" <>'\"") != std::string::npos) break;
    values[name] = Unescape(value);
    if (name == "src" || absl::StartsWith(name, "on") ||
        (name == "href" && !absl::StartsWith(value, "#"))) {
      outside_.push_back(absl::StrCat(name, "=", value));
    }
    attributes.remove_prefix(end + 1);
  }
  if (!attributes.empty()) {
    absl::StrAppend(&error_, "attributes of ", tag, ": ", attributes, "\n");
  }
  if (values.count("data-cache") > 0) {
    section_ = absl::StrCat(values["data-cache"], "#", values["data-id"]);
    numbers_[section_];
  }
  if (values.count("data-metric") > 0) metric_ = values["data-metric"];
}

void HtmlPage::ReadText(absl::string_view text) {
  const bool style = !open_.empty() && open_.back() == "style";
  if (style) {
    for (const char* loads : {"url(", "@import", "//"}) {
      if (absl::StrContains(text, loads)) outside_.emplace_back(loads);
    }
    return;
  }
  absl::StrAppend(&text_, Unescape(text));
  if (!metric_.empty()) {
    absl::StrAppend(&numbers_[section_][metric_], Unescape(text));
  }
}

const std::map<std::string, std::string>& HtmlPage::Numbers(
    const std::string& cache, int id) {
  return numbers_[absl::StrCat(cache, "#", id)];
}

}  // namespace wheelcache::testing
