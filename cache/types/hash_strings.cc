#include "wheelcache/cache/types/hash_strings.h"

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

// Digits of pi.
constexpr uint64_t kFirst = 0x243f6a8885a308d3;
constexpr uint64_t kSecond = 0x13198a2e03707344;

uint64_t ChooseSeed() {
  // Differs from run to run where programs are loaded at random addresses.
  const auto address = reinterpret_cast<uintptr_t>(&hash_seed);
  uint64_t words[2] = {address, 0};
  platform::FillWithSecret(words, sizeof(words));  // The product tells neither.
  const uint64_t seed = FoldedProduct(words[0] ^ kFirst, words[1] ^ kSecond);
  return seed == 0 ? kFirst : seed;
}

// Before the constructors of other objects of this module.
#if defined(__GNUC__)
__attribute__((constructor(101)))
#endif
void PrepareAtLoad() {
  PrepareHashSeed();
}

}  // namespace

ABSL_CONST_INIT std::atomic<uint64_t> hash_seed{0};

void PrepareHashSeed() {
  if (hash_seed.load(std::memory_order_relaxed) != 0) return;
  // All threads that come here choose the same.
  SetHashSeed(ChooseSeed());
}

void SetHashSeed(uint64_t seed) {
  hash_seed.store(seed, std::memory_order_relaxed);
}

uint64_t HashStringOfAnyLength(std::string_view s) {
  // As Abseil's own view: where that is another type, the standard one would go
  // through std::hash, which takes twice as long.
  return FoldedProduct(absl::HashOf(hash_seed.load(std::memory_order_relaxed),
                                    absl::string_view(s.data(), s.size())),
                       kFirst);
}

}  // namespace wheelcache::internal
