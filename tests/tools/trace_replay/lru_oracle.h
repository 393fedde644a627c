// Oracle of a replay: an LRU list with deadlines, simple enough to be obviously
// correct, and too slow for anything but tests.
//
//   LruOracle oracle(options, overhead);
//   oracle.Play(request);
//   EXPECT_EQ(result.counts.hits, oracle.hits());
//
// Implements each rule of the replayer a second time: time never goes back;
// expired entries leave first, then the least recently used ones.
//
// Cost: linear in the number of entries, for each request.

#ifndef WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_LRU_ORACLE_H_
#define WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_LRU_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {

class LruOracle {
 public:
  // `overhead` is the cache's charge for an entry on top of the traced sizes.
  LruOracle(const ReplayOptions& options, int64_t overhead)
      : options_(options), overhead_(overhead) {}

  void Play(const Request& request) {
    now_ = std::max(now_, absl::Seconds(request.timestamp_seconds));
    const auto entry = FindLive(request.key);
    const bool present = entry != entries_.end();
    switch (request.operation) {
      case Operation::kGet:
      case Operation::kGets:
        ++(present ? hits_ : misses_);
        if (present) entries_.splice(entries_.begin(), entries_, entry);
        if (!present && options_.read_through) Set(request);
        break;
      case Operation::kSet:
        Set(request);
        break;
      case Operation::kAdd:
        if (present) entries_.splice(entries_.begin(), entries_, entry);
        if (!present) Set(request);
        break;
      case Operation::kReplace:
      case Operation::kCas:
        if (present) Set(request);
        break;
      case Operation::kAppend:
      case Operation::kPrepend:
        if (present) Set(Grown(*entry, request.value_size));
        break;
      case Operation::kIncr:
      case Operation::kDecr:
        if (present) Set(*entry);
        break;
      case Operation::kDelete:
        if (present) entries_.erase(entry);
        break;
    }
  }

  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }
  int64_t evictions() const { return evictions_; }
  int64_t expirations() const { return expirations_; }
  int64_t peak_entries() const { return peak_entries_; }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Entry {
    std::string key;
    int64_t bytes;
    absl::Duration deadline;
  };

  std::list<Entry>::iterator FindLive(absl::string_view key) {
    const auto before = static_cast<int64_t>(entries_.size());
    entries_.remove_if([&](const Entry& e) { return e.deadline <= now_; });
    expirations_ += before - static_cast<int64_t>(entries_.size());
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& e) { return e.key == key; });
  }

  static Entry Grown(Entry entry, int64_t bytes) {
    entry.bytes += bytes;
    return entry;
  }

  void Set(const Request& request) {
    Set({std::string(request.key),
         overhead_ + request.key_size + request.value_size,
         now_ + (request.ttl_seconds == 0
                     ? options_.ttl
                     : absl::Seconds(request.ttl_seconds))});
  }

  // Takes a copy: the caller's entry may be the one that is replaced.
  void Set(Entry entry) {
    entries_.remove_if([&](const Entry& e) { return e.key == entry.key; });
    if (entry.bytes > options_.max_bytes) return;
    while (static_cast<int64_t>(entries_.size()) >= options_.max_entries ||
           Bytes() > options_.max_bytes - entry.bytes) {
      entries_.pop_back();
      ++evictions_;
    }
    entries_.push_front(std::move(entry));
    peak_entries_ =
        std::max(peak_entries_, static_cast<int64_t>(entries_.size()));
    peak_bytes_ = std::max(peak_bytes_, Bytes());
  }

  int64_t Bytes() const {
    int64_t bytes = 0;
    for (const Entry& entry : entries_) bytes += entry.bytes;
    return bytes;
  }

  const ReplayOptions options_;
  const int64_t overhead_;
  absl::Duration now_;
  std::list<Entry> entries_;  // The most recently used first.
  int64_t hits_ = 0;
  int64_t misses_ = 0;
  int64_t evictions_ = 0;
  int64_t expirations_ = 0;
  int64_t peak_entries_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_LRU_ORACLE_H_
