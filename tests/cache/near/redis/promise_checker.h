// Tries to break the promise of near caches (cache/near/near_cache.h) on a real
// server: two of them, as in two processes, each with threads that read and
// write, a foreign writer, and faults at random.
//
//   PromiseChecker checker(options, std::move(stores));
//   EXPECT_EQ(checker.Run(operations, break_something, write), "");
//   std::cout << checker.Report() << std::endl;
//
// The writes of a key are versions: numbers that only grow, since each key has
// one writer at a time. A read must return at least
//  - the greatest version that was executed L before the read began;
//  - the greatest that a Set of this near cache has returned OK for;
//  - what this thread has read before.
//
// WHEELCACHE_TEST_OPERATIONS and WHEELCACHE_TEST_SEED say how much and which
// faults; the threads make each run another one.

#ifndef WHEELCACHE_TESTS_CACHE_NEAR_REDIS_PROMISE_CHECKER_H_
#define WHEELCACHE_TESTS_CACHE_NEAR_REDIS_PROMISE_CHECKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/cache/near/redis/promised_key.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

class PromiseChecker {
 public:
  static constexpr size_t kCaches = PromisedKey::kCaches;
  static constexpr size_t kKeys = 16;

  using Near = NearCache<std::string>;
  using Random = std::mt19937_64;

  struct Options {
    absl::Duration max_staleness;  // L
    absl::Duration command_timeout;
    absl::Duration more = {};  // Than L, as in failovers.

    // How names of keys begin; each is followed by ":" and a number.
    std::function<std::string(size_t k)> start = [](size_t k) {
      return absl::StrCat(k);
    };
    int reads_per_set = 50;
    bool reads_many = false;  // Also by GetMany.
    int least_faults = 12;
    absl::Duration most_between_faults = absl::Milliseconds(150);
    absl::Duration most_between_writes = absl::Milliseconds(2);
  };

  // A fault, from its beginning to its end. Returns its name.
  using Break = std::function<std::string(Random&)>;
  // Writes a version under a name, as another client. Returns a reading at
  // which it had been executed; nothing if it may happen yet.
  using Write = std::function<std::optional<int64_t>(const std::string& name,
                                                     int64_t version)>;

  PromiseChecker(Options options,
                 std::vector<std::unique_ptr<RemoteStore>> stores)
      : options_(std::move(options)), stores_(std::move(stores)) {
    for (size_t k = 0; k < kKeys; ++k) {
      keys_.push_back(std::make_unique<PromisedKey>(
          options_.start(k), Clock::Monotonic(),
          options_.max_staleness + options_.more));
    }
    NearCacheOptions near_options;
    near_options.key_prefix = "p:";
    near_options.max_staleness = options_.max_staleness;
    near_options.command_timeout = options_.command_timeout;
    for (const auto& store : stores_) {
      near_.push_back(*Near::Create(near_options, store.get()));
    }
  }

  // Held while the foreign writer writes; before the locks of keys.
  Mutex foreign_writes;

  // Returns the first violation.
  std::string Run(int64_t operations, const Break& break_something,
                  const Write& write) {
    std::vector<std::thread> threads;
    for (size_t c = 0; c < kCaches; ++c) {
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([this, c, t] { Use(c, 10 * c + t); });
      }
    }
    threads.emplace_back([&] { WriteAsAnother(write); });
    Random random(TestSeed());
    for (int faults = 0;
         (operations_ < operations || faults < options_.least_faults) &&
         !is_violated_;
         ++faults) {
      ++faults_[break_something(random)];
      absl::SleepFor(UpTo(random, options_.most_between_faults));
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
    for (const auto& [fault, count] : faults_) {
      absl::StrAppend(&report, " ", count, " ", fault, ";");
    }
    return report;
  }

  int64_t local_hits() const {
    return near_[0]->stats().local_hits + near_[1]->stats().local_hits;
  }

  // For faults.
  int64_t operations() const { return operations_; }
  PromisedKey& key(size_t k) { return *keys_[k]; }
  Near& near(size_t c) { return *near_[c]; }

  static void WriteLocked(PromisedKey& key, const Write& write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(key.writing) {
    const int64_t version = key.NextVersion();
    const std::optional<int64_t> done = write(key.name(), version);
    if (done.has_value()) {
      key.Executed(version, *done);
    } else {
      key.Rename();
    }
  }

  // Through a near cache.
  void Set(size_t c, PromisedKey& key) {
    MutexLock lock(&key.writing);
    const int64_t version = key.NextVersion();
    if (near_[c]->Set(key.name(), absl::StrCat(version)).ok()) {
      key.ExecutedBy(c, version);
      ++operations_;
    } else {
      key.Rename();  // It may happen yet.
    }
  }

  // While nobody writes.
  template <typename Function>
  auto WithoutWrites(Function&& function) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (auto& key : keys_) key->writing.Lock();
    auto result = function();
    for (auto& key : keys_) key->writing.Unlock();
    return result;
  }

