// A pool of entries whose types are known, for tests of what lies in them.
//
//   TypedPool<int, std::string> pool(internal::Charges::kFromSizes);
//   const internal::EntryRef ref = pool.New(1, "one");
//   EXPECT_EQ(pool.At(ref).value(), "one");
//   pool.Unpin(ref);
//
// Threads. As EntryPool.

#ifndef WHEELCACHE_TESTS_TESTING_TYPED_POOL_H_
#define WHEELCACHE_TESTS_TESTING_TYPED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/memory/arena.h"

namespace wheelcache::testing {

// For keys that nobody looks up.
struct NoHash {
  template <typename T>
  size_t operator()(const T&) const {
    return 0;
  }
};
struct NoEqual {
  template <typename A, typename B>
  bool operator()(const A&, const B&) const {
    return false;
  }
};

template <typename Key, typename Value>
class TypedPool {
 public:
  using Ref = internal::EntryRef;
  using EntryType = internal::Entry<Key, Value>;

  explicit TypedPool(internal::Charges charges)
      : pool_(new internal::EntryPool(
            &internal::kEntryOperations<Key, Value, NoHash, NoEqual>,
            charges)) {}

  template <typename K, typename V>
  Ref New(K&& key, V&& value) {
    return internal::MakeEntry<Key, Value>(pool_.get(), std::forward<K>(key),
                                           std::forward<V>(value));
  }
  const EntryType& At(Ref ref) const {
    return static_cast<const EntryType&>(pool_->At(ref));
  }

  // The pool; for one that is to be abandoned, release().
  internal::EntryPool& operator*() const { return *pool_; }
  internal::EntryPool* release() { return pool_.release(); }

  int64_t Charge(Ref ref) const { return pool_->Charge(ref); }
  void SetCharge(Ref ref, uint32_t charge) { pool_->SetCharge(ref, charge); }
  void Unpin(Ref ref) { pool_->Unpin(ref); }
  const internal::Arena& arena() const { return pool_->arena(); }

 private:
  std::unique_ptr<internal::EntryPool, internal::AbandonPool> pool_;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_TYPED_POOL_H_
