#include "wheelcache/tools/trace_replay/flags.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache {
namespace replay {
namespace {

constexpr int64_t kMaxThreads = 256;
constexpr int64_t kMaxShards = 256;
constexpr int64_t kMinSizes = 2;
constexpr int64_t kMaxSizes = 256;

// The setters: each stores the value, or returns the rule that it breaks.

template <typename Integer>
std::string SetInteger(absl::string_view text, int64_t min, int64_t max,
                       Integer& result) {
  int64_t number;
  if (absl::SimpleAtoi(text, &number) && number >= min && number <= max) {
    result = static_cast<Integer>(number);
    return "";
  }
  if (max == kUnlimited) {
    return absl::StrCat("a whole number, at least ", min);
  }
  return absl::StrCat("a whole number from ", min, " to ", max);
}

std::string SetLimit(absl::string_view text, int64_t& result) {
  return SetInteger(text, 1, kUnlimited, result);
}

std::string SetShards(absl::string_view text, int& result) {
  int shards;
  if (SetInteger(text, 0, kMaxShards, shards).empty() &&
      (shards & (shards - 1)) == 0) {
    result = shards;
    return "";
  }
  return absl::StrCat("a power of two up to ", kMaxShards,
                      ", or 0 for the cache's own choice");
}

// Returns zero if the text is no duration above zero.
absl::Duration ParseTtl(absl::string_view text) {
  int64_t seconds;
  absl::Duration ttl;
  if (absl::SimpleAtoi(text, &seconds)) {
    ttl = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &ttl)) {
    ttl = absl::ZeroDuration();
  }
  return std::max(ttl, absl::ZeroDuration());
}

std::string SetTtls(absl::string_view text, Settings& settings) {
  std::set<absl::Duration> ttls;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ttls.insert(ParseTtl(part));
  }
  if (*ttls.begin() == absl::ZeroDuration()) {
    return "a duration above 0, such as 90s, 5m or inf; a plain number counts "
           "seconds";
  }
  settings.ttls.assign(ttls.begin(), ttls.end());
  settings.replay.ttl = settings.ttls.back();
  return "";
}

