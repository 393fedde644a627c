// Keeps an engine in the EngineRegistry for as long as it lives.
//
// Threads. Constant. The destructor waits until nobody looks at the engine.
//
// Errors. The constructor throws std::bad_alloc if there is no memory.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REGISTRATION_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REGISTRATION_H_

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class Engine;

class WHEELCACHE_EXPORT Registration {
 public:
  // Registers nothing if the engine is null. The name must outlive this.
  Registration(const Engine* engine, absl::string_view name);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const absl::string_view name_;
  const int id_;  // 0 if there is no engine.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REGISTRATION_H_
