// Tries to break the promise of near caches (cache/near/near_cache.h): two of
// them, as in two processes, one server or two that share the keys, a foreign
// writer, random faults, and something else at each step of each call; with
// what a near cache may do without a session. All on one thread and a simulated
// clock, so that a seed repeats a failure.
//
// The server executes one write after the other. Each state of a key has an
// index, from 0 on. What a read returns must be a state whose index is at least
// that of
//  - the latest write that was executed L before the read began, or earlier;
//  - the latest write, if the near cache has been told of all;
//  - each write of the near cache itself that has returned OK;
//  - what the same thread has read before.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

constexpr absl::Duration kBound = absl::Seconds(3);  // L
constexpr size_t kKeys = 16;
constexpr size_t kCaches = 2;
constexpr size_t kServers = 2;
constexpr int kDeepest = 2;

using Value = std::optional<int64_t>;

// The states of a key, in the order of execution.
struct State {
  absl::Duration time;
  Value value;
};

size_t IndexOf(absl::string_view key) {
  return static_cast<size_t>(std::stoi(std::string(key)));
}

// Makes one store of some, each of which has its share of the keys, and sees
// the calls of the listener on their way.
class SplitStore final : public RemoteStore {
 public:
  SplitStore(std::vector<FakeStore*> stores, bool tells_of_new_keys)
      : tells_of_new_keys_(tells_of_new_keys) {
    for (FakeStore* store : stores) {
      parts_.push_back(std::make_unique<Part>(this, store, parts_.size()));
    }
  }

  Clock& clock() const override { return parts_[0]->store->clock(); }
  size_t max_sessions() const override { return parts_.size(); }
  bool tells_of_new_keys() const override { return tells_of_new_keys_; }
  std::vector<absl::StatusOr<Fetched>> Fetch(
      absl::Span<const absl::string_view> keys,
      absl::Duration timeout) override {
    std::vector<absl::StatusOr<Fetched>> results;
    for (const absl::string_view key : keys) {
      Part& part = PartOf(key);
      results.push_back(part.store->Fetch({key}, timeout)[0]);
      if (results.back().ok() && results.back()->session != 0) {
        results.back()->session = part.NumberOf(results.back()->session);
      }
    }
    return results;
  }
  absl::Status Put(const Write& write, absl::Duration timeout) override {
    return PartOf(write.key).store->Put(write, timeout);
  }
  absl::StatusOr<bool> Remove(absl::string_view key,
                              absl::Duration timeout) override {
    return PartOf(key).store->Remove(key, timeout);
  }
  absl::Status Attach(absl::string_view prefix, absl::Duration max_staleness,
                      Listener* listener) override {
    listener_ = listener;
    absl::Status status;
    for (const auto& part : parts_) {
      status.Update(part->store->Attach(prefix, max_staleness, part.get()));
    }
    return status;
  }
  void Detach(Listener*) override {
    for (const auto& part : parts_) part->store->Detach(part.get());
  }

  // Are called after the listener.
  std::function<void(absl::string_view key)> on_told;
  std::function<void(size_t part)> on_loss;

 private:
  struct Part final : Listener {
    Part(SplitStore* o, FakeStore* s, size_t n)
        : owner(*o), store(s), number(n) {}

    uint64_t NumberOf(uint64_t session) const {
      return session * owner.parts_.size() + number;
    }

    void OnInvalidate(absl::Span<const absl::string_view> keys) override {
      owner.listener_->OnInvalidate(keys);
      for (const absl::string_view key : keys) owner.on_told(key);
    }
    void OnInvalidateAll() override { owner.listener_->OnInvalidateAll(); }
    void OnLease(uint64_t session, int64_t until_nanos) override {
      owner.listener_->OnLease(NumberOf(session), until_nanos);
    }
    void OnLoss(uint64_t session, const absl::Status& why) override {
      owner.listener_->OnLoss(session == 0 ? 0 : NumberOf(session), why);
      owner.on_loss(number);
    }

    SplitStore& owner;
    FakeStore* const store;
    const size_t number;
  };

  Part& PartOf(absl::string_view key) {
    return *parts_[IndexOf(key) % parts_.size()];
  }

  const bool tells_of_new_keys_;
  std::vector<std::unique_ptr<Part>> parts_;
  Listener* listener_ = nullptr;
};

