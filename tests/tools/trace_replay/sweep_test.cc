// A sweep: each figure is that of a replay of its own and within its bound; the
// advice, the tables, JSON and the page tell what it found.

#include "wheelcache/tools/trace_replay/sweep.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/tests/testing/html_page.h"
#include "wheelcache/tests/testing/reference_belady.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/bounds.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"
#include "wheelcache/tools/trace_replay/sweep_page.h"

namespace wheelcache::replay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HtmlPage;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

LoadedTrace Load(absl::string_view text) {
  TextSource source(text);
  return LoadedTrace::Load(source).value();
}

int64_t HitsOf(const LoadedTrace& trace, const ReplayOptions& options) {
  return Replay(trace, options).value().counts.hits;
}

// Requests for a value of 10 bytes, one a second.
LoadedTrace Requests(const std::vector<std::string>& operations_and_keys) {
  std::string text;
  int seconds = 0;
  for (const std::string& request : operations_and_keys) {
    const size_t blank = request.find(' ');
    absl::StrAppend(&text, seconds++, ",", request.substr(blank + 1),
                    ",0,10,0,", request.substr(0, blank), ",0\n");
  }
  return Load(text);
}

TEST(BoundsTest, ReadEndsWhatAWriteOrADeleteBegins) {
  EXPECT_THAT(NextReads(Requests({"get a", "get b", "get a"}), true),
              ElementsAre(2, kNoRead, kNoRead));
  EXPECT_THAT(NextReads(Requests({"set a", "set a", "gets a"}), true),
              ElementsAre(kNoRead, 2, kNoRead));
  EXPECT_THAT(NextReads(Requests({"get a", "delete a", "get a"}), true),
              ElementsAre(kNoRead, kNoRead, kNoRead));
  // It needs the value that is there.
  EXPECT_THAT(NextReads(Requests({"get a", "incr a", "get a"}), true),
              ElementsAre(2, kNoRead, kNoRead));
  // Without read-through a write comes first.
  EXPECT_THAT(NextReads(Requests({"get a", "get a", "add a", "get a"}), false),
              ElementsAre(kNoRead, kNoRead, 3, kNoRead));
}

TEST(BoundsTest, BoundOfEntriesIsThatOfTheReference) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::vector<uint64_t> keys(300);
    std::vector<std::string> requests;
    const unsigned most = 1 + random() % 60;
    for (uint64_t& key : keys) {
      key = random() % most;
      requests.push_back(absl::StrCat("get ", key));
    }
    const std::vector<uint32_t> next_reads =
        NextReads(Requests(requests), /*read_through=*/true);
    for (const int64_t entries : {1, 2, 7, 20, 1000}) {
      ASSERT_EQ(MostHits(next_reads, entries),
                testing::BeladyHits(keys, entries));
    }
  }
}

TEST(BoundsTest, CheapHitsComeFirst) {
  // Overhead of 10: b is 20 for one request, a 20 for three.
  const LoadedTrace trace =
      Requests({"get a", "get b", "get b", "get a", "get c"});
  // Five requests have 5 * limit: 20 are needed for b, 60 more for a. A value
  // larger than the limit is no hit.
  EXPECT_THAT(MostHitsByBytes(trace, NextReads(trace, true),
                              {3, 4, 15, 16, 19, 20}, 10),
              ElementsAre(0, 0, 0, 0, 0, 2));
}

