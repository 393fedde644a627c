// A model of the caches of many cores: which cache lines move between them.
//
//   LineModel model(/*cores=*/2);
//   model.Write(/*core=*/0, &counter, sizeof(counter), /*by=*/1);
//   model.Read(/*core=*/1, &counter, sizeof(counter), /*by=*/2);
//   for (const auto& fetch : model.TakeFetches()) Print(fetch.writers);  // 1
//
// Each core has a cache of its own, without limit. A write takes the line away
// from all other cores. A core that accesses a line which it does not have, and
// which another core has written, fetches it; the fetch tells who has written
// the line since this core had it last.
//
// It counts no misses for want of room, knows no prefetching, and has one core
// at work at a time. A core that writes a line which it has, and others as
// well, must tell them; that is not counted.
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
  // The place in the program that accesses memory.
  using Site = uintptr_t;

  static constexpr int kMostCores = 64;

  // A line that a core had to fetch from another one.
  struct Fetch {
    uintptr_t line;                 // Its first address.
    Site by;                        // What accessed the line.
    bool writes;                    // Whether it was for a write.
    bool is_new;                    // The core never had it before.
    std::vector<Site> writers;      // Since the core had it last.
    std::vector<Site> all_writers;  // From the beginning.
    bool is_common;  // Most cores have written there since ForgetWriters.
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

  // Begins anew to watch which cores write to which lines.
  void ForgetWriters() {
    for (auto& [begin, line] : lines_) line.writers = 0;
  }

  // What was fetched since this was called last.
  std::vector<Fetch> TakeFetches() { return std::exchange(fetches_, {}); }

 private:
  using Cores = uint64_t;  // A bit for each.

  struct Line {
    uintptr_t begin = 0;
    Cores holders = 0;
    Cores earlier_holders = 0;
    Cores writers = 0;  // Since ForgetWriters.
    // For each site, the cores that have not seen its last write.
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
