// Marks what the library's shared objects and their users have in common.
//
// It belongs to what is defined in a .cc file and used by another one, which
// may lie in another shared object: inline code of headers is compiled into the
// users' own. So the library works where it is compiled with
// -fvisibility=hidden, and where its users are.
//
// State that the process must have once is never an inline variable: a shared
// object may have its own copy of that. It is defined in a .cc file.

#ifndef WHEELCACHE_WHEEL_BASE_EXPORT_H_
#define WHEELCACHE_WHEEL_BASE_EXPORT_H_

#include "wheelcache/wheel/base/version.h"

#if defined(__GNUC__) && !defined(_WIN32)
#define WHEELCACHE_EXPORT __attribute__((visibility("default")))
#else
#define WHEELCACHE_EXPORT
#endif

#endif  // WHEELCACHE_WHEEL_BASE_EXPORT_H_
