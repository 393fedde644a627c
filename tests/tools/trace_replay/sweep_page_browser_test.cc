// Opens the page of a sweep in a headless Chromium, as its readers do: it shows
// the figures of the sweep, fits a phone, is readable in light and in dark
// mode, and fetches nothing.
//
// Skipped where there is no Chromium; never part of //...:
//
//   apt-get install chromium
//   ./bazelw test //tests/tools/trace_replay:sweep_page_browser_test

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/browser.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_page.h"
#include "wheelcache/tools/trace_replay/workload.h"

namespace wheelcache::replay {
namespace {

using testing::LookAt;
using testing::Seen;

class SweepPageBrowserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HasBrowser()) {
      GTEST_SKIP() << "There is no Chromium: apt-get install chromium";
    }
  }

  static Sweep SweepOf(SweepBy by) {
    Workload source(20'000);
    SweepOptions options;
    options.by = by;
    options.ttls = {absl::Seconds(5), absl::InfiniteDuration()};
    return RunSweep(source, options).value();
  }
  static Sweep ByEntries() { return SweepOf(SweepBy::kEntries); }
};

TEST_F(SweepPageBrowserTest, ShowsTheFiguresOfTheSweep) {
  const Sweep sweep = ByEntries();
  std::map<std::string, std::string> shown;
  Seen seen = LookAt(SweepPage("t.csv", sweep));
  for (const auto& fields : seen["number"]) {
    ASSERT_EQ(fields.size(), 5u);
    shown[absl::StrCat(fields[1], " ", fields[3])] = fields[4];
  }
  size_t figures = 0;
  for (const SweepSection& section : sweep.sections) {
    for (const SweepCurve& curve : section.curves) {
      for (size_t i = 0; i < curve.limits.size(); ++i) {
        ++figures;
        EXPECT_EQ(
            shown[absl::StrCat(absl::FormatDuration(section.ttl), " ",
                               curve.name, " ", curve.limits[i])],
            absl::StrFormat("%.1f %%", 100 * sweep.hit_ratio(curve.hits[i])));
      }
    }
  }
  EXPECT_EQ(shown.size(), figures);
}

TEST_F(SweepPageBrowserTest, FitsAPhoneAndFetchesNothing) {
  const std::string name =
      "/a/rather/long/path/of/a/trace/that/has/no/blank/in/it/requests.csv";
  Seen entries = LookAt(SweepPage(name, ByEntries()));
  testing::ExpectFitsAPhoneAndFetchesNothing(entries);
  Seen bytes = LookAt(SweepPage(name, SweepOf(SweepBy::kBytes)));
  testing::ExpectFitsAPhoneAndFetchesNothing(bytes);
}

TEST_F(SweepPageBrowserTest, IsReadableInLightAndInDarkMode) {
  testing::ExpectReadableInLightAndInDarkMode(SweepPage("t.csv", ByEntries()));
}

}  // namespace
}  // namespace wheelcache::replay
