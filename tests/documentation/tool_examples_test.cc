// The examples in the headers of tools/, each in a frame that supplies what is
// missing. documentation_test.cc compares them with the headers.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/load_testing/zipf_sampler.h"
#include "wheelcache/tools/trace_replay/barrier.h"
#include "wheelcache/tools/trace_replay/bounds.h"
#include "wheelcache/tools/trace_replay/command_line.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/line_reader.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/output_file.h"
#include "wheelcache/tools/trace_replay/parallel.h"
#include "wheelcache/tools/trace_replay/player.h"
#include "wheelcache/tools/trace_replay/progress_bar.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/request_batch.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"
#include "wheelcache/tools/trace_replay/sweep_limits.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"
#include "wheelcache/tools/trace_replay/sweep_page.h"
#include "wheelcache/tools/trace_replay/trace_line.h"
#include "wheelcache/tools/trace_replay/trace_reader.h"
#include "wheelcache/tools/trace_replay/workload.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace replay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using load_testing::LatencyHistogram;
using load_testing::ZipfSampler;

TEST(LoadTestingExamples, LatencyHistogram) {
  const int64_t nanos = 17;
  LatencyHistogram histogram;
  histogram.Record(nanos);
  int64_t p99 = histogram.Percentile(99);
  EXPECT_EQ(p99, 17);
}

TEST(LoadTestingExamples, ZipfSampler) {
  ZipfSampler sampler(1'000'000, 0.99);
  std::mt19937_64 random(1);
  int64_t number = sampler.Sample(random());
  EXPECT_LT(number, 1'000'000);
}

// The keys of the requests that the examples play.
std::vector<std::string> played;

void Play(const Request& request) {
  played.emplace_back(request.key.data(), request.key.size());
}

class ReplayExamples : public ::testing::Test {
 protected:
  ReplayExamples() {
    played.clear();
    std::ofstream(path_) << "0,a,1,10,0,get,0\n1,a,1,10,0,get,0\n";
  }

  const std::string path_ = ::testing::TempDir() + "oltp.csv";
  const ReplayOptions options;
};

TEST_F(ReplayExamples, Barrier) {
  constexpr int threads = 3;
  SimulatedClock clock;
  const absl::Duration time = absl::Seconds(7);
  Barrier barrier(threads);
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      barrier.Pass([&] { clock.AdvanceTo(time); });  // On each thread.
      EXPECT_EQ(clock.Now(), time);
    });
  }
  for (std::thread& worker : workers) worker.join();
}

int ReadCommandLine(int argc, const char* const* argv) {
  absl::StatusOr<Settings> settings =
      ParseCommandLine(absl::MakeConstSpan(argv + 1, argc - 1));
  if (!settings.ok()) return 2;  // Print its message, return 2.
  return 0;
}

TEST_F(ReplayExamples, CommandLine) {
  const char* const good[] = {"trace_replay", "--ttl=5m"};
  EXPECT_EQ(ReadCommandLine(2, good), 0);
  const char* const bad[] = {"trace_replay", "--ttl=never"};
  EXPECT_EQ(ReadCommandLine(2, bad), 2);
}

TEST_F(ReplayExamples, Flags) {
  Settings settings;
  std::string rule = FindFlag("ttl")->set("5m", settings);  // Empty: stored.
  EXPECT_EQ(rule, "");
  EXPECT_EQ(settings.replay.ttl, absl::Minutes(5));
}

absl::Status CountLines(int fd, int* lines) {
  LineReader reader(fd);
  absl::string_view line;
  while (true) {
    absl::StatusOr<bool> more = reader.Next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    ++*lines;
  }
  return absl::OkStatus();
}

TEST_F(ReplayExamples, LineReader) {
  const int fd = open(path_.c_str(), O_RDONLY);
  int lines = 0;
  EXPECT_TRUE(CountLines(fd, &lines).ok());
  close(fd);
  EXPECT_EQ(lines, 2);
}

absl::Status LoadAndReplay(RequestSource& source,
                           const ReplayOptions& options) {
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
  if (!trace.ok()) return trace.status();
  LoadedTrace::Reader reader(*trace);  // The same requests each time.
  absl::StatusOr<ReplayResult> result = Replay(reader, options);
  EXPECT_EQ(result->counts.hits, 1);
  return absl::OkStatus();
}

TEST_F(ReplayExamples, LoadedTrace) {
  const auto trace = *TraceReader::Open(path_);
  EXPECT_TRUE(LoadAndReplay(*trace, options).ok());
}

TEST_F(ReplayExamples, Bounds) {
  const auto source = *TraceReader::Open(path_);
  const LoadedTrace trace = *LoadedTrace::Load(*source);
  const std::vector<uint32_t> next_reads =
      NextReads(trace, /*read_through=*/true);
  int64_t hits = MostHits(next_reads, /*max_entries=*/1000);
  EXPECT_EQ(hits, 1);
}

absl::Status WriteToFile(absl::string_view text) {
  absl::StatusOr<OutputFile> file = OutputFile::Open("sweep.html");
  if (!file.ok()) return file.status();
  absl::Status status = file->Write(text);
  return status;
}

TEST_F(ReplayExamples, OutputFile) {
  ASSERT_EQ(chdir(::testing::TempDir().c_str()), 0);
  EXPECT_TRUE(WriteToFile("<p>").ok());
  std::string content;
  std::getline(std::ifstream("sweep.html"), content);
  EXPECT_EQ(content, "<p>");
}