  // Keeps the first.
  void Note(std::string violation) {
    if (violation.empty()) return;
    MutexLock lock(&mu_);
    if (violation_.empty()) violation_ = std::move(violation);
    is_violated_ = true;
  }

  static uint64_t Uniform(Random& random, uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
  }
  static absl::Duration UpTo(Random& random, absl::Duration most) {
    return most * std::uniform_real_distribution<double>(0, 1)(random);
  }

 private:
  // Threads of a process. Under ThreadSanitizer none joins the fetch of
  // another: it does not see how a prebuilt Abseil counts the references of a
  // Status.
#ifdef ABSL_HAVE_THREAD_SANITIZER
  static constexpr int kThreads = 1;
#else
  static constexpr int kThreads = 2;
#endif

  // A Get returns within command_timeout. Longer than a busy machine lets a
  // thread wait.
  static constexpr absl::Duration kLongestGet = absl::Seconds(5);

  using AllReads = std::array<PromisedKey::Reads, kKeys>;

  // A thread of a process.
  void Use(size_t c, uint64_t number) {
    Random random(TestSeed() * 100 + number);
    AllReads reads;
    while (!is_over_) {
      const size_t k = Uniform(random, kKeys);
      if (Uniform(random, options_.reads_per_set) == 0) Set(c, *keys_[k]);
      if (options_.reads_many && Uniform(random, 10) == 0) {
        Read(c, {k, Uniform(random, kKeys), Uniform(random, kKeys)}, random,
             &reads);
      } else {
        Read(c, {k}, random, &reads);
      }
      // Some operations each millisecond, so that others may run.
      if (operations_ % 64 == 0) absl::SleepFor(absl::Milliseconds(1));
    }
  }

  void Read(size_t c, const std::vector<size_t>& wanted, Random& random,
            AllReads* reads) {
    std::vector<PromisedKey::Claim> claims;
    std::vector<absl::string_view> names;
    for (const size_t k : wanted) claims.push_back(keys_[k]->ClaimNow(c));
    for (const PromisedKey::Claim& claim : claims) names.push_back(claim.name);
    const int64_t begin = Clock::Monotonic().NowNanos();
    std::vector<Near::Result> results;
    if (names.size() == 1) {
      results.push_back(GetSomehow(*near_[c], claims[0].name, random));
    } else {
      results = near_[c]->GetMany(names);
    }
    const absl::Duration took =
        absl::Nanoseconds(Clock::Monotonic().NowNanos() - begin);
    if (took > kLongestGet) {
      Note(absl::StrCat("a read took ", absl::FormatDuration(took)));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (results[i].ok()) {
        ++operations_;
        Note(Judge(claims[i], *results[i], *keys_[wanted[i]],
                   &(*reads)[wanted[i]]));
      } else {
        ++failures_;
        absl::SleepFor(absl::Milliseconds(1));  // It may fail at once.
      }
    }
  }

  static std::string Judge(const PromisedKey::Claim& claim,
                           const std::optional<std::string>& value,
                           PromisedKey& key, PromisedKey::Reads* reads) {
    int64_t version = 0;
    if (value.has_value() && !absl::SimpleAtoi(*value, &version)) {
      return absl::StrCat("\"", *value, "\" was never written");
    }
    return key.Judge(claim, version, reads);
  }

  void WriteAsAnother(const Write& write) {
    Random random(TestSeed() + 7);
    while (!is_over_) {
      {
        PromisedKey& key = *keys_[Uniform(random, kKeys)];
        MutexLock foreign(&foreign_writes);
        MutexLock lock(&key.writing);
        WriteLocked(key, write);
      }
      absl::SleepFor(UpTo(random, options_.most_between_writes));
    }
  }

  const Options options_;
  std::vector<std::unique_ptr<PromisedKey>> keys_;
  std::vector<std::unique_ptr<RemoteStore>> stores_;
  std::vector<std::unique_ptr<Near>> near_;

  std::map<std::string, int> faults_;  // Of the thread that runs.

  std::atomic<int64_t> operations_{0};  // That were answered.
  std::atomic<int64_t> failures_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_violated_{false};
  Mutex mu_;
  std::string violation_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_CACHE_NEAR_REDIS_PROMISE_CHECKER_H_
