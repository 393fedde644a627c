# Written by tools/cmake_lists from the BUILD files; .ci/run fails where the two
# differ.

set(wheelcache_LIBRARIES
  absl::algorithm_container
  absl::any_invocable
  absl::bits
  absl::cleanup
  absl::config
  absl::core_headers
  absl::flat_hash_set
  absl::function_ref
  absl::hash
  absl::int128
  absl::memory
  absl::random_random
  absl::span
  absl::status
  absl::statusor
  absl::str_format
  absl::strings
  absl::time)

set(near_LIBRARIES
  absl::any_invocable
  absl::bits
  absl::core_headers
  absl::flat_hash_map
  absl::function_ref
  absl::inlined_vector
  absl::memory
  absl::span
  absl::status
  absl::statusor
  absl::strings
  absl::time)

set(near_testing_LIBRARIES
  absl::core_headers
  absl::span
  absl::status
  absl::statusor
  absl::strings
  absl::time)

set(near_tls_LIBRARIES
  OpenSSL::SSL
  absl::core_headers
  absl::span
  absl::status
  absl::statusor
  absl::strings)
