#include "wheelcache/tools/trace_replay/request_batch.h"

#include <cstddef>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {
namespace {

// Not by absl::Hash, which selects the cache's shards: each worker would have
// shards to itself, and their locks would never be contended.
int WorkerOf(absl::string_view key, int workers) {
  if (workers == 1) return 0;
  const std::string_view bytes(key.data(), key.size());
  return static_cast<int>(std::hash<std::string_view>()(bytes) % workers);
}

}  // namespace

absl::StatusOr<bool> RequestBatch::Fill(RequestSource& source) {
  items_.clear();
  keys_.clear();
  Request request;
  while (items_.size() < kMaxRequests && keys_.size() < kMaxKeyBytes) {
    absl::StatusOr<bool> more = source.Next(request);
    if (!more.ok()) return more.status();
    if (!*more) break;
    items_.push_back({request, keys_.size(), request.key.size(),
                      WorkerOf(request.key, workers_)});
    keys_.append(request.key.data(), request.key.size());
  }
  return !items_.empty();
}

}  // namespace replay
}  // namespace wheelcache
