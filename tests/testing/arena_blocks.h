// Blocks of an arena that are in use, each filled with a number of its own, so
// that a test sees it when one is handed out twice.
//
//   Arena arena;
//   ArenaBlocks blocks(&arena);
//   blocks.Allocate(100);
//   blocks.FreeAt(0);

#ifndef WHEELCACHE_TESTS_TESTING_ARENA_BLOCKS_H_
#define WHEELCACHE_TESTS_TESTING_ARENA_BLOCKS_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/arena.h"

namespace wheelcache::testing {

class ArenaBlocks {
 public:
  explicit ArenaBlocks(internal::Arena* arena) : arena_(*arena) {}
  ArenaBlocks(const ArenaBlocks&) = delete;
  ArenaBlocks& operator=(const ArenaBlocks&) = delete;
  ~ArenaBlocks() {
    while (!blocks_.empty()) FreeAt(blocks_.size() - 1);
  }

  size_t size() const { return blocks_.size(); }
  size_t bytes() const { return bytes_; }

  internal::Arena::Ref Allocate(size_t bytes) {
    const internal::Arena::Ref ref = arena_.Allocate(bytes);
    blocks_.push_back({ref, bytes, ++fill_});
    bytes_ += internal::Arena::BlockBytes(bytes);
    std::memset(arena_.At(ref), fill_, bytes);
    return ref;
  }

  // Frees a block after a look at what it holds.
  void FreeAt(size_t i) {
    const Block block = blocks_[i];
    const auto* const begin =
        static_cast<const unsigned char*>(arena_.At(block.ref));
    EXPECT_EQ(std::count(begin, begin + block.bytes, block.fill),
              static_cast<std::ptrdiff_t>(block.bytes));
    arena_.Free(block.ref, block.bytes);
    bytes_ -= internal::Arena::BlockBytes(block.bytes);
    blocks_[i] = blocks_.back();
    blocks_.pop_back();
  }

 private:
  struct Block {
    internal::Arena::Ref ref;
    size_t bytes;
    unsigned char fill;
  };

  internal::Arena& arena_;
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
  unsigned char fill_ = 0;
};

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_TESTING_ARENA_BLOCKS_H_
