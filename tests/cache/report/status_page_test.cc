// The status page as HTML, and what it is made of: advice in words, numbers as
// people read them, escapes, charts. status_page_browser_test opens it in a
// browser.

#include "wheelcache/cache/report/status_page.h"

#include <cstddef>
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
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/report/internal/advice.h"
#include "wheelcache/cache/report/internal/charts.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/report/registry.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/html_page.h"

namespace wheelcache {
namespace {

using internal::Advise;
using internal::EscapeHtml;
using internal::EscapeLabel;
using internal::FormatBytes;
using internal::FormatCount;
using internal::FormatSeconds;
using internal::FormatShare;
using internal::KeepUnits;
using internal::LimitsChart;
using internal::ShareChart;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
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
// Promise: Observable
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
  for (const int key : {1, 1, 1, 2}) (void)cache->Get(key);
  const std::string page = StatusPage();
  // From the left to the right, three quarters of the way from 100 up to 8.
  EXPECT_THAT(page, HasSubstr("M46.0 31.0V31.0H336.0"));
  EXPECT_THAT(page, HasSubstr("class=\"line\""));
  EXPECT_THAT(HtmlPage(page).Text(),
              AllOf(HasSubstr("75.0\xC2\xA0% in last 30\xC2\xA0s"),
                    HasSubstr("30 s ago")));
}

// Advice.

// A cache that does well.
CacheStats Good() {
  CacheStats stats;
  stats.max_entries = 100;
  stats.max_bytes = kUnlimited;
  stats.entries = 90;
  stats.hits = 950;
  stats.misses = 50;
  stats.sets = 50;
  return stats;
}

// The same, with evictions in these buckets.
CacheStats Evicting(size_t age, size_t life_left) {
  CacheStats stats = Good();
  stats.evictions = 40;
  stats.eviction_age.counts[age] = 40;
  stats.eviction_life_left.counts[life_left] = 40;
  return stats;
}
TEST(AdviceTest, NothingIsSaidWhereNothingIsToChange) {
  EXPECT_THAT(Advise(Good()), IsEmpty());
  EXPECT_THAT(Advise(CacheStats()), IsEmpty());
}

// Promise: Observable
TEST(AdviceTest, YoungVictimsMeanThatTheCacheIsTooSmall) {
  EXPECT_THAT(Advise(Evicting(5, 9)),
              ElementsAre("Evicted at 20 s with 95.0 % of the TTL left "
                          "(medians): too small for what it is given."));
  EXPECT_THAT(Advise(Evicting(5, 2)),
              ElementsAre(HasSubstr("a larger limit would help a little")));
  EXPECT_THAT(Advise(Evicting(5, 0)),
              ElementsAre(HasSubstr("limit and TTL fit each other")));
  CacheStats stats = Evicting(5, 9);
  stats.eviction_life_left.counts[9] = 0;
  EXPECT_THAT(Advise(stats),
              ElementsAre(HasSubstr("younger than 20 s and had no TTL")));
  stats.evictions = 19;  // Too few.
  EXPECT_THAT(Advise(stats), IsEmpty());
}

TEST(AdviceTest, RoomThatWasNeverUsedIsSpare) {
  CacheStats stats = Good();
  stats.entries = 50;
  stats.expirations = 1;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("50.0 % is in use")));
  CacheStats unlimited = stats;
  unlimited.max_entries = kUnlimited;
  EXPECT_THAT(Advise(unlimited), IsEmpty());
  stats.max_bytes = 1000;  // The tighter limit decides.
  stats.bytes = 501;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

TEST(AdviceTest, ValuesThatNobodyReadsAreNamed) {
  CacheStats stats = Good();
  stats.sets = 951;
  EXPECT_THAT(Advise(stats),
              ElementsAre("Stored 951 new values for 950 hits: most are never "
                          "read again."));
  stats.replaced = 1;  // A counter: its values are read by the next Update.
  EXPECT_THAT(Advise(stats), IsEmpty());
  stats.hits = stats.misses = 0;
  EXPECT_THAT(Advise(stats), ElementsAre("Nobody has read from it yet."));
}

TEST(AdviceTest, MissesAfterExpiryAreNotTheLimits) {
  CacheStats stats = Good();
  stats.hits = 500;
  stats.misses = 500;
  stats.expirations = 250;
  EXPECT_THAT(Advise(stats),
              ElementsAre(HasSubstr("a longer TTL would raise")));
  stats.expirations = 249;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

// A cache with advice of its own.
CacheStats Advised(const CacheAdvice& advice) {
  CacheStats stats = Good();
  stats.evictions = 1;
  stats.advice = advice;
  return stats;
}
TEST(AdviceTest, SampleTellsWhatOtherLimitsWouldDo) {
  CacheStats stats = Advised({0.90, 0.95, 0.971, 0.98});
  EXPECT_THAT(Advise(stats),
              ElementsAre("Twice the entries would add 2.1 points to the hit "
                          "ratio of 95.0 %, four times 3.0 points. Half of "
                          "them would cost 5.0 points."));
  stats.max_bytes = 1000;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice the limits")));
  stats.max_entries = kUnlimited;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice the bytes")));
  stats.max_bytes = kUnlimited;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

TEST(AdviceTest, SampleTellsWhereMoreRoomGainsNothing) {
  EXPECT_THAT(Advise(Advised({0.9, 0.95, 0.95, 0.954})),
              ElementsAre("More room would gain nothing: four times the "
                          "entries would leave the hit ratio at 95.0 %. Half "
                          "of them would cost 5.0 points."));
  EXPECT_THAT(Advise(Advised({0.946, 0.95, 0.95, 0.95})),
              ElementsAre(HasSubstr("Half of them would do.")));
  EXPECT_THAT(Advise(Advised({0.94, 0.95, 0.954, 0.96})),
              ElementsAre("Twice the entries would add less than half a point "
                          "to the hit ratio of 95.0 %, four times 1.0 point. "
                          "Half of them would cost 1.0 point."));
}

TEST(AdviceTest, CacheThatIsStillBeingFilledIsNotTooLarge) {
  CacheStats stats = Advised({0.95, 0.95, 0.95, 0.95});
  stats.evictions = 0;
  EXPECT_THAT(Advise(stats), ElementsAre(Not(HasSubstr("Half"))));
  stats.expirations = 1;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Half of them would do")));
}

TEST(AdviceTest, FewReadsAreNoSample) {
  CacheStats stats = Advised({0.9, 0.95, 0.97, 0.98});
  stats.hits = 94;
  stats.misses = 5;
  EXPECT_THAT(Advise(stats), IsEmpty());
  stats.misses = 6;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice")));
}

// They could contradict it.
TEST(AdviceTest, SampleReplacesTheRulesOfThumb) {
  CacheStats stats = Evicting(5, 9);
  stats.advice = CacheAdvice{0.95, 0.95, 0.95, 0.95};
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("gain nothing")));
  stats = Good();
  stats.entries = 10;
  stats.expirations = 1;
  stats.advice = CacheAdvice{0.95, 0.95, 0.95, 0.95};
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Half of them would do")));
  stats = Good();
  stats.hits = stats.misses = stats.expirations = 500;
  stats.advice = CacheAdvice{0.4, 0.5, 0.6, 0.7};
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice the entries")));
}

