#include "wheelcache/cache/snapshot/snapshot_format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace wheelcache::internal {
namespace {

constexpr double kWhole = 1e6;

// Begins the kind of a snapshot whose entries have a hard deadline as well.
constexpr absl::string_view kWithIdle = "idle_ttl, ";

constexpr size_t kMostBlockBytes = size_t{64} << 10;
constexpr size_t kMostEntryBytes = size_t{256} << 20;

struct Head {
  uint32_t crc;
  uint32_t length;
  uint32_t rank;
};

// Ranks of blocks without entries; the first is "SNAP" on most machines.
constexpr uint32_t kHeader = 0x50414E53;
constexpr uint32_t kTrailer = kHeader + 1;

// Ranks in classes: exact below 16, and then eight to each doubling. The two
// highest bits of a rank say which list of a cache it is of.
constexpr uint32_t kListBits = 30;
constexpr uint32_t kClassesOfList = 8 * (kListBits - 3);
constexpr uint32_t kClasses = 4 * kClassesOfList;

uint32_t ClassOf(uint32_t rank) {
  const uint32_t in_list = rank % (uint32_t{1} << kListBits);
  // Keeps the highest bit and three that follow, and where these were.
  const int width = std::max(4, static_cast<int>(absl::bit_width(in_list)));
  const auto shift = static_cast<uint32_t>(width) - 4;
  return (rank >> kListBits) * kClassesOfList + 8 * shift + (in_list >> shift);
}

// Of a block, for its head.
uint32_t CrcOf(absl::string_view block) {
  return Crc32(block.substr(sizeof(Head::crc)));
}

std::string KindOf(const SnapshotContext& context) {
  return absl::StrCat("format 1, codec ", context.codec);
}

// Reversed: the lowest bit is the highest power.
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kPolynomial = 0xEDB88320;
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

template <typename T>
absl::string_view BytesOf(const T& object) {
  return {reinterpret_cast<const char*>(&object), sizeof(object)};
}

// These take what they read away, and return false if there is not enough.

bool Take(uint64_t size, absl::string_view* from, absl::string_view* bytes) {
  if (size > from->size()) return false;
  *bytes = from->substr(0, static_cast<size_t>(size));
  from->remove_prefix(static_cast<size_t>(size));
  return true;
}

bool Take(absl::string_view* from, uint64_t* number) {
  *number = 0;
  for (int shift = 0; shift < 64 && !from->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from->front());
    from->remove_prefix(1);
    *number |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Seven bits a byte, the lowest first.
void Append(uint64_t number, std::string* bytes) {
  for (; number >= 0x80; number >>= 7) {
    bytes->push_back(static_cast<char>(number | 0x80));
  }
  bytes->push_back(static_cast<char>(number));
}

absl::Status Report(const SnapshotOptions& options,
                    const SnapshotProgress& progress) {
  if (!options.progress || options.progress(progress)) return absl::OkStatus();
  return absl::CancelledError("by SnapshotOptions::progress");
}

class Writer {
 public:
  // Reads the clocks in this order: if time passes between, lives are shorter.
  Writer(SnapshotSink sink, const SnapshotContext& context)
      : sink_(sink),
        context_(context),
        wall_start_(context.options.wall_clock()),
        start_(context.clock().Now()),
        blocks_(kClasses) {}

  absl::Status Begin() {
    std::string header;
    Append(static_cast<uint64_t>(absl::ToUnixNanos(wall_start_)), &header);
    Append(static_cast<uint64_t>(context_.window_part() * kWhole), &header);
    if (context_.has_idle_ttl()) absl::StrAppend(&header, kWithIdle);
    return Write(kHeader, header + KindOf(context_));
  }

  absl::Status Add(const SnapshotEntry& entry) {
    if (entry.key.size() + entry.value.size() > kMostEntryBytes) {
      ++saved_.left_out;
      return absl::OkStatus();
    }
    std::string bytes;
    Append(entry.key.size(), &bytes);
    Append(entry.value.size(), &bytes);
    Append(LeftUntil(entry.deadline), &bytes);
    if (context_.has_idle_ttl()) Append(LeftUntil(entry.hard_deadline), &bytes);
    absl::StrAppend(&bytes, entry.key, entry.value);
    const uint32_t rank = ClassOf(entry.rank);
    if (blocks_[rank].size + bytes.size() > kMostBlockBytes) {
      absl::Status status = Flush(rank);
      if (!status.ok()) return status;
    }
    blocks_[rank].size += bytes.size();
    blocks_[rank].entries.emplace_back(entry.rank, std::move(bytes));
    ++saved_.entries;
    return absl::OkStatus();
  }

  absl::StatusOr<SavedSnapshot> Finish() {
    absl::Status status;
    for (uint32_t rank = kClasses; rank > 0 && status.ok(); --rank) {
      status = Flush(rank - 1);
    }
    std::string trailer;
    Append(static_cast<uint64_t>(saved_.entries), &trailer);
    if (status.ok()) status = Write(kTrailer, trailer);
    if (!status.ok()) return status;
    return saved_;
  }

 private:
  // In nanoseconds; 0 for ever.
  uint64_t LeftUntil(absl::Duration deadline) const {
    if (deadline == absl::InfiniteDuration()) return 0;
    const int64_t left = absl::ToInt64Nanoseconds(deadline - start_);
    return static_cast<uint64_t>(std::max<int64_t>(left, 1));
  }

  struct Block {
    size_t size = 0;
    std::vector<std::pair<uint32_t, std::string>> entries;  // By exact rank.
  };

  // Writes the entries of a rank, if there are any.
  absl::Status Flush(uint32_t rank) {
    Block block = std::exchange(blocks_[rank], {});
    if (block.entries.empty()) return absl::OkStatus();
    std::stable_sort(
        block.entries.begin(), block.entries.end(),
        [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string bytes;
    bytes.reserve(block.size);
    for (const auto& [exact_rank, entry] : block.entries) bytes += entry;
    return Write(rank, bytes);
  }

  absl::Status Write(uint32_t rank, absl::string_view contents) {
    Head head = {0, static_cast<uint32_t>(contents.size()), rank};
    std::string block = absl::StrCat(BytesOf(head), contents);
    head.crc = CrcOf(block);
    std::memcpy(block.data(), &head, sizeof(head));
    saved_.bytes += static_cast<int64_t>(block.size());
    absl::Status status = sink_(block);
    if (!status.ok()) return status;
    return Report(context_.options, {saved_.entries, saved_.bytes});
  }

  SnapshotSink sink_;
  const SnapshotContext& context_;
  const absl::Time wall_start_;
  const absl::Duration start_;
  std::vector<Block> blocks_;  // By class of rank.
  SavedSnapshot saved_;
};

// Where a block is.
struct Place {
  int64_t offset;
  Head head;

  int64_t size() const { return int64_t{sizeof(head)} + head.length; }
};

absl::Status Broken(const Place& place, absl::string_view how) {
  return absl::DataLossError(absl::StrCat(
      "the snapshot is broken: the block at byte ", place.offset, " ", how));
}

class Reader {
 public:
  explicit Reader(const SnapshotSource& source) : source_(source) {}

  // Finds the block at an offset.
  absl::StatusOr<Place> Find(int64_t offset) {
    Place place = {offset, {}};
    absl::Status status = Read(place);
    if (!status.ok()) return status;
    std::memcpy(&place.head, bytes_.data(), sizeof(place.head));
    if (place.head.length > 0 && Fits(place)) return place;
    return Broken(place, "is not all there");
  }

  // Returns what is in a block, until the next call.
  absl::StatusOr<absl::string_view> ContentsOf(const Place& place) {
    absl::Status status = Read(place);
    if (!status.ok()) return status;
    if (place.head.crc != CrcOf(bytes_)) {
      return Broken(place, "has another checksum");
    }
    return absl::string_view(bytes_).substr(sizeof(place.head));
  }

 private:
  bool Fits(const Place& place) const {
    return place.size() <= source_.size - place.offset;
  }
  absl::Status Read(const Place& place) {
    if (!Fits(place)) return Broken(place, "is not all there");
    bytes_.resize(static_cast<size_t>(place.size()));
    return source_.read(place.offset, absl::MakeSpan(bytes_));
  }

  const SnapshotSource& source_;
  std::string bytes_;
};

// What a snapshot says of itself: how long ago saving began, and whether its
// entries have hard deadlines.
struct Header {
  Place place;
  absl::Duration elapsed = absl::ZeroDuration();
  bool with_idle = false;
};

absl::StatusOr<Header> ReadHeader(const SnapshotContext& context,
                                  Reader* reader) {
  const absl::Time now = context.options.wall_clock();
  absl::StatusOr<Place> header = reader->Find(0);
  if (absl::IsDataLoss(header.status()) ||
      (header.ok() && header->head.rank != kHeader)) {
    return absl::InvalidArgumentError("this is no snapshot of a cache");
  }
  if (!header.ok()) return header.status();
  absl::StatusOr<absl::string_view> contents = reader->ContentsOf(*header);
  if (!contents.ok()) return contents.status();
  Header result = {*header};
  uint64_t wall_nanos = 0;
  uint64_t window = 0;
  const std::string kind = KindOf(context);
  const bool has_numbers =
      Take(&*contents, &wall_nanos) && Take(&*contents, &window);
  result.with_idle = absl::ConsumePrefix(&*contents, kWithIdle);
  if (!has_numbers || *contents != kind) {
    return absl::FailedPreconditionError(
        absl::StrCat("the snapshot is of ", absl::CHexEscape(*contents),
                     "; this cache loads ", kind));
  }
  const int64_t saved = static_cast<int64_t>(wall_nanos);
  // If the clock has gone back, lives are shortened all the same.
  result.elapsed = absl::AbsDuration(now - absl::FromUnixNanos(saved));
  if (window != 0) context.SetWindowPart(static_cast<double>(window) / kWhole);
  return result;
}

// Finds the blocks of entries that follow the header, in the order in which
// they are to be loaded, and how many entries the trailer says. In any case,
// the blocks before one that is missing.
absl::Status FindBlocks(Place last, Reader* reader, std::vector<Place>* blocks,
                        uint64_t* entries) {
  absl::StatusOr<Place> next;
  for (;;) {
    next = reader->Find(last.offset + last.size());
    if (!next.ok() || next->head.rank == kTrailer) break;
    blocks->push_back(last = *next);
  }
  std::stable_sort(
      blocks->begin(), blocks->end(),
      [](const Place& a, const Place& b) { return a.head.rank > b.head.rank; });
  if (!next.ok()) return next.status();
  absl::StatusOr<absl::string_view> contents = reader->ContentsOf(*next);
  if (!contents.ok()) return contents.status();
  if (!Take(&*contents, entries)) return Broken(*next, "has no number");
  return absl::OkStatus();
}

// Takes an entry away, and turns its deadlines into those by the cache's clock.
// `saved` is when saving began.
bool TakeEntry(absl::Duration saved, bool with_idle, absl::string_view* from,
               SnapshotEntry* entry) {
  uint64_t key_size = 0;
  uint64_t value_size = 0;
  uint64_t left = 0;
  uint64_t hard_left = 0;
  if (!Take(from, &key_size) || !Take(from, &value_size) ||
      !Take(from, &left) || (with_idle && !Take(from, &hard_left)) ||
      !Take(key_size, from, &entry->key) ||
      !Take(value_size, from, &entry->value)) {
    return false;
  }
  const auto at = [&](uint64_t nanos) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return nanos == 0 ? absl::InfiniteDuration()
                      : saved + absl::Nanoseconds(static_cast<int64_t>(
                                    std::min(nanos, kMost)));
  };
  entry->deadline = at(left);
  entry->hard_deadline = with_idle ? at(hard_left) : entry->deadline;
  return true;
}

}  // namespace

absl::StatusOr<SavedSnapshot> WriteSnapshot(
    SnapshotSink sink, const SnapshotContext& context,
    absl::FunctionRef<void(absl::FunctionRef<bool(const SnapshotEntry&)>)>
        for_each) {
  Writer writer(sink, context);
  absl::Status status = writer.Begin();
  const auto add = [&](const SnapshotEntry& entry) {
    status = writer.Add(entry);
    return status.ok();
  };
  if (status.ok()) for_each(add);
  if (!status.ok()) return status;
  return writer.Finish();
}

absl::StatusOr<LoadedSnapshot> ReadSnapshot(
    const SnapshotSource& source, const SnapshotContext& context,
    absl::FunctionRef<void(const SnapshotEntry&, LoadedSnapshot*)> store) {
  // The clocks in this order: as in Writer.
  const absl::Duration start = context.clock().Now();
  Reader reader(source);
  const absl::StatusOr<Header> header = ReadHeader(context, &reader);
  if (!header.ok()) return header.status();
  std::vector<Place> blocks;
  uint64_t counted = 0;
  absl::Status status = FindBlocks(header->place, &reader, &blocks, &counted);
  LoadedSnapshot loaded;
  SnapshotProgress progress;
  for (const Place& block : blocks) {
    absl::StatusOr<absl::string_view> rest = reader.ContentsOf(block);
    status.Update(rest.status());
    while (rest.ok() && !rest->empty()) {
      SnapshotEntry entry;
      if (!TakeEntry(start - header->elapsed, header->with_idle, &*rest,
                     &entry)) {
        rest = Broken(block, "has half an entry");
        status.Update(rest.status());
        continue;
      }
      ++progress.entries;
      if (entry.deadline > start) {
        store(entry, &loaded);
      } else {
        ++loaded.expired;
      }
    }
    progress.bytes += block.size();
    const absl::Status goes_on = Report(context.options, progress);
    if (!goes_on.ok()) {
      loaded.status = goes_on;
      return loaded;
    }
  }
  if (status.ok() && counted != static_cast<uint64_t>(progress.entries)) {
    status = absl::DataLossError(
        absl::StrCat("the snapshot has ", progress.entries,
                     " entries, and its trailer says ", counted));
  }
  if (!status.ok()) loaded.status = status;
  return loaded;
}

uint32_t Crc32(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc =
        (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

}  // namespace wheelcache::internal
