// Requests in memory, to be replayed several times or one part after another.
//
//   absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
//   if (!trace.ok()) return trace.status();
//   for (size_t i = 0; i < trace->size(); ++i) Play((*trace)[i]);
//
// Errors: those of the source.
//
// Threads: several may share a trace.
//
// Cost: 24 bytes a request, and each distinct key once.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_LOADED_TRACE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_LOADED_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

class LoadedTrace {
 public:
  // What 32 bits can number, but for the last, which is none in bounds.h.
  static constexpr size_t kMostRequests =
      std::numeric_limits<uint32_t>::max() - 1;

  // Loads all that is left of the source. More than kMostRequests are an error.
  static absl::StatusOr<LoadedTrace> Load(RequestSource& source);

  // Loads up to `most` requests.
  static absl::StatusOr<LoadedTrace> LoadPart(RequestSource& source,
                                              size_t most);

  size_t size() const { return items_.size(); }
  // The number of distinct keys.
  size_t keys() const { return keys_.size(); }
  // The number of requests that count as hits or misses.
  int64_t reads() const { return reads_; }

  // The number of the key of a request, from 0 to below keys().
  size_t key(size_t i) const { return items_[i].key; }
  int64_t timestamp_seconds(size_t i) const {
    return items_[i].seconds_and_operation >> kOperationBits;
  }
  Request operator[](size_t i) const;

 private:
  static constexpr int kOperationBits = 4;

  struct Item {
    // Packed: the operation takes the lowest bits.
    int64_t seconds_and_operation;
    uint32_t key;
    uint32_t key_size;
    uint32_t value_size;
    uint32_t ttl_seconds;
  };

  LoadedTrace() = default;

  std::vector<Item> items_;
  std::deque<std::string> keys_;  // None moves as others come.
  int64_t reads_ = 0;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_LOADED_TRACE_H_
