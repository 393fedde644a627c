// A warm start: saves what a cache holds, and loads it after a restart.
//
//   auto saved = wheelcache::SaveSnapshotFile(*cache, "users.snapshot");
//   if (!saved.ok()) Log(saved.status());
//
// And when it starts again, before it serves:
//
//   auto loaded = wheelcache::LoadSnapshotFile(*cache, "users.snapshot");
//   if (!loaded.ok()) Log(loaded.status());  // NotFound: there is none.
//
// Strings, numbers and messages need no more; other types a codec of their own:
// cache/snapshot/snapshot_codec.h. SaveSnapshot and LoadSnapshot write and read
// anywhere else: see cache/snapshot/snapshot_format.h.
//
// Guarantees. A value lives no longer than it would have: deadlines are kept to
// the nanosecond, or with an idle TTL give or take one, by the wall clock from
// saving to loading and by the cache's own before and after that, without
// jitter. Where the wall clock went back, lives are shorter by as much. What
// has expired meanwhile is not loaded. A live value in the cache is newer, and
// stays. Limits hold.
//
// Order. Values are stored in the order of their last use, the most recent one
// last: exact within 64 KiB, and between these to an eighth of how long a value
// was not used. What does not fit is what would have been evicted first. What a
// scan-resistant cache has learned of its window is kept as well.
//
// The file. Written beside the old one, which it replaces when it is on the
// disk: after a crash there is the one or the other. Each block of 64 KiB has a
// CRC-32; of a file that is cut short or broken, the whole blocks that can be
// found are loaded. One with other types, or of another codec, is refused.
// Checksums find accidents, not forgeries; a forged file stores what it says,
// and does no other harm. It is readable by its owner alone.
//
// Not kept. Handle::Age and what follows from it, max_age and refresh-ahead,
// count from loading. A value that was deleted after it was saved comes back,
// as does one whose Del comes before it is loaded: load before you serve.
//
// Threads. Thread-safe: others may use the cache. While it is saved, each value
// that lives throughout is in the snapshot, and only once, but not all values
// are of one instant. No lock is held while user code runs.
//
// Cost. About 9 bytes a value in the file, and up to 64 KiB of memory for each
// of some dozen ranks. After each block SnapshotOptions::progress is called:
// sleep there to go easy, or stop.

#ifndef WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_H_
#define WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/snapshot/snapshot_codec.h"
#include "wheelcache/cache/snapshot/snapshot_format.h"
#include "wheelcache/cache/types/conditional.h"

namespace wheelcache {
namespace internal {

template <typename AnyType>
struct SnapshotOf {
  static_assert(sizeof(AnyType) == 0,
                "give snapshots a Cache. A NearCache has none: its store keeps "
                "the values, and writes of others may have come since");
};
template <typename Key, typename Value, typename Hash, typename Equal>
struct SnapshotOf<Cache<Key, Value, Hash, Equal>> {
  using Codec = SnapshotCodec<Key, Value>;

  template <typename AnyCodec>
  static SnapshotContext Context(AnyCache& cache, const AnyCodec& codec,
                                 const SnapshotOptions& options) {
    return {absl::StrCat(codec.name(), ", version ", codec.version()), options,
            cache};
  }
};

}  // namespace internal

// Writes all live values. Returns what it has written, or the first error of
// the sink, or Cancelled by SnapshotOptions::progress.
template <typename Cache,
          typename Codec = typename internal::SnapshotOf<Cache>::Codec>
absl::StatusOr<SavedSnapshot> SaveSnapshot(
    Cache& cache, SnapshotSink sink, const Codec& codec = {},
    const SnapshotOptions& options = {}) {
  const auto context =
      internal::SnapshotOf<Cache>::Context(cache, codec, options);
  return internal::WriteSnapshot(sink, context, [&](auto add) {
    std::string key;
    std::string value;
    cache.ForEach([&](const typename Cache::Handle& handle, uint32_t rank) {
      // The clock first: if time passes now, lives become shorter.
      const absl::Duration now = context.clock().Now();
      absl::Duration left = handle.TimeToLive();
      if (left <= absl::ZeroDuration()) return true;
      const absl::Duration hard = handle.HardTimeToLive();
      // With an idle TTL, an entry may end a nanosecond before its TTL.
      if (left == hard - absl::Nanoseconds(1)) left = hard;
      key.clear();
      codec.EncodeKey(handle.key(), &key);
      value.clear();
      codec.EncodeValue(handle.value(), &value);
      return add({key, value, now + left, now + hard, rank});
    });
  });
}

// Stores the values of a snapshot whose keys have none. Returns what became of
// them, also where parts of the snapshot are broken; or why nothing was loaded:
// InvalidArgument if it is no snapshot, FailedPrecondition if it is of another
// format or codec, DataLoss if its header is broken, or an error of the source.
template <typename Cache,
          typename Codec = typename internal::SnapshotOf<Cache>::Codec>
absl::StatusOr<LoadedSnapshot> LoadSnapshot(
    Cache& cache, const SnapshotSource& source, const Codec& codec = {},
    const SnapshotOptions& options = {}) {
  const auto context =
      internal::SnapshotOf<Cache>::Context(cache, codec, options);
  const auto store = [&](const internal::SnapshotEntry& entry,
                         LoadedSnapshot* loaded) {
    auto key = codec.DecodeKey(entry.key);
    auto value = codec.DecodeValue(entry.value);
    if (!key.ok() || !value.ok()) {
      loaded->status = key.ok() ? value.status() : key.status();
      ++loaded->refused;
      return;
    }
    const Put put = cache.SetIf(*std::move(key), {}, *std::move(value),
                                Deadline(entry.hard_deadline, entry.deadline));
    ++(put == Put::kStored                       ? loaded->stored
       : put == Put::kLost                       ? loaded->present
       : entry.deadline <= context.clock().Now() ? loaded->expired
                                                 : loaded->refused);
  };
  return internal::ReadSnapshot(source, context, store);
}

// As SaveSnapshot, to a file, which is replaced as a whole or not at all.
// Unavailable while another save writes to it.
template <typename Cache,
          typename Codec = typename internal::SnapshotOf<Cache>::Codec>
absl::StatusOr<SavedSnapshot> SaveSnapshotFile(
    Cache& cache, const std::string& path, const Codec& codec = {},
    const SnapshotOptions& options = {}) {
  absl::StatusOr<SavedSnapshot> saved;
  absl::Status status = internal::OverwriteFile(path, [&](SnapshotSink sink) {
    saved = SaveSnapshot(cache, sink, codec, options);
    return saved.status();
  });
  if (!status.ok()) return status;
  return saved;
}

// As LoadSnapshot, from a file. NotFound if there is none.
template <typename Cache,
          typename Codec = typename internal::SnapshotOf<Cache>::Codec>
absl::StatusOr<LoadedSnapshot> LoadSnapshotFile(
    Cache& cache, const std::string& path, const Codec& codec = {},
    const SnapshotOptions& options = {}) {
  absl::StatusOr<LoadedSnapshot> loaded;
  absl::Status status =
      internal::ReadFile(path, [&](const SnapshotSource& source) {
        loaded = LoadSnapshot(cache, source, codec, options);
        return loaded.status();
      });
  if (!status.ok()) return status;
  return loaded;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_H_
