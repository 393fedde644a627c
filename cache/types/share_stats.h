// What a MemoryShare (cache/share/memory_share.h) has given to whom, and why.
//
//   for (const auto& member : share->stats().members) {
//     std::cout << member.name << ": " << member.bytes << " bytes\n";
//   }
//
// Threads. Thread-compatible: a copy that belongs to the caller.

#ifndef WHEELCACHE_CACHE_TYPES_SHARE_STATS_H_
#define WHEELCACHE_CACHE_TYPES_SHARE_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

struct ShareStats {
  // A cache of the share. Hits are weighted.
  struct Member {
    std::string name = {};
    int id = 1;         // Among the members of this name.
    int64_t bytes = 0;  // Its limit.
    int64_t used = 0;
    int64_t min_bytes = 0;
    double weight = 1;
    double gain = 0;  // Hits a second for a MiB more, by the last look;
    double loss = 0;  // and for a MiB fewer.
    int64_t taken_bytes = 0;
    int64_t given_bytes = 0;
  };

  // Bytes that moved because `to` gains more with them than `from` loses. Moves
  // between the same two that follow each other are one.
  struct Move {
    absl::Duration time = absl::ZeroDuration();  // Of the last, on the clock.
    std::string from = {};                       // Empty: they were free.
    std::string to = {};
    int64_t bytes = 0;
    double gain = 0;
    double loss = 0;
  };

  // What is known of the memory of the process, with MemoryShareOptions::
  // pressure, by the last look; and how often it has lowered the limit, and
  // could not be read.
  struct Memory {
    int64_t used = 0;
    int64_t limit = 0;
    double stalled = 0;
    int64_t shrinks = 0;
    int64_t errors = 0;
  };

  int64_t max_bytes = 0;
  int64_t limit = 0;  // Less than max_bytes where memory is short.
  int64_t free_bytes = 0;
  int64_t moved_bytes = 0;
  std::vector<Member> members = {};
  std::vector<Move> latest = {};  // At most 16, the newest last.
  Memory memory = {};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_SHARE_STATS_H_
