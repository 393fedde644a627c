// A load with its key and its result.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_LOAD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_LOAD_H_

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wheelcache/cache/internal/engine/load.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/hash32.h"

namespace wheelcache::internal {

template <typename Key, typename Value, typename Equal>
class TypedLoad final : public Load {
 public:
  TypedLoad(Key key, Hash32 hash) : Load(hash), key_(std::move(key)) {}

  const Key& key() const { return key_; }

  bool HasKeyOf(const EntryHeader& entry) const override {
    return Equal()(static_cast<const Entry<Key, Value>&>(entry).key(), key_);
  }

  // Hands the result to all who wait, now and later. Called once.
  void Finish(absl::StatusOr<Value> result) {
    result_.emplace(std::move(result));
    End();
  }

  // Blocks until the result is there, and copies it. A load that ended without
  // one gives kUnknown; a thread that would wait for ever, as WaitForEnd says,
  // gets kFailedPrecondition.
  absl::StatusOr<Value> Wait() {
    if (!WaitForEnd()) {
      return absl::FailedPreconditionError(
          "the load of this key waits for the caller: its loader asked for "
          "its own key, or loaders asked for each other's");
    }
    return result_.has_value() ? *result_ : failure_;
  }

 private:
  const Key key_;

  // Written before the end and constant from then on; so that it is copied,
  // which is user code, without a lock.
  std::optional<absl::StatusOr<Value>> result_;
  const absl::StatusOr<Value> failure_ =
      absl::UnknownError("the loader threw an exception");
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_LOAD_H_
