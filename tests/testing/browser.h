// Opens pages in a headless Chromium, as their readers do.
//
//   if (!HasBrowser()) GTEST_SKIP() << "There is no Chromium";
//   Seen seen = LookAt(StatusPage());
//   ExpectFitsAPhoneAndFetchesNothing(seen);

#ifndef WHEELCACHE_TESTS_TESTING_BROWSER_H_
#define WHEELCACHE_TESTS_TESTING_BROWSER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace wheelcache::testing {

bool HasBrowser();

// Returns the document after its scripts have run. `options` are those of
// Chromium's command line.
std::string DumpPage(const std::string& url, const std::string& options = "");

// What a reader sees in a frame as narrow as a phone and in one for a desk, as
// lines of fields, by the first field:
//   width    of the frame, of the content, of what is shown of it
//   letters  width of the frame, height of a text in a picture
//   fetched  width of the frame, number of resources that were fetched
//   color    name of a tag, color of its text and of what is behind it
//   number   data-cache and data-id of the section, data-metric, text
using Seen = std::map<std::string, std::vector<std::vector<std::string>>>;
Seen LookAt(const std::string& html, const std::string& options = "");

// Of a color like "rgb(1, 2, 3)", and between two of them, as the Web Content
// Accessibility Guidelines measure it.
double Luminance(absl::string_view color);
double Contrast(absl::string_view a, absl::string_view b);

void ExpectFitsAPhoneAndFetchesNothing(Seen& seen);
void ExpectReadableInLightAndInDarkMode(const std::string& html);

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_BROWSER_H_
