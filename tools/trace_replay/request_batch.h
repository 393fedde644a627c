// Batch of requests, each assigned to a worker. Requests are read a batch at a
// time, so that the measured time of a replay excludes reading.
//
//   RequestBatch batch(workers);
//   absl::StatusOr<bool> filled = batch.Fill(source);  // False: at the end.
//   for (size_t i = 0; i < batch.size(); ++i) {
//     if (batch.worker(i) == mine) Play(batch[i]);
//   }
//
// Guarantees: all requests for one key have the same worker.
//
// Threads: thread-compatible; workers may read one batch together.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REQUEST_BATCH_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REQUEST_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {

class RequestBatch {
 public:
  // Few enough to leave most of a core's private caches to the cache under
  // test.
  static constexpr size_t kMaxRequests = 4096;
  // A batch ends early once its keys have this many bytes in total.
  static constexpr size_t kMaxKeyBytes = 1 << 20;

  explicit RequestBatch(int workers) : workers_(workers) {}

  // Replaces the batch by the next requests of `source`. Returns false if there
  // are none.
  absl::StatusOr<bool> Fill(RequestSource& source);

  size_t size() const { return items_.size(); }
  int worker(size_t i) const { return items_[i].worker; }
  int64_t timestamp_seconds(size_t i) const {
    return items_[i].request.timestamp_seconds;
  }

  // The key is valid until the next Fill.
  Request operator[](size_t i) const {
    Request request = items_[i].request;
    request.key = absl::string_view(keys_).substr(items_[i].key_begin,
                                                  items_[i].key_length);
    return request;
  }

 private:
  struct Item {
    Request request;  // Its key dangles; the bytes are in keys_.
    size_t key_begin;
    size_t key_length;
    int worker;
  };

  const int workers_;
  std::vector<Item> items_;
  std::string keys_;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REQUEST_BATCH_H_
