// Random scripts of calls on few keys, for the threads of a HistoryStage.
//
//   const HistorySetup setup{/*threads=*/2, /*calls=*/6, /*shards=*/1,
//                            /*fillers=*/0};
//   const std::vector<HistoryScript> scripts = RandomScripts(setup, seed);

#ifndef WHEELCACHE_TESTS_TESTING_HISTORY_SCRIPT_H_
#define WHEELCACHE_TESTS_TESTING_HISTORY_SCRIPT_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ostream>
#include <random>
#include <vector>

#include "wheelcache/tests/testing/cache_history.h"

namespace wheelcache {

// The cache, and what is played on it.
struct HistorySetup {
  int threads;
  int calls;  // Of each thread.
  int shards;
  int fillers;             // Other keys in the cache, so that its index grows.
  int64_t coarse_lag = 0;  // In ticks.
  bool conditional = false;
  bool loads = false;  // Its calls are mostly such that load.
  bool scan_resistant = false;
  bool advise = false;
  int max_entries = 1'000;
  int64_t idle_ttl = kForever;  // In ticks.

  friend std::ostream& operator<<(std::ostream& out,
                                  const HistorySetup& setup) {
    return out << setup.threads << " threads with " << setup.calls
               << " calls each, " << setup.shards << " shards, "
               << setup.fillers << " fillers, coarse by " << setup.coarse_lag
               << (setup.conditional ? ", conditional calls" : "")
               << (setup.loads ? ", loads" : "")
               << (setup.scan_resistant ? ", scan-resistant" : "")
               << (setup.advise ? ", advised" : "") << ", at most "
               << setup.max_entries << " entries, idle TTL " << setup.idle_ttl;
  }
};

// The calls of one thread.
using HistoryScript = std::vector<HistoryCall>;

inline bool Stores(const HistoryCall& call) {
  return call.what == HistoryCall::kSet || call.what == HistoryCall::kSetIf ||
         call.what == HistoryCall::kUpdate;
}

// Mostly Set and Get, or mostly loads; half of it conditional calls where these
// are wanted; and TTLs that end within the history.
inline HistoryCall RandomCall(const HistorySetup& setup,
                              std::mt19937_64* random) {
  constexpr HistoryCall::What kCalls[] = {
      HistoryCall::kSet,     HistoryCall::kSet,      HistoryCall::kSet,
      HistoryCall::kGet,     HistoryCall::kGet,      HistoryCall::kGet,
      HistoryCall::kGet,     HistoryCall::kDel,      HistoryCall::kTouch,
      HistoryCall::kClear,   HistoryCall::kTick,     HistoryCall::kTick,
      HistoryCall::kTouch,   HistoryCall::kMaintain, HistoryCall::kForEach,
      HistoryCall::kEraseIf, HistoryCall::kMove,     HistoryCall::kMove,
      HistoryCall::kFindMany};
  constexpr HistoryCall::What kConditionalCalls[] = {
      HistoryCall::kFind,        HistoryCall::kFind,   HistoryCall::kSetIf,
      HistoryCall::kSetIf,       HistoryCall::kSetIf,  HistoryCall::kDelIf,
      HistoryCall::kTake,        HistoryCall::kUpdate, HistoryCall::kUpdate,
      HistoryCall::kUpdateDelete};
  constexpr HistoryCall::What kLoads[] = {
      HistoryCall::kBegin,     HistoryCall::kBegin,   HistoryCall::kBegin,
      HistoryCall::kFinish,    HistoryCall::kFinish,  HistoryCall::kDrop,
      HistoryCall::kRefresh,   HistoryCall::kRefresh, HistoryCall::kRunTask,
      HistoryCall::kRunTask,   HistoryCall::kLoad,    HistoryCall::kLoad,
      HistoryCall::kSet,       HistoryCall::kSet,     HistoryCall::kDel,
      HistoryCall::kGet,       HistoryCall::kClear,   HistoryCall::kTick,
      HistoryCall::kFind,      HistoryCall::kSetIf,   HistoryCall::kUpdate,
      HistoryCall::kTake,      HistoryCall::kDelIf,   HistoryCall::kLoadAsync,
      HistoryCall::kLoadAsync, HistoryCall::kFindMany};
  constexpr int64_t kTtls[] = {0, 1, 1, 2, 2, 3, kForever, kForever};
  HistoryCall call;
  call.what = setup.loads ? kLoads[(*random)() % std::size(kLoads)]
                          : kCalls[(*random)() % std::size(kCalls)];
  if (setup.conditional && (*random)() % 2 == 0) {
    call.what = kConditionalCalls[(*random)() % std::size(kConditionalCalls)];
  }
  // An Update uses the value before it takes effect.
  if (setup.idle_ttl != kForever) {
    if (call.what == HistoryCall::kUpdate) call.what = HistoryCall::kSetIf;
    if (call.what == HistoryCall::kUpdateDelete) {
      call.what = HistoryCall::kDelIf;
    }
  }
  // Half of the calls meet on one key.
  call.key =
      static_cast<int>((*random)() % (size_t{2} * kHistoryKeys)) % kHistoryKeys;
  if ((*random)() % 2 == 0) call.key = 0;
  if (Stores(call) || call.what == HistoryCall::kTouch ||
      call.what == HistoryCall::kFinish || call.what == HistoryCall::kLoad ||
      call.what == HistoryCall::kLoadAsync) {
    call.ttl = kTtls[(*random)() % std::size(kTtls)];
  }
  if (Stores(call) && call.what != HistoryCall::kSet && (*random)() % 2 == 0) {
    call.ttl = kKept;
  }
  return call;
}

// One script for each thread; no two Sets and loads give the same value.
inline std::vector<HistoryScript> RandomScripts(const HistorySetup& setup,
                                                uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HistoryScript> scripts(setup.threads);
  int value = 0;
  for (int thread = 0; thread < setup.threads; ++thread) {
    for (int i = 0; i < setup.calls; ++i) {
      HistoryCall call = RandomCall(setup, &random);
      call.thread = thread;
      ++value;
      if (Stores(call)) call.value = value;
      call.load = value;
      scripts[thread].push_back(call);
    }
  }
  return scripts;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_HISTORY_SCRIPT_H_
