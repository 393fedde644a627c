#include "wheelcache/cache/internal/index/index.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/cache/internal/threads/interleave.h"

namespace wheelcache::internal {
namespace {

// The buckets that hold `expected` entries at a load of 9/11, which leaves room
// for variance; up to 4 MiB. Larger indexes start small.
size_t BucketsFor(size_t expected) {
  constexpr size_t kMostWanted = size_t{1} << 16;
  const size_t buckets = expected / (IndexTable::kCellsPerBucket * 9) * 11;
  return buckets <= kMostWanted ? buckets : 0;
}

}  // namespace

Index::Index(TableMemory* memory, size_t expected)
    : memory_(*memory),
      wanted_(BucketsFor(expected)),
      table_(new IndexTable(&memory_, 1)) {}

Index::~Index() { delete table_.load(std::memory_order_relaxed); }

size_t Index::TableBytesFor(size_t expected) {
  const size_t buckets = BucketsFor(expected);
  return buckets == 0 ? 0 : IndexTable::Bytes(buckets);
}

void Index::Clear() {
  if (size_ == 0 && larger_ == nullptr && table().buckets() == 1) return;
  PublishTable(std::make_unique<IndexTable>(&memory_, 1));
  larger_.reset();
  size_ = 0;
}

void Index::FreeOldTables() {
  old_tables_.erase(std::remove_if(old_tables_.begin(), old_tables_.end(),
                                   [](const OldTable& old) {
                                     return NewestReaderUpTo(old.epoch) == 0;
                                   }),
                    old_tables_.end());
}

void Index::PublishTable(std::unique_ptr<IndexTable> table) {
  old_tables_.emplace_back();  // First: it may throw.
  old_tables_.back().table.reset(
      table_.exchange(table.release(), std::memory_order_acq_rel));
  Interleave("index: between the new table and the epoch's end");
  old_tables_.back().epoch = AdvanceEpoch();
  FreeOldTables();
}

void Index::Grow(absl::FunctionRef<Hash32(Ref)> hash_of) {
  IndexTable& small = table();
  if (larger_ == nullptr) {
    // A cache of a few entries, whatever its limit, uses few cache lines.
    constexpr size_t kFew = 8;
    const size_t twice = small.buckets() * 2;
    auto larger = std::make_unique<IndexTable>(
        &memory_, small.buckets() < kFew ? twice : std::max(twice, wanted_));
    old_tables_.reserve(old_tables_.size() + 1);  // What is left cannot fail.
    larger_ = std::move(larger);
    copied_ = 0;
  }
  for (size_t i = 0; i < kMostCopied / kCells; ++i) {
    if (copied_ == small.buckets()) break;
    small.ForEachIn(copied_,
                    [&](Ref ref) { larger_->Insert(hash_of(ref), ref); });
    ++copied_;
  }
  if (copied_ == small.buckets()) PublishTable(std::move(larger_));
}

}  // namespace wheelcache::internal
