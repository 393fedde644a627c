// A cache whose entries are moved in memory while a test uses them.
//
//   Fill();
//   testing::RequireRound(cache_.get());
//   At(kBeforeMoving, [&] { cache_->Del(3); });
//   Maintain(cache_.get());
//
// A round moves all entries of a small cache, in two steps that a test may
// interrupt: as the memory has been condemned and nothing moved, or as all is
// moved and the old blocks are not retired yet.

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_MOVE_ENVIRONMENT_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_MOVE_ENVIRONMENT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache {

inline constexpr char kBeforeMoving[] = "move: between condemning and moving";
inline constexpr char kBeforeRetiring[] = "limbo: before an entry is added";

// Up to 1.2 KiB, so that some are small enough to be settled later.
inline std::string ValueOf(int key) {
  std::string value(static_cast<size_t>(10 + key * 40), '\0');
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] = static_cast<char>('a' + (i + static_cast<size_t>(key)) % 26);
  }
  return value;
}

template <typename CacheType>
void Maintain(CacheType* cache) {
  while (cache->RunMaintenance(1000) == 1000) {
  }
}

template <typename CacheType>
void MoveAll(CacheType* cache) {
  testing::RequireRound(cache);
  Maintain(cache);
}

template <typename CacheType>
void ExpectNoBrokenInvariant(CacheType* cache) {
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  EXPECT_TRUE(testing::CheckMemory(cache).ok()) << testing::CheckMemory(cache);
}

class CacheMoveEnvironment : public InterruptedCacheEnvironment {
 protected:
  using StringCache = Cache<int, std::string>;

  static constexpr int kKeys = 30;

  CacheMoveEnvironment() { options_.shards = 1; }

  // A new cache, in which the TTL of a key is so many seconds and one more.
  void Fill(StringCache::Hooks hooks = {}) {
    cache_ = New<int, std::string>(std::move(hooks));
    expected_.clear();
    for (int key = 0; key < kKeys; ++key) {
      cache_->Set(key, ValueOf(key), absl::Seconds(key + 1));
      expected_[key] = ValueOf(key);
    }
  }

  // Moves all entries of new caches. `call` comes in between, once at each of
  // the two instants; then `check` is called.
  void AtEachInstant(
      const std::function<void()>& call,
      const std::function<void()>& check = [] {}) {
    for (const char* instant : {kBeforeMoving, kBeforeRetiring}) {
      SCOPED_TRACE(instant);
      Fill();
      testing::RequireRound(cache_.get());
      At(instant, call);
      Maintain(cache_.get());
      ExpectWhole();
      check();
      // Once more, so that what was moved is moved again.
      MoveAll(cache_.get());
      ExpectWhole();
    }
  }

  // All that is there is what it should be.
  void ExpectWhole() {
    ExpectNoBrokenInvariant(cache_.get());
    for (int key = 0; key < 2 * kKeys; ++key) {
      const auto it = expected_.find(key);
      EXPECT_EQ(cache_->Peek(key), it == expected_.end()
                                       ? std::nullopt
                                       : std::optional<std::string>(it->second))
          << key;
    }
  }

  const char* PlaceOf(int key) {
    const char* place = nullptr;
    cache_->Visit(key, [&](std::string_view value) { place = value.data(); });
    return place;
  }

  std::vector<const char*> Places() {
    std::vector<const char*> places;
    for (int key = 0; key < kKeys; ++key) places.push_back(PlaceOf(key));
    return places;
  }

  // How many are no longer in these places.
  int CountMoved(const std::vector<const char*>& places) {
    int moved = 0;
    for (int key = 0; key < kKeys; ++key) {
      if (PlaceOf(key) != places[static_cast<size_t>(key)]) ++moved;
    }
    return moved;
  }

  std::unique_ptr<StringCache> cache_;
  std::map<int, std::string> expected_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_MOVE_ENVIRONMENT_H_