class Checker {
 public:
  explicit Checker(uint64_t seed)
      : random_(seed),
        fault_percent_(std::array<uint64_t, 3>{3, 30, 100}[seed % 3]),
        servers_in_use_(1 + seed / 3 % 2),
        tells_of_new_keys_(seed / 6 % 2 == 0) {
    for (size_t k = 0; k < kKeys; ++k) {
      keys_[k] = std::to_string(k);
      states_[k] = {{clock_.Now(), {}}};
    }
    for (size_t c = 0; c < kCaches; ++c) {
      Cache& cache = caches_[c];
      std::vector<FakeStore*> parts;
      for (size_t i = 0; i < servers_in_use_; ++i) {
        cache.stores[i] = std::make_unique<FakeStore>(&servers_[i]);
        cache.stores[i]->set_interposer(
            [this](FakeStore::Step step, const FakeStore::Request& request) {
              return Interpose(step, request);
            });
        parts.push_back(cache.stores[i].get());
      }
      cache.split = std::make_unique<SplitStore>(parts, tells_of_new_keys_);
      cache.split->on_told = [this, &cache](absl::string_view key) {
        Told(&cache, IndexOf(key));
      };
      cache.split->on_loss = [this, &cache](size_t part) {
        for (size_t k = part; k < kKeys; k += servers_in_use_) {
          cache.at_loss[k] = states_[k].size() - 1;
          cache.messages[k] = 0;
        }
      };
      NearCacheOptions options;
      options.local.clock = &clock_;
      options.local.reaper = nullptr;
      options.local.max_entries = 12;  // Of 16 keys: some are evicted.
      options.max_staleness = kBound;
      options.negative_ttl = absl::Seconds(20);
      if (seed / 12 % 2 == 1) {
        options.without_tracking = WithoutTracking::kServeForMaxStaleness;
      }
      cache.near = *NearCache<int64_t>::Create(options, cache.split.get());
    }
    current_ = this;
    internal::SetInterleaving(+[](const char* point) {
      if (absl::string_view(point).substr(0, 5) == "near:") {
        current_->Interrupt();
      }
    });
  }
  ~Checker() { internal::SetInterleaving(nullptr); }

  // Does an operation, or lets something happen; returns the first violation.
  const std::string& Step() {
    Act(Uniform(100) < 60 ? Kind::kOperation : Kind::kEvent);
    return violation_;
  }

  int64_t checked_reads() const { return checked_reads_; }
  int64_t local_hits() const {
    return caches_[0].near->stats().local_hits +
           caches_[1].near->stats().local_hits;
  }

 private:
  enum class Kind { kOperation, kEvent };

  struct Cache {
    std::array<std::unique_ptr<FakeStore>, kServers> stores;
    std::unique_ptr<SplitStore> split;
    std::unique_ptr<NearCache<int64_t>> near;
    // By key: the index that it had at the latest loss of the session, how many
    // messages of it have come since then, and the index up to which this cache
    // has been told, has written, and has shown to its thread.
    std::array<size_t, kKeys> at_loss = {};
    std::array<size_t, kKeys> messages = {};
    std::array<size_t, kKeys> told = {};
    std::array<size_t, kKeys> written = {};
    std::array<size_t, kKeys> seen = {};
  };

  // Each message is for one new state of the key, or for several.
  void Told(Cache* cache, size_t k) {
    const size_t index = std::min(cache->at_loss[k] + ++cache->messages[k],
                                  states_[k].size() - 1);
    cache->told[k] = std::max(cache->told[k], index);
  }

