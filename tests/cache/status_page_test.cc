// The status page as HTML. status_page_browser_test opens it in a browser.

#include "wheelcache/cache/status_page.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/html_page.h"

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HtmlPage;
using ::testing::IsEmpty;
using ::testing::Not;

class StatusPageTest : public CacheEnvironment {
 protected:
  // A cache that has something of everything.
  auto MakeBusy() {
    options_.max_entries = 50;
    options_.default_ttl = absl::Seconds(100);
    auto cache = New<int, int>();
    for (int i = 0; i < 200; ++i) {
      clock_.Advance(absl::Milliseconds(200));
      cache->Set(i, i);
      (void)cache->Get(i % 3 == 0 ? i : i + 1000);
      if (i % 20 == 0) (void)ReportCaches();
    }
    cache->Set(199, 0);
    cache->Del(199);
    cache->Set(5, 5, absl::ZeroDuration());
    (void)cache->GetOrLoad(2000, [] { return absl::StatusOr<int>(1); });
    (void)cache->GetOrLoad(
        2001, [] { return absl::StatusOr<int>(absl::NotFoundError("")); });
    clock_.Advance(absl::Seconds(100));
    cache->RunMaintenance();
    return cache;
  }
};

TEST_F(StatusPageTest, IsWellFormedAndCompleteInItself) {
  const auto busy = MakeBusy();
  options_.name = "idle";
  const auto idle = New<int, int>();
  HtmlPage page(StatusPage());
  EXPECT_EQ(page.Error(), "");
  EXPECT_THAT(page.Outside(), IsEmpty());
  EXPECT_THAT(StatusPage(), Not(HasSubstr("http")));
}

TEST_F(StatusPageTest, NumbersAreThoseOfTheStatistics) {
  const auto cache = MakeBusy();
  HtmlPage page(StatusPage());
  auto numbers = page.Numbers("cache", 1);
  const CacheStats stats = cache->stats();
  int shown = 0;
  stats.ForEachMetric([&](const Metric& metric) {
    ++shown;
    if (metric.histogram != nullptr) {
      ++shown;
      EXPECT_EQ(numbers[absl::StrCat(metric.name, "_count")],
                absl::StrCat(metric.histogram->count()));
      return;
    }
    const std::string label =
        metric.label.empty() ? "" : absl::StrCat("{", metric.label, "}");
    const bool unlimited = metric.name == "wheelcache_max_bytes";
    EXPECT_EQ(numbers[absl::StrCat(metric.name, label)],
              unlimited ? "no limit"
                        : absl::StrCat(static_cast<int64_t>(metric.value)))
        << metric.name;
  });
  EXPECT_EQ(numbers.size(), static_cast<size_t>(shown));
  EXPECT_EQ(numbers["wheelcache_hits_total"], absl::StrCat(stats.hits));
  EXPECT_EQ(numbers["wheelcache_load_errors_total"], "1");
  EXPECT_EQ(numbers["wheelcache_max_entries"], "50");
}

TEST_F(StatusPageTest, MetersShowWhichPartOfALimitIsUsed) {
  options_.max_entries = 80;
  const auto cache = New<int, int>();
  for (int i = 0; i < 20; ++i) cache->Set(i, i);
  EXPECT_THAT(StatusPage(), HasSubstr("<rect class=\"fill\" width=\"25.0\""));
}

