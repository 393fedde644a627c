// What a near cache costs in front of a Redis server that the program starts,
// next to the same commands through hiredis alone, with values of 64 bytes:
//
//   BM_CacheHit             Get of a plain cache
//   BM_NearHit              Get of a near cache, local
//   BM_RawGet               GET, and wait for the reply
//   BM_RawMiss              PTTL and GET in a pipeline
//   BM_NearMiss             Get of keys that a full near cache lacks
//   BM_NearMissTls          the same over TLS, and
//   BM_NearMissCluster      of a cluster, of one node
//   BM_RawMany              PTTL for a hundred keys and MGET, in a pipeline
//   BM_RawMget              MGET of a hundred keys alone
//   BM_NearMany             GetMany of a hundred keys that it lacks
//   BM_Invalidations        another client sets a thousand keys a command; an
//                           item is an invalidation that the near cache has
//                           handled. One thread reads local hits meanwhile;
//                           the counters tell their latencies in nanoseconds
//   BM_Recovery             the server is killed and started again; the time
//                           from then until there is a lease
//
// "stolen" is the share of CPU steal time, and "switches" how often the thread
// had to wait in an iteration: both tell how quiet the machine was.
//
//   near_benchmark --benchmark_filter='Hit|Miss'

#include <hiredis/hiredis.h>
#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "wheelcache/benchmarks/stolen_time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/tls/tls.h"
#include "wheelcache/tests/cache/near/tls/certificates.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::benchmarks {
namespace {

using Near = NearCache<std::string>;

constexpr int kKeys = 20'000;
constexpr int kMany = 100;

// Entries of a local tier that has all of the first keys, and of one that has
// lost a key again before its next turn.
constexpr int kResident = 1000;
constexpr size_t kValueBytes = 64;

std::string KeyOf(int i) { return absl::StrCat("key", i); }

// How the near cache reaches its server.
enum class Way { kPlain, kTls, kCluster };

// A server with all keys, a connection of hiredis, and a near cache.
class Setup {
 public:
  // Ends the benchmark with an error where something is missing.
  explicit Setup(benchmark::State& state, Way way = Way::kPlain) {
    RedisStoreOptions store_options;
    std::vector<std::string> server_options;
    if (way == Way::kCluster) server_options = {"--cluster-enabled", "yes"};
    if (way == Way::kTls) {
      const testing::CertificateAuthority authority("benchmark");
      const testing::CertificateFiles files = authority.Issue("localhost");
      server_options = {"--tls-ca-cert-file", authority.file(),
                        "--tls-cert-file",    files.certificate,
                        "--tls-key-file",     files.key,
                        "--tls-auth-clients", "no"};
      TlsOptions tls;
      tls.ca_file = authority.file();
      store_options.tls = *LoadTls(tls);
    }
    auto server = testing::RedisServer::Start(server_options);
    if (!server.ok()) {
      state.SkipWithError(server.status().ToString().c_str());
      return;
    }
    server_ = *std::move(server);
    raw_.reset(redisConnect("127.0.0.1", server_->port()));
    if (way == Way::kCluster) {
      redisAppendCommand(raw_.get(), "CLUSTER ADDSLOTSRANGE 0 16383");
      TakeReplies(1);
    }
    store_options.url = way == Way::kTls ? absl::StrCat("rediss://localhost:",
                                                        server_->tls_port())
                                         : server_->url();
    store_options.cluster = way == Way::kCluster;
    store_ = *RedisStore::Create(store_options);
    NearCacheOptions options;
    options.key_prefix = "p:";
    options.local.max_entries = kResident;
    options.command_timeout = options.max_staleness;
    near_ = *Near::Create(options, store_.get());
    const absl::Status ready = near_->WaitUntilReady(absl::Seconds(30));
    if (!ready.ok()) state.SkipWithError(ready.ToString().c_str());
    const std::string value(kValueBytes, 'v');
    for (int i = 0; i < kKeys; ++i) {
      redisAppendCommand(raw_.get(), "SET p:%s %s EX 3600", KeyOf(i).c_str(),
                         value.c_str());
    }
    TakeReplies(kKeys);
  }

  bool ok() const { return near_ != nullptr; }
  Near& near_cache() { return *near_; }
  redisContext* raw() { return raw_.get(); }
  testing::RedisServer& server() { return *server_; }

