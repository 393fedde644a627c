#include "wheelcache/tools/trace_replay/loaded_trace.h"

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

absl::StatusOr<LoadedTrace> LoadedTrace::Load(RequestSource& source) {
  absl::StatusOr<LoadedTrace> trace = LoadPart(source, kMostRequests + 1);
  if (trace.ok() && trace->size() > kMostRequests) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "has more than ", kMostRequests, " requests, too many for a sweep"));
  }
  return trace;
}

absl::StatusOr<LoadedTrace> LoadedTrace::LoadPart(RequestSource& source,
                                                  size_t most) {
  LoadedTrace trace;
  absl::flat_hash_map<absl::string_view, uint32_t> numbers;
  Request request;
  while (trace.size() < most) {
    absl::StatusOr<bool> more = source.Next(request);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto number = numbers.find(request.key);
    if (number == numbers.end()) {
      trace.keys_.emplace_back(request.key);
      const auto next = static_cast<uint32_t>(trace.keys() - 1);
      number = numbers.emplace(trace.keys_.back(), next).first;
    }
    trace.items_.push_back({request.timestamp_seconds << kOperationBits |
                                static_cast<int64_t>(request.operation),
                            number->second, request.key_size,
                            request.value_size, request.ttl_seconds});
    if (request.operation <= Operation::kGets) ++trace.reads_;
  }
  trace.items_.shrink_to_fit();
  return trace;
}

Request LoadedTrace::operator[](size_t i) const {
  constexpr int64_t kOperationMask = (1 << kOperationBits) - 1;
  const Item& item = items_[i];
  Request request;
  request.timestamp_seconds = timestamp_seconds(i);
  request.key = keys_[item.key];
  request.key_size = item.key_size;
  request.value_size = item.value_size;
  request.operation =
      static_cast<Operation>(item.seconds_and_operation & kOperationMask);
  request.ttl_seconds = item.ttl_seconds;
  return request;
}

}  // namespace wheelcache::replay
