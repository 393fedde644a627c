// The form of a snapshot, and what saving and loading are told and tell. Users
// include cache/snapshot/snapshot.h.
//
// A header, entries in any number of blocks, a trailer: each is a block. The
// header has the wall time when saving began; what a scan-resistant cache has
// learned, in millionths; format and codec in words. The trailer has the number
// of entries. Within a block, the least recently used entry comes first.
//
// A block is the CRC-32 of what follows, its length, its rank, and its bytes:
// up to 64 KiB, or one larger entry. An entry is the lengths of key and value
// and the nanoseconds from the header's time to its deadline, 0 for never; then
// key and value. A rank is a class of those that Cache::ForEach tells. Numbers
// have seven bits a byte, but for the four bytes each before a block, which are
// in the order of the machine.
//
// Nothing that is read is trusted: what exceeds its block, or the source, is
// not looked at, and no more memory is taken than the source has bytes.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_FORMAT_H_
#define WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_FORMAT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

// Where a snapshot goes: is called with its bytes, in their order.
using SnapshotSink = absl::FunctionRef<absl::Status(absl::string_view bytes)>;

// Where it comes from: fills `to` with the bytes from `offset` on, which are
// all within the size.
struct SnapshotSource {
  int64_t size;
  absl::FunctionRef<absl::Status(int64_t offset, absl::Span<char> to)> read;
};

struct SnapshotProgress {
  int64_t entries = 0;  // Saved, or read.
  int64_t bytes = 0;    // Of these.
};

struct SnapshotOptions {
  // Called after each block, with no lock held; returns whether to go on. May
  // take its time. Empty for none.
  std::function<bool(const SnapshotProgress&)> progress;

  // The time that saving and loading have in common.
  std::function<absl::Time()> wall_clock = [] { return absl::Now(); };
};

struct SavedSnapshot {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t left_out = 0;  // Entries of more than 256 MiB.
};

// What became of the entries that were read.
struct LoadedSnapshot {
  int64_t stored = 0;
  int64_t present = 0;  // Not stored: the cache has a value.
  int64_t expired = 0;
  int64_t refused = 0;  // By the codec, or as larger than the cache may be.
  // OK if these are all. DataLoss if the snapshot is broken, and where; or what
  // the codec said when it refused an entry. Cancelled by `progress`. Or an
  // error of the source.
  absl::Status status = absl::OkStatus();
};

namespace internal {

struct SnapshotEntry {
  absl::string_view key;
  absl::string_view value;
  absl::Duration deadline;       // By the cache's clock, if it is not used.
  absl::Duration hard_deadline;  // However much it is used.
  uint32_t rank = 0;             // As Cache::ForEach tells. Only when saving.
};

// What the two below have in common.
struct SnapshotContext {
  std::string codec;  // Name and version.
  const SnapshotOptions& options;
  AnyCache& cache;

  const Clock& clock() const { return *cache.options().clock; }
  bool has_idle_ttl() const {
    return cache.options().idle_ttl != absl::InfiniteDuration();
  }
  double window_part() const { return cache.engine_.window_part(); }
  void SetWindowPart(double part) const { cache.engine_.SetWindowPart(part); }
};

// Calls `for_each(add)`, which calls `add(entry)` for each entry until that
// returns false.
WHEELCACHE_EXPORT absl::StatusOr<SavedSnapshot> WriteSnapshot(
    SnapshotSink sink, const SnapshotContext& context,
    absl::FunctionRef<void(absl::FunctionRef<bool(const SnapshotEntry&)>)>
        for_each);

// Calls `store(entry, &loaded)`, which counts what becomes of it, for each
// entry that has not expired.
WHEELCACHE_EXPORT absl::StatusOr<LoadedSnapshot> ReadSnapshot(
    const SnapshotSource& source, const SnapshotContext& context,
    absl::FunctionRef<void(const SnapshotEntry&, LoadedSnapshot*)> store);

// Calls `save(sink)`, and puts what that has got in the place of the file, if
// both are well. Writes to PATH.part, which is locked meanwhile: what is there
// without a lock, a crash has left.
WHEELCACHE_EXPORT absl::Status OverwriteFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(SnapshotSink)> save);

// Calls `load(source)`.
WHEELCACHE_EXPORT absl::Status ReadFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const SnapshotSource&)> load);

// The CRC-32 of zlib and PNG.
WHEELCACHE_EXPORT uint32_t Crc32(absl::string_view bytes);

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_FORMAT_H_