  struct FreeReply {
    void operator()(void* reply) const { freeReplyObject(reply); }
  };
  using ReplyPointer = std::unique_ptr<void, FreeReply>;
  static ReplyPointer Reply(void* reply) { return ReplyPointer(reply); }

  // Waits for replies to what has been appended.
  void TakeReplies(int count) {
    for (int i = 0; i < count; ++i) {
      void* reply = nullptr;
      redisGetReply(raw_.get(), &reply);
      benchmark::DoNotOptimize(Reply(reply));
    }
  }

 private:
  struct Disconnect {
    void operator()(redisContext* context) const { redisFree(context); }
  };

  std::unique_ptr<testing::RedisServer> server_;
  std::unique_ptr<redisContext, Disconnect> raw_;
  std::unique_ptr<RedisStore> store_;
  std::unique_ptr<Near> near_;
};

// Adds the counters that tell how quiet the machine was.
class Quietness {
 public:
  explicit Quietness(benchmark::State& state)
      : state_(state), begin_(Switches()) {}
  ~Quietness() {
    state_.counters["stolen"] = stolen_.share();
    state_.counters["switches"] = benchmark::Counter(
        Switches() - begin_, benchmark::Counter::kAvgIterations);
  }
  Quietness(const Quietness&) = delete;
  Quietness& operator=(const Quietness&) = delete;

 private:
  static double Switches() {
    rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
    return static_cast<double>(usage.ru_nvcsw);
  }

  benchmark::State& state_;
  const StolenTime stolen_;
  const double begin_;
};

void BM_CacheHit(benchmark::State& state) {
  CacheOptions options;
  auto cache = *Cache<std::string, std::string>::Create(options);
  std::vector<std::string> keys;
  for (int i = 0; i < kResident; ++i) {
    keys.push_back(KeyOf(i));
    cache->Set(keys.back(), std::string(kValueBytes, 'v'));
  }
  int i = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        cache->Get(keys[static_cast<size_t>(++i % kResident)]));
  }
}
BENCHMARK(BM_CacheHit);

void BM_NearHit(benchmark::State& state) {
  Setup setup(state);
  if (!setup.ok()) return;
  std::vector<std::string> keys;
  for (int i = 0; i < kResident; ++i) {
    keys.push_back(KeyOf(i));
    setup.near_cache().Get(keys.back()).IgnoreError();
  }
  int i = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        setup.near_cache().Get(keys[static_cast<size_t>(++i % kResident)]));
  }
}
BENCHMARK(BM_NearHit);

void BM_RawGet(benchmark::State& state) {
  Setup setup(state);
  if (!setup.ok()) return;
  int i = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    redisAppendCommand(setup.raw(), "GET p:%s", KeyOf(++i % kKeys).c_str());
    setup.TakeReplies(1);
  }
}
BENCHMARK(BM_RawGet)->UseRealTime();

void BM_RawMiss(benchmark::State& state) {
  Setup setup(state);
  if (!setup.ok()) return;
  int i = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    const std::string key = KeyOf(++i % kKeys);
    redisAppendCommand(setup.raw(), "PTTL p:%s", key.c_str());
    redisAppendCommand(setup.raw(), "GET p:%s", key.c_str());
    setup.TakeReplies(2);
  }
}
BENCHMARK(BM_RawMiss)->UseRealTime();

void RunNearMiss(benchmark::State& state, Way way) {
  Setup setup(state, way);
  if (!setup.ok()) return;
  int i = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(setup.near_cache().Get(KeyOf(++i % kKeys)));
  }
  state.counters["local_hits"] =
      static_cast<double>(setup.near_cache().stats().local_hits);
}
void BM_NearMiss(benchmark::State& state) { RunNearMiss(state, Way::kPlain); }
BENCHMARK(BM_NearMiss)->UseRealTime();
void BM_NearMissTls(benchmark::State& state) { RunNearMiss(state, Way::kTls); }
BENCHMARK(BM_NearMissTls)->UseRealTime();
void BM_NearMissCluster(benchmark::State& state) {
  RunNearMiss(state, Way::kCluster);
}
BENCHMARK(BM_NearMissCluster)->UseRealTime();

