// What trace_replay --help says besides the flags.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_USAGE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_USAGE_H_

#include "absl/strings/string_view.h"

namespace wheelcache::replay {

inline constexpr absl::string_view kUsage =
    R"(replays an access trace through a wheelcache cache and reports
hits, evictions, expirations, memory and speed.

  trace_replay
  trace_replay --trace=oltp.csv --max_entries=5000 --ttl=60s
  trace_replay --trace=oltp.csv --sweep --ttl=60s,5m --html=oltp.html
  trace_replay --share=users.csv,images.csv --max_bytes=64000000
  zstd -dc oltp.csv.zst | trace_replay --trace=- --max_entries=5000

Trace
The columns are those of Twitter's open cache traces, without a header:
  timestamp_seconds,key,key_size,value_size,client_id,operation,ttl_seconds
The first column sets a simulated clock that never goes back: a line with an
earlier time than one before it is replayed at the latest time so far. Before
the requests of a second are replayed, all expired entries leave the cache.

Operations, with memcached's semantics
  get, gets         read; these alone count as hits and misses
  set               writes
  add               writes if the key is absent, and else refreshes its recency
  replace, cas      write if the key is present (a trace has no cas tokens)
  append, prepend   if the key is present, grow its value by value_size; it
                    keeps its deadline
  incr, decr        if the key is present, replace its value by one of the same
                    size; it keeps its deadline
  delete            deletes

Bytes
An entry is charged key_size + value_size of its request and the cache's own
overhead of some 50 bytes. Values are charged but not allocated, so that large
traces fit in memory. A value above 4 GiB or --max_bytes is not stored.

Sweep
Reads the trace once and keeps it in memory, 24 bytes a request and each key
once. Replays it with 16 limits for each TTL and policy, the largest being the
one that is given or what holds all keys, the others down to a 256th of it.
Reports what single replays with the same flags would, and the most hits that
any policy could have: Belady's bound for entries; for bytes one that is a
little higher. From the knee on, what is added to a limit gains less than on
average, and twice the limit gains less than 5 points. Figures of scan_resistant
differ by some thousandths from run to run, as hashes do.

Share
Replays several traces at the same time, which begins with the first request of
each, through a cache for each. A MemoryShare moves the bytes of --max_bytes
between the caches; none gets less than a 16th of an equal part. Reports the hit
ratios beside those with equal parts, and draws who had how much, and when.

Report
The speed excludes the time for reading or generating the trace. Latencies are
those of the cache's Get and Set alone, sampled from one call in eight to limit
the overhead; each includes 20 to 50 ns for reading the clock. Peaks are sampled
after every write.

Exit status: 0; 1 for a bad flag, or if the report or the page cannot be
written; 2 for a bad trace. With 2 there is nothing on standard output.

Built-in workload
4,000,000 synthetic requests with the statistics of one of Twitter's cache
clusters (cluster 4 in the statistics of the open traces; Yang et al., OSDI
2020), 1,000 a second of simulated time, the same on each run:
  keys        1,000,000, by Zipf's law with exponent 1.1
  TTLs        60 s 39 %, 300 s 24 %, 1 h 13 %, 600 s 12 %, 4 h 9 %, 1 d 3 % of
              the keys
  values      16 B to 16 KB, median 230 B, mean 1.5 KB
  operations  get 90 %, set 6 %, gets 1 %, add 1 %, cas 0.7 %, replace, incr and
              delete 0.3 % each, append 0.2 %, prepend and decr 0.1 % each
)";

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_USAGE_H_
