// Reads the fuzzer's bytes as calls of every method of a cache, and compares
// each outcome with the oracle's.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_driver.h"
#include "wheelcache/tests/testing/cache_tape.h"
#include "wheelcache/tests/testing/tape.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wheelcache::Tape tape(absl::Span<const uint8_t>(data, size));
  const wheelcache::CacheSetup setup = wheelcache::CacheSetupFrom(tape);
  const std::vector<wheelcache::CacheCall> calls =
      wheelcache::CacheCallsFrom(tape, setup);
  const std::string difference = wheelcache::Disagreement(setup, calls);
  if (difference.empty()) return 0;
  std::cerr << difference << std::endl;
  std::abort();
}
