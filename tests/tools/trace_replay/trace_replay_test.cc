// End-to-end tests of the program: exit status, standard output and standard
// error.

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace wheelcache::replay {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::string_view kGoodTrace =
    "0,a,1,10,0,get,0\n"
    "1,a,1,10,0,get,0\n"
    "2,b,1,10,0,set,5\n";

constexpr absl::string_view kBadTrace =
    "0,a,1,10,0,get,0\n"
    "1,a,1,ten,0,get,0\n"
    "2,a,1,10,0,get,0\n";

// Each of six keys once, and then twice more, one a second.
std::string SweepTrace() {
  std::string trace;
  for (int i = 0; i < 18; ++i) {
    absl::StrAppend(&trace, i, ",k", i % 6, ",2,50,0,get,0\n");
  }
  return trace;
}

std::string ReadFile(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

class TraceReplayTest : public ::testing::Test {
 protected:
  struct Outcome {
    int status;
    std::string out;
    std::string err;
  };

  // Runs a shell command line in which $PROGRAM is the program.
  Outcome RunShell(absl::string_view command) {
    const std::string full = absl::StrCat(
        "PROGRAM=$PWD/tools/trace_replay/trace_replay; cd ", folder_, "; { ",
        command, "; } > ", Path("out"), " 2> ", Path("err"));
    const int status = std::system(full.c_str());
    return {WEXITSTATUS(status), ReadFile(Path("out")), ReadFile(Path("err"))};
  }

  Outcome Run(absl::string_view flags) {
    return RunShell(absl::StrCat("$PROGRAM ", flags));
  }

  void ExpectFailure(absl::string_view command, int status,
                     absl::string_view line) {
    SCOPED_TRACE(command);
    const Outcome outcome = RunShell(command);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, absl::StrCat(line, "\n"));
  }

  std::string Path(absl::string_view name) const {
    return absl::StrCat(folder_, name);
  }

  void WriteTrace(absl::string_view name, absl::string_view content) const {
    std::ofstream(Path(name), std::ios::binary) << std::string(content);
  }

  const std::string folder_ = ::testing::TempDir();
};

TEST_F(TraceReplayTest, ReadsStandardInput) {
  WriteTrace("good.csv", kGoodTrace);
  const Outcome outcome =
      RunShell("cat good.csv | $PROGRAM --trace=- --json --threads=2");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out,
              StartsWith("{\"requests\": 3, \"hits\": 1, \"misses\": 1, "
                         "\"hit_ratio\": 0.500000, \"evictions\": 0, "
                         "\"expirations\": 0, \"peak_entries\": 2, "));
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(RunShell("cat good.csv | $PROGRAM --sweep --trace=-").out,
              StartsWith("standard input: hit ratio by max_entries\n"
                         "3 requests, 2 reads, 2 keys\n"));
}

struct Failure {
  absl::string_view command;
  absl::string_view line;  // On standard error.
};

TEST_F(TraceReplayTest, BadFlagIsStatusOneAndOneLine) {
  constexpr Failure kRows[] = {
      // Abseil's own.
      {"--max_entires=5", "ERROR: Unknown command line flag 'max_entires'"},
      {"--max_bytes=x",
       "ERROR: Illegal value 'x' specified for flag 'max_bytes'"},
      {"--ttl", "ERROR: Missing the value for the flag 'ttl'"},
      // Ours.
      {"trace.csv",
       "trace_replay: unexpected argument 'trace.csv'; a trace is named with "
       "--trace=FILE"},
      {"--trace=", "trace_replay: '--trace=' has no value"},
      {"--max_entries ''", "trace_replay: '' has no value"},
      {"--max_entries=0", "trace_replay: --max_entries=0: must be at least 1"},
      {"--max_bytes=-1", "trace_replay: --max_bytes=-1: must be at least 1"},
      {"--threads=0", "trace_replay: --threads=0: must be at least 1"},
      {"--sizes=257", "trace_replay: --sizes=257: must be at most 256"},
      {"--shards=3",
       "trace_replay: --shards=3: must be a power of two up to 256, or 0 for "
       "the cache's own choice"},
      {"--jitter=nan", "trace_replay: --jitter=nan: must be from 0 to 1"},
      {"--ttl=5m,0",
       "trace_replay: --ttl=5m,0: must be a duration above 0, such as 90s, 5m "
       "or inf; a plain number counts seconds"},
      {"--ttl='5 parsecs'",
       "trace_replay: --ttl=5 parsecs: must be a duration above 0, such as "
       "90s, 5m or inf; a plain number counts seconds"},
      {"--policy=lru,arc",
       "trace_replay: --policy=lru,arc: must be lru or scan_resistant"},
      {"--by=keys", "trace_replay: --by=keys: must be entries or bytes"},
      {"--by=bytes", "trace_replay: --by needs --sweep"},
      {"--sizes=9", "trace_replay: --sizes needs --sweep"},
      {"--html=s.html --nosweep", "trace_replay: --html needs --sweep"},
      {"--sweep --trace=t.csv --json",
       "trace_replay: --json is of a single replay"},
      {"--ttl=1m,5m", "trace_replay: several TTLs in --ttl need --sweep"},
      {"--policy=lru,scan_resistant",
       "trace_replay: several policies in --policy need --sweep"},
      {"--sweep", "trace_replay: --sweep needs a trace: --trace=FILE"},
      {"--share=a,b --sweep",
       "trace_replay: --share is of a replay of its own, without --trace and "
       "--sweep"},
      {"--share=a --max_bytes=9",
       "trace_replay: --share needs two traces or more, at most 26: "
       "--share=FILE,FILE"},
      {"--share=a,b", "trace_replay: --share needs a budget: --max_bytes"},
      {"--share=a,b --max_bytes=9 --threads=2",
       "trace_replay: --share runs on one thread"},
      {"--share=a,b --max_bytes=9 --json",
       "trace_replay: --json is of a single replay"},
  };
  for (const auto& [flags, line] : kRows) {
    ExpectFailure(absl::StrCat("$PROGRAM ", flags), 1, line);
  }
}

