// A list of generations for the reference simulators of eviction policies.
//
//   ReferenceGenerations list(/*parts=*/16);
//   list.Append(key);
//   list.Use(key);
//   while (list.OldestWasUsed()) list.MoveOldest();
//   list.Remove(list.oldest());
//
// A generation ends after a part as many appends as there are keys. A use gives
// a key the number of the generation that has not ended. Of more than twice as
// many generations as parts and two, the neighbours that span least are joined.
//
// Cost: O(log n) for each call.
//
// Threads: thread-compatible.

#ifndef WHEELCACHE_TESTS_TESTING_REFERENCE_GENERATIONS_H_
#define WHEELCACHE_TESTS_TESTING_REFERENCE_GENERATIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace wheelcache::testing {

class ReferenceGenerations {
 public:
  using Key = uint64_t;

  explicit ReferenceGenerations(int64_t parts) : parts_(parts) {}

  bool Contains(Key key) const { return places_.count(key) != 0; }
  bool empty() const { return keys_.empty(); }
  int64_t size() const { return static_cast<int64_t>(keys_.size()); }
  Key oldest() const { return keys_.begin()->second; }

  void Append(Key key) {
    Put(key, ended_.size(), number_);
    CountAppend();
  }

  void Remove(Key key) {
    keys_.erase(places_.at(key).position);
    places_.erase(key);
    ForgetEmpty();
  }

  void Use(Key key) { places_.at(key).number = number_; }

  // Whether the key that came first was used after its generation ended.
  bool OldestWasUsed() const {
    return !ended_.empty() && places_.at(oldest()).number > ended_[0].name;
  }

  // Appends it to the generation of its use.
  void MoveOldest() {
    const Key key = oldest();
    const int64_t number = places_.at(key).number;
    keys_.erase(keys_.begin());
    size_t generation = 0;
    while (generation < ended_.size() && ended_[generation].name < number) {
      ++generation;
    }
    Put(key, generation, number);
    ForgetEmpty();
    CountAppend();
  }

  // Puts another key in the place of one.
  void Substitute(Key old, Key key) {
    places_[key] = places_.at(old);
    places_.erase(old);
    keys_[places_[key].position] = key;
  }

  void Clear() {
    keys_.clear();
    places_.clear();
    ended_.clear();
    appends_ = 0;
  }

  // All keys, the oldest first.
  std::vector<Key> keys() const {
    std::vector<Key> keys;
    for (const auto& [position, key] : keys_) keys.push_back(key);
    return keys;
  }
  size_t generations() const { return ended_.size() + 1; }

 private:
  using Position = std::pair<int64_t, int64_t>;  // ID of a generation, turn.
  struct Place {
    Position position;
    int64_t number;
  };
  struct Generation {
    int64_t id;    // Of those that were joined, the last.
    int64_t name;  // Its last number.
  };

  void Put(Key key, size_t generation, int64_t number) {
    const int64_t id =
        generation < ended_.size() ? ended_[generation].id : number_;
    const Position position = {id, turn_++};
    keys_[position] = key;
    places_[key] = {position, number};
  }

  // Of the oldest generations.
  void ForgetEmpty() {
    while (!ended_.empty() &&
           (keys_.empty() || keys_.begin()->first.first > ended_[0].id)) {
      before_ = ended_[0].name;
      ended_.erase(ended_.begin());
    }
  }

  void CountAppend() {
    if (++appends_ < std::max<int64_t>(1, size() / parts_)) return;
    ended_.push_back({number_, number_});
    ++number_;
    appends_ = 0;
    if (static_cast<int64_t>(ended_.size()) + 1 <= 2 * parts_ + 2) return;
    // The last one has only just ended.
    size_t joined = 0;
    for (size_t i = 1; i + 2 < ended_.size(); ++i) {
      if (SpanOfTwo(i) < SpanOfTwo(joined)) joined = i;
    }
    ended_.erase(ended_.begin() + static_cast<std::ptrdiff_t>(joined));
  }
  int64_t SpanOfTwo(size_t older) const {
    return ended_[older + 1].name -
           (older == 0 ? before_ : ended_[older - 1].name);
  }

  const int64_t parts_;
  std::map<Position, Key> keys_;
  std::unordered_map<Key, Place> places_;
  std::vector<Generation> ended_;  // The oldest first.
  int64_t number_ = 0;
  int64_t before_ = -1;  // The last number before the oldest.
  int64_t appends_ = 0;
  int64_t turn_ = 0;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_REFERENCE_GENERATIONS_H_