TEST(BoundsTest, NoReplayOfAnyTraceExceedsThem) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const LoadedTrace trace = Load(RandomTrace(random, 1'000));
    const int64_t overhead = 40;  // Less than that of the cache.
    ReplayOptions options = Exact();
    options.read_through = random.OneIn(2);
    const std::vector<uint32_t> next_reads =
        NextReads(trace, options.read_through);
    for (const int64_t entries : {1, 5, 20, 50}) {
      options.max_entries = entries;
      EXPECT_LE(HitsOf(trace, options), MostHits(next_reads, entries));
    }
    options.max_entries = kUnlimited;
    for (const int64_t bytes : {200, 1'000, 5'000, 20'000}) {
      options.max_bytes = bytes;
      EXPECT_LE(HitsOf(trace, options),
                MostHitsByBytes(trace, next_reads, {bytes}, overhead)[0]);
    }
    options.max_bytes = kUnlimited;
    options.ttl = absl::Seconds(random.From(1, 60));
    options.max_entries = random.OneIn(2) ? random.From(1, 60) : kUnlimited;
    options.jitter = random.OneIn(2) ? 0.2 : 0;
    EXPECT_LE(HitsOf(trace, options),
              MostHitsByTtl(
                  trace, {options.ttl, options.jitter, options.read_through}));
  }
}

TEST(BoundsTest, TtlAloneIsExactWithGetsAndSets) {
  std::mt19937 random(1);
  for (int i = 0; i < 30; ++i) {
    std::vector<std::string> requests;
    for (int request = 0; request < 500; ++request) {
      requests.push_back(
          absl::StrCat(random() % 4 == 0 ? "set " : "get ", random() % 50));
    }
    const LoadedTrace trace = Requests(requests);
    ReplayOptions options = Exact();
    options.read_through = i % 2 == 0;
    options.ttl = absl::Seconds(1 + random() % 100);
    EXPECT_EQ(MostHitsByTtl(trace, {options.ttl, 0, options.read_through}),
              HitsOf(trace, options));
  }
}

// A policy that misses early has the later deadline; but only of the keys whose
// requests name different TTLs is that worth anything.
TEST(BoundsTest, KeyWithSeveralTtlsMayBeLoadedEarly) {
  const LoadedTrace uneven = Load(
      "0,a,0,1,0,get,10\n"
      "5,a,0,1,0,get,100\n"
      "50,a,0,1,0,get,100\n");
  EXPECT_EQ(MostHitsByTtl(uneven, {absl::Seconds(10), 0, true}), 2);
}

Sweep SweepOf(absl::string_view trace, const SweepOptions& options) {
  TextSource source(trace);
  return RunSweep(source, options).value();
}

TEST(SweepTest, EachFigureIsThatOfASingleReplayAndWithinItsBound) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    const std::string text = RandomTrace(random, 1'500);
    const LoadedTrace trace = Load(text);
    SweepOptions options;
    options.by = random.OneIn(2) ? SweepBy::kBytes : SweepBy::kEntries;
    options.ttls = {absl::Seconds(random.From(1, 60)),
                    absl::InfiniteDuration()};
    options.sizes = 5;
    options.replay.threads = static_cast<int>(random.From(1, 3));
    options.replay.read_through = !random.OneIn(3);
    options.replay.shards = random.OneIn(2) ? 1 : 0;
    const Sweep sweep = SweepOf(text, options);
    ASSERT_EQ(sweep.sections.size(), 2u);
    for (const SweepSection& section : sweep.sections) {
      ASSERT_EQ(section.curves.size(), 3u);
      for (size_t p = 0; p < 2; ++p) {
        for (size_t i = 0; i < sweep.limits.size(); ++i) {
          ReplayOptions single = options.replay;
          (sweep.by == SweepBy::kBytes ? single.max_bytes
                                       : single.max_entries) = sweep.limits[i];
          single.policy = kPolicies[p];
          single.ttl = section.ttl;
          single.threads = 1;
          EXPECT_EQ(section.curves[p].hits[i], HitsOf(trace, single));
          EXPECT_LE(section.curves[p].hits[i], section.bound().hits[i]);
        }
      }
    }
  }
}

constexpr char kThreeKeys[] =
    "0,a,1,9,0,get,0\n"
    "1,b,1,9,0,get,0\n"
    "2,c,1,9,0,get,0\n"
    "3,a,1,9,0,get,0\n"
    "4,a,1,9,0,set,0\n";

TEST(SweepTest, LargestLimitHoldsAllKeysUnlessOneIsGiven) {
  SweepOptions options;
  const Sweep sweep = SweepOf(kThreeKeys, options);
  EXPECT_EQ(sweep.requests, 5);
  EXPECT_EQ(sweep.reads, 4);
  EXPECT_EQ(sweep.keys, 3);
  EXPECT_THAT(sweep.limits, ElementsAre(1, 2, 3));
  EXPECT_THAT(sweep.sections[0].curves[0].hits, ElementsAre(0, 0, 1));
  EXPECT_THAT(sweep.sections[0].bound().hits, ElementsAre(1, 1, 1));
  options.by = SweepBy::kBytes;
  TextSource source(kThreeKeys);
  EXPECT_EQ(SweepOf(kThreeKeys, options).limits.back(),
            Replay(source, ReplayOptions()).value().counts.peak_bytes);
  options.by = SweepBy::kEntries;
  options.replay.max_entries = 2;
  options.replay.max_bytes = 1;  // Refuses every value.
  const Sweep refused = SweepOf(kThreeKeys, options);
  EXPECT_THAT(refused.limits, ElementsAre(1, 2));
  EXPECT_THAT(refused.sections[0].curves[0].hits, ElementsAre(0, 0));
}

