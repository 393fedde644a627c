// The calls of a random test of the cache, and the caches that it makes them
// to, as plain data: read from a tape, which a random test or a fuzzer writes;
// shrunk when they fail; and printed as the test that repeats the failure. See
// cache_driver.h.

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_CALL_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_CALL_H_

#include <cstdint>
#include <limits>
#include <ostream>

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

  bool scan_resistant = false;
  bool advise = false;
  int64_t idle_ttl_nanos = std::numeric_limits<int64_t>::max();

  // Whether the least recently used entry is the victim.
  bool evicts_oldest() const { return shards == 1 && !scan_resistant; }

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
    kFindMany,
    kRestart,  // Saves a snapshot, clears the cache and loads it.

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
                                           "kFindMany",
                                           "kRestart",
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
             << ", " << s.refreshes << ", "
             << (s.scan_resistant ? "true" : "false") << ", "
             << (s.advise ? "true" : "false") << ", " << s.idle_ttl_nanos
             << "}";
}

inline std::ostream& operator<<(std::ostream& out, const CacheCall& call) {
  return out << "{CacheCall::" << CacheCall::kNames[call.kind] << ", "
             << call.key << ", " << call.weight << ", " << call.nanos << ", "
             << call.max_age << "}";
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_CALL_H_