TEST_F(StatusPageTest, NamesAreEscaped) {
  options_.name = "</section><script>alert('&\"')</script>\x01\xFF";
  const auto cache = New<int, int>();
  HtmlPage page(StatusPage());
  EXPECT_EQ(page.Error(), "");
  EXPECT_THAT(page.Outside(), IsEmpty());
  EXPECT_THAT(page.Text(), HasSubstr("</section><script>alert('&\"')</script>"
                                     "\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST_F(StatusPageTest, FollowsTheDarkModeAndTheWidthOfItsReader) {
  EXPECT_THAT(StatusPage(), AllOf(HasSubstr("prefers-color-scheme: dark"),
                                  HasSubstr("content=\"width=device-width")));
}

TEST_F(StatusPageTest, CachesOfOneNameAreNumbered) {
  auto first = New<int, int>();
  auto second = New<int, int>();
  second->Set(1, 1);
  HtmlPage page(StatusPage());
  EXPECT_EQ(page.Numbers("cache", 1).at("wheelcache_entries"), "0");
  EXPECT_EQ(page.Numbers("cache", 2).at("wheelcache_entries"), "1");
  EXPECT_THAT(page.Text(), HasSubstr("cache #2"));
}

TEST_F(StatusPageTest, ProcessWithoutCachesHasAPage) {
  HtmlPage page(StatusPage());
  EXPECT_EQ(page.Error(), "");
  EXPECT_THAT(page.Text(), HasSubstr("0\xC2\xA0"
                                     "caches"));
}

TEST_F(StatusPageTest, CacheThatNobodyUsesHasNoCharts) {
  const auto cache = New<int, int>();
  EXPECT_THAT(StatusPage(), AllOf(HasSubstr("Nobody has used it yet."),
                                  Not(HasSubstr("class=\"chart\""))));
}

TEST_F(StatusPageTest, TellsWhenACacheIsTooSmall) {
  options_.max_entries = 10;
  options_.default_ttl = absl::Seconds(400);
  auto cache = New<int, int>();
  for (int i = 0; i < 100; ++i) {
    cache->Set(i, i);
    clock_.Advance(absl::Seconds(4));
  }
  EXPECT_THAT(HtmlPage(StatusPage()).Text(),
              HasSubstr("with 85.0\xC2\xA0% of the TTL left (medians): too "
                        "small"));
}

// As the rate limiter of docs/guide.md.
TEST_F(StatusPageTest, CacheOfCountersIsNotToldThatNobodyReadsIt) {
  using Calls = Cache<int, int>;
  auto calls = New<int, int>();
  for (int i = 0; i < 1000; ++i) {
    calls->Update(i % 10, [](const Calls::Handle& count) {
      return count ? Calls::Decision::Set(*count + 1)
                   : Calls::Decision::Set(1, absl::Minutes(1));
    });
  }
  EXPECT_THAT(StatusPage(), Not(HasSubstr("class=\"advice\"")));
}

TEST_F(StatusPageTest, OfAThousandCachesThoseThatNeedAttentionComeFirst) {
  std::vector<CacheReport> reports(1000);
  for (CacheReport& report : reports) report.name = "good";
  reports[998].name = "missing";
  reports[998].stats.misses = 7;
  reports[999].name = "failing";
  reports[999].stats.loads = reports[999].stats.load_errors = 1;
  const std::string page = StatusPage(reports);
  EXPECT_EQ(HtmlPage(page).Error(), "");
  EXPECT_LT(page.size(), 400'000);
  EXPECT_THAT(page, HasSubstr("1,000\xC2\xA0"
                              "caches, "));
  const auto row = [&](int number, absl::string_view name) {
    return absl::StrContains(
        page, absl::StrCat("href=\"#cache-", number, "\">", name, "</a>"));
  };
  EXPECT_TRUE(row(0, "failing") && row(1, "missing") && row(2, "good"));
  EXPECT_TRUE(row(49, "good"));
  EXPECT_FALSE(row(50, "good"));
}

TEST_F(StatusPageTest, FiftyCachesAreShownByTheirNames) {
  std::vector<CacheReport> reports(50);
  reports[49].name = "failing";
  reports[49].stats.load_errors = 1;
  EXPECT_THAT(StatusPage(reports),
              AllOf(HasSubstr("href=\"#cache-49\">failing</a>"),
                    Not(HasSubstr("need attention first"))));
}

TEST_F(StatusPageTest, HitRatioIsDrawnBetweenTwoLooks) {
  auto cache = New<int, int>();
  cache->Set(1, 1);
  EXPECT_THAT(StatusPage(), Not(HasSubstr("class=\"line\"")));
  clock_.Advance(absl::Seconds(30));
  (void)cache->Get(1);
  const std::string page = StatusPage();
  EXPECT_THAT(page, HasSubstr("class=\"line\""));
  EXPECT_THAT(HtmlPage(page).Text(),
              AllOf(HasSubstr("100.0\xC2\xA0% in last 30\xC2\xA0s"),
                    HasSubstr("30 s ago")));
}

}  // namespace
}  // namespace wheelcache
