// Hits of a MemoryShare on mixes of four real traces, beside those of an equal
// split and of the best split that does not change, as CSV:
//
//   ./bazelw run --config=bench //benchmarks:share_figures
//
// The best split is that of parts of a 32nd of the bytes. The last column is
// the hits of the share, as a part of that one's. Keys and values have their
// sizes in the traces, and requests come at even distances of time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/share/memory_share.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::replay {
namespace {

constexpr int kParts = 32;
constexpr absl::Duration kStep = absl::Milliseconds(100);

// A part of a trace, which begins at a time, in tenths of a second as the rate.
struct Part {
  std::string trace;
  size_t rate;
  size_t start = 0;
  size_t skip = 0;
  size_t most = 1'000'000'000;
};

struct Mix {
  std::string name;
  int64_t max_bytes;
  std::vector<Part> parts;
};

const Mix kMixes[] = {
    {"small objects",
     6'000'000,
     {{"oltp", 100},
      {"orm_busy", 100, 0, 0, 900'000},
      {"sprite", 100, 3000},
      {"cdn_sizes", 10}}},
    {"blocks and objects",
     64'000'000,
     {{"oltp", 100},
      {"orm_busy", 100, 0, 0, 900'000},
      {"cloudphysics", 15},
      {"cdn_sizes", 10}}},
    {"shifting load",
     3'000'000,
     {{"oltp", 100, 0, 0, 400'000},
      {"oltp", 100, 4000, 400'000, 400'000},
      {"orm_busy", 200, 0, 0, 800'000},
      {"orm_busy", 200, 4000, 1'000'000, 800'000}}},
    {"large objects",
     400'000'000,
     {{"cloudphysics", 10, 0, 0, 60'000},
      {"cloudphysics", 20, 5000, 50'000, 60'000},
      {"cdn_sizes", 6},
      {"oltp", 100}}},
};

struct Sizes {
  uint64_t bytes;
};
using MixCache = Cache<std::string, Sizes>;

// A cache and the requests that come to it.
class Player {
 public:
  Player(const LoadedTrace& trace, const Part& part, int64_t max_bytes,
         SimulatedClock* clock)
      : trace_(trace),
        part_(part),
        next_(std::min(part.skip, trace.size())),
        end_(next_ + std::min(part.most, trace.size() - next_)) {
    CacheOptions options;
    options.max_bytes = max_bytes;
    options.advise = true;
    options.shards = 1;
    options.clock = clock;
    options.reaper = nullptr;
    options.registered = false;
    MixCache::Hooks hooks;
    hooks.weigher = [](std::string_view, const Sizes& value) {
      return value.bytes;
    };
    cache_ = *MixCache::Create(std::move(options), std::move(hooks));
  }

  MixCache& cache() { return *cache_; }
  int64_t hits() const { return hits_; }

  // Plays what comes in this step; returns whether there will be more.
  bool Play(size_t step) {
    if (step < part_.start) return true;
    for (size_t i = 0; i < part_.rate && next_ < end_; ++i, ++next_) {
      const Request request = trace_[next_];
      if (cache_->Get(request.key).has_value()) {
        ++hits_;
      } else {
        cache_->Set(request.key,
                    Sizes{uint64_t{request.key_size} + request.value_size});
      }
    }
    return next_ < end_;
  }

 private:
  const LoadedTrace& trace_;
  const Part& part_;
  size_t next_;
  const size_t end_;
  std::unique_ptr<MixCache> cache_;
  int64_t hits_ = 0;
};

using Traces = std::map<std::string, LoadedTrace>;

int64_t HitsAlone(const LoadedTrace& trace, const Part& part, int64_t bytes) {
  SimulatedClock clock;
  Player player(trace, part, bytes, &clock);
  for (size_t step = part.start; player.Play(step);) ++step;
  return player.hits();
}

int64_t HitsOfShare(const Traces& traces, const Mix& mix) {
  SimulatedClock clock;
  MemoryShareOptions options;
  options.max_bytes = mix.max_bytes;
  options.clock = &clock;
  options.reaper = nullptr;
  const auto share = *MemoryShare::Create(options);
  std::vector<std::unique_ptr<Player>> players;
  for (const Part& part : mix.parts) {
    players.push_back(std::make_unique<Player>(traces.at(part.trace), part,
                                               mix.max_bytes, &clock));
    share->Add(players.back()->cache(), {mix.max_bytes / 64}).IgnoreError();
  }
  bool more = true;
  for (size_t step = 0; more; ++step) {
    more = false;
    for (const auto& player : players) more |= player->Play(step);
    clock.Advance(kStep);
    share->RunMaintenance();
  }
  int64_t hits = 0;
  for (const auto& player : players) hits += player->hits();
  return hits;
}

void Print(const Traces& traces, const Mix& mix) {
  constexpr size_t kAll = kParts;
  std::vector<int64_t> best(kAll + 1);
  int64_t equal = 0;
  for (const Part& part : mix.parts) {
    std::vector<int64_t> hits(kAll + 1);
    for (size_t i = 1; i <= kAll; ++i) {
      hits[i] = HitsAlone(traces.at(part.trace), part,
                          mix.max_bytes / kParts * static_cast<int64_t>(i));
    }
    equal += hits[kAll / mix.parts.size()];
    for (size_t all = kAll; all > 0; --all) {
      for (size_t i = 1; i <= all; ++i) {
        best[all] = std::max(best[all], best[all - i] + hits[i]);
      }
    }
  }
  const int64_t share = HitsOfShare(traces, mix);
  std::printf("%s,%lld,%lld,%lld,%.4f\n", mix.name.c_str(),
              static_cast<long long>(equal), static_cast<long long>(best[kAll]),
              static_cast<long long>(share),
              static_cast<double>(share) / static_cast<double>(best[kAll]));
  std::fflush(stdout);
}

int Run() {
  Traces traces;
  for (const char* name :
       {"cdn_sizes", "cloudphysics", "oltp", "orm_busy", "sprite"}) {
    auto trace = LoadRealTrace(name);
    if (!trace.ok()) {
      std::fprintf(stderr, "%s\n", trace.status().ToString().c_str());
      return 1;
    }
    traces.emplace(name, *std::move(trace));
  }
  std::printf("mix,equal split,best split,share,of the best\n");
  for (const Mix& mix : kMixes) Print(traces, mix);
  return 0;
}

}  // namespace
}  // namespace wheelcache::replay

int main() { return wheelcache::replay::Run(); }
