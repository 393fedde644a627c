// What readers see while others write, time passes and entries leave.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/testing/validated_values.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

constexpr int kKeys = 60;
constexpr int kWriters = 3;
constexpr int kReaders = 4;  // Eight threads, with the one of the clock.

// Threads that write, read and let time pass, in one cache. Each key has one
// writer, so that its versions follow one another. `Make` is one of
// tests/testing/validated_values.h.
template <typename Value, typename Make>
class Storm {
 public:
  using CacheType = Cache<uint64_t, Value>;

  Storm(CacheOptions options, SimulatedClock* clock, uint64_t operations)
      : clock_(*clock),
        operations_(operations),
        cache_(std::move(*CacheType::Create(std::move(options)))) {}

  void Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) {
      threads.emplace_back([this, i] { Write(i); });
    }
    for (int i = 0; i < kReaders; ++i) {
      threads.emplace_back([this, i] { Read(i); });
    }
    threads.emplace_back([this] { LetTimePass(); });
    for (std::thread& thread : threads) thread.join();
    cache_->Stop();
    const absl::Status invariants = cache_->CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    const absl::Status memory = testing::CheckMemory(cache_.get());
    EXPECT_TRUE(memory.ok()) << memory;
    const CacheStats stats = cache_->stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.deletes + stats.evictions +
                              stats.expirations + stats.replaced);
  }

 private:
  // What one thread has seen of each key.
  class Witness {
   public:
    explicit Witness(const SimulatedClock& clock) : clock_(clock) {}

    // Called before a read.
    void Begin() { begin_nanos_ = clock_.NowNanos(); }

    // Called with what the read found in the cache.
    void Saw(uint64_t key, const Stamp& stamp) {
      GotFromLoad(key, stamp);
      seen_[key] = stamp.version;
    }

    // Called with what came from the cache or from a load. The latter need not
    // have been in the cache: a load that a Del has overtaken returns its value
    // all the same, and the load that follows may have asked for the newest
    // version before that did.
    void GotFromLoad(uint64_t key, const Stamp& stamp) {
      EXPECT_EQ(stamp.key, key);
      EXPECT_GE(stamp.version, seen_[key]);
      EXPECT_GT(stamp.deadline_nanos, begin_nanos_);
    }

   private:
    const SimulatedClock& clock_;
    int64_t begin_nanos_ = 0;
    std::map<uint64_t, uint64_t> seen_;
  };

  // The newest version of the key, and a deadline for it. While `clock_mu_` is
  // held the time stands still, so that this is the deadline that it gets.
  Stamp NewStamp(uint64_t key, absl::Duration ttl) {
    return {key, versions_[key].load(),
            clock_.NowNanos() + absl::ToInt64Nanoseconds(ttl)};
  }

  void Write(int writer) {
    std::mt19937_64 random(writer);
    Witness witness(clock_);
    for (uint64_t i = 0; i < operations_; ++i) {
      const uint64_t key = random() % (kKeys / kWriters) * kWriters + writer;
      const auto ttl = absl::Milliseconds(1 + random() % 50);
      switch (random() % 8) {
        case 0:
          cache_->Del(key);
          break;
        case 1:  // Never to a later deadline than the value tells.
          cache_->Touch(key, absl::Nanoseconds(random() % 2));
          break;
        case 2:
          if (random() % 200 == 0) cache_->Clear();
          break;
        default: {
          ++versions_[key];
          std::shared_lock<std::shared_mutex> lock(clock_mu_);
          cache_->Set(key, Make::Make(NewStamp(key, ttl)), ttl);
        }
      }
      witness.Begin();
      cache_->Visit(key, [&](const auto& value) {
        witness.Saw(key, Make::Check(value));
      });
    }
  }

  void Read(int reader) {
    std::mt19937_64 random(100 + reader);
    Witness witness(clock_);
    std::vector<typename CacheType::Handle> handles(10);
    for (uint64_t i = 0; i < operations_; ++i) {
      const uint64_t key = random() % kKeys;
      witness.Begin();
      switch (random() % 8) {
        case 0:
        case 1:
          if (const auto value = cache_->Get(key)) {
            witness.Saw(key, Make::Check(*value));
          }
          break;
        case 2:
          if (const auto value = cache_->Peek(key)) {
            witness.Saw(key, Make::Check(*value));
          }
          break;
        case 3: {
          auto& handle = handles[random() % handles.size()];
          if (handle) {
            // It shows what it did when it was found.
            EXPECT_EQ(Make::Check(*handle).key, handle.key());
          }
          handle = cache_->Find(key);
          if (handle) witness.Saw(key, Make::Check(*handle));
          break;
        }
        case 4:
          Load(key, &witness);
          break;
        default:
          cache_->Visit(key, [&](const auto& value) {
            witness.Saw(key, Make::Check(value));
          });
      }
    }
    ++readers_done_;
  }

  void Load(uint64_t key, Witness* witness) {
    const auto ttl = absl::Milliseconds(20);
    std::shared_lock<std::shared_mutex> lock(clock_mu_, std::defer_lock);
    const absl::StatusOr<Value> value = cache_->GetOrLoad(key, ttl, [&] {
      lock.lock();
      return absl::StatusOr<Value>(Make::Make(NewStamp(key, ttl)));
    });
    witness->GotFromLoad(key, Make::Check(*value));
  }

  void LetTimePass() {
    std::mt19937_64 random(200);
    while (readers_done_ < kReaders) {
      {
        std::unique_lock<std::shared_mutex> lock(clock_mu_);
        clock_.Advance(absl::Microseconds(random() % 2000));
      }
      if (random() % 8 == 0) testing::RequireRound(cache_.get());
      if (random() % 4 == 0) cache_->RunMaintenance(random() % 100);
    }
  }

  SimulatedClock& clock_;
  const uint64_t operations_;
  const std::unique_ptr<CacheType> cache_;
  std::shared_mutex clock_mu_;
  std::atomic<uint64_t> versions_[kKeys] = {};
  std::atomic<int> readers_done_{0};
};

class CacheThreadsTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  template <typename Value, typename Make>
  void RunStorms() {
    options_.max_entries = kKeys * 2 / 3;
    options_.reaper = &reaper_;
    options_.reclaim_delay = absl::Milliseconds(5);
    for (const int shards : {1, 8}) {
      options_.shards = shards;
      Storm<Value, Make>(options_, &clock_, TestOperations() / 20).Run();
    }
  }

  Reaper reaper_{clock_};
};

TEST_P(CacheThreadsTest, ReadersSeeWholeCurrentAndLiveObjects) {
  RunStorms<HeapValue, HeapValue>();
}

TEST_P(CacheThreadsTest, ReadersSeeWholeCurrentAndLiveStrings) {
  RunStorms<std::string, StringValue>();
}

// Whoever has seen one key go in a Clear must not meet another one that the
// same Clear takes, in whatever shard.
TEST_P(CacheThreadsTest, ClearTakesAllKeysAtOneInstant) {
  constexpr int kRounds = 2000;  // With each policy.
  options_.shards = 32;
  auto cache = New<int, int>();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      for (int key = 0; key < 8; ++key) cache->Set(key, round);
      cache->Clear();
    }
    done = true;
  });
  std::mt19937 random(1);
  int seen[8] = {};
  int cleared = 0;  // The last round of which a key was seen to go.
  while (!done) {
    const int key = static_cast<int>(random() % 8);
    const int round = cache->Get(key).value_or(0);
    if (round == 0) {
      cleared = std::max(cleared, seen[key]);
    } else {
      EXPECT_GT(round, cleared);
      seen[key] = round;
    }
  }
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheThreadsTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
