// Tries to break the promise of near caches (cache/near/near_cache.h) on a real
// server: two of them, as in two processes, each with threads that read and
// write, a foreign writer, and faults at random. The simulated form of it is
// near_promise_test.cc.
//
// The writes of a key are versions: numbers that only grow, since each key has
// one writer at a time. A read must return at least
//  - the greatest version that was executed L before the read began;
//  - the greatest that a Set of this near cache has returned OK for;
//  - what this thread has read before.
//
// WHEELCACHE_TEST_OPERATIONS and WHEELCACHE_TEST_SEED say how much and which
// faults; the threads make each run another one. The log says how many of each
// there were. From a million operations on, the server also stops for 10 s.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/cache/near/redis/promised_key.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::Connections;
using testing::ConnectionsOf;
using testing::RedisClient;
using testing::RedisServer;
using testing::Relay;

constexpr absl::Duration kBound = absl::Milliseconds(150);  // L
constexpr size_t kCaches = PromisedKey::kCaches;
constexpr size_t kKeys = 16;
constexpr int kLeastFaults = 12;

// A Get returns within command_timeout. Longer than a busy machine lets a
// thread wait, and shorter than the long stop.
constexpr absl::Duration kCommandTimeout = absl::Milliseconds(50);
constexpr absl::Duration kLongestGet = absl::Seconds(5);
constexpr absl::Duration kLongStop = absl::Seconds(10);
constexpr int64_t kOperationsPerLongStop = 1'000'000;

// Threads of a process. Under ThreadSanitizer none joins the fetch of another:
// it does not see how a prebuilt Abseil counts the references of a Status.
#ifdef ABSL_HAVE_THREAD_SANITIZER
constexpr int kThreads = 1;
#else
constexpr int kThreads = 2;
#endif

int64_t Now() { return Clock::Monotonic().NowNanos(); }

// Waits; no test here waits to see something expire.
void Pause(absl::Duration time) { absl::SleepFor(time); }

// One of the processes.
struct Process {
  std::unique_ptr<Relay> relay;
  std::unique_ptr<RedisStore> store;
  std::unique_ptr<NearCache<std::string>> near;
};

enum Fault {
  kStop,
  kLongStop10s,
  kCloseConnections,
  kClientKill,
  kDropDirection,
  kHoldReplies,
  kHoldDirection,
  kKillServer,
  kWriteBehindAPong,
  kFaults
};
constexpr std::array<const char*, kFaults> kFaultNames = {
    "SIGSTOP",          "SIGSTOP for 10 s",    "connections closed",
    "CLIENT KILL",      "a direction dropped", "replies held",
    "a direction held", "kill -9 and restart", "a write behind a PONG"};

class Checker {
 public:
  // `pong` is how the server answers on the connection of the session.
  Checker(std::unique_ptr<RedisServer> server, absl::string_view pong,
          uint64_t seed)
      : server_(std::move(server)), pong_(pong), seed_(seed) {
    for (size_t k = 0; k < kKeys; ++k) {
      keys_.push_back(std::make_unique<PromisedKey>(
          absl::StrCat(k), Clock::Monotonic(), kBound));
    }
    for (Process& process : processes_) {
      process.relay = std::make_unique<Relay>(server_->port());
      RedisStoreOptions store_options;
      store_options.url = process.relay->url();
      store_options.connect_timeout = kBound;
      store_options.unanswered_limit = 4 * kBound;
      process.store = *RedisStore::Create(store_options);
      NearCacheOptions options;
      options.key_prefix = "p:";
      options.max_staleness = kBound;
      options.command_timeout = kCommandTimeout;
      process.near =
          *NearCache<std::string>::Create(options, process.store.get());
    }
  }

