// Opens the status page in a headless Chromium, as its readers do: the numbers
// that it shows are those of stats(), it fits a phone, it is readable in light
// and in dark mode, and it fetches nothing. The page of the example server
// agrees with its metrics.
//
// Skipped where there is no Chromium; never part of //...:
//
//   apt-get install chromium
//   ./bazelw test --config=http //tests/cache/report:status_page_browser_test

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/report/registry.h"
#include "wheelcache/cache/report/status_page.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/browser.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/html_page.h"
#include "wheelcache/tests/testing/prometheus_text.h"

namespace wheelcache {
namespace {

using testing::DumpPage;
using testing::HtmlPage;
using testing::LookAt;
using testing::Seen;

class StatusPageBrowserTest : public CacheEnvironment {
 protected:
  void SetUp() override {
    if (!testing::HasBrowser()) {
      GTEST_SKIP() << "There is no Chromium: apt-get install chromium";
    }
  }

  // Of a document that is plain text.
  static std::string TextOf(const std::string& url) {
    const HtmlPage page(DumpPage(url));
    return absl::StrCat(absl::StripAsciiWhitespace(page.Text()), "\n");
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

// Promise: Observable
TEST_F(StatusPageBrowserTest, ShowsTheNumbersOfTheStatistics) {
  options_.name = "<b>&\"quoted\" \xC3\xA9";
  options_.max_entries = 50;
  const auto cache = New<int, int>();
  const auto other = New<int, int>();
  Use(cache.get());
  std::map<std::string, std::string> shown;
  int others = 0;
  const auto seen = LookAt(StatusPage())["number"];
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
  Seen seen = LookAt(StatusPage());
  testing::ExpectFitsAPhoneAndFetchesNothing(seen);
}

TEST_F(StatusPageBrowserTest, IsReadableInLightAndInDarkMode) {
  options_.max_entries = 50;
  const auto cache = New<int, int>();
  const auto other = New<int, int>();
  Use(cache.get());
  testing::ExpectReadableInLightAndInDarkMode(StatusPage());
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
  EXPECT_TRUE(absl::StrContains(DumpPage(root + "/users/alice"), "alice"));
  HtmlPage page(DumpPage(server.url()));
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
