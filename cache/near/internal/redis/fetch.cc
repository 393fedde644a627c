#include "wheelcache/cache/near/internal/redis/fetch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/cache/near/internal/redis/resp.h"

namespace wheelcache::internal {
namespace {

using Fetched = RemoteStore::Fetched;
using Keys = absl::Span<const absl::string_view>;

// Of a command, besides the key, about.
constexpr size_t kBytesAroundAKey = 24;

// Replies to PTTL.
constexpr int64_t kHasNoTtl = -1;
constexpr int64_t kIsAbsent = -2;

class Fetcher {
 public:
  Fetcher(Pipeline& pipeline, const Clock& clock, absl::Duration timeout)
      : pipeline_(pipeline),
        clock_(clock),
        deadline_nanos_(clock.NanosAfter(timeout)) {}

  // Appends the results for `keys`, by one MGET or a GET for each.
  void Fetch(Keys keys, bool use_mget,
             std::vector<absl::StatusOr<Fetched>>* results) {
    const int64_t sent_nanos = clock_.NowNanos();
    absl::StatusOr<std::vector<Reply>> replies = Exchange(keys, use_mget);
    if (!replies.ok()) {
      results->insert(results->end(), keys.size(), replies.status());
      return;
    }
    // The TTLs come first; then the values, each as a reply, or as one array.
    const auto ttls = absl::MakeConstSpan(*replies).first(keys.size());
    auto values = absl::MakeSpan(*replies).subspan(keys.size());
    if (use_mget) {
      Reply& array = values[0];
      values = absl::MakeSpan(array.elements);
      if (values.size() != keys.size()) {
        results->insert(results->end(), keys.size(),
                        UnexpectedReply("MGET", array));
        return;
      }
    }
    std::vector<absl::string_view> contradicted;
    std::vector<size_t> at;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (use_mget && values[i].is_null() && !ttls[i].is_error() &&
          ttls[i].integer != kIsAbsent) {
        contradicted.push_back(keys[i]);
        at.push_back(results->size());
      }
      results->push_back(FetchedFrom(ttls[i], values[i], sent_nanos));
    }
    if (contradicted.empty()) return;
    std::vector<absl::StatusOr<Fetched>> anew;
    Fetch(contradicted, /*use_mget=*/false, &anew);
    for (size_t i = 0; i < at.size(); ++i) {
      (*results)[at[i]] = std::move(anew[i]);
    }
  }

 private:
  absl::StatusOr<std::vector<Reply>> Exchange(Keys keys, bool use_mget) {
    std::string bytes;
    AppendCommands(keys, use_mget, &bytes);
    absl::StatusOr<std::vector<Reply>> replies = pipeline_.Execute(
        {Pipeline::Kind::kReads, std::move(bytes),
         keys.size() + (use_mget ? 1 : keys.size())},
        absl::Nanoseconds(deadline_nanos_ - clock_.NowNanos()));
    if (replies.ok()) return replies;
    return absl::Status(replies.status().code(),
                        absl::StrCat("GET: ", replies.status().message()));
  }

  static void AppendCommands(Keys keys, bool use_mget, std::string* bytes) {
    size_t key_bytes = 0;
    for (const absl::string_view key : keys) key_bytes += key.size();
    bytes->reserve(2 * (key_bytes + keys.size() * kBytesAroundAKey));
    for (const absl::string_view key : keys) {
      AppendCommand({"PTTL", key}, bytes);
    }
    if (use_mget) {
      AppendCommandStart(1 + keys.size(), bytes);
      AppendArgument("MGET", bytes);
      for (const absl::string_view key : keys) AppendArgument(key, bytes);
      return;
    }
    for (const absl::string_view key : keys) {
      AppendCommand({"GET", key}, bytes);
    }
  }

  Pipeline& pipeline_;
  const Clock& clock_;
  const int64_t deadline_nanos_;
};

}  // namespace

absl::StatusOr<Fetched> FetchedFrom(const Reply& ttl, Reply& value,
                                    int64_t sent_nanos) {
  if (ttl.type != Reply::Type::kInteger) return UnexpectedReply("PTTL", ttl);
  Fetched fetched;
  if (value.is_null()) return fetched;
  if (value.type != Reply::Type::kString) {
    return UnexpectedReply("GET", value);
  }
  fetched.bytes = std::move(value.text);
  if (ttl.integer != kHasNoTtl) {
    // Absent, it was written since, and its TTL is unknown.
    fetched.deadline_nanos =
        ttl.integer == kIsAbsent
            ? sent_nanos
            : Clock::NanosAfter(sent_nanos, absl::Milliseconds(ttl.integer));
  }
  return fetched;
}

absl::StatusOr<Fetched> FetchedFrom(absl::StatusOr<std::vector<Reply>> replies,
                                    int64_t sent_nanos, uint64_t session) {
  if (!replies.ok()) {
    return absl::Status(replies.status().code(),
                        absl::StrCat("GET: ", replies.status().message()));
  }
  absl::StatusOr<Fetched> fetched =
      FetchedFrom((*replies)[0], (*replies)[1], sent_nanos);
  if (fetched.ok()) fetched->session = session;
  return fetched;
}

std::vector<absl::StatusOr<Fetched>> FetchFromRedis(Pipeline& pipeline,
                                                    const Clock& clock,
                                                    Keys keys,
                                                    absl::Duration timeout) {
  std::vector<absl::StatusOr<Fetched>> results;
  results.reserve(keys.size());
  Fetcher fetcher(pipeline, clock, timeout);
  // Each key takes two commands at most.
  const size_t at_once =
      std::clamp<size_t>(pipeline.max_in_flight() / 2, 1, kMostKeysOfRound);
  for (; !keys.empty(); keys.remove_prefix(std::min(at_once, keys.size()))) {
    const Keys some = keys.subspan(0, at_once);
    fetcher.Fetch(some, /*use_mget=*/some.size() > 1, &results);
  }
  return results;
}

}  // namespace wheelcache::internal