  // Returns the first violation.
  std::string Run(int64_t operations) {
    std::vector<std::thread> threads;
    for (size_t c = 0; c < kCaches; ++c) {
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([this, c, t] { Use(c, 10 * c + t); });
      }
    }
    threads.emplace_back([this] { WriteAsAnother(); });
    std::mt19937_64 random(seed_);
    int64_t next_long_stop = kOperationsPerLongStop;
    for (int faults = 0;
         (operations_ < operations || faults < kLeastFaults) && !is_violated_;
         ++faults) {
      const bool is_long = operations_ >= next_long_stop;
      if (is_long) next_long_stop += kOperationsPerLongStop;
      Break(is_long ? kLongStop10s : ShortFault(random), random);
      Pause(UpTo(random, kBound));
    }
    is_over_ = true;
    for (std::thread& thread : threads) thread.join();
    MutexLock lock(&mu_);
    return violation_;
  }

  // What has been done, for the log.
  std::string Report() const {
    std::string report = absl::StrCat(
        operations_.load(), " operations, ", local_hits(), " local hits, ",
        failures_.load(), " failed reads; faults:");
    for (int fault = 0; fault < kFaults; ++fault) {
      absl::StrAppend(&report, fault == 0 ? " " : ", ", kFaultNames[fault], " ",
                      faults_[fault]);
    }
    return report;
  }

  int64_t local_hits() const {
    return processes_[0].near->stats().local_hits +
           processes_[1].near->stats().local_hits;
  }

 private:
  static uint64_t Uniform(std::mt19937_64& random, uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
  }
  static absl::Duration UpTo(std::mt19937_64& random, absl::Duration most) {
    return most * std::uniform_real_distribution<double>(0, 1)(random);
  }

  // A thread of a process.
  void Use(size_t c, uint64_t number) {
    std::mt19937_64 random(seed_ * 100 + number);
    std::array<PromisedKey::Reads, kKeys> reads;
    while (!is_over_) {
      const size_t k = Uniform(random, kKeys);
      if (Uniform(random, 50) == 0) Set(c, *keys_[k]);
      Note(Read(c, *keys_[k], random, &reads[k]));
      // Some operations each millisecond, so that others may run.
      if (operations_ % 64 == 0) Pause(absl::Milliseconds(1));
    }
  }

  // Returns what is wrong with it.
  std::string Read(size_t c, PromisedKey& key, std::mt19937_64& random,
                   PromisedKey::Reads* reads) {
    const PromisedKey::Claim claim = key.ClaimNow(c);
    const int64_t begin = Now();
    const auto result = GetSomehow(*processes_[c].near, claim.name, random);
    const absl::Duration took = absl::Nanoseconds(Now() - begin);
    if (took > kLongestGet) {
      return absl::StrCat("a Get took ", absl::FormatDuration(took),
                          "; command_timeout is ",
                          absl::FormatDuration(kCommandTimeout));
    }
    if (!result.ok()) {
      ++failures_;
      Pause(absl::Milliseconds(1));  // It may fail at once.
      return "";
    }
    ++operations_;
    int64_t version = 0;
    if (result->has_value() && !absl::SimpleAtoi(**result, &version)) {
      return absl::StrCat("\"", **result, "\" was never written");
    }
    return key.Judge(claim, version, reads);
  }

  void Set(size_t c, PromisedKey& key) {
    MutexLock lock(&key.writing);
    const int64_t version = key.NextVersion();
    if (processes_[c].near->Set(key.name(), absl::StrCat(version)).ok()) {
      key.ExecutedBy(c, version);
      ++operations_;
    } else {
      key.Rename();  // It may happen yet.
    }
  }

  // Writes one key, and notes when the server says that it has.
  void WriteAs(RedisClient& client, PromisedKey& key) {
    const int64_t version = key.NextVersion();
    const std::string reply = client.Run(
        {"EVAL",
         "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('TIME')", "1",
         "p:" + key.name(), absl::StrCat(version)});
    const std::vector<std::string> words = absl::StrSplit(reply, ' ');
    int64_t seconds = 0;
    int64_t micros = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &seconds) &&
        absl::SimpleAtoi(words[1], &micros)) {
      const absl::Duration ago =
          absl::Now() - absl::FromUnixMicros(seconds * 1'000'000 + micros + 1);
      key.Executed(version, Now() - absl::ToInt64Nanoseconds(ago));
    } else {
      key.Rename();
    }
  }

  void WriteAsAnother() {
    std::mt19937_64 random(seed_ + 7);
    auto client = std::make_unique<RedisClient>(server_->port());
    while (!is_over_) {
      if (client->Run({"PING"}) != "PONG") {
        Pause(absl::Milliseconds(1));
        client = std::make_unique<RedisClient>(server_->port());
      }
      PromisedKey& key = *keys_[Uniform(random, kKeys)];
      MutexLock lock(&key.writing);
      WriteAs(*client, key);
      Pause(UpTo(random, absl::Milliseconds(2)));
    }
  }

  // The last is twice as frequent as the others.
  static Fault ShortFault(std::mt19937_64& random) {
    const uint64_t drawn = Uniform(random, kFaults);
    return drawn == kLongStop10s ? kWriteBehindAPong
                                 : static_cast<Fault>(drawn);
  }

  void Break(Fault fault, std::mt19937_64& random) {
    ++faults_[fault];
    const absl::Duration length = UpTo(random, 2 * kBound);
    Relay& relay = *processes_[Uniform(random, kCaches)].relay;
    const auto kind = static_cast<Relay::Kind>(
        Relay::kReads + Uniform(random, Relay::kKinds - Relay::kReads));
    const auto direction =
        static_cast<Relay::Direction>(Uniform(random, Relay::kDirections));
    switch (fault) {
      case kStop:
      case kLongStop10s:
        server_->Stop();
        Pause(fault == kStop ? length : kLongStop);
        server_->Continue();
        break;
      case kCloseConnections:
        relay.Close(kind);
        break;
      case kClientKill:
        KillConnections(kind == Relay::kSubscription ? Connections::kTracking
                                                     : Connections::kOthers);
        break;
      case kDropDirection:
        relay.Drop(kind, direction);
        Pause(length);
        // What comes after a gap is no stream any more.
        relay.Close(kind);
        relay.ReleaseAll();
        break;
      case kHoldReplies:
        relay.Hold(Relay::kReads, Relay::kToClient);
        Pause(length);
        relay.ReleaseAll();
        break;
      case kHoldDirection:
        relay.Hold(kind, direction);
        Pause(length);
        relay.ReleaseAll();
        break;
      case kKillServer:
        KillAndRestart();
        break;
      default:
        WriteBehindAPong(relay, *keys_[Uniform(random, kKeys)]);
        break;
    }
  }

  void KillConnections(Connections which) {
    RedisClient client(server_->port());
    for (const std::string& id : ConnectionsOf(client, which)) {
      client.Run({"CLIENT", "KILL", "ID", id});
    }
  }

  // All data is lost: another server, in effect, with other keys.
  void KillAndRestart() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (auto& key : keys_) key->writing.Lock();
    for (auto& key : keys_) key->Rename();
    server_->Kill();
    const absl::Status status = server_->Restart();
    if (!status.ok()) Note(std::string(status.message()));
    for (auto& key : keys_) key->writing.Unlock();
  }

  // A write whose invalidation comes after the PONG to a PING that was sent
  // after it, and is then held back: see redis_fault_test.cc.
  void WriteBehindAPong(Relay& relay, PromisedKey& key) {
    RedisClient first(server_->port());
    RedisClient slow(server_->port());
    RedisClient writer(server_->port());
    for (RedisClient* each : {&first, &slow, &writer}) each->Run({"PING"});
    MutexLock lock(&key.writing);
    // Right after a PONG, so that the next PING is a sixth of L away.
    relay.HoldAfter(Relay::kSubscription, Relay::kToClient, pong_);
    const bool passed =
        relay.AwaitPassed(Relay::kSubscription, Relay::kToClient);
    relay.ReleaseAll();
    if (!passed) return;
    first.Send({"DEBUG", "SLEEP", "0.003"});
    std::thread write([&] { WriteAs(writer, key); });
    Pause(absl::Milliseconds(1));
    slow.Send({"DEBUG", "SLEEP", "0.06"});
    relay.HoldAfter(Relay::kSubscription, Relay::kToClient, pong_);
    relay.Inject(Relay::kSubscription, "\r\n");
    write.join();
    Pause(1.2 * kBound);
    relay.ReleaseAll();
  }

  // Keeps the first.
  void Note(std::string violation) {
    if (violation.empty()) return;
    MutexLock lock(&mu_);
    if (violation_.empty()) violation_ = std::move(violation);
    is_violated_ = true;
  }

  const std::unique_ptr<RedisServer> server_;
  const absl::string_view pong_;
  const uint64_t seed_;
  std::vector<std::unique_ptr<PromisedKey>> keys_;
  std::array<Process, kCaches> processes_;

  // Of the thread that runs.
  std::array<int, kFaults> faults_ = {};

  std::atomic<int64_t> operations_{0};  // That were answered.
  std::atomic<int64_t> failures_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_violated_{false};
  Mutex mu_;
  std::string violation_ ABSL_GUARDED_BY(mu_);
};

void ExpectPromise(std::vector<std::string> server_options,
                   absl::string_view pong) {
  auto server = RedisServer::Start(std::move(server_options));
  ASSERT_TRUE(server.ok()) << server.status();
  Checker checker(*std::move(server), pong, TestSeed());
  EXPECT_EQ(checker.Run(static_cast<int64_t>(TestOperations())), "")
      << "WHEELCACHE_TEST_SEED=" << TestSeed();
  std::cout << checker.Report() << std::endl;
  // It would prove nothing otherwise.
  EXPECT_GT(checker.local_hits(), static_cast<int64_t>(TestOperations()) / 10);
}

// Promise: A near cache is never staler than its bound
TEST(NearRedisPromiseTest, HoldsWhateverBreaks) {
  ExpectPromise({}, "+PONG\r\n");
}

// Promise: A near cache is never staler than its bound
TEST(NearRedisPromiseTest, HoldsWithAServerThatKnowsOnlyRESP2) {
  ExpectPromise({"--rename-command", "HELLO", ""}, "$4\r\npong\r\n$0\r\n\r\n");
}

}  // namespace
}  // namespace wheelcache
