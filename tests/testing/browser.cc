#include "wheelcache/tests/testing/browser.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/html_page.h"

namespace wheelcache::testing {
namespace {

// The page in a frame as narrow as a phone, and in one for a desk. The script
// is the test's: it writes what a reader would see, a line each, fields
// separated by tabs.
constexpr char kHarness[] = R"html(<!DOCTYPE html>
<iframe src="page.html" width="360" height="800"></iframe>
<iframe src="page.html" width="1100" height="800"></iframe>
<pre id="seen"></pre>
<script>
addEventListener('load', () => {
  const lines = [];
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument;
    const view = frame.contentWindow;
    for (const all of page.querySelectorAll('details')) all.open = true;
    lines.push(['width', frame.width, page.documentElement.scrollWidth,
                page.documentElement.clientWidth]);
    for (const text of page.querySelectorAll('svg text')) {
      lines.push(['letters', frame.width,
                  text.getBoundingClientRect().height]);
    }
    lines.push(['fetched', frame.width,
                view.performance.getEntriesByType('resource').length]);
    for (const text of page.querySelectorAll('h1, .quiet, b, li, th, td, a')) {
      let behind = text;
      while (view.getComputedStyle(behind).backgroundColor ==
             'rgba(0, 0, 0, 0)') {
        behind = behind.parentElement;
      }
      lines.push(['color', text.tagName, view.getComputedStyle(text).color,
                  view.getComputedStyle(behind).backgroundColor]);
    }
    for (const cell of page.querySelectorAll('[data-metric]')) {
      const card = cell.closest('section');
      lines.push(['number', card.dataset.cache, card.dataset.id,
                  cell.dataset.metric, cell.innerText]);
    }
  }
  document.getElementById('seen').textContent =
      lines.map(line => line.join('\t')).join('\n');
});
</script>
)html";

// Returns what a command writes to its standard output.
std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output.append(buffer, n);
  }
  pclose(pipe);
  return output;
}

}  // namespace

bool HasBrowser() { return !OutputOf("command -v chromium").empty(); }

std::string DumpPage(const std::string& url, const std::string& options) {
  const std::string folder = ::testing::TempDir();
  return OutputOf(absl::StrCat(
      "HOME=", folder,
      " timeout 120 chromium --headless --no-sandbox --disable-gpu "
      "--disable-background-networking --disable-component-update "
      "--disable-sync --no-first-run --allow-file-access-from-files "
      "--user-data-dir=",
      folder, "/chromium ", options, " --dump-dom '", url, "' 2>/dev/null"));
}

Seen LookAt(const std::string& html, const std::string& options) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/page.html") << html;
  std::ofstream(folder + "/harness.html") << kHarness;
  const HtmlPage harness(
      DumpPage(absl::StrCat("file://", folder, "/harness.html"), options));
  Seen seen;
  for (absl::string_view line : absl::StrSplit(harness.Text(), '\n')) {
    std::vector<std::string> fields = absl::StrSplit(line, '\t');
    if (fields.size() > 1) seen[fields[0]].push_back(fields);
  }
  return seen;
}

double Luminance(absl::string_view color) {
  const std::string list =
      absl::StrReplaceAll(color, {{"rgb(", ""}, {")", ""}, {" ", ""}});
  const std::vector<std::string> parts = absl::StrSplit(list, ',');
  constexpr double kWeights[] = {0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) {
    double part = 0;
    EXPECT_TRUE(i < parts.size() && absl::SimpleAtod(parts[i], &part)) << color;
    part /= 255;
    sum +=
        kWeights[i] * (part <= 0.03928 ? part / 12.92
                                       : std::pow((part + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double Contrast(absl::string_view a, absl::string_view b) {
  const auto [low, high] = std::minmax({Luminance(a), Luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

void ExpectFitsAPhoneAndFetchesNothing(Seen& seen) {
  ASSERT_EQ(seen["width"].size(), 2u);
  for (const auto& fields : seen["width"]) {
    EXPECT_EQ(fields[2], fields[3]) << "scrolls sideways at " << fields[1];
  }
  for (const auto& fields : seen["fetched"]) EXPECT_EQ(fields[2], "0");
  EXPECT_GT(seen["letters"].size(), 20u);
  for (const auto& fields : seen["letters"]) {
    double height = 0;
    EXPECT_TRUE(absl::SimpleAtod(fields[2], &height));
    EXPECT_GE(height, 9) << "illegible at " << fields[1];
  }
}

void ExpectReadableInLightAndInDarkMode(const std::string& html) {
  std::vector<double> pages;  // The luminance behind the heading.
  for (const char* scheme : {"--blink-settings=preferredColorScheme=1",
                             "--blink-settings=preferredColorScheme=0"}) {
    const auto colors = LookAt(html, scheme)["color"];
    ASSERT_GT(colors.size(), 50u);
    for (const auto& fields : colors) {
      EXPECT_GE(Contrast(fields[2], fields[3]), 4.5)
          << fields[1] << " " << fields[2] << " on " << fields[3];
    }
    pages.push_back(Luminance(colors[0][3]));
  }
  EXPECT_GT(pages[0], 0.8);
  EXPECT_LT(pages[1], 0.1);
}

}  // namespace wheelcache::testing
