#include "wheelcache/cache/near/internal/redis/fetch.h"

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

// Of a round trip: other commands wait for these.
constexpr size_t kKeysAtOnce = 1000;

// Of a command, besides the key, about.
constexpr size_t kBytesAroundAKey = 24;

// Replies to PTTL.
constexpr int64_t kHasNoTtl = -1;
constexpr int64_t kIsAbsent = -2;

// The replies for some keys. The PTTLs come first; then the values, each as a
// reply, or all as one array.
struct Round {
  int64_t sent_nanos;
  std::vector<Reply> replies;

  const redisReply& ttl(size_t i) const { return *replies[i]; }
};

class Fetcher {
 public:
  Fetcher(Pipeline& pipeline, const Clock& clock, absl::Duration timeout)
      : pipeline_(pipeline),
        clock_(clock),
        deadline_nanos_(clock.NanosAfter(timeout)) {}

  // Appends the results for `keys`.
  void Fetch(Keys keys, std::vector<absl::StatusOr<Fetched>>* results) {
    if (keys.size() == 1) return FetchEach(keys, results);
    const absl::StatusOr<Round> round = Exchange(keys, /*use_mget=*/true);
    if (!round.ok()) {
      results->insert(results->end(), keys.size(), round.status());
      return;
    }
    const redisReply& values = *round->replies.back();
    if (ElementsOf(values).size() != keys.size()) {
      results->insert(results->end(), keys.size(),
                      UnexpectedReply("MGET", values));
      return;
    }
    std::vector<absl::string_view> contradicted;
    std::vector<size_t> at;
    for (size_t i = 0; i < keys.size(); ++i) {
      const redisReply& value = *values.element[i];
      const redisReply& ttl = round->ttl(i);
      if (IsNull(value) && !IsError(ttl) && ttl.integer != kIsAbsent) {
        contradicted.push_back(keys[i]);
        at.push_back(results->size());
      }
      results->push_back(FetchedFrom(ttl, value, round->sent_nanos));
    }
    if (contradicted.empty()) return;
    std::vector<absl::StatusOr<Fetched>> anew;
    FetchEach(contradicted, &anew);
    for (size_t i = 0; i < at.size(); ++i) {
      (*results)[at[i]] = std::move(anew[i]);
    }
  }

 private:
  // As above, with a GET for each key.
  void FetchEach(Keys keys, std::vector<absl::StatusOr<Fetched>>* results) {
    const absl::StatusOr<Round> round = Exchange(keys, /*use_mget=*/false);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!round.ok()) {
        results->push_back(round.status());
        continue;
      }
      results->push_back(FetchedFrom(
          round->ttl(i), *round->replies[keys.size() + i], round->sent_nanos));
    }
  }

  absl::StatusOr<Round> Exchange(Keys keys, bool use_mget) {
    std::string bytes;
    AppendCommands(keys, use_mget, &bytes);
    const int64_t now = clock_.NowNanos();
    absl::StatusOr<std::vector<Reply>> replies =
        pipeline_.Execute({bytes, keys.size() + (use_mget ? 1 : keys.size())},
                          absl::Nanoseconds(deadline_nanos_ - now));
    if (!replies.ok()) {
      return absl::Status(replies.status().code(),
                          absl::StrCat("GET: ", replies.status().message()));
    }
    return Round{now, *std::move(replies)};
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

  static absl::StatusOr<Fetched> FetchedFrom(const redisReply& ttl,
                                             const redisReply& value,
                                             int64_t sent_nanos) {
    if (ttl.type != REDIS_REPLY_INTEGER) return UnexpectedReply("PTTL", ttl);
    Fetched fetched;
    if (IsNull(value)) return fetched;
    if (value.type != REDIS_REPLY_STRING) return UnexpectedReply("GET", value);
    fetched.bytes = std::string(TextOf(value));
    if (ttl.integer != kHasNoTtl) {
      // Absent, it was written since, and its TTL is unknown.
      fetched.deadline_nanos =
          ttl.integer == kIsAbsent
              ? sent_nanos
              : Clock::NanosAfter(sent_nanos, absl::Milliseconds(ttl.integer));
    }
    return fetched;
  }

  Pipeline& pipeline_;
  const Clock& clock_;
  const int64_t deadline_nanos_;
};

}  // namespace

std::vector<absl::StatusOr<Fetched>> FetchFromRedis(Pipeline& pipeline,
                                                    const Clock& clock,
                                                    Keys keys,
                                                    absl::Duration timeout) {
  std::vector<absl::StatusOr<Fetched>> results;
  results.reserve(keys.size());
  Fetcher fetcher(pipeline, clock, timeout);
  for (size_t i = 0; i < keys.size(); i += kKeysAtOnce) {
    fetcher.Fetch(keys.subspan(i, kKeysAtOnce), &results);
  }
  return results;
}

}  // namespace wheelcache::internal
