#include "wheelcache/cache/internal/engine/telling.h"

#include "wheelcache/cache/internal/entry/removed_list.h"

namespace wheelcache::internal {

thread_local const Telling* Telling::innermost = nullptr;

Telling::Telling(const void* cache, RemovedList* removed)
    : cache_(cache), removed_(removed), outer_(innermost) {
  innermost = this;
}

Telling::~Telling() { innermost = outer_; }

RemovedList* Telling::ListOf(const void* cache) {
  for (const Telling* t = innermost; t != nullptr; t = t->outer_) {
    if (t->cache_ == cache) return t->removed_;
  }
  return nullptr;
}

}  // namespace wheelcache::internal
