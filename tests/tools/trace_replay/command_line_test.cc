// The command line: what each flag stores, and the error for an invalid one.

#include "wheelcache/tools/trace_replay/command_line.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/help_text.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache {
namespace replay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Settings Parse(const std::vector<const char*>& arguments) {
  const absl::StatusOr<Settings> settings = ParseCommandLine(arguments);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return settings.value_or(Settings());
}

std::string ErrorOf(const std::vector<const char*>& arguments) {
  const absl::StatusOr<Settings> settings = ParseCommandLine(arguments);
  if (settings.ok()) return "no error";
  EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(settings.status().message());
}

std::vector<std::string> NamesOf(const std::vector<Policy>& policies) {
  std::vector<std::string> names;
  for (const Policy& policy : policies) names.emplace_back(policy.name);
  return names;
}

TEST(CommandLineTest, DefaultsAreThoseOfTheHelp) {
  const Settings settings = Parse({});
  EXPECT_EQ(settings.trace, "");
  EXPECT_EQ(settings.replay.max_entries, 50'000);
  EXPECT_EQ(settings.replay.max_bytes, kUnlimited);
  EXPECT_EQ(settings.replay.ttl, absl::InfiniteDuration());
  EXPECT_EQ(settings.replay.jitter, 0.05);
  EXPECT_EQ(settings.replay.shards, 0);
  EXPECT_EQ(settings.replay.threads, 1);
  EXPECT_EQ(settings.replay.policy, EvictionPolicy::kLru);
  EXPECT_FALSE(settings.sweep);
  EXPECT_TRUE(settings.replay.read_through);
  EXPECT_FALSE(settings.skip_bad_lines);
  EXPECT_FALSE(settings.json);
  EXPECT_TRUE(settings.progress);
  EXPECT_FALSE(settings.help);
}

TEST(CommandLineTest, EveryFlagStoresItsValue) {
  const Settings settings = Parse(
      {"--trace=t.csv", "--max_entries=7", "--max_bytes=1000", "--ttl=1m30s",
       "--jitter=0.25", "--shards=8", "--threads=3", "--read_through=false",
       "--skip_bad_lines", "--json", "--progress=false", "--help"});
  EXPECT_EQ(settings.trace, "t.csv");
  EXPECT_EQ(settings.replay.max_entries, 7);
  EXPECT_EQ(settings.replay.max_bytes, 1000);
  EXPECT_EQ(settings.replay.ttl, absl::Seconds(90));
  EXPECT_EQ(settings.replay.jitter, 0.25);
  EXPECT_EQ(settings.replay.shards, 8);
  EXPECT_EQ(settings.replay.threads, 3);
  EXPECT_FALSE(settings.replay.read_through);
  EXPECT_TRUE(settings.skip_bad_lines);
  EXPECT_TRUE(settings.json);
  EXPECT_FALSE(settings.progress);
  EXPECT_TRUE(settings.help);
}

TEST(CommandLineTest, EveryFlagOfASweepStoresItsValue) {
  const Settings settings =
      Parse({"--sweep", "--trace=t.csv", "--by=bytes", "--sizes=20",
             "--ttl=inf,60,5m,1m", "--html=s.html", "--max_entries=9"});
  EXPECT_TRUE(settings.sweep);
  EXPECT_EQ(settings.by, SweepBy::kBytes);
  EXPECT_EQ(settings.sizes, 20);
  EXPECT_THAT(settings.ttls, ElementsAre(absl::Minutes(1), absl::Minutes(5),
                                         absl::InfiniteDuration()));
  EXPECT_EQ(settings.html, "s.html");
  EXPECT_THAT(NamesOf(settings.policies), ElementsAre("lru", "scan_resistant"));
  EXPECT_EQ(settings.replay.max_entries, 9);
  EXPECT_EQ(settings.replay.max_bytes, kUnlimited);
}

TEST(CommandLineTest, PoliciesAreInTheOrderGiven) {
  EXPECT_EQ(Parse({"--policy=scan_resistant"}).replay.policy,
            EvictionPolicy::kScanResistant);
  EXPECT_THAT(
      NamesOf(Parse({"--sweep", "--trace=-", "--policy=scan_resistant,lru,lru"})
                  .policies),
      ElementsAre("scan_resistant", "lru"));
  EXPECT_THAT(NamesOf(Parse({"--sweep", "--trace=-", "--policy=lru"}).policies),
              ElementsAre("lru"));
}

TEST(CommandLineTest, DefaultsOfASweepAreThoseOfTheHelp) {
  const Settings settings = Parse({"--sweep", "--trace=t.csv"});
  EXPECT_EQ(settings.by, SweepBy::kEntries);
  EXPECT_EQ(settings.sizes, std::nullopt);
  EXPECT_THAT(settings.ttls, ElementsAre(absl::InfiniteDuration()));
  EXPECT_EQ(settings.replay.max_entries, kUnlimited);
  EXPECT_EQ(settings.replay.max_bytes, kUnlimited);
  EXPECT_GE(settings.replay.threads, 1);
  EXPECT_EQ(settings.html, "");
  EXPECT_EQ(Parse({"--sweep", "--trace=-", "--max_bytes=9"}).by,
            SweepBy::kBytes);
  EXPECT_EQ(
      Parse({"--sweep", "--trace=-", "--max_bytes=9", "--max_entries=9"}).by,
      SweepBy::kEntries);
  EXPECT_EQ(Parse({"--sweep", "--trace=-", "--max_bytes=9", "--by=entries"}).by,
            SweepBy::kEntries);
}

TEST(CommandLineTest, FlagsOfASweepNeedOne) {
  EXPECT_EQ(ErrorOf({"--sweep"}), "--sweep needs a trace: --trace=FILE");
  EXPECT_EQ(ErrorOf({"--by=bytes"}), "--by needs --sweep");
  EXPECT_EQ(ErrorOf({"--sizes=9", "--trace=t.csv"}), "--sizes needs --sweep");
  EXPECT_EQ(ErrorOf({"--html=s.html", "--nosweep"}), "--html needs --sweep");
  EXPECT_EQ(ErrorOf({"--ttl=1m,5m"}), "several TTLs in --ttl need --sweep");
  EXPECT_EQ(Parse({"--ttl=1m,60"}).replay.ttl, absl::Minutes(1));
  EXPECT_EQ(ErrorOf({"--policy=lru,scan_resistant"}),
            "several policies in --policy need --sweep");
  EXPECT_TRUE(Parse({"--sweep", "--help"}).help);
}

TEST(CommandLineTest, ValueMayBeTheNextArgument) {
  const Settings settings = Parse({"--trace", "-", "--json", "--shards", "1"});
  EXPECT_EQ(settings.trace, "-");
  EXPECT_TRUE(settings.json);
  EXPECT_EQ(settings.replay.shards, 1);
}

TEST(CommandLineTest, NoTurnsABooleanFlagOff) {
  const Settings settings = Parse({"--noread_through", "--noprogress"});
  EXPECT_FALSE(settings.replay.read_through);
  EXPECT_FALSE(settings.progress);
}

TEST(CommandLineTest, LastOccurrenceWins) {
  EXPECT_EQ(Parse({"--threads=2", "--threads=4"}).replay.threads, 4);
}

TEST(CommandLineTest, LimitOfBytesLeavesTheEntriesUnlimited) {
  const Settings settings = Parse({"--max_bytes=5"});
  EXPECT_EQ(settings.replay.max_entries, kUnlimited);
  EXPECT_EQ(settings.replay.max_bytes, 5);
}

TEST(CommandLineTest, TtlIsADurationOrANumberOfSeconds) {
  EXPECT_EQ(Parse({"--ttl=300"}).replay.ttl, absl::Minutes(5));
  EXPECT_EQ(Parse({"--ttl=300s"}).replay.ttl, absl::Minutes(5));
  EXPECT_EQ(Parse({"--ttl=1.5h"}).replay.ttl, absl::Minutes(90));
  EXPECT_EQ(Parse({"--ttl=inf"}).replay.ttl, absl::InfiniteDuration());
}

TEST(CommandLineTest, LimitsAreAtLeastOne) {
  for (const absl::string_view flag : {"--max_entries", "--max_bytes"}) {
    for (const absl::string_view value :
         {"0", "-1", "", "x", "1.5", "9223372036854775808"}) {
      const std::string argument = absl::StrCat(flag, "=", value);
      EXPECT_EQ(ErrorOf({argument.c_str()}),
                absl::StrCat(argument, ": must be a whole number, at least 1"));
    }
  }
}

TEST(CommandLineTest, TtlIsAboveZero) {
  for (const absl::string_view value :
       {"0", "0s", "-5s", "-inf", "soon", "5 parsecs", ""}) {
    const std::string argument = absl::StrCat("--ttl=", value);
    EXPECT_EQ(ErrorOf({argument.c_str()}),
              absl::StrCat(argument,
                           ": must be a duration above 0, such as 90s, 5m or "
                           "inf; a plain number counts seconds"));
  }
}

TEST(CommandLineTest, EachOtherFlagNamesItsRule) {
  EXPECT_EQ(ErrorOf({"--jitter=1.5"}),
            "--jitter=1.5: must be a fraction from 0 to 1");
  EXPECT_EQ(ErrorOf({"--jitter=nan"}),
            "--jitter=nan: must be a fraction from 0 to 1");
  EXPECT_EQ(ErrorOf({"--jitter=-0.1"}),
            "--jitter=-0.1: must be a fraction from 0 to 1");
  EXPECT_EQ(ErrorOf({"--shards=3"}),
            "--shards=3: must be a power of two up to 256, or 0 for the "
            "cache's own choice");
  EXPECT_THAT(ErrorOf({"--shards=512"}), HasSubstr("up to 256"));
  EXPECT_THAT(ErrorOf({"--shards=-1"}), HasSubstr("up to 256"));
  EXPECT_EQ(ErrorOf({"--threads=0"}),
            "--threads=0: must be a whole number from 1 to 256");
  for (const absl::string_view value : {"arc", "", "LRU", "lru,arc", "lru,"}) {
    const std::string argument = absl::StrCat("--policy=", value);
    EXPECT_EQ(ErrorOf({argument.c_str()}),
              absl::StrCat(argument, ": must be lru or scan_resistant"));
  }
  EXPECT_EQ(ErrorOf({"--by=keys"}), "--by=keys: must be entries or bytes");
  EXPECT_EQ(ErrorOf({"--sizes=1"}),
            "--sizes=1: must be a whole number from 2 to 256");
  EXPECT_EQ(ErrorOf({"--html="}), "--html=: must be the path of a file");
  EXPECT_EQ(ErrorOf({"--json=perhaps"}),
            "--json=perhaps: must be true or false");
  EXPECT_EQ(ErrorOf({"--trace="}),
            "--trace=: must be the path of a file, or - for standard input");
}

TEST(CommandLineTest, UnknownFlagIsAnError) {
  EXPECT_EQ(ErrorOf({"--max_entires=5"}),
            "unknown flag --max_entires; --help lists the flags");
  EXPECT_EQ(ErrorOf({"--nottl"}),
            "unknown flag --nottl; --help lists the flags");
  EXPECT_EQ(ErrorOf({"--nojson=true"}),
            "unknown flag --nojson; --help lists the flags");
}

TEST(CommandLineTest, PositionalArgumentIsAnError) {
  for (const char* argument : {"trace.csv", "-", "--", "-json", ""}) {
    EXPECT_EQ(ErrorOf({argument}),
              absl::StrCat("unexpected argument '", argument,
                           "'; flags begin with --, a trace is named with "
                           "--trace=FILE"));
  }
}

TEST(CommandLineTest, MissingValueIsAnError) {
  EXPECT_EQ(ErrorOf({"--json", "--ttl"}), "--ttl needs a value: --ttl=T");
}

TEST(CommandLineTest, HelpNamesEveryFlagAndFitsATerminal) {
  const std::string help = HelpText();
  for (const Flag& flag : AllFlags()) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("\n  --", flag.name)));
  }
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