TEST(SweepTest, LimitsAreSpacedEvenlyAndRound) {
  EXPECT_THAT(SweepLimits(76'349, 4), ElementsAre(300, 1'900, 12'000, 76'349));
  EXPECT_THAT(SweepLimits(1'000'000, 16), SizeIs(16));
  EXPECT_THAT(SweepLimits(1, 16), ElementsAre(1));
  EXPECT_THAT(SweepLimits(5, 16), ElementsAre(1, 2, 4, 5));
  const std::vector<int64_t> many = SweepLimits(1'000'001, 256);
  EXPECT_EQ(many.back(), 1'000'001);
  EXPECT_TRUE(std::is_sorted(many.begin(), many.end()));
  EXPECT_THAT(SweepLimits(std::numeric_limits<int64_t>::max(), 3),
              ElementsAre(36'000'000'000'000'000, 580'000'000'000'000'000,
                          std::numeric_limits<int64_t>::max()));
}

// Small caches are sampled whole.
TEST(SweepTest, SampleIsNearTheExactCurve) {
  Random random(3);
  std::string text;
  for (int i = 0; i < 5'000; ++i) {
    // Some of the keys are read often.
    const int64_t below = random.OneIn(3) ? 1'000 : random.From(1, 100);
    absl::StrAppend(&text, i / 100, ",", random.From(1, below),
                    ",1,9,0,get,0\n");
  }
  const LoadedTrace trace = Load(text);
  SweepOptions options;
  options.ttls = {absl::Seconds(20), absl::InfiniteDuration()};
  options.replay = Exact();
  options.sizes = 2;
  const Sweep sweep = SweepOf(text, options);
  for (const SweepSection& section : sweep.sections) {
    const SweepCurve& sample = section.sample.value();
    EXPECT_GE(sample.limits.size(), 4u);
    EXPECT_GE(sample.limits.front(), sweep.limits.front());
    EXPECT_LE(sample.limits.back(), sweep.limits.back());
    for (size_t i = 0; i < sample.limits.size(); ++i) {
      EXPECT_GT(sample.limits[i], i == 0 ? 0 : sample.limits[i - 1]);
      ReplayOptions single = options.replay;
      single.max_entries = sample.limits[i];
      single.ttl = section.ttl;
      EXPECT_NEAR(sweep.hit_ratio(sample.hits[i]),
                  sweep.hit_ratio(HitsOf(trace, single)), 0.02);
    }
  }
  options.policies = {kPolicies[1]};
  EXPECT_FALSE(SweepOf(text, options).sections[0].sample.has_value());
}

