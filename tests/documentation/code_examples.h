// The examples of code that documentation shows its readers.
//
//   for (const CodeExample& example : ExamplesOfHeader(header)) {
//     if (!IsPartOf(example.text, program)) Complain(example);
//   }
//
// In a header they are the indented blocks of the comment that opens it, in a
// Markdown page the fenced blocks of C++. `...` in an example stands for code
// that its reader is to supply.

#ifndef WHEELCACHE_TESTS_DOCUMENTATION_CODE_EXAMPLES_H_
#define WHEELCACHE_TESTS_DOCUMENTATION_CODE_EXAMPLES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace wheelcache {

struct CodeExample {
  std::string text;
  int line = 0;          // Of the file, where the text begins.
  std::string language;  // Empty if a page does not tell.
};

// All of them are C++.
std::vector<CodeExample> ExamplesOfHeader(absl::string_view header);

// In any language.
std::vector<CodeExample> ExamplesOfPage(absl::string_view page);

// Whether the program holds the example, its parts between `...` one after the
// other and each without a gap. Blanks and line breaks do not count.
bool IsPartOf(absl::string_view example, absl::string_view program);

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_DOCUMENTATION_CODE_EXAMPLES_H_