// Appends MGET of keys from one on, with PTTL for each if asked for.
int AppendMany(redisContext* raw, int first, bool with_ttls) {
  std::string mget = "MGET";
  for (int i = first; i < first + kMany; ++i) {
    if (with_ttls) redisAppendCommand(raw, "PTTL p:%s", KeyOf(i).c_str());
    absl::StrAppend(&mget, " p:", KeyOf(i));
  }
  redisAppendCommand(raw, mget.c_str());
  return with_ttls ? kMany + 1 : 1;
}

void RunRawMany(benchmark::State& state, bool with_ttls) {
  Setup setup(state);
  if (!setup.ok()) return;
  int first = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    setup.TakeReplies(AppendMany(setup.raw(), first, with_ttls));
    first = (first + kMany) % kKeys;
  }
  state.SetItemsProcessed(state.iterations() * kMany);
}
void BM_RawMany(benchmark::State& state) { RunRawMany(state, true); }
BENCHMARK(BM_RawMany)->UseRealTime();
void BM_RawMget(benchmark::State& state) { RunRawMany(state, false); }
BENCHMARK(BM_RawMget)->UseRealTime();

void BM_NearMany(benchmark::State& state) {
  Setup setup(state);
  if (!setup.ok()) return;
  std::vector<std::string> names;
  for (int i = 0; i < kKeys; ++i) names.push_back(KeyOf(i));
  const std::vector<absl::string_view> keys(names.begin(), names.end());
  size_t first = 0;
  const Quietness quietness(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(setup.near_cache().GetMany(
        absl::MakeConstSpan(keys).subspan(first, kMany)));
    first = (first + kMany) % kKeys;
  }
  state.SetItemsProcessed(state.iterations() * kMany);
}
BENCHMARK(BM_NearMany)->UseRealTime();

void BM_Invalidations(benchmark::State& state) {
  Setup setup(state);
  if (!setup.ok()) return;
  Near& near = setup.near_cache();
  // These are not read, and so are not local; that one is.
  std::string mset = "MSET";
  for (int i = 0; i < kResident; ++i) {
    absl::StrAppend(&mset, " p:other", i, " v");
  }
  near.Get(KeyOf(0)).IgnoreError();

  std::atomic<bool> is_over{false};
  load_testing::LatencyHistogram latencies;
  std::thread reader([&] {
    const std::string key = KeyOf(0);
    int64_t begin = Clock::Monotonic().NowNanos();
    while (!is_over) {
      benchmark::DoNotOptimize(near.Get(key));
      const int64_t end = Clock::Monotonic().NowNanos();
      latencies.Record(end - begin);
      begin = end;
    }
  });
  constexpr int kCommands = 20;
  const int64_t before = near.stats().invalidations;
  const Quietness quietness(state);
  for (auto _ : state) {
    for (int i = 0; i < kCommands; ++i) {
      redisAppendCommand(setup.raw(), mset.c_str());
    }
    setup.TakeReplies(kCommands);
  }
  // The server joins the messages of a turn: of a key that is set twice in it,
  // one comes. So what has come is counted, not what was set.
  is_over = true;
  reader.join();
  state.SetItemsProcessed(near.stats().invalidations - before);
  state.counters["p50"] = static_cast<double>(latencies.Percentile(50));
  state.counters["p99"] = static_cast<double>(latencies.Percentile(99));
}
BENCHMARK(BM_Invalidations)->UseRealTime();

void BM_Recovery(benchmark::State& state) {
  Setup setup(state);
  if (!setup.ok()) return;
  Near& near = setup.near_cache();
  const Quietness quietness(state);
  for (auto _ : state) {
    const int64_t sessions = near.stats().sessions;
    setup.server().Kill();
    absl::Status status = setup.server().Restart();
    const int64_t begin = Clock::Monotonic().NowNanos();
    while (status.ok() && near.stats().sessions == sessions) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    if (status.ok()) status = near.WaitUntilReady(absl::Seconds(30));
    const int64_t end = Clock::Monotonic().NowNanos();
    state.SetIterationTime(static_cast<double>(end - begin) / 1e9);
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
}
BENCHMARK(BM_Recovery)->UseManualTime()->Iterations(3);

}  // namespace
}  // namespace wheelcache::benchmarks

// GoogleTest, which the server's tests bring along, has a main of its own.
BENCHMARK_MAIN();