TEST_F(TraceReplayTest, OutputThatCannotBeWrittenIsStatusOne) {
  WriteTrace("sweep.csv", SweepTrace());
  constexpr Failure kRows[] = {
      {"$PROGRAM --trace=sweep.csv > /dev/full",
       "trace_replay: cannot write to standard output"},
      {"$PROGRAM --sweep --trace=sweep.csv --html=no/page.html",
       "trace_replay: --html=no/page.html: cannot open the file: No such file "
       "or directory"},
      {"$PROGRAM --sweep --trace=sweep.csv --html=/dev/full",
       "trace_replay: --html=/dev/full: cannot write: No space left on device"},
  };
  for (const auto& [command, line] : kRows) ExpectFailure(command, 1, line);
}

TEST_F(TraceReplayTest, BadTraceIsStatusTwoAndOneLine) {
  WriteTrace("bad.csv", kBadTrace);
  // Ends within its last line.
  WriteTrace("cut.csv", SweepTrace().substr(0, 100));
  constexpr absl::string_view kBadLine =
      "trace_replay: bad.csv, line 2: value_size is 'ten', must be a whole "
      "number from 0 to 4294967295";
  constexpr Failure kRows[] = {
      {"$PROGRAM --trace=bad.csv", kBadLine},
      {"$PROGRAM --trace=bad.csv --json", kBadLine},
      {"$PROGRAM --trace=bad.csv --threads=2", kBadLine},
      {"$PROGRAM --trace=bad.csv --sweep", kBadLine},
      {"$PROGRAM --trace=cut.csv",
       "trace_replay: cut.csv, line 6: expected 7 columns, found 5: "
       "'5,k5,2,50,'"},
      {"echo nonsense | $PROGRAM --trace=-",
       "trace_replay: standard input, line 1: expected 7 columns, found 1: "
       "'nonsense'"},
      {"$PROGRAM --trace=missing.csv",
       "trace_replay: --trace=missing.csv: cannot open the file: No such file "
       "or directory"},
      {"$PROGRAM --trace=/dev/null",
       "trace_replay: --trace=/dev/null: holds no request"},
      {"$PROGRAM --sweep --trace=/dev/null",
       "trace_replay: --trace=/dev/null: holds no request"},
      {"$PROGRAM --share=cut.csv,bad.csv --max_bytes=9 --skip_bad_lines "
       "--share=bad.csv,/dev/null",
       "trace_replay: --share=/dev/null: holds no request"},
      {"$PROGRAM --share=bad.csv,missing.csv --max_bytes=9", kBadLine},
      {"echo nonsense | $PROGRAM --trace=- --skip_bad_lines",
       "trace_replay: --trace=-: holds no request and 1 bad lines"},
  };
  for (const auto& [command, line] : kRows) ExpectFailure(command, 2, line);
}

TEST_F(TraceReplayTest, BadLinesAreSkippedAndCountedOnRequest) {
  WriteTrace("bad.csv", kBadTrace);
  EXPECT_THAT(Run("--trace=bad.csv --skip_bad_lines --json").out,
              EndsWith(", \"bad_lines\": 1}\n"));
  EXPECT_THAT(Run("--trace=bad.csv --skip_bad_lines --sweep").out,
              HasSubstr(", 1 bad lines skipped\n"));
}