const Policy* FindPolicy(absl::string_view name) {
  for (const Policy& policy : kPolicies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

std::string SetPolicies(absl::string_view text, Settings& settings) {
  std::vector<Policy> policies;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    const Policy* const policy = FindPolicy(name);
    if (policy == nullptr) return "lru or scan_resistant";
    const bool again = absl::c_any_of(
        policies, [&](const Policy& other) { return other.name == name; });
    if (!again) policies.push_back(*policy);
  }
  settings.policies = std::move(policies);
  settings.replay.policy = settings.policies.front().policy;
  return "";
}

std::string SetBy(absl::string_view text, std::optional<SweepBy>& result) {
  if (text == "entries") {
    result = SweepBy::kEntries;
  } else if (text == "bytes") {
    result = SweepBy::kBytes;
  } else {
    return "entries or bytes";
  }
  return "";
}

std::string SetSizes(absl::string_view text, std::optional<int>& result) {
  int sizes = 0;
  std::string rule = SetInteger(text, kMinSizes, kMaxSizes, sizes);
  if (rule.empty()) result = sizes;
  return rule;
}

std::string SetJitter(absl::string_view text, double& result) {
  double jitter;
  // Written so that NaN is invalid.
  if (absl::SimpleAtod(text, &jitter) && jitter >= 0 && jitter <= 1) {
    result = jitter;
    return "";
  }
  return "a fraction from 0 to 1";
}

std::string SetTrace(absl::string_view text, std::string& result) {
  if (text.empty()) return "the path of a file, or - for standard input";
  result = std::string(text);
  return "";
}

std::string SetHtml(absl::string_view text, std::string& result) {
  if (text.empty()) return "the path of a file";
  result = std::string(text);
  return "";
}

std::string SetBool(absl::string_view text, bool& result) {
  return absl::SimpleAtob(text, &result) ? "" : "true or false";
}

constexpr Flag kFlags[] = {
    {"trace", "FILE",
     "the trace to replay; - for standard input. Default: the\n"
     "built-in workload described below",
     [](absl::string_view v, Settings& s) { return SetTrace(v, s.trace); }},
    {"max_entries", "N",
     "the most entries that the cache may hold, at least 1.\n"
     "Default: 50000, or no limit if --max_bytes is given",
     [](absl::string_view v, Settings& s) {
       return SetLimit(v, s.replay.max_entries);
     }},
    {"max_bytes", "N",
     "the most bytes that the cache may hold, at least 1; see\n"
     "\"Bytes\" below. Default: no limit",
     [](absl::string_view v, Settings& s) {
       return SetLimit(v, s.replay.max_bytes);
     }},
    {"policy", "P",
     "the eviction policy: lru or scan_resistant. Default: lru.\n"
     "With --sweep also both, separated by a comma. Default: both",
     [](absl::string_view v, Settings& s) { return SetPolicies(v, s); }},
    {"ttl", "T",
     "the TTL of a value whose request names none (0): 90s, 5m,\n"
     "1h30m, a number of seconds, or inf. Default: inf. With\n"
     "--sweep also several, separated by commas",
     [](absl::string_view v, Settings& s) { return SetTtls(v, s); }},
    {"jitter", "F",
     "each TTL is varied at random by up to this fraction of it,\n"
     "from 0 to 1, with a fixed seed. Default: 0.05",
     [](absl::string_view v, Settings& s) {
       return SetJitter(v, s.replay.jitter);
     }},
    {"shards", "N",
     "independently locked parts of the cache, a power of two up\n"
     "to 256; LRU order is exact with 1. Default: 0, the cache's\n"
     "own choice",
     [](absl::string_view v, Settings& s) {
       return SetShards(v, s.replay.shards);
     }},
    {"threads", "N",
     "threads, 1 to 256. Keys are partitioned among them, so that\n"
     "the requests for a key keep their order. Default: 1. With\n"
     "--sweep: replays at a time. Default: the cores",
     [](absl::string_view v, Settings& s) {
       return SetInteger(v, 1, kMaxThreads, s.replay.threads);
     }},
    {"sweep", "",
     "replay with many limits and print the hit ratio of each; see\n"
     "\"Sweep\" below. Needs --trace. Default: false",
     [](absl::string_view v, Settings& s) { return SetBool(v, s.sweep); }},
    {"by", "LIMIT",
     "the limit that a sweep varies: entries or bytes. Default:\n"
     "bytes if --max_bytes alone is given, else entries",
     [](absl::string_view v, Settings& s) { return SetBy(v, s.by); }},
    {"sizes", "N", "the number of limits of a sweep, 2 to 256. Default: 16",
     [](absl::string_view v, Settings& s) { return SetSizes(v, s.sizes); }},
    {"html", "FILE", "write the curves of a sweep to a page of its own",
     [](absl::string_view v, Settings& s) { return SetHtml(v, s.html); }},
    {"read_through", "",
     "after a get or gets that misses, set the value. Default:\n"
     "true; --noread_through turns it off",
     [](absl::string_view v, Settings& s) {
       return SetBool(v, s.replay.read_through);
     }},
    {"skip_bad_lines", "",
     "skip malformed lines and count them. Default: false, the\n"
     "first one is an error",
     [](absl::string_view v, Settings& s) {
       return SetBool(v, s.skip_bad_lines);
     }},
    {"json", "", "print one JSON object instead of the table. Default: false",
     [](absl::string_view v, Settings& s) { return SetBool(v, s.json); }},
    {"progress", "",
     "show a progress bar if standard error is a terminal.\n"
     "Default: true",
     [](absl::string_view v, Settings& s) { return SetBool(v, s.progress); }},
    {"help", "", "print this text",
     [](absl::string_view v, Settings& s) { return SetBool(v, s.help); }},
};

}  // namespace

absl::Span<const Flag> AllFlags() { return kFlags; }

const Flag* FindFlag(absl::string_view name) {
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

}  // namespace replay
}  // namespace wheelcache
