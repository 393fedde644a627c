// Storage for the entries of a cache, addressed by 32-bit references.
//
// Slots lie in chunks, each twice as large as the one before, so that a few
// dozen pointers address all of them, no slot ever moves, and a reference
// becomes an address with a count of leading zeros and one load. Freed slots
// are used again first; chunks go back to the system with the pool.
//
// A `Slot` is constructed once, when its place is first used, and lives until
// the pool ends. It supplies:
//   std::atomic<uint32_t> stamp    the pool's while the slot is free.
// It must be trivially destructible: what it holds is its user's affair.
//
// Threads. Thread-safe and, but for slots that were never used before,
// lock-free. Free slots wait in several stacks, so that threads seldom meet at
// one. Each is Treiber's stack; a count beside
// its head tells a slot that was popped and pushed again from one that stayed
// (the ABA problem), and slots are never unmapped, so that a thread that lost
// the race reads no foreign memory.
//
// Errors. Allocate throws std::bad_alloc, or ends a program without
// exceptions, when there is no memory for a chunk; the pool is unchanged.

#ifndef WHEELCACHE_CACHE_INTERNAL_SLOT_POOL_H_
#define WHEELCACHE_CACHE_INTERNAL_SLOT_POOL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/numeric/bits.h"
#include "wheelcache/cache/internal/thread_index.h"
#include "wheelcache/wheel/mutex.h"

namespace wheelcache {
namespace internal {

template <typename Slot>
class SlotPool {
 public:
  using Ref = uint32_t;  // 0 is null.

  SlotPool() = default;
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  ~SlotPool() {
    static_assert(std::is_trivially_destructible_v<Slot>);
    for (const std::atomic<Slot*>& chunk : chunks_) {
      ::operator delete (chunk.load(std::memory_order_relaxed),
                         std::align_val_t{alignof(Slot)});
    }
  }

  // The slot of a reference that Allocate has given.
  Slot& At(Ref ref) const {
    const uint32_t place = ref + kFirstChunk;
    // References stop short of where the sum would wrap around. GCC cannot
    // know, and warns of the chunk that a sum of 0 would be in.
    ABSL_ASSUME(place >= kFirstChunk);
    const int chunk = absl::bit_width(place) - kFirstChunkBits;
    // Relaxed is enough: whoever handed us the reference got it after the
    // chunk was published.
    Slot* slots = chunks_[chunk].load(std::memory_order_relaxed);
    return slots[place - absl::bit_floor(place)];
  }

  // Gives a slot that nobody else has until it is freed: the one that this
  // thread freed last, if it can be had.
  Ref Allocate() {
    const size_t first = ThreadIndex();
    for (size_t i = 0; i < kStacks; ++i) {
      const Ref ref = Pop(stacks_[(first + i) % kStacks]);
      if (ref != 0) return ref;
    }
    return AllocateUnused();
  }

  // Gives the slot back.
  void Free(Ref ref) { Push(stacks_[ThreadIndex() % kStacks], ref); }

  // Around fork(): keeps the one lock whole in the child.
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(grow_mu_) { grow_mu_.Lock(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(grow_mu_) { grow_mu_.Unlock(); }
  void AfterForkInChild() { ::new (&grow_mu_) Mutex; }

  // Calls `visit(slot)` for every slot that was ever allocated.
  // REQUIRES: no call of Allocate runs.
  template <typename Visit>
  void ForEachUsed(Visit&& visit) const {
    const Ref end = unused_.load(std::memory_order_acquire);
    for (Ref ref = 1; ref < end; ++ref) visit(At(ref));
  }

 private:
  static constexpr int kFirstChunkBits = 7;
  static constexpr uint32_t kFirstChunk = 1 << (kFirstChunkBits - 1);
  static constexpr int kChunks = 32 - kFirstChunkBits + 1;

  static constexpr size_t kStacks = 16;

  // The top of a stack of free slots, and above it a count of changes.
  struct alignas(ABSL_CACHELINE_SIZE) Stack {
    std::atomic<uint64_t> head{0};
  };

  // The top thousand references are the wheel's slot tags; the last chunk
  // ends well before them.
  static constexpr uint32_t kMaxSlots = 0xffff0000u - kFirstChunk;

  static Ref RefOf(uint64_t head) { return static_cast<Ref>(head); }
  static uint64_t Head(Ref ref, uint64_t previous) {
    return ((previous >> 32) + 1) << 32 | ref;
  }

  Ref Pop(Stack& stack);
  void Push(Stack& stack, Ref ref);
  Ref AllocateUnused();
  void AddChunk(int chunk);

  std::array<std::atomic<Slot*>, kChunks> chunks_ = {};
  Mutex grow_mu_;  // Held to allocate a chunk or a slot never used before.
  std::atomic<Ref> unused_{1};  // Slots from here on were never used.
  std::array<Stack, kStacks> stacks_;
};

template <typename Slot>
typename SlotPool<Slot>::Ref SlotPool<Slot>::Pop(Stack& stack) {
  uint64_t head = stack.head.load(std::memory_order_acquire);
  while (RefOf(head) != 0) {
    const Ref next = At(RefOf(head)).stamp.load(std::memory_order_relaxed);
    if (stack.head.compare_exchange_weak(head, Head(next, head),
                                         std::memory_order_acquire)) {
      return RefOf(head);
    }
  }
  return 0;
}

template <typename Slot>
void SlotPool<Slot>::Push(Stack& stack, Ref ref) {
  std::atomic<uint32_t>& link = At(ref).stamp;
  uint64_t head = stack.head.load(std::memory_order_relaxed);
  do {
    link.store(RefOf(head), std::memory_order_relaxed);
  } while (!stack.head.compare_exchange_weak(head, Head(ref, head),
                                             std::memory_order_release,
                                             std::memory_order_relaxed));
}

template <typename Slot>
typename SlotPool<Slot>::Ref SlotPool<Slot>::AllocateUnused() {
  MutexLock lock(&grow_mu_);
  const Ref ref = unused_.load(std::memory_order_relaxed);
  assert(ref < kMaxSlots && "a cache holds at most 4 billion entries");
  const uint32_t place = ref + kFirstChunk;
  const int chunk = absl::bit_width(place) - kFirstChunkBits;
  if (chunks_[chunk].load(std::memory_order_relaxed) == nullptr) {
    AddChunk(chunk);
  }
  ::new (&At(ref)) Slot();
  unused_.store(ref + 1, std::memory_order_release);
  return ref;
}

template <typename Slot>
void SlotPool<Slot>::AddChunk(int chunk) {
  // Untouched pages of a large chunk cost no memory yet.
  const size_t bytes = sizeof(Slot) * (size_t{kFirstChunk} << chunk);
  chunks_[chunk].store(static_cast<Slot*>(::operator new (
                           bytes, std::align_val_t{alignof(Slot)})),
                       std::memory_order_release);
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_SLOT_POOL_H_
