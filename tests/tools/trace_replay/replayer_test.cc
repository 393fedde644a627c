// A replay: simulated time, threads, errors and limits.

#include "wheelcache/tools/trace_replay/replayer.h"

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/barrier.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request_batch.h"
#include "wheelcache/tools/trace_replay/workload.h"

namespace wheelcache {
namespace replay {
namespace {

ReplayOptions Exact() {
  ReplayOptions options;
  options.jitter = 0;
  options.shards = 1;
  return options;
}

ReplayResult ReplayAll(RequestSource&& source, const ReplayOptions& options) {
  absl::StatusOr<ReplayResult> result = Replay(source, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ReplayResult());
}

TEST(ReplayerTest, ValueIsGoneFromItsDeadlineOn) {
  const ReplayResult result = ReplayAll(TextSource("100,k,1,1,0,set,60\n"
                                                   "159,k,1,1,0,get,0\n"
                                                   "160,k,1,1,0,get,0\n"),
                                        Exact());
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.counts.misses, 1);
  EXPECT_EQ(result.expirations, 1);
}

TEST(ReplayerTest, ExpiredLeavesBeforeTheLiveIsEvicted) {
  ReplayOptions options = Exact();
  options.max_entries = 2;
  const ReplayResult result = ReplayAll(TextSource("0,old,1,1,0,set,0\n"
                                                   "0,new,1,1,0,set,5\n"
                                                   "5,next,1,1,0,set,0\n"
                                                   "5,old,1,1,0,get,0\n"),
                                        options);
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.evictions, 0);
  EXPECT_EQ(result.expirations, 1);
}

TEST(ReplayerTest, EarlierTimeIsReplayedAtTheLatestSoFar) {
  const ReplayResult result = ReplayAll(TextSource("100,a,1,1,0,set,10\n"
                                                   "50,b,1,1,0,set,10\n"
                                                   "109,a,1,1,0,get,0\n"
                                                   "109,b,1,1,0,get,0\n"
                                                   "110,b,1,1,0,get,0\n"),
                                        Exact());
  EXPECT_EQ(result.counts.hits, 2);
  EXPECT_EQ(result.counts.misses, 1);
  EXPECT_EQ(result.expirations, 2);
}

TEST(ReplayerTest, TimeMayJumpFromNothingToTheEnd) {
  const ReplayResult result =
      ReplayAll(TextSource("0,k,1,1,0,set,4294967295\n"
                           "9000000000,k,1,1,0,get,4294967295\n"
                           "9000000000,k,1,1,0,get,0\n"),
                Exact());
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.counts.misses, 1);
}

TEST(ReplayerTest, PeaksOutliveWhatTheyCounted) {
  const ReplayResult result = ReplayAll(TextSource("0,a,1,1000,0,set,0\n"
                                                   "0,b,1,1,0,set,0\n"
                                                   "0,a,1,1,0,delete,0\n"
                                                   "0,b,1,1,0,delete,0\n"),
                                        Exact());
  EXPECT_EQ(result.counts.peak_entries, 2);
  EXPECT_GE(result.counts.peak_bytes, 1001);
}

