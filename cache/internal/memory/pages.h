// Pages of memory from the system.
//
//   const Pages pages = Pages::Map(bytes);  // Zeros; unmapped with the object.
//   Use(pages.begin());
//
// A page takes memory from its first use. Huge pages save TLB misses on random
// accesses to much memory, and are resident as a whole from their first use.
//
// Threads. Thread-compatible; constant objects are thread-safe.
//
// Errors. Map throws std::bad_alloc, or ends a program without exceptions, if
// there is no room; TryMap returns no pages.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGES_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGES_H_

#include <cstddef>
#include <utility>

#include "absl/base/config.h"
#include "wheelcache/wheel/base/export.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace wheelcache::internal {

// Tell AddressSanitizer and LeakSanitizer about the memory of an allocator.
// Without them, do nothing.
#ifdef ABSL_HAVE_ADDRESS_SANITIZER

// Make any use of this memory an error from now on; or no use.
inline void Poison(void* memory, size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void Unpoison(void* memory, size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}

// What pointers in this memory refer to is no leak; or may be one again.
inline void AddLeakRoot(void* memory, size_t bytes) {
  __lsan_register_root_region(memory, bytes);
}
inline void RemoveLeakRoot(void* memory, size_t bytes) {
  __lsan_unregister_root_region(memory, bytes);
}

#else

inline void Poison(void*, size_t) {}
inline void Unpoison(void*, size_t) {}
inline void AddLeakRoot(void*, size_t) {}
inline void RemoveLeakRoot(void*, size_t) {}

#endif

inline constexpr size_t kHugePageBytes = 2 << 20;

class WHEELCACHE_EXPORT Pages {
 public:
  enum class Kind {
    kSmall,
    kHuge,      // Asks for huge pages for the whole ones in it.
    kAtOnce,    // All of them are used at once: one fault, not one for each.
    kReserved,  // Addresses alone, aligned as huge pages, until Commit.
  };

  // None; as of zero bytes.
  Pages() = default;
  static Pages Map(size_t bytes, Kind kind = Kind::kSmall);
  static Pages TryMap(size_t bytes, Kind kind = Kind::kSmall);

  Pages(Pages&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&&) = delete;
  ~Pages();

  std::byte* begin() const { return begin_; }  // Null if there are none.
  size_t bytes() const { return bytes_; }      // That were asked for.

  // Makes a part of reserved pages usable. Returns whether that succeeded.
  // REQUIRES: `offset` is the beginning of a page.
  bool Commit(size_t offset, size_t bytes) const;

  // Asks for huge pages for the whole ones in a part, before its first use: the
  // system collapses small pages in use into huge ones late, or at a price that
  // the caller would notice. REQUIRES: `offset` is the beginning of a huge one.
  void AskForHuge(size_t offset, size_t bytes) const;

  // Makes a part zeros again, and gives whole pages of it back to the system.
  void Clear(size_t offset, size_t bytes) const;

  // Lets go of the pages, for an owner that keeps their address alone; and
  // takes them back.
  std::byte* Release() { return std::exchange(begin_, nullptr); }
  static Pages Adopt(void* begin, size_t bytes) {
    return Pages(static_cast<std::byte*>(begin), bytes);
  }

  // What so many bytes take: whole pages.
  static size_t RoundUp(size_t bytes);

 private:
  Pages(std::byte* begin, size_t bytes) : begin_(begin), bytes_(bytes) {}

  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGES_H_