TEST_F(TraceReplayTest, EachFlagReachesTheReplay) {
  WriteTrace("good.csv", kGoodTrace);
  EXPECT_THAT(
      Run("--trace=good.csv --max_entries=7 --max_bytes 1000 --jitter=0.25 "
          "--ttl=90 --shards=8 --threads=3 --policy=scan_resistant "
          "--noread_through")
          .out,
      AllOf(StartsWith("good.csv: at most 7 entries and 1,000 bytes, "
                       "Scan-resistant, TTL 1m30s, jitter 0.25, 8 shards, 3 "
                       "threads\n"),
            HasSubstr("  hits                               0\n")));
  EXPECT_THAT(Run("--trace=good.csv").out,
              StartsWith("good.csv: at most 50,000 entries, LRU, TTL inf, "
                         "jitter 0.05, shards by size, 1 thread\n"));
  EXPECT_THAT(Run("--trace=good.csv --max_bytes=5").out,
              StartsWith("good.csv: at most 5 bytes, "));
  // Thirty keys in turn in twenty places: nothing is hit unless something
  // stays.
  constexpr absl::string_view kLoop =
      "for i in $(seq 50); do for k in $(seq 30); do echo 0,$k,1,1,0,get,0; "
      "done; done | $PROGRAM --trace=- --json --max_entries=20 --policy=";
  EXPECT_THAT(RunShell(absl::StrCat(kLoop, "lru")).out,
              HasSubstr("\"hits\": 0,"));
  EXPECT_THAT(RunShell(absl::StrCat(kLoop, "scan_resistant")).out,
              Not(HasSubstr("\"hits\": 0,")));
}

TEST_F(TraceReplayTest, EachFlagReachesTheSweep) {
  WriteTrace("good.csv", kGoodTrace);
  EXPECT_THAT(Run("--trace=good.csv --sweep --max_bytes=1000 --sizes=3 "
                  "--ttl=inf,60,1m --policy=scan_resistant,lru")
                  .out,
              AllOf(HasSubstr("\nTTL 1m\n         max_bytes  Scan-resistant"
                              "             LRU     Upper bound\n"),
                    HasSubstr("  4  "), HasSubstr("  63  "),
                    HasSubstr("  1,000  "), HasSubstr("\nTTL inf\n")));
  EXPECT_THAT(
      Run("--trace=good.csv --sweep --max_bytes=1000 --by=entries").out,
      AllOf(HasSubstr("\n       max_entries             LRU  Scan-resistant"
                      "  Belady's bound\n"),
            HasSubstr("  1  "), HasSubstr("  2  ")));
}

TEST_F(TraceReplayTest, ShareDrawsTheSplit) {
  WriteTrace("good.csv", kGoodTrace);
  WriteTrace("sweep.csv", SweepTrace());
  const Outcome outcome =
      Run("--share=good.csv,sweep.csv --max_bytes=100000 --jitter=0");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("2 caches with at most 100,000 bytes in all, LRU, TTL "
                       "inf, jitter 0, shards by size\n"),
            HasSubstr("  a good.csv                             3             2"
                      "        0.5000        0.5000\n"
                      "  b sweep.csv                           18            18"
                      "        0.6667        0.6667\n"
                      "    all                                 21            20"
                      "        0.6500        0.6500\n"),
            HasSubstr("\n  0             aaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbb"
                      "bbbbbbbbbbbbbbbbbbbbbb\n"),
            HasSubstr("\n  18s           a")));
}

// With the status that Abseil gives it.
TEST_F(TraceReplayTest, HelpIsPrintedAndNothingIsRun) {
  const Outcome outcome = Run("--help --trace=missing.csv");
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("--max_entries"), HasSubstr("Zipf's law")));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(TraceReplayTest, RelativePathUnderBazelRunStartsAtTheUsersFolder) {
  WriteTrace("good.csv", kGoodTrace);
  const Outcome outcome =
      RunShell(absl::StrCat("cd / && BUILD_WORKING_DIRECTORY=", folder_,
                            " $PROGRAM --trace=good.csv"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith("good.csv: "));
}

TEST_F(TraceReplayTest, SweepWritesAPage) {
  WriteTrace("sweep.csv", SweepTrace());
  WriteTrace("page.html", std::string(100'000, 'x'));  // Is replaced.
  const Outcome outcome = Run("--sweep --trace=sweep.csv --html=page.html");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\n18 requests, "));
  EXPECT_THAT(ReadFile(Path("page.html")),
              AllOf(StartsWith("<!DOCTYPE html>"), EndsWith("</html>\n")));
  const Outcome piped =
      RunShell("$PROGRAM --sweep --trace=sweep.csv --html=/dev/stderr");
  EXPECT_EQ(piped.status, 0);
  EXPECT_THAT(piped.err, StartsWith("<!DOCTYPE html>"));
}

}  // namespace
}  // namespace wheelcache::replay