TEST(ReplayerTest, ErrorOfTheSourceEndsTheReplay) {
  for (const int threads : {1, 3}) {
    ReplayOptions options = Exact();
    options.threads = threads;
    std::string trace;
    for (size_t i = 0; i < 2 * RequestBatch::kMaxRequests; ++i) {
      absl::StrAppend(&trace, i, ",k,1,1,0,get,0\n");
    }
    TextSource source(absl::StrCat(trace, "nonsense\n"));
    EXPECT_EQ(Replay(source, options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ReplayerTest, ErrorOfTheOptionsIsThatOfTheCache) {
  ReplayOptions options = Exact();
  options.max_entries = 0;
  TextSource source("0,k,1,1,0,get,0\n");
  const absl::Status status = Replay(source, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("max_entries"), absl::string_view::npos)
      << status;
}

TEST(ReplayerTest, EmptySourceGivesAnEmptyResult) {
  ReplayOptions options = Exact();
  options.threads = 2;
  EXPECT_EQ(ReplayAll(TextSource(""), options).counts.requests, 0);
}

TEST(ReplayerTest, ListenerHearsOfEveryBatch) {
  std::vector<int64_t> heard;
  Workload workload(2 * RequestBatch::kMaxRequests + 1);
  ASSERT_TRUE(Replay(workload, Exact(), [&](int64_t requests) {
                heard.push_back(requests);
              }).ok());
  const int64_t batch = RequestBatch::kMaxRequests;
  EXPECT_EQ(heard, (std::vector<int64_t>{batch, 2 * batch, 2 * batch + 1}));
}

TEST(ReplayerTest, LatenciesAreTakenOfSomeCalls) {
  const ReplayResult result = ReplayAll(Workload(40'000), Exact());
  EXPECT_GT(result.counts.get_nanos.count(), 4'000);
  EXPECT_LT(result.counts.get_nanos.count(), 6'000);
  EXPECT_GT(result.counts.set_nanos.count(), 100);
  EXPECT_GT(result.elapsed, absl::ZeroDuration());
}

TEST(ReplayerTest, JitterIsTheSameOnEachRun) {
  ReplayOptions options = Exact();
  options.jitter = 0.5;
  const ReplayResult first = ReplayAll(Workload(100'000), options);
  const ReplayResult second = ReplayAll(Workload(100'000), options);
  EXPECT_GT(first.expirations, 0);
  EXPECT_EQ(first.counts.hits, second.counts.hits);
  EXPECT_EQ(first.expirations, second.expirations);
  options.jitter = 0;
  EXPECT_NE(ReplayAll(Workload(100'000), options).expirations,
            first.expirations);
}

// Without evictions, the outcome of a request depends only on the time and on
// the earlier requests for its key. So any number of threads must give the
// counts of one, if keys keep their order and no thread runs ahead in time.
TEST(ReplayerTest, ThreadsGiveTheCountsOfOneThread) {
  ReplayOptions options = Exact();
  const ReplayResult one = ReplayAll(Workload(200'000), options);
  EXPECT_GT(one.expirations, 1'000);
  options.shards = 16;
  for (const int threads : {2, 3, 8}) {
    options.threads = threads;
    const ReplayResult many = ReplayAll(Workload(200'000), options);
    EXPECT_EQ(many.counts.requests, 200'000) << threads;
    EXPECT_EQ(many.counts.hits, one.counts.hits) << threads;
    EXPECT_EQ(many.counts.misses, one.counts.misses) << threads;
    EXPECT_EQ(many.expirations, one.expirations) << threads;
    EXPECT_EQ(many.evictions, 0) << threads;
  }
}

TEST(ReplayerTest, LimitsHoldWithManyThreads) {
  ReplayOptions options = Exact();
  options.shards = 16;
  options.threads = 4;
  options.max_entries = 5'000;
  options.max_bytes = 5'000'000;
  const ReplayResult result = ReplayAll(Workload(200'000), options);
  EXPECT_GT(result.evictions, 0);
  EXPECT_LE(result.counts.peak_entries, 5'000);
  EXPECT_LE(result.counts.peak_bytes, 5'000'000);
}

TEST(ReplayerTest, ThreadsHardlyChangeTheHitRatioOfAFullCache) {
  ReplayOptions options = Exact();
  options.max_entries = 5'000;
  const double one = ReplayAll(Workload(200'000), options).hit_ratio();
  options.threads = 4;
  EXPECT_NEAR(ReplayAll(Workload(200'000), options).hit_ratio(), one, 0.002);
}

TEST(RequestBatchTest, KeyHasOneWorkerAndItsOwnBytes) {
  Workload workload(100'000);
  RequestBatch batch(3);
  std::map<std::string, int> workers;
  int64_t requests = 0;
  while (batch.Fill(workload).value()) {
    for (size_t i = 0; i < batch.size(); ++i) {
      const std::string key(batch[i].key);
      EXPECT_EQ(key.size(), batch[i].key_size);
      EXPECT_EQ(workers.emplace(key, batch.worker(i)).first->second,
                batch.worker(i));
    }
    requests += static_cast<int64_t>(batch.size());
  }
  EXPECT_EQ(requests, 100'000);
}

TEST(RequestBatchTest, LongKeysEndABatchEarly) {
  std::string trace;
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&trace, "0,", std::string(60'000, 'k'), ",1,1,0,get,0\n");
  }
  TextSource source(trace);
  RequestBatch batch(1);
  ASSERT_TRUE(batch.Fill(source).value());
  EXPECT_EQ(batch.size(), 18u);
}

TEST(BarrierTest, CompletionRunsOnceAfterAllHaveArrived) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 1'000;
  Barrier barrier(kThreads);
  int rounds = 0;  // Written by the completion, read between two passes.
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 1; round <= kRounds; ++round) {
        barrier.Pass([&] { ++rounds; });
        EXPECT_EQ(rounds, round);
        barrier.Pass();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rounds, kRounds);
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
