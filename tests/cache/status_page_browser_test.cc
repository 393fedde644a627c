// Opens the status page in a headless Chromium, as its readers do: the numbers
// that it shows are those of stats(), it fits a phone, it is readable in light
// and in dark mode, and it fetches nothing. The page of the example server
// agrees with its metrics.
//
// Skipped where there is no Chromium; never part of //...:
//
//   apt-get install chromium
//   ./bazelw test --config=http //tests/cache:status_page_browser_test

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/html_page.h"
#include "wheelcache/tests/testing/prometheus_text.h"

namespace wheelcache {
namespace {

using testing::HtmlPage;

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

// "rgb(1, 2, 3)" in the measure of the Web Content Accessibility Guidelines.
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

class StatusPageBrowserTest : public CacheEnvironment {
 protected:
  void SetUp() override {
    if (OutputOf("command -v chromium").empty()) {
      GTEST_SKIP() << "There is no Chromium: apt-get install chromium";
    }
  }

  static std::string Folder() { return ::testing::TempDir(); }

  // The document after its scripts have run.
  static std::string Dump(const std::string& url,
                          const std::string& options = "") {
    return OutputOf(absl::StrCat(
        "HOME=", Folder(),
        " timeout 120 chromium --headless --no-sandbox --disable-gpu "
        "--allow-file-access-from-files --user-data-dir=",
        Folder(), "/chromium ", options, " --dump-dom '", url,
        "' 2>/dev/null"));
  }

  // Of a document that is plain text.
  static std::string TextOf(const std::string& url) {
    const HtmlPage page(Dump(url));
    return absl::StrCat(absl::StripAsciiWhitespace(page.Text()), "\n");
  }

  // What a reader of StatusPage() sees, by the first field of its lines.
  static std::map<std::string, std::vector<std::vector<std::string>>> Look(
      const std::string& options = "") {
    std::ofstream(Folder() + "/page.html") << StatusPage();
    std::ofstream(Folder() + "/harness.html") << kHarness;
    const HtmlPage harness(
        Dump(absl::StrCat("file://", Folder(), "/harness.html"), options));
    std::map<std::string, std::vector<std::vector<std::string>>> seen;
    for (absl::string_view line : absl::StrSplit(harness.Text(), '\n')) {
      std::vector<std::string> fields = absl::StrSplit(line, '\t');
      if (fields.size() > 1) seen[fields[0]].push_back(fields);
    }
    return seen;
  }

  void Use(Cache<int, int>* cache) {
    for (int i = 0; i < 300; ++i) {
      clock_.Advance(absl::Milliseconds(500));
      (void)cache->Get(i / 2);
      cache->Set(i, i, absl::Seconds(100));
      if (i % 30 == 0) (void)ReportCaches();
    }
    (void)cache->GetOrLoad(
        -1, [] { return absl::StatusOr<int>(absl::NotFoundError("")); });
  }
};

TEST_F(StatusPageBrowserTest, ShowsTheNumbersOfTheStatistics) {
  options_.name = "<b>&\"quoted\" \xC3\xA9";
  options_.max_entries = 50;
  const auto cache = New<int, int>();
  const auto other = New<int, int>();
  Use(cache.get());
  std::map<std::string, std::string> shown;
  int others = 0;
  const auto seen = Look()["number"];
  for (const auto& fields : seen) {
    ASSERT_EQ(fields.size(), 5u);
    EXPECT_EQ(fields[1], options_.name);
    if (fields[2] == "1") shown[fields[3]] = fields[4];
    if (fields[2] == "2") ++others;
  }
  int numbers = 0;
  cache->stats().ForEachMetric([&](const Metric& metric) {
    if (metric.histogram != nullptr) return;
    ++numbers;
    const std::string name =
        metric.label.empty()
            ? std::string(metric.name)
            : absl::StrCat(metric.name, "{", metric.label, "}");
    EXPECT_EQ(shown[name],
              std::isinf(metric.value)
                  ? "no limit"
                  : absl::StrCat(static_cast<int64_t>(metric.value)))
        << name;
  });
  EXPECT_GT(numbers, 15);
  EXPECT_EQ(others, 2 * (numbers + 4));  // In both frames; count and sum.
}

TEST_F(StatusPageBrowserTest, FitsAPhoneAndFetchesNothing) {
  options_.name = "a_rather_long_name_of_a_cache_that_has_no_blank_in_it";
  options_.max_entries = 50;
  const auto cache = New<int, int>();
  const auto other = New<int, int>();
  Use(cache.get());
  auto seen = Look();
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

TEST_F(StatusPageBrowserTest, IsReadableInLightAndInDarkMode) {
  options_.max_entries = 50;
  const auto cache = New<int, int>();
  const auto other = New<int, int>();
  Use(cache.get());
  std::vector<double> pages;  // The luminance behind the heading.
  for (const char* scheme : {"--blink-settings=preferredColorScheme=1",
                             "--blink-settings=preferredColorScheme=0"}) {
    const auto colors = Look(scheme)["color"];
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

// The server of examples/status_server.cc.
class ExampleServer {
 public:
  ExampleServer() {
    int output[2];
    if (pipe(output) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      dup2(output[1], 1);
      execl("examples/status_server", "status_server", nullptr);
      _exit(1);
    }
    close(output[1]);
    char c;
    while (read(output[0], &c, 1) == 1 && c != '\n') url_ += c;
    close(output[0]);
  }
  ~ExampleServer() {
    if (process_ <= 0) return;
    kill(process_, SIGTERM);
    waitpid(process_, nullptr, 0);
  }
  ExampleServer(const ExampleServer&) = delete;
  ExampleServer& operator=(const ExampleServer&) = delete;

  // Of its page of caches.
  const std::string& url() const { return url_; }

 private:
  pid_t process_ = -1;
  std::string url_;
};

TEST_F(StatusPageBrowserTest, ExampleServerShowsOnThePageWhatItsMetricsTell) {
  const ExampleServer server;
  ASSERT_TRUE(absl::StartsWith(server.url(), "http://127.0.0.1:"));
  const std::string root = absl::StrReplaceAll(server.url(), {{"/caches", ""}});
  EXPECT_TRUE(absl::StrContains(Dump(root + "/users/alice"), "alice"));
  HtmlPage page(Dump(server.url()));
  const auto metrics = testing::ParsePrometheusText(TextOf(root + "/metrics"));
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  for (const char* cache : {"users", "sessions"}) {
    const auto& numbers = page.Numbers(cache, 1);
    EXPECT_GT(numbers.size(), 15u);
    for (const auto& [name, text] : numbers) {
      // With the label of the cache before the others.
      const std::string label = absl::StrCat("{cache=\"", cache, "\"");
      const std::string sample =
          absl::StrContains(name, "{")
              ? absl::StrReplaceAll(name, {{"{", label + ","}})
              : absl::StrCat(name, label, "}");
      double value = INFINITY;
      EXPECT_TRUE(text == "no limit" || absl::SimpleAtod(text, &value)) << text;
      ASSERT_EQ(metrics->count(sample), 1u) << sample;
      EXPECT_EQ(metrics->at(sample), value) << sample;
    }
  }
  EXPECT_EQ(page.Numbers("users", 1).at("wheelcache_loads_total"), "1");
}

}  // namespace
}  // namespace wheelcache
