#include "wheelcache/benchmarks/line_model.h"

#include <algorithm>
#include <bitset>

namespace wheelcache::benchmarks {

void LineModel::Have(int core, Site by, bool writes, Line* line) {
  const Cores mine = Cores{1} << core;
  if ((line->holders & mine) != 0) return;
  line->holders |= mine;
  const auto writers = std::bitset<kMostCores>(line->writers).count();
  const auto cores = std::bitset<kMostCores>(all_).count();
  const bool is_new = (line->earlier_holders & mine) == 0;
  line->earlier_holders |= mine;
  Fetch fetch = {line->begin, by, writes, is_new, {}, {}, 2 * writers > cores};
  for (auto& [site, unseen] : line->unseen) {
    fetch.all_writers.push_back(site);
    if ((unseen & mine) == 0) continue;
    unseen &= ~mine;
    fetch.writers.push_back(site);
  }
  if (!fetch.writers.empty()) fetches_.push_back(std::move(fetch));
}

void LineModel::Write(int core, const volatile void* address, size_t bytes,
                      Site by) {
  const Cores mine = Cores{1} << core;
  ForEachLine(address, bytes, [&](Line& line) {
    Have(core, by, /*writes=*/true, &line);
    line.holders = mine;
    line.writers |= mine;
    const auto known =
        std::find_if(line.unseen.begin(), line.unseen.end(),
                     [by](const auto& write) { return write.first == by; });
    if (known != line.unseen.end()) {
      known->second = all_ & ~mine;
    } else {
      line.unseen.push_back({by, all_ & ~mine});
    }
  });
}

}  // namespace wheelcache::benchmarks
