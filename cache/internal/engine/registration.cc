#include "wheelcache/cache/internal/engine/registration.h"

#include "absl/strings/string_view.h"
#include "wheelcache/cache/internal/engine/engine_registry.h"

namespace wheelcache::internal {

Registration::Registration(const Engine* engine, absl::string_view name)
    : name_(name),
      id_(engine == nullptr ? 0 : EngineRegistry::Get().Add(engine, name)) {}

Registration::~Registration() {
  if (id_ != 0) EngineRegistry::Get().Remove(name_, id_);
}

}  // namespace wheelcache::internal
