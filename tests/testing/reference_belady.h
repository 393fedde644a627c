// Belady's bound: the most hits that any policy can have on a sequence of keys
// which are read through, in a cache of so many entries without TTLs.
//
//   int64_t hits = BeladyHits({1, 2, 1, 3, 2}, /*capacity=*/2);  // 2
//
// Belady, "A study of replacement algorithms for a virtual-storage computer",
// 1966: evict the entry whose next use is farthest away, that being stored
// included.
//
// Cost: O(n log capacity).

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_BELADY_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_BELADY_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace wheelcache::testing {

inline int64_t BeladyHits(const std::vector<uint64_t>& keys, int64_t capacity) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<size_t> next_use(keys.size(), kNever);
  std::map<uint64_t, size_t> seen;
  for (size_t i = keys.size(); i-- > 0;) {
    const auto it = seen.find(keys[i]);
    if (it != seen.end()) next_use[i] = it->second;
    seen[keys[i]] = i;
  }
  int64_t hits = 0;
  // The next use of each entry, and its key.
  std::set<std::pair<size_t, uint64_t>> entries;
  for (size_t i = 0; i < keys.size(); ++i) {
    hits += static_cast<int64_t>(entries.erase({i, keys[i]}));
    if (next_use[i] != kNever) entries.insert({next_use[i], keys[i]});
    if (static_cast<int64_t>(entries.size()) > capacity) {
      entries.erase(std::prev(entries.end()));
    }
  }
  return hits;
}

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_BELADY_H_
