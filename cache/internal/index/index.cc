#include "wheelcache/cache/internal/index/index.h"

#include <algorithm>
#include <utility>

#include "wheelcache/cache/internal/threads/interleave.h"

namespace wheelcache::internal {
namespace {

// The buckets that hold `expected` entries at a load of 9/11, which leaves room
// for variance; up to 4 MiB. Larger indexes start small.
size_t BucketsFor(size_t expected) {
  constexpr size_t kMostWanted = size_t{1} << 16;
  constexpr size_t kCells = IndexTable::kCellsPerBucket;
  const size_t buckets = expected / (kCells * 9) * 11;
  return buckets <= kMostWanted ? buckets : 0;
}

}  // namespace

Index::Index(TableMemory* memory, size_t expected)
    : memory_(*memory),
      table_(&IndexTable::None()),
      wanted_(BucketsFor(expected)) {
  DescribeTable();
}

Index::~Index() {
  if (!never_used()) delete &table();
}

size_t Index::TableBytesFor(size_t expected) {
  const size_t buckets = BucketsFor(expected);
  return buckets == 0 ? 0 : IndexTable::Bytes(buckets);
}

void Index::Clear() {
  if (!never_used()) PublishTable(&IndexTable::None());
  next_.reset();
  size_ = 0;
}

void Index::Reserve(size_t expected) { wanted_ = BucketsFor(expected); }

void Index::DescribeTable() {
  const auto [begin, count] = table().location();
  begin_.store(begin, std::memory_order_relaxed);
  count_.store(count, std::memory_order_relaxed);
  const size_t cells = never_used() ? 0 : count * kCells;
  // One bucket is the least.
  shrinks_at_ = count == 1 ? 0 : cells / 8;
  range_ = cells / 8 * 7 - shrinks_at_;
}

void Index::FreeOldTables() {
  old_tables_.erase(std::remove_if(old_tables_.begin(), old_tables_.end(),
                                   [](const OldTable& old) {
                                     return NewestReaderUpTo(old.epoch) == 0;
                                   }),
                    old_tables_.end());
}

void Index::PublishTable(IndexTable* table) {
  ++table_number_;
  if (never_used()) {
    table_.store(table, std::memory_order_release);
    DescribeTable();
    return;
  }
  old_tables_.emplace_back();  // First: it may throw.
  old_tables_.back().table.reset(
      table_.exchange(table, std::memory_order_acq_rel));
  DescribeTable();
  Interleave("index: between the new table and the epoch's end");
  old_tables_.back().epoch = AdvanceEpoch();
  FreeOldTables();
}

size_t Index::BucketsOfNext() const {
  if (never_used()) return 1;
  const size_t buckets = table().buckets();
  // Half full, if it is small.
  if (size_ < shrinks_at_) return std::max<size_t>(buckets / 4, 1);
  if (buckets >= wanted_) return buckets * 2;
  // The steps lead to the full table, and are short enough that no table is
  // sparse: it would shrink again, and a place would lose its huge page.
  size_t next = wanted_;
  while (next > buckets * 4) next = next / 4 + 1;
  return next;
}

void Index::Resize(absl::FunctionRef<Hash32(Ref)> hash_of) {
  IndexTable& old = table();
  if (next_ == nullptr) {
    auto next = std::make_unique<IndexTable>(&memory_, BucketsOfNext());
    old_tables_.reserve(old_tables_.size() + 1);  // What is left cannot fail.
    next_ = std::move(next);
    copied_ = 0;
  }
  constexpr int kMostBuckets = 16;
  size_t entries = 0;
  for (int i = 0; i < kMostBuckets && entries + kCells <= kMostCopied; ++i) {
    if (copied_ == old.buckets()) break;
    old.ForEachIn(copied_, [&](Ref ref) {
      next_->Insert(hash_of(ref), ref);
      ++entries;
    });
    ++copied_;
  }
  if (copied_ == old.buckets()) PublishTable(next_.release());
}

IndexTable& IndexTable::None() {
  // Constant initialization: for caches of static duration, too.
  static Bucket zeros;
  static IndexTable none(&zeros);
  return none;
}

}  // namespace wheelcache::internal