TEST_F(ReplayExamples, Parallel) {
  const std::vector<int> jobs = {1, 2, 3};
  std::atomic<int> sum = 0;
  const auto Run = [&](int job) { sum += job; };
  RunInParallel(/*threads=*/2, jobs.size(), [&](size_t i) { Run(jobs[i]); });
  EXPECT_EQ(sum, 6);
}

int drawn = 0;
void Draw(const std::vector<int64_t>& limits, const SweepCurve& curve) {
  EXPECT_EQ(limits.size(), curve.hits.size());
  ++drawn;
}

absl::Status SweepIt(RequestSource& source) {
  SweepOptions options;
  options.ttls = {absl::Minutes(1), absl::InfiniteDuration()};
  absl::StatusOr<Sweep> sweep = RunSweep(source, options);
  if (!sweep.ok()) return sweep.status();
  for (const SweepCurve& curve : sweep->curves) Draw(sweep->limits, curve);
  return absl::OkStatus();
}

TEST_F(ReplayExamples, Sweep) {
  drawn = 0;
  const auto trace = *TraceReader::Open(path_);
  EXPECT_TRUE(SweepIt(*trace).ok());
  EXPECT_EQ(drawn, 4);
}

TEST_F(ReplayExamples, SweepAdviceAndPage) {
  const auto trace = *TraceReader::Open(path_);
  const Sweep sweep = *RunSweep(*trace, SweepOptions());
  const SweepChoice choice = Choose(sweep);
  const std::string sentence = Advise(sweep, choice);
  std::string html = SweepPage("oltp.csv", sweep);
  EXPECT_THAT(sentence, HasSubstr("no larger limit was tried"));
  EXPECT_THAT(html, HasSubstr("no larger limit was tried"));
}

TEST_F(ReplayExamples, SweepLimits) {
  EXPECT_THAT(SweepLimits(76'349, 4), ElementsAre(300, 1'900, 12'000, 76'349));
  SweepLimits(76'349, 4);  // {300, 1'900, 12'000, 76'349}
}

TEST_F(ReplayExamples, Player) {
  SimulatedClock clock;
  const auto owner = *CreateTraceCache(options, &clock);
  TraceCache& cache = *owner;
  const Request request = *ParseTraceLine("17,b:7,3,64,0,get,0");
  Player player(cache, options);
  player.Play(request);
  int64_t hits = player.counts().hits;
  EXPECT_EQ(hits, 0);
}

TEST_F(ReplayExamples, ProgressBar) {
  const Workload source;
  const int64_t requests = 0;
  const int terminal = dup(STDERR_FILENO);
  const int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);
  {
    ProgressBar bar(STDERR_FILENO);
    bar.Update(source.progress(), requests);  // As often as you like.
  }
  dup2(terminal, STDERR_FILENO);
  close(null);
  close(terminal);
}

absl::Status ReplayIt(RequestSource& source, const ReplayOptions& options) {
  absl::StatusOr<ReplayResult> result = Replay(source, options);
  if (!result.ok()) return result.status();
  int64_t hits = result->counts.hits;
  EXPECT_EQ(hits, 1);
  return absl::OkStatus();
}

TEST_F(ReplayExamples, Replayer) {
  const auto trace = *TraceReader::Open(path_);
  EXPECT_TRUE(ReplayIt(*trace, options).ok());
}

absl::Status PlayAll(RequestSource& source) {
  Request request;
  for (;;) {
    absl::StatusOr<bool> more = source.Next(request);
    if (!more.ok()) return more.status();
    if (!*more) break;
    Play(request);
  }
  return absl::OkStatus();
}

TEST_F(ReplayExamples, Request) {
  const auto trace = *TraceReader::Open(path_);
  EXPECT_TRUE(PlayAll(*trace).ok());
  EXPECT_THAT(played, ElementsAre("a", "a"));
}

TEST_F(ReplayExamples, RequestBatch) {
  const auto trace = *TraceReader::Open(path_);
  RequestSource& source = *trace;
  const int workers = 1;
  const int mine = 0;
  RequestBatch batch(workers);
  absl::StatusOr<bool> filled = batch.Fill(source);  // False: at the end.
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch.worker(i) == mine) Play(batch[i]);
  }
  EXPECT_THAT(played, SizeIs(2));
}

// The columns of a line:
//   timestamp_seconds,key,key_size,value_size,client_id,operation,ttl_seconds
TEST_F(ReplayExamples, TraceLine) {
  absl::StatusOr<Request> request = ParseTraceLine("17,b:7,3,64,0,get,0");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->timestamp_seconds, 17);
}

absl::Status CountRequests(int* requests) {
  absl::StatusOr<std::unique_ptr<TraceReader>> trace =
      TraceReader::Open("oltp.csv");
  if (!trace.ok()) return trace.status();
  Request request;
  while (true) {
    absl::StatusOr<bool> more = (*trace)->Next(request);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    ++*requests;
  }
}

TEST_F(ReplayExamples, TraceReader) {
  ASSERT_EQ(chdir(::testing::TempDir().c_str()), 0);
  int requests = 0;
  EXPECT_TRUE(CountRequests(&requests).ok());
  EXPECT_EQ(requests, 2);
}

TEST_F(ReplayExamples, Workload) {
  Request request;
  Workload workload;  // The same requests each time.
  absl::StatusOr<bool> more = workload.Next(request);
  EXPECT_TRUE(*more);
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
