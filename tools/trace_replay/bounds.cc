#include "wheelcache/tools/trace_replay/bounds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {
namespace {

// What an operation means to a bound.
enum class Effect { kRead, kStore, kDelete, kNothing };

Effect EffectOf(Operation operation) {
  switch (operation) {
    case Operation::kGet:
    case Operation::kGets:
      return Effect::kRead;
    case Operation::kSet:
    case Operation::kAdd:
      return Effect::kStore;
    case Operation::kDelete:
      return Effect::kDelete;
    default:
      return Effect::kNothing;
  }
}

bool Replaces(Operation operation) {
  return operation == Operation::kReplace || operation == Operation::kCas;
}

// The next reads of the values that are kept; the largest on top. Reads that
// have come stay in it, below all others, until they are many.
class KeptValues {
 public:
  explicit KeptValues(size_t requests) : kept_(requests) {}

  // Whether the value that request `i` reads was kept. It no longer is.
  bool Take(uint32_t i) {
    if (!kept_[i]) return false;
    kept_[i] = false;
    --size_;
    return true;
  }

  void Add(uint32_t next_read, uint32_t now) {
    kept_[next_read] = true;
    ++size_;
    if (reads_.size() > 2 * static_cast<size_t>(size_) + 64) {
      reads_.erase(std::remove_if(reads_.begin(), reads_.end(),
                                  [&](uint32_t read) { return read <= now; }),
                   reads_.end());
      std::make_heap(reads_.begin(), reads_.end());
    }
    reads_.push_back(next_read);
    std::push_heap(reads_.begin(), reads_.end());
  }

  void DropFarthest() {
    kept_[reads_.front()] = false;
    --size_;
    std::pop_heap(reads_.begin(), reads_.end());
    reads_.pop_back();
  }

  int64_t size() const { return size_; }

 private:
  std::vector<bool> kept_;  // By the number of the read.
  std::vector<uint32_t> reads_;
  int64_t size_ = 0;
};

// Of each key, the smallest of its requests that have a value.
std::vector<int64_t> SmallestCharges(const LoadedTrace& trace,
                                     int64_t overhead) {
  std::vector<int64_t> charges(trace.keys(),
                               std::numeric_limits<int64_t>::max());
  for (size_t i = 0; i < trace.size(); ++i) {
    const Request request = trace[i];
    const Effect effect = EffectOf(request.operation);
    if (effect == Effect::kDelete) continue;
    // What replaces a value may be smaller, what grows one says by how much.
    if (effect == Effect::kNothing && !Replaces(request.operation)) continue;
    int64_t& charge = charges[trace.key(i)];
    charge = std::min(charge, overhead + int64_t{request.key_size} +
                                  int64_t{request.value_size});
  }
  return charges;
}

// The longest life of the value that a request stores.
absl::Duration LifeOf(const Request& request, const Lives& lives) {
  const absl::Duration ttl =
      request.ttl_seconds == 0 ? lives.ttl : absl::Seconds(request.ttl_seconds);
  return ttl * (1 + lives.jitter);
}

// Of each key, whether its requests name different TTLs.
std::vector<bool> KeysWithSeveralTtls(const LoadedTrace& trace) {
  constexpr int64_t kNone = -1;
  std::vector<int64_t> ttls(trace.keys(), kNone);
  std::vector<bool> several(trace.keys());
  for (size_t i = 0; i < trace.size(); ++i) {
    const size_t key = trace.key(i);
    const int64_t ttl = trace[i].ttl_seconds;
    if (ttls[key] == kNone) ttls[key] = ttl;
    if (ttls[key] != ttl) several[key] = true;
  }
  return several;
}

}  // namespace

std::vector<uint32_t> NextReads(const LoadedTrace& trace, bool read_through) {
  std::vector<uint32_t> next_reads(trace.size(), kNoRead);
  // Of each key, the last request since which a value may have been kept.
  std::vector<uint32_t> since(trace.keys(), kNoRead);
  for (size_t i = 0; i < trace.size(); ++i) {
    uint32_t& start = since[trace.key(i)];
    const auto now = static_cast<uint32_t>(i);
    switch (EffectOf(trace[i].operation)) {
      case Effect::kRead:
        if (start != kNoRead) next_reads[start] = now;
        if (start != kNoRead || read_through) start = now;
        break;
      case Effect::kStore:
        start = now;
        break;
      case Effect::kDelete:
        start = kNoRead;
        break;
      case Effect::kNothing:
        break;
    }
  }
  return next_reads;
}

int64_t MostHits(absl::Span<const uint32_t> next_reads, int64_t max_entries) {
  KeptValues values(next_reads.size());
  int64_t hits = 0;
  for (size_t i = 0; i < next_reads.size(); ++i) {
    const auto now = static_cast<uint32_t>(i);
    if (values.Take(now)) ++hits;
    if (next_reads[i] == kNoRead) continue;
    values.Add(next_reads[i], now);
    if (values.size() > max_entries) values.DropFarthest();
  }
  return hits;
}

std::vector<int64_t> MostHitsByBytes(const LoadedTrace& trace,
                                     absl::Span<const uint32_t> next_reads,
                                     absl::Span<const int64_t> limits,
                                     int64_t overhead) {
  const std::vector<int64_t> charges = SmallestCharges(trace, overhead);
  // Of each possible hit, the charge times the number of requests.
  std::vector<std::pair<double, int64_t>> costs;
  for (size_t i = 0; i < next_reads.size(); ++i) {
    if (next_reads[i] == kNoRead) continue;
    const int64_t charge = charges[trace.key(i)];
    costs.emplace_back(
        static_cast<double>(charge) * static_cast<double>(next_reads[i] - i),
        charge);
  }
  std::sort(costs.begin(), costs.end());
  std::vector<int64_t> hits;
  for (const int64_t limit : limits) {
    double room =
        static_cast<double>(limit) * static_cast<double>(next_reads.size());
    int64_t affordable = 0;
    for (const auto& [cost, charge] : costs) {
      if (cost > room) break;
      if (charge > limit) continue;
      room -= cost;
      ++affordable;
    }
    hits.push_back(affordable);
  }
  return hits;
}

int64_t MostHitsByTtl(const LoadedTrace& trace, const Lives& lives) {
  constexpr absl::Duration kAbsent = -absl::InfiniteDuration();
  const std::vector<bool> uneven = KeysWithSeveralTtls(trace);
  std::vector<absl::Duration> deadlines(trace.keys(), kAbsent);
  absl::Duration now = kAbsent;
  int64_t hits = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const Request request = trace[i];
    now = std::max(now, absl::Seconds(request.timestamp_seconds));
    absl::Duration& deadline = deadlines[trace.key(i)];
    const bool present = now < deadline;
    bool may_store = false;
    switch (EffectOf(request.operation)) {
      case Effect::kRead:
        if (present) ++hits;
        // To miss early, for a later deadline, never pays where TTLs are equal.
        may_store = lives.read_through && (!present || uneven[trace.key(i)]);
        break;
      case Effect::kStore:
        may_store = true;
        break;
      case Effect::kDelete:
        deadline = kAbsent;
        break;
      case Effect::kNothing:
        // A policy may have the value where this one has lost it.
        may_store = deadline != kAbsent && Replaces(request.operation);
        break;
    }
    if (may_store) {
      deadline = std::max(deadline, now + LifeOf(request, lives));
    }
  }
  return hits;
}

}  // namespace wheelcache::replay
