// The version of the library, and the language and system that it needs.
//
//   std::puts("built with wheelcache " WHEELCACHE_VERSION);
//
// CMake, pkg-config and the packages take the version from here. What repeats
// it is compared by tests/documentation/documentation_test.cc.

#ifndef WHEELCACHE_WHEEL_BASE_VERSION_H_
#define WHEELCACHE_WHEEL_BASE_VERSION_H_

#if __cplusplus < 201703L
#error "wheelcache needs C++17: compile with -std=c++17 or a later standard"
#endif

#if __SIZEOF_POINTER__ < 8
#error "wheelcache needs a 64-bit CPU and system: compile with -m64, or for one"
#endif

#define WHEELCACHE_VERSION_MAJOR 0
#define WHEELCACHE_VERSION_MINOR 1
#define WHEELCACHE_VERSION_PATCH 0
// The three with dots between them.
#define WHEELCACHE_VERSION "0.1.0"

#endif  // WHEELCACHE_WHEEL_BASE_VERSION_H_
