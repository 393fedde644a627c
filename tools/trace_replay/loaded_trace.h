// A whole trace in memory, to be replayed several times.
//
//   absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
//   if (!trace.ok()) return trace.status();
//   LoadedTrace::Reader reader(*trace);  // The same requests each time.
//   absl::StatusOr<ReplayResult> result = Replay(reader, options);
//
// Errors: those of the source.
//
// Threads: readers on several threads may share a trace. A reader is
// thread-compatible.
//
// Cost: 24 bytes a request, and each distinct key once.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_LOADED_TRACE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_LOADED_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

class LoadedTrace {
 public:
  class Reader;

  // Called now and then, with the number of requests loaded so far.
  using LoadListener = std::function<void(int64_t requests)>;

  static absl::StatusOr<LoadedTrace> Load(RequestSource& source,
                                          const LoadListener& listener = {});

  size_t size() const { return items_.size(); }
  // The number of distinct keys.
  size_t keys() const { return keys_.size(); }
  // The number of requests that count as hits or misses.
  int64_t reads() const { return reads_; }

  // The number of the key of a request, from 0 to below keys().
  size_t key(size_t i) const { return items_[i].key; }
  Request operator[](size_t i) const;

 private:
  struct Item {
    // Packed: the operation takes four bits.
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

class LoadedTrace::Reader : public RequestSource {
 public:
  // The trace must outlive the reader.
  explicit Reader(const LoadedTrace& trace) : trace_(trace) {}

  absl::StatusOr<bool> Next(Request& request) override;
  std::optional<double> progress() const override;

 private:
  const LoadedTrace& trace_;
  size_t next_ = 0;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_LOADED_TRACE_H_
