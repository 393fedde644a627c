#include "wheelcache/tools/trace_replay/loaded_trace.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {
namespace {

constexpr int kOperationBits = 4;
constexpr int64_t kOperationMask = (1 << kOperationBits) - 1;

// One less than what 32 bits can number, which stands for none in bounds.h.
constexpr size_t kMostRequests = std::numeric_limits<uint32_t>::max() - 1;

bool IsRead(Operation operation) {
  return operation == Operation::kGet || operation == Operation::kGets;
}

}  // namespace

absl::StatusOr<LoadedTrace> LoadedTrace::Load(RequestSource& source,
                                              const LoadListener& listener) {
  constexpr size_t kListenerInterval = 1 << 16;
  LoadedTrace trace;
  absl::flat_hash_map<absl::string_view, uint32_t> numbers;
  Request request;
  for (;;) {
    absl::StatusOr<bool> more = source.Next(request);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (trace.items_.size() == kMostRequests) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "has more than ", kMostRequests, " requests, too many for a sweep"));
    }
    auto number = numbers.find(request.key);
    if (number == numbers.end()) {
      trace.keys_.emplace_back(request.key.data(), request.key.size());
      const auto next = static_cast<uint32_t>(trace.keys_.size() - 1);
      number = numbers.emplace(trace.keys_.back(), next).first;
    }
    trace.items_.push_back({request.timestamp_seconds << kOperationBits |
                                static_cast<int64_t>(request.operation),
                            number->second, request.key_size,
                            request.value_size, request.ttl_seconds});
    if (IsRead(request.operation)) ++trace.reads_;
    if (listener && trace.items_.size() % kListenerInterval == 0) {
      listener(static_cast<int64_t>(trace.items_.size()));
    }
  }
  trace.items_.shrink_to_fit();
  return trace;
}

Request LoadedTrace::operator[](size_t i) const {
  const Item& item = items_[i];
  Request request;
  request.timestamp_seconds = item.seconds_and_operation >> kOperationBits;
  request.key = keys_[item.key];
  request.key_size = item.key_size;
  request.value_size = item.value_size;
  request.operation =
      static_cast<Operation>(item.seconds_and_operation & kOperationMask);
  request.ttl_seconds = item.ttl_seconds;
  return request;
}

absl::StatusOr<bool> LoadedTrace::Reader::Next(Request& request) {
  if (next_ == trace_.size()) return false;
  request = trace_[next_++];
  return true;
}

std::optional<double> LoadedTrace::Reader::progress() const {
  return static_cast<double>(next_) / static_cast<double>(trace_.size());
}

}  // namespace wheelcache::replay
