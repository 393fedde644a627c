// What the environment asks of a random test: how much, and from which seed.
//
//   WHEELCACHE_TEST_OPERATIONS=10000000   the nightly size
//   WHEELCACHE_TEST_HISTORIES=170000      the same, of concurrent histories
//   WHEELCACHE_TEST_SECONDS=600           the same, of a test without an end
//   WHEELCACHE_TEST_SEED=1234             repeats a failure
//
// Under Bazel they are passed on with --test_env.

#ifndef WHEELCACHE_TESTS_TESTING_TEST_ENVIRONMENT_H_
#define WHEELCACHE_TESTS_TESTING_TEST_ENVIRONMENT_H_

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace wheelcache {

inline uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t number;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number
                                                            : otherwise;
}

inline uint64_t TestOperations() {
  return NumberFromEnvironment("WHEELCACHE_TEST_OPERATIONS", 100'000);
}

// For each of several kinds.
inline uint64_t TestHistories() {
  return NumberFromEnvironment("WHEELCACHE_TEST_HISTORIES", 1'000);
}

inline uint64_t TestSeconds() {
  return NumberFromEnvironment("WHEELCACHE_TEST_SECONDS", 3);
}

// The first seed; a test that runs several times counts up from it.
inline uint64_t TestSeed() {
  return NumberFromEnvironment("WHEELCACHE_TEST_SEED", 1);
}

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_TEST_ENVIRONMENT_H_
