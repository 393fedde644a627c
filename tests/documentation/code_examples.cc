#include "wheelcache/tests/documentation/code_examples.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace wheelcache {
namespace {

std::string WithoutBlanks(absl::string_view text) {
  std::string result;
  for (const char c : text) {
    if (!absl::ascii_isspace(static_cast<unsigned char>(c))) {
      result.push_back(c);
    }
  }
  return result;
}

void AddLine(absl::string_view line, std::string* text) {
  text->append(line.data(), line.size());
  text->push_back('\n');
}

}  // namespace

std::vector<CodeExample> ExamplesOfHeader(absl::string_view header) {
  std::vector<CodeExample> examples;
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

std::vector<CodeExample> ExamplesOfPage(absl::string_view page) {
  std::vector<CodeExample> examples;
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

}  // namespace wheelcache