  uint64_t Uniform(uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_);
  }
  absl::Duration UpTo(absl::Duration most) {
    return most * (static_cast<double>(Uniform(1001)) / 1000);
  }
  FakeServer& ServerOf(size_t k) { return servers_[k % servers_in_use_]; }

  // Records what the server has executed, expiry included. Called before and
  // after each write, so that no two turns are between two calls.
  void Observe() {
    for (size_t k = 0; k < kKeys; ++k) {
      if (!written_[k] && !expires_[k]) continue;
      written_[k] = false;
      const auto bytes = ServerOf(k).Get(keys_[k]);
      Value value;
      if (bytes.has_value()) value = std::stoll(*bytes);
      if (value == states_[k].back().value) continue;
      states_[k].push_back({clock_.Now(), value});
      if (!value.has_value()) expires_[k] = false;
    }
  }

  void Act(Kind kind) {
    if (depth_ > kDeepest) return;
    ++depth_;
    if (kind == Kind::kOperation) {
      Operate(Uniform(kCaches), Uniform(kKeys));
    } else {
      Happen();
    }
    Observe();
    --depth_;
  }

  absl::Status Interpose(FakeStore::Step step,
                         const FakeStore::Request& request) {
    if (step == FakeStore::Step::kExecuted) Observe();
    Interrupt();
    Observe();
    // Executed, it will be.
    if (request.command != FakeStore::Request::Command::kFetch) {
      written_[IndexOf(request.keys[0])] = true;
    }
    if (Uniform(50) == 0) return absl::DeadlineExceededError("no answer");
    if (Uniform(50) == 0) return absl::UnavailableError("no connection");
    return absl::OkStatus();
  }

  // At a step of a call.
  void Interrupt() {
    if (Uniform(8) != 0) return;
    Act(Uniform(3) == 0 ? Kind::kOperation : Kind::kEvent);
  }

  void Operate(size_t c, size_t k) {
    NearCache<int64_t>& near = *caches_[c].near;
    const uint64_t what = Uniform(20);
    if (what < 12) {
      Read(c, k);
    } else if (what < 14) {
      Claim claim = ClaimOf(c, k);
      claim.least = states_[k].size() - 1;
      Check(c, k, claim, near.GetFresh(keys_[k]));
    } else if (what < 16) {
      GetMany(c);
    } else {
      WriteThrough(c, k, what == 19);
    }
  }

  void GetMany(size_t c) {
    std::vector<size_t> wanted;
    std::vector<std::string> keys;
    std::vector<Claim> claims;
    for (uint64_t n = 1 + Uniform(4); n > 0; --n) {
      wanted.push_back(Uniform(kKeys));
      keys.push_back(keys_[wanted.back()]);
      claims.push_back(ClaimOf(c, wanted.back()));
    }
    const std::vector<absl::string_view> views(keys.begin(), keys.end());
    const auto results = caches_[c].near->GetMany(views);
    for (size_t i = 0; i < wanted.size(); ++i) {
      Check(c, wanted[i], claims[i], results[i]);
    }
  }

  void WriteThrough(size_t c, size_t k, bool deletes) {
    Cache& cache = caches_[c];
    const int64_t version = ++latest_version_;
    const bool ok = deletes ? cache.near->Del(keys_[k]).ok()
                            : cache.near->Set(keys_[k], version).ok();
    Observe();
    if (!ok) return;
    // The latest state that is this write's; a Del may have found nothing.
    if (deletes) return;
    for (size_t i = states_[k].size(); i-- > 0;) {
      if (states_[k][i].value != version) continue;
      cache.written[k] = std::max(cache.written[k], i);
      return;
    }
    Violate(absl::StrCat("Set of key ", k, " was OK and did not happen"));
  }

  // What a read that begins now has to return at least.
  struct Claim {
    size_t least;
    bool on_own_thread;  // Not within another call.
  };
  Claim ClaimOf(size_t c, size_t k) {
    Observe();
    const Cache& cache = caches_[c];
    Claim claim{0, depth_ == 1};
    for (size_t i = 0; i < states_[k].size(); ++i) {
      if (states_[k][i].time <= clock_.Now() - kBound) claim.least = i;
    }
    claim.least = std::max({claim.least, cache.told[k], cache.written[k],
                            claim.on_own_thread ? cache.seen[k] : size_t{0}});
    return claim;
  }

  void Check(size_t c, size_t k, const Claim& claim,
             const absl::StatusOr<Value>& result) {
    Observe();
    if (!result.ok()) return;
    ++checked_reads_;
    for (size_t i = claim.least; i < states_[k].size(); ++i) {
      if (states_[k][i].value != *result) continue;
      if (claim.on_own_thread) {
        caches_[c].seen[k] = std::max(caches_[c].seen[k], i);
      }
      return;
    }
    Violate(absl::StrCat("cache ", c, ", key ", k, ": state ", claim.least,
                         " or later was due, which is ",
                         Text(states_[k][claim.least].value), "; read was ",
                         Text(*result)));
  }

  static std::string Text(const Value& value) {
    return value.has_value() ? absl::StrCat(*value) : "nothing";
  }
  void Violate(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }

  void Happen() {
    Observe();
    const size_t s = Uniform(servers_in_use_);
    FakeStore& store = *caches_[Uniform(kCaches)].stores[s];
    const uint64_t what = Uniform(20);
    if (what < 6) {
      ForeignWrite(Uniform(kKeys));
    } else if (what < 10) {
      Advance(UpTo(kBound / 6));
    } else if (what < 12) {
      Repair(&store, s);
    } else if (Uniform(100) < fault_percent_) {
      Disturb(&store, s);
    } else if (depth_ == 1 && Uniform(4) == 0) {
      PongOvertakesMessages(Uniform(kCaches));
    }
  }

  // A PONG comes out of the turn of a write, and the message only after the
  // bound: by then the lease must be over.
  void PongOvertakesMessages(size_t c) {
    const std::array<size_t, 3> some = {Uniform(kKeys), Uniform(kKeys),
                                        Uniform(kKeys)};
    for (const size_t k : some) Read(c, k);
    for (size_t s = 0; s < servers_in_use_; ++s) {
      caches_[c].stores[s]->HoldMessages();
      if (!std::exchange(in_turn_[s], true)) servers_[s].BeginTurn();
    }
    for (const size_t k : some) ForeignWrite(k);
    const absl::Duration gap = UpTo(kBound / 2);
    Advance(gap);
    for (size_t s = 0; s < servers_in_use_; ++s) {
      in_turn_[s] = false;
      servers_[s].EndTurn();
      caches_[c].stores[s]->ReleaseMessages(1);
    }
    Advance(kBound - gap + UpTo(gap));
    for (const size_t k : some) Read(c, k);
  }

  void Advance(absl::Duration time) {
    clock_.Advance(time);
    for (size_t s = 0; s < servers_in_use_; ++s) servers_[s].RunDue();
  }

  void Read(size_t c, size_t k) {
    const Claim claim = ClaimOf(c, k);
    Check(c, k, claim, caches_[c].near->Get(keys_[k]));
  }

  void Repair(FakeStore* store, size_t s) {
    store->ReleaseMessages();
    store->set_message_delay(absl::ZeroDuration());
    store->set_reachable(true);
    servers_[s].Continue();
    written_.fill(true);
    if (std::exchange(in_turn_[s], false)) servers_[s].EndTurn();
  }

  void Disturb(FakeStore* store, size_t s) {
    switch (Uniform(12)) {
      case 0:
      case 1:
        store->HoldMessages();
        break;
      case 2:
      case 3:
      case 4:
        store->ReleaseMessages(1 + static_cast<int>(Uniform(2)));
        break;
      case 5:
        store->set_message_delay(UpTo(kBound));
        break;
      case 6:
      case 7:
        if (!std::exchange(in_turn_[s], true)) servers_[s].BeginTurn();
        break;
      case 8:
      case 9:
        if (std::exchange(in_turn_[s], false)) servers_[s].EndTurn();
        break;
      case 10:
        Advance(UpTo(kBound * 1.5));  // The process is stopped.
        break;
      default:
        RareFault(store, s);
        break;
    }
  }

  void RareFault(FakeStore* store, size_t s) {
    switch (Uniform(6)) {
      case 0:
        store->LoseMessages();
        break;
      case 1:
        store->Disconnect();
        break;
      case 2:
        store->set_reachable(false);
        break;
      case 3:
        servers_[s].Stop();
        break;
      case 4:
        servers_[s].Restart();
        break;
      default:
        servers_[s].FlushAll();
        break;
    }
    written_.fill(true);
  }

  void ForeignWrite(size_t k) {
    if (Uniform(5) == 0) {
      ServerOf(k).Del(keys_[k]);
    } else {
      const absl::Duration ttl = Uniform(3) == 0
                                     ? UpTo(kBound * 2) + absl::Milliseconds(1)
                                     : absl::InfiniteDuration();
      expires_[k] = ttl != absl::InfiniteDuration();
      ServerOf(k).Set(keys_[k], absl::StrCat(++latest_version_), ttl);
    }
    written_[k] = true;
    Observe();
  }

  static inline Checker* current_ = nullptr;

  std::mt19937_64 random_;
  const uint64_t fault_percent_;
  const size_t servers_in_use_;
  const bool tells_of_new_keys_;
  std::array<std::string, kKeys> keys_;
  SimulatedClock clock_;
  std::array<FakeServer, kServers> servers_ = {FakeServer(&clock_),
                                               FakeServer(&clock_)};
  std::array<std::vector<State>, kKeys> states_;
  // What Observe looks at: what may have been written, or may expire.
  std::array<bool, kKeys> written_ = {};
  std::array<bool, kKeys> expires_ = {};
  std::array<Cache, kCaches> caches_;
  int64_t latest_version_ = 0;
  std::array<bool, kServers> in_turn_ = {};
  int depth_ = 0;
  int64_t checked_reads_ = 0;
  std::string violation_;
};

// Promise: A near cache is never staler than its bound
TEST(NearPromiseTest, NoReadIsOlderThanPromised) {
  const uint64_t operations = TestOperations() / 4;
  uint64_t done = 0;
  int64_t reads = 0;
  int64_t hits = 0;
  for (uint64_t seed = TestSeed(); done < operations; ++seed) {
    Checker checker(seed);
    for (int i = 0; i < 2'000 && done < operations; ++i, ++done) {
      ASSERT_EQ(checker.Step(), "")
          << "WHEELCACHE_TEST_SEED=" << seed << " repeats it, at step " << i;
    }
    reads += checker.checked_reads();
    hits += checker.local_hits();
  }
  // The schedule is no good if the caches hardly ever serve.
  EXPECT_GT(reads, static_cast<int64_t>(operations / 4));
  EXPECT_GT(hits, static_cast<int64_t>(operations / 20));
}

}  // namespace
}  // namespace wheelcache
