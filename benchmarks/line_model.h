// A model of the caches of many cores: which cache lines move between them.
//
//   LineModel model(/*cores=*/2);
//   model.Write(/*core=*/0, &counter, sizeof(counter), /*by=*/1);
//   model.Read(/*core=*/1, &counter, sizeof(counter));
//   for (const Fetch& fetch : model.TakeFetches()) Print(fetch.writers);  // 1
//
// Each core has a cache of its own without limit. A line is in those of all
// cores that have read it since it was written, and a write takes it away from
// the others. A core fetches a line that it does not have and that another one
// has written; whoever has written it since the core had it last are the
// writers of the fetch. A write to a line that others have read is no fetch.
//
// What it does not show: misses for want of room, prefetching, and what happens
// when two cores are in the middle of operations at the same time.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_BENCHMARKS_LINE_MODEL_H_
#define WHEELCACHE_BENCHMARKS_LINE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace wheelcache::benchmarks {

class LineModel {
 public:
  // Says what has written: the place in the program.
  using Site = uintptr_t;

  static constexpr int kMostCores = 64;

  // A line that a core had to fetch from another one.
  struct Fetch {
    uintptr_t line;  // Its first address.
    Site by;         // What accessed the line.
    bool writes;     // Whether it was for a write.
    std::vector<Site> writers;
    std::vector<Site> all_writers;  // That it ever had.
  };

  // REQUIRES: 1 to kMostCores.
  explicit LineModel(int cores) : all_(~uint64_t{0} >> (kMostCores - cores)) {}

  LineModel(const LineModel&) = delete;
  LineModel& operator=(const LineModel&) = delete;

  void Read(int core, const volatile void* address, size_t bytes, Site by) {
    ForEachLine(address, bytes,
                [&](Line& line) { Have(core, by, false, &line); });
  }
  void Write(int core, const volatile void* address, size_t bytes, Site by);

  // What was fetched since this was called last.
  std::vector<Fetch> TakeFetches() { return std::exchange(fetches_, {}); }

 private:
  using Cores = uint64_t;  // A bit for each.

  struct Line {
    uintptr_t begin = 0;
    Cores holders = 0;
    // Who has not seen the last write of each site.
    std::vector<std::pair<Site, Cores>> unseen;
  };

  static constexpr uintptr_t kLineBytes = 64;

  template <typename Function>
  void ForEachLine(const volatile void* address, size_t bytes,
                   Function&& function) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    for (uintptr_t at = begin / kLineBytes * kLineBytes; at < begin + bytes;
         at += kLineBytes) {
      Line& line = lines_[at];
      line.begin = at;
      function(line);
    }
  }
  void Have(int core, Site by, bool writes, Line* line);

  const Cores all_;
  std::unordered_map<uintptr_t, Line> lines_;
  std::vector<Fetch> fetches_;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_LINE_MODEL_H_
