// Reads a tape as a setup of a cache and a sequence of calls to it.

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_TAPE_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_TAPE_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_oracle.h"
#include "wheelcache/tests/testing/tape.h"

namespace wheelcache {

inline CacheSetup CacheSetupFrom(Tape& tape) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  constexpr int64_t kTicks[] = {1, 1'000, 1'000'000, 1'000'000'000};
  constexpr int64_t kLags[] = {0, 0, 1, 4'000'000};
  constexpr int kShards[] = {1, 1, 1, 4};
  constexpr int64_t kBudgets[] = {1, 3, 64, kNoLimit, kNoLimit, kNoLimit};
  CacheSetup setup;
  setup.max_entries =
      tape.OneIn(4) ? kNoLimit : 1 + static_cast<int64_t>(tape.Below(kKeys));
  setup.max_bytes =
      tape.OneIn(3) ? kNoLimit
                    : static_cast<int64_t>(kEntryOverhead + tape.Below(2000));
  setup.shards = kShards[tape.Below(4)];
  setup.tick_nanos = kTicks[tape.Below(4)];
  setup.coarse_lag_nanos = kLags[tape.Below(4)];
  setup.maintenance_budget = kBudgets[tape.Below(6)];
  const uint64_t byte = tape.Below(256);
  setup.has_reaper = byte % 4 == 3;
  setup.refreshes = static_cast<int>(byte / 4 % 3);
  setup.scan_resistant = byte / 12 % 2 == 1;
  setup.advise = byte / 24 % 2 == 1;
  if (byte / 48 % 2 == 1) {
    setup.idle_ttl_nanos = std::max<int64_t>(3 * setup.tick_nanos, 1'000);
  }
  return setup;
}

// A length of time around those where ticks and levels of the wheel end.
inline int64_t NanosFrom(Tape& tape, int64_t tick_nanos) {
  const auto level = static_cast<int>(tape.Below(4));
  const auto off = static_cast<int64_t>(tape.Below(3)) - 1;
  switch (tape.Below(6)) {
    case 0:
      return off + 1;
    case 1:
      return tick_nanos / 2 + off;
    case 2:
      return static_cast<int64_t>(tape.Below(32)) * tick_nanos / 4;
    case 3:
      return static_cast<int64_t>(tape.Below(200)) * tick_nanos + off;
    default:
      return ((int64_t{1} << (6 * level)) + off) * tick_nanos;
  }
}

inline int64_t TtlFrom(Tape& tape, int64_t tick_nanos) {
  switch (tape.Below(12)) {
    case 0:
      return -static_cast<int64_t>(tape.Below(2));
    case 1:
    case 2:
      return CacheOracle::kNever;
    case 3:
      return CacheOracle::kNever / 2 + static_cast<int64_t>(tape.Below(3));
    default:
      return NanosFrom(tape, tick_nanos);
  }
}

inline CacheCall CacheCallFrom(Tape& tape, int64_t tick_nanos) {
  using Call = CacheCall;
  // By how often they are called.
  constexpr Call::Kind kKinds[] = {Call::kSet,        Call::kSet,
                                   Call::kSet,        Call::kSet,
                                   Call::kSet,        Call::kSet,
                                   Call::kGet,        Call::kGet,
                                   Call::kFind,       Call::kVisit,
                                   Call::kPeek,       Call::kTouch,
                                   Call::kTouch,      Call::kDel,
                                   Call::kLoad,       Call::kPin,
                                   Call::kAdvance,    Call::kAdvance,
                                   Call::kAdvance,    Call::kAdvanceToDeadline,
                                   Call::kMaintain,   Call::kMaintainInSteps,
                                   Call::kSetDefault, Call::kLoadDefault};
  // For the highest bytes, so that the corpus of the fuzzer, which is older,
  // keeps its meaning for the most part.
  constexpr uint64_t kLaterBytes = 224;
  constexpr Call::Kind kLaterKinds[] = {
      Call::kSetIf,   Call::kSetIf,    Call::kSetIfKeep, Call::kDelIf,
      Call::kTake,    Call::kUpdate,   Call::kUpdate,    Call::kUpdateKeep,
      Call::kMove,    Call::kRestart,  Call::kUpdateNot, Call::kUpdateDelete,
      Call::kForEach, Call::kFindMany, Call::kEraseIf,   Call::kSetLimits};
  constexpr uint64_t kLoadBytes = 160;
  constexpr Call::Kind kLoads[] = {
      Call::kFindOrLoad,      Call::kFindOrLoad,
      Call::kFindOrLoad,      Call::kFindOrLoadMany,
      Call::kFindOrLoadMany,  Call::kFindOrLoadOvertaken,
      Call::kFindOrLoadError, Call::kFindOrLoadCancelled,
      Call::kBegin,           Call::kBegin,
      Call::kBegin,           Call::kFinish,
      Call::kFinish,          Call::kFinishError,
      Call::kDropTicket,      Call::kRefresh,
      Call::kRunTask,         Call::kRunTask,
      Call::kDropTask};
  const auto kind_of = [&](uint64_t byte) {
    return byte < kLoadBytes    ? kKinds[byte % std::size(kKinds)]
           : byte < kLaterBytes ? kLoads[byte % std::size(kLoads)]
                                : kLaterKinds[byte % std::size(kLaterKinds)];
  };
  Call call = {};
  call.kind = tape.OneIn(64)    ? Call::kClear
              : tape.OneIn(32)  ? Call::kLoadError
              : tape.OneIn(512) ? Call::kStop
                                : kind_of(tape.Below(256));
  call.key = static_cast<int>(tape.Below(kKeys));
  call.weight = static_cast<int>(tape.Below(kWeights));
  switch (call.kind) {
    case Call::kSet:
    case Call::kTouch:
    case Call::kLoad:
    case Call::kFinish:
    case Call::kSetIf:
    case Call::kUpdate:
      call.nanos = TtlFrom(tape, tick_nanos);
      break;
    case Call::kFindOrLoad:
    case Call::kFindOrLoadMany:
    case Call::kFindOrLoadOvertaken:
    case Call::kFindOrLoadError:
    case Call::kBegin:
      call.nanos = TtlFrom(tape, tick_nanos);
      // A few steps of ages.
      if (tape.OneIn(2)) {
        call.max_age = static_cast<int64_t>(tape.Below(100)) * 1'000'000 - 1;
      }
      break;
    case Call::kAdvance:
      call.nanos = std::max<int64_t>(NanosFrom(tape, tick_nanos), 0);
      break;
    case Call::kSetLimits:
      call.nanos =
          tape.OneIn(3) ? 0 : 1 + static_cast<int64_t>(tape.Below(2000));
      break;
    case Call::kAdvanceToDeadline:
      call.nanos = static_cast<int64_t>(tape.Below(3)) - 1;
      break;
    default:
      break;
  }
  return call;
}

inline std::vector<CacheCall> CacheCallsFrom(Tape& tape,
                                             const CacheSetup& setup) {
  std::vector<CacheCall> calls;
  while (!tape.empty()) calls.push_back(CacheCallFrom(tape, setup.tick_nanos));
  return calls;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_TAPE_H_
