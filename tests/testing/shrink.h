// Makes a failing test case small.
//
//   calls = Shrink(calls, [](const std::vector<Call>& some) {
//     return Fails(some);
//   });
//
// A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing
// input" (2002), without the search among complements only: leave out a part,
// of half the length at first, and go on with what still fails.

#ifndef WHEELCACHE_TESTS_TESTING_SHRINK_H_
#define WHEELCACHE_TESTS_TESTING_SHRINK_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace wheelcache {

// Returns a part of `items`, in their order, for which `fails` holds, and of
// which no single item can be left out. REQUIRES: fails(items).
template <typename Item, typename Fails>
std::vector<Item> Shrink(std::vector<Item> items, Fails&& fails) {
  for (size_t length = std::max<size_t>(items.size() / 2, 1);;) {
    bool shrunk = false;
    for (size_t begin = 0; begin < items.size();) {
      const size_t end = std::min(begin + length, items.size());
      std::vector<Item> fewer(items.begin(), items.begin() + begin);
      fewer.insert(fewer.end(), items.begin() + end, items.end());
      if (fails(std::as_const(fewer))) {
        items = std::move(fewer);
        shrunk = true;
      } else {
        begin = end;
      }
    }
    if (length == 1 && !shrunk) return items;
    if (length > 1) length /= 2;
  }
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_SHRINK_H_
