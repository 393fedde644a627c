// The page of a sweep: complete in itself, escaped, with the figures of the
// sweep. sweep_page_browser_test.cc opens it in a browser.

#include "wheelcache/tools/trace_replay/sweep_page.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/html_page.h"
#include "wheelcache/tests/tools/trace_replay/random_trace.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

using ::testing::HasSubstr;
using testing::HtmlPage;
using ::testing::IsEmpty;
using ::testing::Not;

Sweep RandomSweep(SweepBy by) {
  Random random(7);
  TextSource source(RandomTrace(random, 2'000));
  SweepOptions options;
  options.by = by;
  options.ttls = {absl::Seconds(30), absl::InfiniteDuration()};
  options.sizes = 6;
  return RunSweep(source, options).value();
}

TEST(SweepPageTest, IsWellFormedAndCompleteInItself) {
  for (const SweepBy by : {SweepBy::kEntries, SweepBy::kBytes}) {
    const HtmlPage page(SweepPage("t.csv", RandomSweep(by)));
    EXPECT_EQ(page.Error(), "");
    EXPECT_THAT(page.Outside(), IsEmpty());
  }
}

TEST(SweepPageTest, NameOfTheTraceIsEscaped) {
  const std::string html =
      SweepPage("<script>&\"'.csv", RandomSweep(SweepBy::kEntries));
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  const HtmlPage page(html);
  EXPECT_EQ(page.Error(), "");
  EXPECT_THAT(page.Text(), HasSubstr("<script>&\"'.csv: 2,000 requests"));
}

TEST(SweepPageTest, ShowsEveryFigureAndTheAdvice) {
  const Sweep sweep = RandomSweep(SweepBy::kEntries);
  HtmlPage page(SweepPage("t.csv", sweep));
  const auto percent = [&](int64_t hits) {
    return absl::StrFormat("%.1f %%", 100 * sweep.hit_ratio(hits));
  };
  for (size_t ttl = 0; ttl < sweep.bounds.size(); ++ttl) {
    const auto& shown =
        page.Numbers(absl::FormatDuration(sweep.bounds[ttl].ttl), 1);
    EXPECT_EQ(shown.size(), sweep.limits.size() * (sweep.policies() + 1));
    for (size_t i = 0; i < sweep.limits.size(); ++i) {
      EXPECT_EQ(shown.at(absl::StrCat("bound ", sweep.limits[i])),
                percent(sweep.bounds[ttl].hits[i]));
      for (size_t p = 0; p < sweep.policies(); ++p) {
        const SweepCurve& curve = sweep.curves[ttl * sweep.policies() + p];
        EXPECT_EQ(
            shown.at(absl::StrCat(curve.policy.name, " ", sweep.limits[i])),
            percent(curve.hits[i]));
      }
    }
  }
  EXPECT_THAT(page.Text(), HasSubstr(Advise(sweep, Choose(sweep))));
}

// On the axes of the exact curves.
TEST(SweepPageTest, DrawsTheSampleNextToTheExactCurve) {
  Sweep sweep = RandomSweep(SweepBy::kEntries);
  ASSERT_FALSE(sweep.samples.empty());
  // Equal figures have equal places.
  SweepSample& sample = sweep.samples[0];
  sample.limits = sweep.limits;
  sample.hit_ratios.clear();
  for (const int64_t hits : sweep.curves[0].hits) {
    sample.hit_ratios.push_back(sweep.hit_ratio(hits));
  }
  const std::string html = SweepPage("t.csv", sweep);
  EXPECT_THAT(html, HasSubstr(">LRU, from a sample</span>"));
  const auto path_of = [&](const std::string& css_class) {
    const std::string begin =
        absl::StrCat("<g class=\"", css_class, "\"><path class=\"line\" d=\"");
    const size_t section = html.find("data-cache=\"30s\"");
    const size_t at = html.find(begin, section) + begin.size();
    return html.substr(at, html.find('"', at) - at);
  };
  EXPECT_EQ(path_of("sampled"), path_of("series0"));
  sweep.samples.clear();
  EXPECT_THAT(SweepPage("t.csv", sweep), Not(HasSubstr("from a sample")));
}

TEST(SweepPageTest, OneLimitAndNoHitsAreDrawn) {
  TextSource source("0,a,1,1,0,get,0\n");
  const Sweep sweep = RunSweep(source, SweepOptions()).value();
  ASSERT_EQ(sweep.limits.size(), 1u);
  const std::string html = SweepPage("t.csv", sweep);
  EXPECT_EQ(HtmlPage(html).Error(), "");
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace wheelcache::replay