TEST(AdviceTest, SampledMissesTellTheirCause) {
  CacheAdvice advice = {0.9, 0.95, 0.97, 0.98, 60, 20, 20, 19};
  EXPECT_THAT(Advise(Advised(advice)),
              Contains("Of the misses, 50.4 % are first uses, which no limit "
                       "and no TTL saves."));
  advice.first_uses = 40;
  EXPECT_EQ(Advise(Advised(advice)).size(), 1);  // Fewer than 100.
  advice.expired = 80;
  EXPECT_THAT(Advise(Advised(advice)),
              Contains("Of the misses, 50.3 % are of values that had expired: "
                       "a longer TTL would raise the hit ratio."));
  advice.expired = 10;
  advice.deleted = 70;
  EXPECT_THAT(Advise(Advised(advice)),
              Contains("Of the misses, 50.0 % are of values that the program "
                       "had deleted."));
  advice.evicted = 80;
  EXPECT_EQ(Advise(Advised(advice)).size(), 1);
}

TEST(AdviceTest, FailuresAreTold) {
  CacheStats stats = Good();
  stats.refused = 1;
  stats.loads = 4;
  stats.load_errors = 1;
  stats.listener_exceptions = 1;
  EXPECT_THAT(
      Advise(stats),
      ElementsAre(HasSubstr("1 value was refused"), "25.0 % of 4 loads failed.",
                  "The removal listener threw 1 exception."));
}

// Numbers, text and charts.

TEST(FormatTest, CountsAreInGroupsOfThreeDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(-123), "-123");
}

TEST(FormatTest, BytesAreInTheLargestUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{300} << 20), "300 MiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 50), "5120 TiB");
}

TEST(FormatTest, TimesAreInTheLargestUnitThatFits) {
  EXPECT_EQ(FormatSeconds(0), "0 ms");
  EXPECT_EQ(FormatSeconds(0.1), "100 ms");
  EXPECT_EQ(FormatSeconds(1), "1 s");
  EXPECT_EQ(FormatSeconds(41.4), "41 s");
  EXPECT_EQ(FormatSeconds(90), "1.5 min");
  EXPECT_EQ(FormatSeconds(3600), "1 h");
  EXPECT_EQ(FormatSeconds(30 * 86400), "30 d");
}

TEST(FormatTest, SharesArePercentages) {
  EXPECT_EQ(FormatShare(0), "0.0 %");
  EXPECT_EQ(FormatShare(0.9314), "93.1 %");
  EXPECT_EQ(FormatShare(1), "100.0 %");
}

TEST(FormatTest, NumbersAndTheirUnitsDoNotBreakApart) {
  EXPECT_EQ(KeepUnits("at 20 s with 9.5 % of it"),
            "at 20\xC2\xA0s with 9.5\xC2\xA0% of it");
}

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
  EXPECT_EQ(EscapeLabel(absl::string_view("a\0b", 3)), "a" + r + "b");
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

TEST(ChartsTest, PartOfALifeIsLabelledInPercent) {
  constexpr double kTenths[] = {0.1, 0.2, 0.3, 0.4, 0.5,
                                0.6, 0.7, 0.8, 0.9, 1.0};
  Histogram left;
  left.bounds = kTenths;
  left.counts[2] = 7;
  const std::string chart = ShareChart(left);
  for (const char* label : {">20 %<", ">40 %<", ">60 %<", ">80 %<"}) {
    EXPECT_THAT(chart, HasSubstr(label));
  }
  EXPECT_THAT(chart, HasSubstr("20.0 % to 30.0 %: 7"));
}

// The digits are 8 high, and the top of the chart is at 8: those of 83 % would
// reach beyond it.
TEST(ChartsTest, RatioIsWrittenAboveItsPointWhereThereIsRoom) {
  const std::string chart = LimitsChart({0.82, 0.83, 0.9, 1});
  EXPECT_THAT(chart, HasSubstr(R"(y="16.6" text-anchor="middle">82.0 %<)"));
  EXPECT_THAT(chart, HasSubstr(R"(y="40.6" text-anchor="middle">83.0 %<)"));
}

}  // namespace
}  // namespace wheelcache
