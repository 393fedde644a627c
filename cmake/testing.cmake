# The unit tests under ctest: those that cmake/tests.cmake lists, each with the
# name that it has in Bazel. docs/testing.md says what is left to Bazel alone.

if(NOT TARGET GTest::gmock_main)
  find_package(GTest CONFIG REQUIRED)
endif()

# Tests include "wheelcache/tests/testing/child.h".
set(tests_include_dir ${PROJECT_BINARY_DIR}/include_for_tests)
file(MAKE_DIRECTORY ${tests_include_dir}/wheelcache)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/tests
  ${tests_include_dir}/wheelcache/tests SYMBOLIC)

# In an emulator, threads that wait for each other are many times slower.
set(test_timeout 300)
if(CMAKE_CROSSCOMPILING)
  set(test_timeout 1800)
endif()

# wheelcache_test(<name> <source>... [COPTS <option>...] [LINKOPTS <option>...])
function(wheelcache_test name)
  cmake_parse_arguments(arg "" "" "COPTS;LINKOPTS" ${ARGN})
  # They replace functions of Unix, by GNU ld, in what is linked statically.
  if(arg_LINKOPTS AND (BUILD_SHARED_LIBS OR APPLE OR WIN32))
    return()
  endif()
  add_executable(wheelcache_${name} ${arg_UNPARSED_ARGUMENTS})
  target_compile_options(wheelcache_${name} PRIVATE -Wall -Wextra ${arg_COPTS})
  # CMake's own option comes last.
  if("-std=c++20" IN_LIST arg_COPTS)
    set_target_properties(wheelcache_${name} PROPERTIES CXX_STANDARD 20)
  endif()
  target_link_options(wheelcache_${name} PRIVATE ${arg_LINKOPTS})
  target_link_libraries(wheelcache_${name} PRIVATE wheelcache_testing)
  # Precompiled headers serve one set of options.
  if(NOT arg_COPTS)
    target_precompile_headers(wheelcache_${name} REUSE_FROM wheelcache_testing)
  endif()
  add_test(NAME ${name} COMMAND wheelcache_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_timeout})
endfunction()

# What tests share: the sources in tests/testing.
add_library(wheelcache_testing STATIC)
target_include_directories(wheelcache_testing PUBLIC ${tests_include_dir})
target_compile_options(wheelcache_testing PRIVATE -Wall -Wextra)
# Half of the time that a test takes to compile.
target_precompile_headers(wheelcache_testing
  PRIVATE <gmock/gmock.h> <gtest/gtest.h> <wheelcache/cache/cache.h>)
target_link_libraries(wheelcache_testing
  PUBLIC wheelcache::wheelcache GTest::gmock_main)
if(TARGET wheelcache::near)
  target_link_libraries(wheelcache_testing PUBLIC wheelcache::near_testing)
endif()
if(TARGET wheelcache::near_tls)
  target_link_libraries(wheelcache_testing PUBLIC wheelcache::near_tls)
endif()

include(cmake/tests.cmake)
if(WHEELCACHE_BUILD_EXAMPLES)
  add_test(NAME hello COMMAND wheelcache_hello)
  set_tests_properties(hello PROPERTIES PASS_REGULAR_EXPRESSION "^12 apples\n$")
endif()
