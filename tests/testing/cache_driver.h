// Makes the same calls to a cache and to its oracle, and compares all that can
// be seen of them after each.
//
//   EXPECT_EQ(Disagreement({3, 200, 1, 1000000, 0, 64, false},
//                          {{CacheCall::kSet, 5, 17, 1000000},
//                           {CacheCall::kGet, 5, 0, 0}}),
//             "");
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_DRIVER_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/load_oracle.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {

class CacheDriver {
 public:
  explicit CacheDriver(const CacheSetup& setup);

  // Makes a call. Returns the first difference, or nothing if all is well.
  std::string Make(const CacheCall& call);

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

  static constexpr int kTickets = 4;
  struct Ticket {
    CacheType::Ticket ticket;
    int load = 0;
  };

  enum class Outcome { kValue, kError, kCancelled };

  std::unique_ptr<CacheType> NewCache();
  void MakeCall();

  // What the present call gives.
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

  // Some keys, the first of them perhaps once more.
  std::vector<int> SomeKeys() const {
    std::vector<int> keys;
    for (int i = 0; i <= call_.weight % 5; ++i) {
      keys.push_back((call_.key + i % 3) % kKeys);
    }
    return keys;
  }

  // Calls without a condition or a load: cache_driver.cc.
  void FindMany();
  void ForEach();
  void EraseIf();
  void SetLimits();
  void Restart();
  // Goes only so far that other calls come between condemning and moving.
  void Move();
  void MaintainInSteps();
  // Where the choice of victims is the cache's. Once in a call.
  void TellVictims();
  bool SetInOracle(int key, int64_t ttl);
  std::optional<Value> ReadInOracle() { return ReadInOracle(call_.key); }
  std::optional<Value> ReadInOracle(int key);
  // Keeps a handle in the place of an older one, which must show what it did.
  void Pin() { PinIn(&pinned_[call_.weight % kPinned]); }
  void PinIn(PinnedValue* pinned);
  void Advance(int64_t nanos);
  // Those that the reaper need not have reclaimed yet.
  int64_t EntriesNotOverdue() const;
  void AdvanceToDeadline();

  // Conditional writes: cache_driver_conditional.cc.
  // What a conditional call is given: a handle, and what it pins.
  struct Expected {
    int key;
    const Handle* handle;
    int64_t id;
  };
  // What the key has now, or nothing, or an older value of it or of another.
  Expected Expect();
  void SetIf();
  Put SetIfInOracle(int key, int64_t expected, bool keep);
  bool DelIfInOracle(int key, int64_t expected);
  void Update();
  bool UpdateInOracle();

  // Loads: cache_driver_loads.cc.
  static absl::Status Error() { return absl::UnavailableError("not now"); }
  static absl::Status Cancelled() { return absl::CancelledError("no more"); }
  void Load();
  void FindOrLoad();
  void FindOrLoadMany();
  void Begin();
  void Finish();
  void DropTicket();
  // A load ends, with what the present call gives. Returns whether the value is
  // stored: what is not leaves the old value, and what has expired.
  bool EndInOracle(int load, Outcome outcome, int64_t ttl);
  absl::Status GivenUp() const;
  std::string TextOf(Outcome outcome) const;
  LoadOptions Options() const;
  // How long failures are remembered: where the oracle can tell whether one was
  // evicted.
  int64_t ErrorTtlNanos() const {
    return setup_.evicts_oldest() ? call_.nanos : 0;
  }
  Loaded<Value> NewLoaded() const;
  // In whole steps, modulo 2^31, of which the last part stands for a clock that
  // was turned back.
  static int64_t AgeAt(int64_t now, int64_t created);
  bool IsYoungInOracle(int key);
  // Counts as a read.
  std::optional<Value> ReadYoungInOracle(int key);

  // Refreshes: cache_driver_refreshes.cc. The source is down for keys whose new
  // value would be of a weight that a number divides.
  int64_t RefreshAfterNanos() const { return 3 * setup_.tick_nanos; }
  int64_t RetryAfterNanos() const { return 2 * setup_.tick_nanos; }
  Outcome ReloadOutcome() const;
  absl::StatusOr<Loaded<Value>> Reload();
  bool IsStaleInOracle(int key);
  std::optional<Value> ReadAndRefreshInOracle();
  // Returns the outcome if reload was called, kError if not.
  Outcome BeginRefreshInOracle(int key);
  Outcome RunInOracle(int load);
  void Refresh();
  void RunOrDropTask();

  // Comparisons: cache_driver_compare.cc.
  void CompareLeft();
  void CompareState();
  void CompareAdvice(const CacheStats& stats);
  void CompareHandle(const CacheType::Handle& handle);
  absl::Duration TimeToLiveInOracle(int key);
  template <typename T>
  void Compare(const char* what, const T& got, const T& want) {
    if (got == want || !difference_.empty()) return;
    difference_ =
        absl::StrCat(what, ": ", Text(got), ", expected ", Text(want));
  }

  static std::string Text(absl::Duration d);
  static std::string Text(std::optional<Value> value);
  static std::string Text(const std::string& text);
  static std::string Text(int64_t number);
  static std::string Text(const absl::StatusOr<Value>& result);
  static std::string Text(const absl::StatusOr<CacheType::Handle>& result);

  static constexpr absl::Duration kReclaimDelay = absl::Milliseconds(2);

  const CacheSetup setup_;
  SimulatedClock clock_;
  Reaper reaper_{clock_};
  CacheOracle oracle_;
  LoadOracle loads_{&oracle_};
  std::vector<CacheOracle::Left> left_;
  int earlier_deadlines_ = 0;  // Told in the present call.
  absl::Duration last_deadline_ = -absl::InfiniteDuration();

  // What callbacks were told, and what reload was asked, in the present call.
  std::vector<std::string> told_;
  std::vector<std::string> told_by_oracle_;
  std::function<absl::StatusOr<Loaded<Value>>()> load_;  // For Hooks::load.
  int reloads_ = 0;
  int reloads_by_oracle_ = 0;
  int reloaded_key_ = 0;
  Value reloaded_value_ = 0;

  std::deque<std::function<void()>> tasks_;
  std::deque<int> tasks_of_oracle_;  // Their loads.
  std::unique_ptr<CacheType> cache_;
  const Handle none_;
  PinnedValue pinned_[kPinned];

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
  int64_t too_old_ = 0;  // Misses of values that live.
  int64_t sets_ = 0;
  int64_t removals_[4] = {};  // By cause.
};

// Makes all calls; returns the first difference and the call, or nothing.
std::string Disagreement(const CacheSetup& setup,
                         const std::vector<CacheCall>& calls);

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_DRIVER_H_