TEST(SweepTest, ErrorsOfTheSourceAndOfTheCacheAreReturned) {
  TextSource bad("0,a,1,9,0,get\n");
  EXPECT_EQ(RunSweep(bad, SweepOptions()).status().code(),
            absl::StatusCode::kInvalidArgument);
  SweepOptions options;
  options.replay.shards = 3;
  TextSource good(kThreeKeys);
  EXPECT_EQ(RunSweep(good, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

const absl::Duration kNoTtl = absl::InfiniteDuration();

// A sweep of a thousand reads by 100, 200, 400 and 800 entries. Of each TTL
// there are the hits of each policy; the last is also the bound.
Sweep SweepWith(const std::vector<absl::Duration>& ttls,
                const std::vector<std::vector<std::vector<int64_t>>>& hits) {
  Sweep sweep;
  sweep.requests = 12'345;
  sweep.reads = 1000;
  sweep.keys = 2000;
  sweep.limits = {100, 200, 400, 800};
  for (size_t i = 0; i < ttls.size(); ++i) {
    sweep.policies.clear();
    SweepSection section;
    section.ttl = ttls[i];
    for (const std::vector<int64_t>& row : hits[i]) {
      const Policy& policy = kPolicies[sweep.policies.size()];
      sweep.policies.push_back(policy);
      section.curves.push_back({policy.name, policy.title, sweep.limits, row});
    }
    section.curves.push_back(
        {"bound", "Belady's bound", sweep.limits, hits[i].back()});
    sweep.sections.push_back(section);
  }
  return sweep;
}

int64_t KneeOf(const std::vector<int64_t>& hits) {
  const Sweep sweep = SweepWith({kNoTtl}, {{hits}});
  return sweep.limits[FindKnee(sweep, sweep.sections[0].curves[0])];
}

TEST(SweepAdviceTest, FromTheKneeOnAllThatIsAddedGainsLittle) {
  EXPECT_EQ(KneeOf({500, 700, 740, 780}), 200);
  EXPECT_EQ(KneeOf({100, 200, 760, 800}), 400);
  EXPECT_EQ(KneeOf({800, 800, 800, 800}), 100);
  EXPECT_EQ(KneeOf({0, 0, 0, 800}), 800);
  EXPECT_EQ(KneeOf({0, 0, 0, 0}), 100);
  // Less than on average, but twice as much gains five points and more.
  EXPECT_EQ(KneeOf({500, 700, 750, 799}), 400);
  EXPECT_EQ(KneeOf({500, 700, 720, 800}), 800);
}

TEST(SweepAdviceTest, OtherPolicyMustGainHalfAPoint) {
  const Sweep little = SweepWith({kNoTtl}, {{{450, 600, 640, 680},  //
                                             {454, 604, 640, 680}}});
  EXPECT_EQ(Choose(little).policy, 0u);
  // The limit is at the knee of the policy that is chosen.
  const Sweep enough = SweepWith({kNoTtl}, {{{450, 600, 640, 680},  //
                                             {590, 605, 640, 680}}});
  EXPECT_EQ(Choose(enough).policy, 1u);
  EXPECT_EQ(Choose(enough).limit, 0u);
}

TEST(SweepAdviceTest, ShortestTtlThatHitsAsOftenIsChosen) {
  const Sweep sweep = SweepWith(
      {absl::Minutes(1), absl::Minutes(5), kNoTtl},
      {{{450, 590, 640, 680}}, {{450, 591, 640, 680}}, {{450, 600, 640, 680}}});
  EXPECT_EQ(Choose(sweep).section, 1u);
  EXPECT_EQ(Choose(sweep).limit, 1u);
}

TEST(SweepAdviceTest, SentenceTellsWhatToSetAndWhatThatGains) {
  Sweep sweep = SweepWith({absl::Minutes(5)}, {{{500, 580, 640, 680},  //
                                                {520, 620, 653, 680}}});
  EXPECT_EQ(Advise(sweep, Choose(sweep)),
            "Choose max_entries = 200, EvictionPolicy::kScanResistant and a "
            "TTL of 5 min: 62.0 % of the reads hit, 4.0 points more than with "
            "LRU; twice as much would gain 3.3 points.");
  sweep.by = SweepBy::kBytes;
  sweep.sections[0].ttl = kNoTtl;
  EXPECT_EQ(Advise(sweep, {0, 0, 3}),
            "Choose max_bytes = 800 (800 bytes), EvictionPolicy::kLru and no "
            "TTL: 68.0 % of the reads hit; no larger limit was tried.");
  sweep.reads = 0;
  EXPECT_EQ(Advise(sweep, Choose(sweep)),
            "The trace has no reads, so no limit is better than another.");
}

TEST(SweepAdviceTest, GainOfTwiceTheLimitIsInterpolated) {
  Sweep sweep = SweepWith({kNoTtl}, {{{500, 600, 640, 700}}});
  sweep.sections[0].curves[0].limits = {100, 141, 282, 400};
  EXPECT_THAT(Advise(sweep, {0, 0, 0}),
              EndsWith("; twice as much would gain 12.0 points."));
  EXPECT_THAT(Advise(sweep, {0, 0, 2}),
              EndsWith("; the largest limit would gain 6.0 points."));
}

Sweep SmallSweep() {
  Sweep sweep = SweepWith({absl::Minutes(5), kNoTtl},
                          {{{600, 610, 625, 630}}, {{700, 720, 740, 750}}});
  sweep.sections[0].sample = {"sample", "", {100, 300}, {490, 510}};
  return sweep;
}

TEST(SweepReportTest, TableHasARowForEachLimitOfEachTtl) {
  Sweep sweep = SmallSweep();
  EXPECT_EQ(SweepTable("oltp.csv", sweep),
            "oltp.csv: hit ratio by max_entries\n"
            "12,345 requests, 1,000 reads, 2,000 keys\n"
            "\n"
            "TTL 5m\n"
            "       max_entries             LRU  Belady's bound\n"
            "               100          0.6000          0.6000  knee\n"
            "               200          0.6100          0.6100\n"
            "               400          0.6250          0.6250\n"
            "               800          0.6300          0.6300\n"
            "\n"
            "TTL inf\n"
            "       max_entries             LRU  Belady's bound\n"
            "               100          0.7000          0.7000  knee\n"
            "               200          0.7200          0.7200\n"
            "               400          0.7400          0.7400\n"
            "               800          0.7500          0.7500\n"
            "\n"
            "Choose max_entries = 100, EvictionPolicy::kLru and no TTL: 70.0 % "
            "of the reads hit; twice as much would gain 2.0 points.\n");
  sweep.bad_lines = 17;
  EXPECT_THAT(SweepTable("-", sweep),
              StartsWith("standard input: hit ratio by max_entries\n"
                         "12,345 requests, 1,000 reads, 2,000 keys, 17 bad "
                         "lines skipped\n"));
}

Sweep RandomSweep(SweepBy by) {
  Random random(7);
  SweepOptions options;
  options.by = by;
  options.ttls = {absl::Seconds(30), kNoTtl};
  options.sizes = 6;
  return SweepOf(RandomTrace(random, 2'000), options);
}

TEST(SweepPageTest, IsWellFormedAndCompleteInItself) {
  for (const SweepBy by : {SweepBy::kEntries, SweepBy::kBytes}) {
    const std::string html = SweepPage("<script>&\"'.csv", RandomSweep(by));
    EXPECT_THAT(html, Not(HasSubstr("<script>")));
    const HtmlPage page(html);
    EXPECT_EQ(page.Error(), "");
    EXPECT_THAT(page.Outside(), IsEmpty());
    EXPECT_THAT(page.Text(), HasSubstr("<script>&\"'.csv: 2,000"));
  }
}

TEST(SweepPageTest, ShowsEveryFigureAndTheAdvice) {
  const Sweep sweep = RandomSweep(SweepBy::kEntries);
  const std::string html = SweepPage("t.csv", sweep);
  HtmlPage page(html);
  for (const SweepSection& section : sweep.sections) {
    const auto& shown = page.Numbers(absl::FormatDuration(section.ttl), 1);
    EXPECT_EQ(shown.size(), sweep.limits.size() * section.curves.size());
    for (const SweepCurve& curve : section.curves) {
      for (size_t i = 0; i < curve.limits.size(); ++i) {
        EXPECT_EQ(
            shown.at(absl::StrCat(curve.name, " ", curve.limits[i])),
            absl::StrFormat("%.1f %%", 100 * sweep.hit_ratio(curve.hits[i])));
      }
    }
  }
  // A no-break space between each number and its unit.
  const std::string advice = Advise(sweep, Choose(sweep));
  EXPECT_THAT(page.Text(), HasSubstr(internal::KeepUnits(advice)));
  EXPECT_THAT(html, AllOf(HasSubstr("max_entries&nbsp;=&nbsp;"),
                          HasSubstr("2,000\xC2\xA0requests"),
                          HasSubstr("<h2>TTL 30\xC2\xA0s</h2>")));
}

TEST(SweepPageTest, SampleIsDrawnNextToTheExactCurve) {
  Sweep sweep = RandomSweep(SweepBy::kEntries);
  // Equal figures have equal places.
  SweepSection& section = sweep.sections[0];
  section.sample->limits = section.curves[0].limits;
  section.sample->hits = section.curves[0].hits;
  sweep.sections.resize(1);
  const std::string html = SweepPage("t.csv", sweep);
  EXPECT_THAT(html, HasSubstr(">LRU, from a sample</span>"));
  const auto path_of = [&](absl::string_view css_class) {
    const size_t group = html.find(absl::StrCat("<g class=\"", css_class));
    const size_t begin = html.find(" d=\"", group);
    return html.substr(begin, html.find("/>", begin) - begin);
  };
  EXPECT_EQ(path_of("sampled"), path_of("series0"));
}

TEST(SweepPageTest, OneLimitAndNoHitsAreDrawn) {
  const Sweep sweep = SweepOf("0,a,1,1,0,get,0\n", SweepOptions());
  ASSERT_EQ(sweep.limits.size(), 1u);
  const std::string html = SweepPage("t.csv", sweep);
  EXPECT_EQ(HtmlPage(html).Error(), "");
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace wheelcache::replay
