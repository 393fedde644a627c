// Makes the same calls to a cache and to its oracle, and compares all that can
// be seen of them after each.
//
// Setup and calls are plain data: read from a tape, which a random test or a
// fuzzer writes; shrunk when they fail; and printed as the test that repeats
// the failure:
//
//   EXPECT_EQ(Disagreement({3, 200, 1, 1000000, 0, 64, false},
//                          {{CacheCall::kSet, 5, 17, 1000000},
//                           {CacheCall::kGet, 5, 0, 0}}),
//             "");

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_DRIVER_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_DRIVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/load_oracle.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {

// The keys are 0 to kKeys - 1, the weights of values below kWeights.
inline constexpr int kKeys = 24;
inline constexpr int kWeights = 64;

struct CacheSetup {
  int64_t max_entries;
  int64_t max_bytes;
  int shards;
  int64_t tick_nanos;
  int64_t coarse_lag_nanos;
  int64_t maintenance_budget;
  bool has_reaper;
  int64_t start_nanos = 0;  // What the clock reads at first.

  // Who refreshes values that are stale: nobody, their readers, or tasks that
  // the driver runs later.
  enum Refreshes { kNone, kByReaders, kByTasks };
  int refreshes = kNone;

  // With small steps, several shards, or a reaper to leave it to, a Set may
  // leave expired entries for later; then the driver has them reclaimed before
  // it goes on.
  bool reclaims_at_once() const {
    return shards == 1 && maintenance_budget >= 1000 && !has_reaper;
  }
};

struct CacheCall {
  enum Kind {
    kSet,
    kGet,
    kFind,
    kVisit,
    kPeek,
    kTouch,
    kDel,
    kClear,
    kLoad,
    kLoadError,
    kPin,
    kAdvance,
    kAdvanceToDeadline,  // The next one, give or take nanos.
    kMaintain,
    kSetDefault,   // With the TTL of the options.
    kLoadDefault,  // The same.
    kMaintainInSteps,
    kStop,  // Its background work, for good.
    kSetIf,
    kSetIfKeep,  // Without a TTL.
    kDelIf,
    kTake,
    kUpdate,        // To a new value,
    kUpdateKeep,    // without a TTL;
    kUpdateNot,     // to leave things as they are;
    kUpdateDelete,  // to delete.
    kForEach,       // Up to the value that comes at `weight`.
    kEraseIf,       // Of each third value.
    kSetLimits,     // `key` entries, and `nanos` bytes; 0 is no limit.
    kMove,          // Begins to move entries; maintenance moves the others.

    // With `max_age`. The first three with a TTL of their own or of the loader.
    kFindOrLoad,
    kFindOrLoadMany,
    kFindOrLoadOvertaken,  // By a Del, while its loader runs.
    kFindOrLoadError,      // Remembered for `nanos`, as those of kBegin.
    kFindOrLoadCancelled,  // That is not.
    kBegin,                // Gets a ticket, if it has to load.
    kFinish,               // A ticket, with a value.
    kFinishError,          // With an error.
    kDropTicket,           // Cancels its load.
    kRefresh,
    kRunTask,  // The oldest refresh that is queued.
    kDropTask,
  };
  static constexpr const char* kNames[] = {"kSet",
                                           "kGet",
                                           "kFind",
                                           "kVisit",
                                           "kPeek",
                                           "kTouch",
                                           "kDel",
                                           "kClear",
                                           "kLoad",
                                           "kLoadError",
                                           "kPin",
                                           "kAdvance",
                                           "kAdvanceToDeadline",
                                           "kMaintain",
                                           "kSetDefault",
                                           "kLoadDefault",
                                           "kMaintainInSteps",
                                           "kStop",
                                           "kSetIf",
                                           "kSetIfKeep",
                                           "kDelIf",
                                           "kTake",
                                           "kUpdate",
                                           "kUpdateKeep",
                                           "kUpdateNot",
                                           "kUpdateDelete",
                                           "kForEach",
                                           "kEraseIf",
                                           "kSetLimits",
                                           "kMove",
                                           "kFindOrLoad",
                                           "kFindOrLoadMany",
                                           "kFindOrLoadOvertaken",
                                           "kFindOrLoadError",
                                           "kFindOrLoadCancelled",
                                           "kBegin",
                                           "kFinish",
                                           "kFinishError",
                                           "kDropTicket",
                                           "kRefresh",
                                           "kRunTask",
                                           "kDropTask"};

  Kind kind;
  int key;
  int weight;
  int64_t nanos;  // A TTL, or how far to advance.
  int64_t max_age = std::numeric_limits<int64_t>::max();
};

inline std::ostream& operator<<(std::ostream& out, const CacheSetup& s) {
  return out << "{" << s.max_entries << ", " << s.max_bytes << ", " << s.shards
             << ", " << s.tick_nanos << ", " << s.coarse_lag_nanos << ", "
             << s.maintenance_budget << ", "
             << (s.has_reaper ? "true" : "false") << ", " << s.start_nanos
             << ", " << s.refreshes << "}";
}

inline std::ostream& operator<<(std::ostream& out, const CacheCall& call) {
  return out << "{CacheCall::" << CacheCall::kNames[call.kind] << ", "
             << call.key << ", " << call.weight << ", " << call.nanos << ", "
             << call.max_age << "}";
}

class CacheDriver {
 public:
  explicit CacheDriver(const CacheSetup& setup)
      : setup_(setup),
        clock_(absl::Nanoseconds(setup.start_nanos),
               absl::Nanoseconds(setup.coarse_lag_nanos)),
        oracle_(setup.max_entries, setup.max_bytes, setup.tick_nanos),
        cache_(NewCache()),
        is_served_(setup.has_reaper) {
    oracle_.now = setup.start_nanos;
  }

  // Makes a call. Returns the first difference, or nothing if all is well.
  std::string Make(const CacheCall& call) {
    difference_.clear();
    left_.clear();
    oracle_.left.clear();
    oracle_.told_victims.reset();
    told_.clear();
    told_by_oracle_.clear();
    reloads_ = 0;
    reloads_by_oracle_ = 0;
    call_ = call;
    ++calls_;
    MakeCall();
    CompareLeft();
    Compare("told", absl::StrJoin(told_, ", "),
            absl::StrJoin(told_by_oracle_, ", "));
    Compare("reloads", reloads_, reloads_by_oracle_);
    Compare("tasks", tasks_.size(), tasks_of_oracle_.size());
    CompareState();
    return difference_;
  }

 private:
  // Values are unique, and tell their weight.
  using Value = int64_t;
  using CacheType = Cache<int, Value>;
  using Handle = CacheType::Handle;

  static constexpr int kPinned = 8;
  struct PinnedValue {
    Handle handle;
    Value value = -1;
    int64_t id = 0;  // To the oracle.
  };

  std::unique_ptr<CacheType> NewCache() {
    CacheOptions options;
    options.max_entries = setup_.max_entries;
    options.max_bytes = setup_.max_bytes;
    options.shards = setup_.shards;
    options.jitter = 0;
    options.tick = absl::Nanoseconds(setup_.tick_nanos);
    options.default_ttl = absl::Nanoseconds(DefaultTtlNanos());
    options.maintenance_budget = setup_.maintenance_budget;
    options.clock = &clock_;
    options.reaper = setup_.has_reaper ? &reaper_ : nullptr;
    options.reclaim_delay = kReclaimDelay;
    CacheType::Hooks hooks;
    hooks.weigher = [](int, Value value) {
      return static_cast<uint64_t>(value % kWeights);
    };
    hooks.on_removal = [this](int key, Value value, RemovalCause cause) {
      left_.push_back({key, value, cause});
    };
    if (setup_.refreshes != CacheSetup::kNone) {
      options.refresh_after = absl::Nanoseconds(RefreshAfterNanos());
      options.refresh_at = kRefreshAt;
      options.retry_after = absl::Nanoseconds(RetryAfterNanos());
      options.max_refreshes = kMostRefreshes;
      hooks.reload = [this](int key, Value old) { return Reload(key, old); };
    }
    if (setup_.refreshes == CacheSetup::kByTasks) {
      hooks.executor = [this](std::function<void()> task) {
        tasks_.push_back(std::move(task));
      };
    }
    return std::move(*CacheType::Create(options, std::move(hooks)));
  }

  Value NewValue() const { return calls_ * kWeights + call_.weight; }
  int64_t Charge() const {
    return static_cast<int64_t>(kEntryOverhead) + call_.weight;
  }
  int64_t DefaultTtlNanos() const { return setup_.tick_nanos * 5; }
  int64_t TtlNanos() const {
    return UsesDefaultTtl() ? DefaultTtlNanos() : call_.nanos;
  }
  absl::Duration Ttl() const {
    return call_.nanos == CacheOracle::kNever ? absl::InfiniteDuration()
                                              : absl::Nanoseconds(call_.nanos);
  }
  bool UsesDefaultTtl() const {
    return call_.kind == CacheCall::kSetDefault ||
           call_.kind == CacheCall::kLoadDefault;
  }

  void MakeCall() {
    const int key = call_.key;
    switch (call_.kind) {
      case CacheCall::kSet: {
        const bool stored = cache_->Set(key, NewValue(), Ttl());
        Compare("stored", stored, SetInOracle(key, TtlNanos()));
        break;
      }
      case CacheCall::kSetDefault: {
        const bool stored = cache_->Set(key, NewValue());
        Compare("stored", stored, SetInOracle(key, TtlNanos()));
        break;
      }
      case CacheCall::kGet:
        Compare("value", cache_->Get(key), ReadInOracle());
        break;
      case CacheCall::kFind: {
        const auto handle = cache_->Find(key);
        Compare("value", handle ? std::optional(*handle) : std::nullopt,
                ReadInOracle());
        if (handle && oracle_.Live(key)) CompareHandle(handle);
        break;
      }
      case CacheCall::kVisit: {
        std::optional<Value> seen;
        cache_->Visit(key, [&](const Value& value) { seen = value; });
        Compare("value", seen, ReadInOracle());
        break;
      }
      case CacheCall::kPeek:
        break;  // The comparison of the state peeks at every key.
      case CacheCall::kTouch: {
        const bool live = cache_->Touch(key, Ttl());
        Compare("live", live, oracle_.Touch(key, call_.nanos));
        if (call_.nanos <= 0) loads_.Supersede(key);
        break;
      }
      case CacheCall::kDel:
        Compare("live", cache_->Del(key), oracle_.Del(key));
        loads_.Supersede(key);
        break;
      case CacheCall::kClear:
        cache_->Clear();
        oracle_.Clear();
        loads_.SupersedeAll();
        break;
      case CacheCall::kLoad:
      case CacheCall::kLoadDefault:
      case CacheCall::kLoadError:
        Load();
        break;
      case CacheCall::kPin:
        Pin();
        break;
      case CacheCall::kAdvance:
        Advance(call_.nanos);
        break;
      case CacheCall::kAdvanceToDeadline:
        AdvanceToDeadline();
        break;
      case CacheCall::kMaintain:
        cache_->RunMaintenance();
        oracle_.Reclaim();
        break;
      case CacheCall::kMaintainInSteps:
        MaintainInSteps();
        break;
      case CacheCall::kStop:
        cache_->Stop();
        is_served_ = false;
        is_stopped_ = true;
        break;
      case CacheCall::kFindOrLoad:
      case CacheCall::kFindOrLoadOvertaken:
      case CacheCall::kFindOrLoadError:
      case CacheCall::kFindOrLoadCancelled:
        FindOrLoad();
        break;
      case CacheCall::kFindOrLoadMany:
        FindOrLoadMany();
        break;
      case CacheCall::kBegin:
        Begin();
        break;
      case CacheCall::kFinish:
      case CacheCall::kFinishError:
        Finish();
        break;
      case CacheCall::kDropTicket:
        DropTicket();
        break;
      case CacheCall::kRefresh:
        Refresh();
        break;
      case CacheCall::kRunTask:
      case CacheCall::kDropTask:
        RunOrDropTask();
        break;
      case CacheCall::kSetIf:
      case CacheCall::kSetIfKeep:
        SetIf();
        break;
      case CacheCall::kDelIf: {
        const Expected expected = Expect();
        const bool deleted = cache_->DelIf(expected.key, *expected.handle);
        Compare("deleted", deleted, DelIfInOracle(expected.key, expected.id));
        break;
      }
      case CacheCall::kTake: {
        const Handle taken = cache_->Take(key);
        Compare("taken", taken ? std::optional(*taken) : std::nullopt,
                oracle_.Take(key));
        loads_.Supersede(key);
        ++(taken ? hits_ : misses_);
        break;
      }
      case CacheCall::kUpdate:
      case CacheCall::kUpdateKeep:
      case CacheCall::kUpdateNot:
      case CacheCall::kUpdateDelete:
        Update();
        break;
      case CacheCall::kForEach:
        ForEach();
        break;
      case CacheCall::kEraseIf:
        EraseIf();
        break;
      case CacheCall::kSetLimits:
        SetLimits();
        break;
      case CacheCall::kMove:
        Move();
        break;
    }
  }

  // What a conditional call is given: a handle, and what it pins.
  struct Expected {
    int key;
    const Handle* handle;
    int64_t id;
  };

  // What the key has now, or nothing, or an older value of it or of another.
  Expected Expect() {
    const int kind = call_.weight % 4;
    if (kind == 0) return {call_.key, &none_, 0};
    PinnedValue& pinned = pinned_[call_.key % kPinned];
    if (kind == 1) PinIn(&pinned);
    const bool own = kind == 2 && pinned.handle;
    return {own ? pinned.handle.key() : call_.key, &pinned.handle, pinned.id};
  }

  void SetIf() {
    const Expected expected = Expect();
    const bool keep = call_.kind == CacheCall::kSetIfKeep;
    const Put put =
        keep ? cache_->SetIf(expected.key, *expected.handle, NewValue())
             : cache_->SetIf(expected.key, *expected.handle, NewValue(), Ttl());
    Compare(
        "put", static_cast<int64_t>(put),
        static_cast<int64_t>(SetIfInOracle(expected.key, expected.id, keep)));
  }

  Put SetIfInOracle(int key, int64_t expected, bool keep) {
    const int64_t ttl = keep ? DefaultTtlNanos() : call_.nanos;
    const CacheOracle::New entry = {NewValue(), Charge(), ttl,
                                    keep && expected != 0};
    TellVictims();
    const Put put = oracle_.SetIf(key, expected, entry);
    sets_ += put == Put::kStored;
    // Where a value that is not there is refused, nothing has changed.
    if (put == Put::kStored || (put == Put::kRefused && expected != 0)) {
      loads_.Supersede(key);
    }
    return put;
  }

  bool DelIfInOracle(int key, int64_t expected) {
    const bool deleted = oracle_.DelIf(key, expected);
    if (deleted) loads_.Supersede(key);
    return deleted;
  }

  void Update() {
    using Decision = CacheType::Decision;
    int calls = 0;
    std::optional<Value> seen;
    const bool changed = cache_->Update(call_.key, [&](const Handle& old) {
      ++calls;
      if (old) seen = *old;
      switch (call_.kind) {
        case CacheCall::kUpdateNot:
          return Decision::Keep();
        case CacheCall::kUpdateDelete:
          return Decision::Delete();
        case CacheCall::kUpdateKeep:
          return Decision::Set(NewValue());
        default:
          return Decision::Set(NewValue(), Ttl());
      }
    });
    Compare("calls", calls, 1);
    Compare("seen", seen, ReadInOracle());
    Compare("changed", changed, UpdateInOracle());
  }

  bool UpdateInOracle() {
    const int64_t id = oracle_.Id(call_.key);
    switch (call_.kind) {
      case CacheCall::kUpdateNot:
        return false;
      case CacheCall::kUpdateDelete:
        return DelIfInOracle(call_.key, id);
      default:
        return SetIfInOracle(call_.key, id,
                             call_.kind == CacheCall::kUpdateKeep) ==
               Put::kStored;
    }
  }

  void ForEach() {
    const size_t most = 1 + static_cast<size_t>(call_.weight);
    std::vector<std::pair<int, Value>> shown;
    const bool all = cache_->ForEach([&](const CacheType::Handle& handle) {
      shown.emplace_back(handle.key(), *handle);
      return shown.size() < most;
    });
    const auto live = oracle_.AllLive();
    Compare("shown", shown.size(), std::min(most, live.size()));
    Compare("all", all, live.size() < most);
    std::sort(shown.begin(), shown.end());
    Compare("each once",
            std::adjacent_find(shown.begin(), shown.end()) == shown.end(),
            true);
    Compare("live",
            std::includes(live.begin(), live.end(), shown.begin(), shown.end()),
            true);
  }

  void EraseIf() {
    const auto leaves = [this](Value value) {
      return value / kWeights % 3 == call_.weight % 3;
    };
    const int64_t erased = cache_->EraseIf(
        [&](const CacheType::Handle& handle) { return leaves(*handle); });
    Compare("erased", erased, oracle_.EraseIf(leaves));
    loads_.SupersedeAll();
  }

  void SetLimits() {
    const auto limit = [](int64_t number) {
      return number == 0 ? kUnlimited : number;
    };
    const absl::Status status =
        cache_->SetLimits(limit(call_.key), limit(call_.nanos));
    Compare("ok", status.ok(), true);
    TellVictims();
    oracle_.SetLimits(limit(call_.key), limit(call_.nanos));
    Compare("limit of entries", cache_->limits().entries,
            oracle_.max_entries());
    Compare("limit of bytes", cache_->limits().bytes, oracle_.max_bytes());
  }

  // Goes only so far that other calls come between condemning and moving.
  void Move() {
    cache_->RunMaintenance();  // So that nothing else is due.
    oracle_.Reclaim();
    testing::RequireRound(cache_.get());
    cache_->RunMaintenance(1 + call_.weight % 16);
  }

  void MaintainInSteps() {
    const int64_t budget = 1 + call_.weight;
    int64_t done = budget;
    while (done == budget) {
      done = cache_->RunMaintenance(budget);
      Compare("within the budget", done <= budget, true);
    }
    oracle_.Reclaim();
  }

  // Where the choice of victims is the cache's. Once in a call.
  void TellVictims() {
    if (setup_.shards == 1 || oracle_.told_victims.has_value()) return;
    oracle_.told_victims.emplace();
    for (const CacheOracle::Left& left : left_) {
      if (left.cause == RemovalCause::kEvicted) {
        oracle_.told_victims->push_back(left.key);
      }
    }
  }

  bool SetInOracle(int key, int64_t ttl) {
    TellVictims();
    loads_.Supersede(key);
    const bool stored = oracle_.Set(key, NewValue(), Charge(), ttl);
    sets_ += stored;
    return stored;
  }

  std::optional<Value> ReadInOracle() { return ReadInOracle(call_.key); }
  std::optional<Value> ReadInOracle(int key) {
    const std::optional<Value> value = oracle_.Get(key);
    ++(value.has_value() ? hits_ : misses_);
    return value;
  }

  void Load() {
    using Found = LoadOracle::Found;
    const int key = call_.key;
    const bool hits = oracle_.Live(key);
    const Found found = loads_.Find(key, oracle_.now);
    if (!hits && found == Found::kLoad) return;  // It would wait for ever.
    int loads = 0;
    const auto loader = [&]() -> absl::StatusOr<Value> {
      ++loads;
      if (call_.kind == CacheCall::kLoadError) return Error();
      return NewValue();
    };
    const absl::StatusOr<Value> got =
        UsesDefaultTtl() ? cache_->GetOrLoad(key, loader)
                         : cache_->GetOrLoad(key, Ttl(), loader);
    const std::optional<Value> hit = ReadAndRefreshInOracle();
    const bool has_to_load = !hit && found == Found::kNothing;
    Compare("loads", loads, has_to_load ? 1 : 0);
    if (!hit && (!has_to_load || call_.kind == CacheCall::kLoadError)) {
      Compare("status", Text(got), Error().ToString());
    } else {
      Compare("value", got.value_or(-1), hit.value_or(NewValue()));
    }
    if (!has_to_load) return;
    const int load = loads_.Begin({key});
    EndInOracle(load, got.ok() ? Outcome::kValue : Outcome::kError, TtlNanos());
  }

  // Loads.

  enum class Outcome { kValue, kError, kCancelled };

  static absl::Status Error() { return absl::UnavailableError("not now"); }
  static absl::Status Cancelled() { return absl::CancelledError("no more"); }

  // A load ends, with what the present call gives. Returns whether the value is
  // stored: what is not leaves the old value, and what has expired.
  bool EndInOracle(int load, Outcome outcome, int64_t ttl) {
    const int key = loads_.loads.at(load).key;
    const bool stores = outcome == Outcome::kValue && loads_.IsCurrent(load) &&
                        ttl > 0 && Charge() <= oracle_.max_bytes();
    const int told = loads_.End(load, outcome == Outcome::kError, oracle_.now);
    const std::string result =
        outcome == Outcome::kValue   ? absl::StrCat(NewValue())
        : outcome == Outcome::kError ? Error().ToString()
                                     : GivenUp().ToString();
    told_by_oracle_.insert(told_by_oracle_.end(), told, result);
    if (stores) SetInOracle(key, ttl);
    return stores;
  }
  absl::Status GivenUp() const {
    return call_.kind == CacheCall::kFindOrLoadCancelled
               ? Cancelled()
               : absl::CancelledError("the load was given up");
  }

  LoadOptions Options() const {
    LoadOptions options;
    if (call_.max_age != CacheOracle::kNever) {
      options.max_age = absl::Nanoseconds(call_.max_age);
    }
    // Whatever else it may be waiting for, this thread would have to end.
    options.wait = absl::ZeroDuration();
    options.error_ttl = Ttl();
    if (call_.weight % 2 == 0) options.ttl = Ttl();
    return options;
  }
  Loaded<Value> NewLoaded() const {
    Loaded<Value> loaded{NewValue()};
    if (call_.weight % 2 != 0) loaded.ttl = Ttl();
    return loaded;
  }

  // In whole steps, modulo 2^32, of which the last part stands for a clock that
  // was turned back.
  static int64_t AgeAt(int64_t now, int64_t created) {
    constexpr int64_t kStep = 20'000'000;
    constexpr int64_t kSteps = int64_t{1} << 32;
    const auto step = [](int64_t nanos) {
      return nanos / kStep - (nanos % kStep < 0);
    };
    const int64_t steps =
        ((step(now) - step(created)) % kSteps + kSteps) % kSteps;
    return steps < kSteps / 32 * 31 ? steps * kStep : 0;
  }
  bool IsYoungInOracle(int key) {
    return oracle_.Live(key) &&
           AgeAt(oracle_.now, oracle_.entries[key].created) <= call_.max_age;
  }
  // Counts as a read.
  std::optional<Value> ReadYoungInOracle(int key) {
    if (IsYoungInOracle(key)) return ReadInOracle(key);
    ++misses_;
    return std::nullopt;
  }

  void FindOrLoad() {
    using Found = LoadOracle::Found;
    const int key = call_.key;
    const Outcome outcome =
        call_.kind == CacheCall::kFindOrLoadError       ? Outcome::kError
        : call_.kind == CacheCall::kFindOrLoadCancelled ? Outcome::kCancelled
                                                        : Outcome::kValue;
    const bool is_overtaken = call_.kind == CacheCall::kFindOrLoadOvertaken;
    int loads = 0;
    const auto loader = [&]() -> absl::StatusOr<Loaded<Value>> {
      ++loads;
      if (is_overtaken) cache_->Del(key);
      if (outcome == Outcome::kError) return Error();
      if (outcome == Outcome::kCancelled) return Cancelled();
      return NewLoaded();
    };
    const auto got = cache_->FindOrLoad(key, Options(), loader);
    const Found found = loads_.Find(key, oracle_.now);
    const std::optional<Value> hit = ReadAndRefreshInOracle();
    Compare("loads", loads, !hit && found == Found::kNothing ? 1 : 0);
    if (hit) {
      Compare("value", Text(got), absl::StrCat(*hit));
    } else if (found == Found::kFailure) {
      Compare("value", Text(got), Error().ToString());
    } else if (found == Found::kLoad) {
      Compare("status", absl::IsDeadlineExceeded(got.status()), true);
    } else {
      const int load = loads_.Begin({key, false, call_.nanos});
      if (is_overtaken) {
        oracle_.Del(key);
        loads_.Supersede(key);
      }
      const bool stored = EndInOracle(load, outcome, call_.nanos);
      Compare("value", Text(got), TextOf(outcome));
      if (stored) {
        CompareHandle(*got);
      } else if (got.ok()) {
        Compare("ends", got->TimeToLive() <= absl::ZeroDuration(), true);
      }
    }
  }
  std::string TextOf(Outcome outcome) const {
    return outcome == Outcome::kValue   ? absl::StrCat(NewValue())
           : outcome == Outcome::kError ? Error().ToString()
                                        : Cancelled().ToString();
  }

  // Some keys, the first of them perhaps once more.
  void FindOrLoadMany() {
    std::vector<int> keys;
    for (int i = 0; i <= call_.weight % 5; ++i) {
      keys.push_back((call_.key + i % 3) % kKeys);
    }
    std::vector<int> asked;
    const auto results = cache_->FindOrLoadMany(
        keys, Options(), [&](absl::Span<const size_t> missing) {
          std::vector<absl::StatusOr<Loaded<Value>>> loaded;
          for (const size_t i : missing) {
            asked.push_back(static_cast<int>(i));
            // Odd keys fail.
            if (keys[i] % 2 != 0) {
              loaded.emplace_back(Error());
            } else {
              loaded.emplace_back(NewLoaded());
            }
          }
          return loaded;
        });
    std::vector<std::string> expected(keys.size());
    std::vector<int> led;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto found = loads_.Find(keys[i], oracle_.now);
      if (const auto hit = ReadYoungInOracle(keys[i])) {
        expected[i] = absl::StrCat(*hit);
      } else if (found == LoadOracle::Found::kFailure) {
        expected[i] = Error().ToString();
      } else if (found == LoadOracle::Found::kNothing) {
        loads_.Begin({keys[i], false, call_.nanos});
        led.push_back(static_cast<int>(i));
      } else {
        // That of this batch has ended by the time that it looks.
        for (const int j : led) {
          if (keys[j] == keys[i]) expected[i] = "as before";
        }
      }
    }
    for (const int i : led) {
      const bool fails = keys[i] % 2 != 0;
      EndInOracle(loads_.CurrentOf(keys[i]),
                  fails ? Outcome::kError : Outcome::kValue, call_.nanos);
      expected[i] = TextOf(fails ? Outcome::kError : Outcome::kValue);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (expected[i] == "as before") expected[i] = expected[i - 3];
      if (expected[i].empty()) {
        Compare("waits", absl::IsDeadlineExceeded(results[i].status()), true);
      } else {
        Compare("one of many", Text(results[i]), expected[i]);
      }
    }
    Compare("asked", absl::StrJoin(asked, " "), absl::StrJoin(led, " "));
  }

  void Begin() {
    using Found = LoadOracle::Found;
    if (tickets_[call_.weight % kTickets].ticket) DropTicket();
    const int key = call_.key;
    LoadOptions options = Options();
    options.wait = absl::InfiniteDuration();
    Ticket& mine = tickets_[call_.weight % kTickets];
    mine.ticket = cache_->BeginLoad(key, options, [this](const auto& result) {
      told_.push_back(Text(result));
    });
    const Found found = loads_.Find(key, oracle_.now);
    const std::optional<Value> hit = ReadAndRefreshInOracle();
    Compare("has a ticket", static_cast<bool>(mine.ticket),
            !hit && found == Found::kNothing);
    if (hit) {
      told_by_oracle_.push_back(absl::StrCat(*hit));
    } else if (found == Found::kFailure) {
      told_by_oracle_.push_back(Error().ToString());
    } else if (found == Found::kLoad) {
      ++loads_.loads.at(loads_.CurrentOf(key)).callbacks;
    } else {
      mine.load = loads_.Begin({key, false, call_.nanos, 1});
    }
  }

  void Finish() {
    Ticket& mine = tickets_[call_.weight % kTickets];
    if (!mine.ticket) return;
    const bool fails = call_.kind == CacheCall::kFinishError;
    using Result = absl::StatusOr<Loaded<Value>>;
    const bool stored = mine.ticket.Finish(
        fails ? Result(Error()) : Loaded<Value>{NewValue(), Ttl()});
    Compare("stored", stored,
            EndInOracle(mine.load, fails ? Outcome::kError : Outcome::kValue,
                        call_.nanos));
  }

  void DropTicket() {
    Ticket& mine = tickets_[call_.weight % kTickets];
    if (!mine.ticket) return;
    mine.ticket = CacheType::Ticket();
    EndInOracle(mine.load, Outcome::kCancelled, 0);
  }

  // Refreshes. The source is down for keys whose new value would be of a
  // weight that a number divides.

  int64_t RefreshAfterNanos() const { return 3 * setup_.tick_nanos; }
  int64_t RetryAfterNanos() const { return 2 * setup_.tick_nanos; }
  Outcome ReloadOutcome() const {
    return call_.weight % 7 == 3   ? Outcome::kError
           : call_.weight % 7 == 5 ? Outcome::kCancelled
                                   : Outcome::kValue;
  }
  absl::StatusOr<Loaded<Value>> Reload(int key, Value old) {
    ++reloads_;
    reloaded_key_ = key;
    reloaded_value_ = old;
    switch (ReloadOutcome()) {
      case Outcome::kError:
        return Error();
      case Outcome::kCancelled:
        return Cancelled();
      case Outcome::kValue:
        break;
    }
    return Loaded<Value>{NewValue()};
  }

  bool IsStaleInOracle(int key) {
    const CacheOracle::Entry& entry = oracle_.entries[key];
    const int64_t now = clock_.CoarseNowNanos();
    const int64_t age = AgeAt(now, entry.created);
    if (age >= RefreshAfterNanos()) return true;
    if (entry.deadline == CacheOracle::kNever) return false;
    const double left =
        static_cast<double>(entry.deadline) - static_cast<double>(now);
    const auto past = static_cast<double>(age);
    return past >= kRefreshAt * (past + left);
  }

  std::optional<Value> ReadAndRefreshInOracle() {
    const int key = call_.key;
    const std::optional<Value> hit = ReadYoungInOracle(key);
    if (!hit || setup_.refreshes == CacheSetup::kNone) return hit;
    if (!IsStaleInOracle(key)) return hit;
    if (!loads_.MayRefresh(key, oracle_.now, kMostRefreshes)) return hit;
    const Value old = *hit;
    return BeginRefreshInOracle(key) == Outcome::kValue ? NewValue() : old;
  }

  // Returns the outcome if reload was called, kError if not.
  Outcome BeginRefreshInOracle(int key) {
    loads_.Claim(key);
    const int64_t retry = Sum(oracle_.now, RetryAfterNanos());
    if (is_stopped_) {
      loads_.RetryAt(key, retry);
      return Outcome::kError;
    }
    if (loads_.HasLoadOrFailure(key, oracle_.now)) {
      loads_.Release(key);
      return Outcome::kError;
    }
    const int load =
        loads_.Begin({key, true, 0, 0, retry, oracle_.entries.at(key).value});
    if (setup_.refreshes == CacheSetup::kByReaders) return RunInOracle(load);
    tasks_of_oracle_.push_back(load);
    return Outcome::kError;
  }
  static int64_t Sum(int64_t now, int64_t length) {
    return now > CacheOracle::kNever - length ? CacheOracle::kNever
                                              : now + length;
  }

  Outcome RunInOracle(int load) {
    const LoadOracle::Load refresh = loads_.loads.at(load);
    if (is_stopped_ || !loads_.IsCurrent(load)) {
      loads_.End(load, false, oracle_.now);
      if (is_stopped_) {
        loads_.RetryAt(refresh.key, refresh.retry);
      } else {
        loads_.Release(refresh.key);
      }
      return Outcome::kError;
    }
    ++reloads_by_oracle_;
    Compare("reloaded key", reloaded_key_, refresh.key);
    Compare("reloaded value", reloaded_value_, refresh.old_value);
    const Outcome outcome = ReloadOutcome();
    if (EndInOracle(load, outcome, DefaultTtlNanos())) {
      loads_.Release(refresh.key);
    } else {
      loads_.RetryAt(refresh.key, Sum(oracle_.now, RetryAfterNanos()));
    }
    return outcome;
  }

  void Refresh() {
    const int key = call_.key;
    const bool began = cache_->Refresh(key);
    const bool may = setup_.refreshes != CacheSetup::kNone &&
                     oracle_.Live(key) &&
                     loads_.MayRefreshAtOnce(key, kMostRefreshes);
    const size_t tasks = tasks_of_oracle_.size();
    if (may) BeginRefreshInOracle(key);
    Compare("began", began,
            reloads_by_oracle_ > 0 || tasks_of_oracle_.size() > tasks);
  }

  void RunOrDropTask() {
    if (tasks_.empty() || tasks_of_oracle_.empty()) return;
    const bool runs = call_.kind == CacheCall::kRunTask;
    if (runs) tasks_.front()();
    tasks_.pop_front();
    const int load = tasks_of_oracle_.front();
    tasks_of_oracle_.pop_front();
    if (runs) {
      RunInOracle(load);
      return;
    }
    const LoadOracle::Load refresh = loads_.loads.at(load);
    loads_.End(load, false, oracle_.now);
    loads_.RetryAt(refresh.key, refresh.retry);
  }

  // Keeps a handle in the place of an older one, which must show what it did.
  void Pin() { PinIn(&pinned_[call_.weight % kPinned]); }

  void PinIn(PinnedValue* pinned) {
    if (pinned->handle) Compare("pinned", *pinned->handle, pinned->value);
    pinned->handle = cache_->Find(call_.key);
    pinned->value = ReadInOracle().value_or(-1);
    pinned->id = oracle_.Id(call_.key);
    if (pinned->handle) Compare("pinned", *pinned->handle, pinned->value);
  }

  void Advance(int64_t nanos) {
    if (is_served_) {
      clock_.RunFor(absl::Nanoseconds(nanos));
    } else {
      clock_.Advance(absl::Nanoseconds(nanos));
    }
    oracle_.now = clock_.NowNanos();
    if (is_served_) {
      Compare("reclaimed in time", cache_->size() <= EntriesNotOverdue(), true);
    }
    if (setup_.reclaims_at_once()) return;
    cache_->RunMaintenance();
    oracle_.Reclaim();
  }

  // Those that the reaper need not have reclaimed yet.
  int64_t EntriesNotOverdue() const {
    const int64_t now = oracle_.now - absl::ToInt64Nanoseconds(kReclaimDelay);
    return absl::c_count_if(oracle_.entries, [&](const auto& key_and_entry) {
      return oracle_.ReclaimTime(key_and_entry.second) > now;
    });
  }

  void AdvanceToDeadline() {
    int64_t next = CacheOracle::kNever;
    for (const auto& [key, entry] : oracle_.entries) {
      if (entry.deadline > oracle_.now) next = std::min(next, entry.deadline);
    }
    if (next == CacheOracle::kNever) return;
    Advance(std::max<int64_t>(next - oracle_.now + call_.nanos, 0));
  }

  void CompareLeft() {
    const auto to_string = [](const std::vector<CacheOracle::Left>& all) {
      std::vector<std::string> lines;
      for (const CacheOracle::Left& left : all) {
        lines.push_back(absl::StrCat(left.key, "=", left.value, " ",
                                     RemovalCauseName(left.cause)));
      }
      // The order is that of the causes first.
      std::sort(lines.begin(), lines.end());
      return absl::StrJoin(lines, ", ");
    };
    Compare("left", to_string(left_), to_string(oracle_.left));
    for (const CacheOracle::Left& left : oracle_.left) {
      ++removals_[static_cast<int>(left.cause)];
    }
  }

  void CompareState() {
    for (int key = 0; key < kKeys; ++key) {
      const bool live = oracle_.Live(key);
      Compare("contains", cache_->Contains(key), live);
      Compare("peek", cache_->Peek(key).value_or(-1),
              live ? oracle_.entries[key].value : -1);
      Compare("ttl", cache_->TimeToLive(key).value_or(absl::ZeroDuration()),
              live ? TimeToLiveInOracle(key) : absl::ZeroDuration());
    }
    const CacheStats stats = cache_->stats();
    Compare("entries", stats.entries,
            static_cast<int64_t>(oracle_.entries.size()));
    Compare("bytes", stats.bytes, oracle_.bytes());
    Compare("hits", stats.hits, hits_);
    Compare("misses", stats.misses, misses_);
    Compare("sets", stats.sets, sets_);
    Compare("expirations", stats.expirations, removals_[0]);
    Compare("evictions", stats.evictions, removals_[1]);
    Compare("deletes", stats.deletes, removals_[2]);
    Compare("replaced", stats.replaced, removals_[3]);
    for (const auto& [key, entry] : oracle_.entries) {
      // Never, too, if the last whole tick that the clock can show is earlier.
      const int64_t due = oracle_.ReclaimTime(entry);
      if (due == CacheOracle::kNever) continue;
      Compare("due in time", cache_->NextDeadline() <= absl::Nanoseconds(due),
              true);
    }
    const absl::Status invariants = cache_->CheckInvariants();
    Compare("invariants", invariants.ToString(), absl::OkStatus().ToString());
    if (call_.kind != CacheCall::kMove && calls_ % 16 != 0) return;
    const absl::Status memory = testing::CheckMemory(cache_.get());
    Compare("memory", memory.ToString(), absl::OkStatus().ToString());
  }

  void CompareHandle(const CacheType::Handle& handle) {
    const CacheOracle::Entry& entry = oracle_.entries[call_.key];
    Compare("charge", handle.charge(), entry.charge);
    Compare("ttl of the handle", handle.TimeToLive(),
            TimeToLiveInOracle(call_.key));
    // In whole steps, and no further than they reach.
    constexpr int64_t kStep = 20'000'000;
    const auto step = [](int64_t nanos) {
      return nanos / kStep - (nanos % kStep < 0);
    };
    const int64_t age = step(oracle_.now) - step(entry.created);
    if (age > absl::Hours(24 * 900) / absl::Nanoseconds(kStep)) return;
    Compare("age", handle.Age(), age * absl::Nanoseconds(kStep));
  }

  absl::Duration TimeToLiveInOracle(int key) {
    const int64_t deadline = oracle_.entries[key].deadline;
    return deadline == CacheOracle::kNever
               ? absl::InfiniteDuration()
               : absl::Nanoseconds(deadline - oracle_.now);
  }

  template <typename T>
  void Compare(const char* what, const T& got, const T& want) {
    if (got == want || !difference_.empty()) return;
    difference_ =
        absl::StrCat(what, ": ", Text(got), ", expected ", Text(want));
  }

  static std::string Text(absl::Duration d) { return absl::FormatDuration(d); }
  static std::string Text(std::optional<Value> value) {
    return value.has_value() ? absl::StrCat(*value) : "nothing";
  }
  static std::string Text(const std::string& text) { return text; }
  static std::string Text(int64_t number) { return absl::StrCat(number); }
  static std::string Text(const absl::StatusOr<Value>& result) {
    return result.ok() ? absl::StrCat(*result) : result.status().ToString();
  }
  static std::string Text(const absl::StatusOr<CacheType::Handle>& result) {
    return result.ok() ? absl::StrCat(**result) : result.status().ToString();
  }

  static constexpr absl::Duration kReclaimDelay = absl::Milliseconds(2);

  const CacheSetup setup_;
  SimulatedClock clock_;
  Reaper reaper_{clock_};
  CacheOracle oracle_;
  LoadOracle loads_;
  std::vector<CacheOracle::Left> left_;

  // What callbacks were told, and what reload was asked, in the present call.
  std::vector<std::string> told_;
  std::vector<std::string> told_by_oracle_;
  int reloads_ = 0;
  int reloads_by_oracle_ = 0;
  int reloaded_key_ = 0;
  Value reloaded_value_ = 0;

  std::deque<std::function<void()>> tasks_;
  std::deque<int> tasks_of_oracle_;  // Their loads.
  std::unique_ptr<CacheType> cache_;
  const Handle none_;
  PinnedValue pinned_[kPinned];

  static constexpr int kTickets = 4;
  struct Ticket {
    CacheType::Ticket ticket;
    int load = 0;
  };
  Ticket tickets_[kTickets];

  static constexpr double kRefreshAt = 0.5;
  static constexpr int kMostRefreshes = 2;

  bool is_served_;  // By the reaper.
  bool is_stopped_ = false;
  CacheCall call_ = {};
  int64_t calls_ = 0;
  std::string difference_;
  int64_t hits_ = 0;
  int64_t misses_ = 0;
  int64_t sets_ = 0;
  int64_t removals_[4] = {};  // By cause.
};

// Makes all calls; returns the first difference and the call, or nothing.
inline std::string Disagreement(const CacheSetup& setup,
                                const std::vector<CacheCall>& calls) {
  CacheDriver driver(setup);
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string difference = driver.Make(calls[i]);
    if (!difference.empty()) {
      return absl::StrCat("call ", i, ": ", difference);
    }
  }
  return "";
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_DRIVER_H_
