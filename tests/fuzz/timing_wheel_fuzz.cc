// Reads the fuzzer's bytes as calls to both forms of the timing wheel and
// compares each outcome with the oracle's.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "absl/types/span.h"
#include "wheelcache/tests/testing/numbered_wheels.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/timing_wheel_driver.h"

namespace wheelcache {
namespace {

template <typename Wheel>
void Run(absl::Span<const uint8_t> bytes) {
  Tape tape(bytes);
  if (TimingWheelDriver<Wheel>(tape).Run().ok()) return;
  Tape again(bytes);
  std::cerr << TimingWheelDriver<Wheel>(again, &std::cerr).Run() << std::endl;
  std::abort();
}

}  // namespace
}  // namespace wheelcache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const uint8_t> bytes(data, size);
  wheelcache::Run<wheelcache::PointerWheel>(bytes);
  wheelcache::Run<wheelcache::IndexWheel<uint32_t>>(bytes);
  return 0;
}
