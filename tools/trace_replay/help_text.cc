#include "wheelcache/tools/trace_replay/help_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/workload.h"

namespace wheelcache {
namespace replay {
namespace {

constexpr absl::string_view kBeforeFlags =
    R"(trace_replay: replays an access trace through a wheelcache cache and reports
hits, evictions, expirations, memory and speed.

  trace_replay
  trace_replay --trace=oltp.csv --max_entries=5000 --ttl=60s
  trace_replay --trace=oltp.csv --sweep --ttl=60s,5m --html=oltp.html
  zstd -dc oltp.csv.zst | trace_replay --trace=- --max_entries=5000

Flags
)";

constexpr absl::string_view kAfterFlags =
    R"(
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
little higher. The knee is where the curve is highest above the straight line
from zero to the largest limit: from there on, what is added gains less than on
average. Figures of scan_resistant differ by some thousandths from run to run,
as hashes do.

Report
The speed excludes the time for reading or generating the trace. Latencies are
those of the cache's Get and Set alone, sampled from one call in eight to limit
the overhead; each includes 20 to 50 ns for reading the clock. Peaks are sampled
after every write.

Exit status: 0; 2 for a bad flag or trace, with nothing on standard output; 1 if
the report or the page cannot be written.

Built-in workload
)";

}  // namespace

std::string HelpText() {
  std::string text(kBeforeFlags);
  for (const Flag& flag : AllFlags()) {
    const std::string usage =
        flag.is_bool() ? absl::StrCat("--", flag.name)
                       : absl::StrCat("--", flag.name, "=", flag.placeholder);
    absl::string_view margin = usage;
    for (absl::string_view line : absl::StrSplit(flag.help, '\n')) {
      absl::StrAppendFormat(&text, "  %-17s %s\n", margin, line);
      margin = "";
    }
  }
  absl::StrAppend(&text, kAfterFlags, kWorkloadDescription);
  return text;
}

}  // namespace replay
}  // namespace wheelcache
