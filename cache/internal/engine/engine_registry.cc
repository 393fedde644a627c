#include "wheelcache/cache/internal/engine/engine_registry.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/internal/engine/history.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {
namespace {

// At load time, if not earlier: a fork() while another thread makes it would
// leave it half made in the child forever.
[[maybe_unused]] const EngineRegistry& made_at_load = EngineRegistry::Get();

}  // namespace

EngineRegistry& EngineRegistry::Get() {
  static EngineRegistry* const registry = new EngineRegistry;
  return *registry;
}

int EngineRegistry::Add(const Engine* engine, absl::string_view name) {
  std::string key(name);
  MutexLock lock(&mu_);
  // Grows before the group exists, so that none is left empty.
  std::vector<Slot> first_slots;
  auto it = groups_.find(name);
  if (it == groups_.end()) {
    first_slots.resize(1);
    it = groups_.try_emplace(std::move(key)).first;
    it->second.slots = std::move(first_slots);
  }
  Group& group = it->second;
  std::vector<Slot>& slots = group.slots;
  size_t free = group.first_free;
  while (free < slots.size() && slots[free].engine != nullptr) ++free;
  if (free == slots.size()) slots.emplace_back();
  slots[free].engine = engine;
  group.first_free = free + 1;
  return static_cast<int>(free) + 1;
}

void EngineRegistry::Remove(absl::string_view name, int id) {
  MutexLock lock(&mu_);
  const auto it = groups_.find(name);
  Group& group = it->second;
  const size_t slot = static_cast<size_t>(id) - 1;
  group.slots[slot] = Slot();
  group.first_free = std::min(group.first_free, slot);
  while (!group.slots.empty() && group.slots.back().engine == nullptr) {
    group.slots.pop_back();
  }
  if (group.slots.empty()) groups_.erase(it);
}

void EngineRegistry::Extend(const CacheOptions* engine,
                            const ReportExtension* extension) {
  MutexLock lock(&mu_);
  if (extension == nullptr) {
    extensions_.erase(engine);
  } else {
    extensions_[engine] = extension;
  }
}

size_t EngineRegistry::names() {
  MutexLock lock(&mu_);
  return groups_.size();
}

void EngineRegistry::ForEach(absl::FunctionRef<void(const Item&)> visit) {
  MutexLock lock(&mu_);
  for (auto& [name, group] : groups_) {
    for (size_t i = 0; i < group.slots.size(); ++i) {
      Slot& slot = group.slots[i];
      if (slot.engine == nullptr) continue;
      if (slot.history == nullptr) {
        slot.history.reset(new (std::nothrow) History);
      }
      visit({*slot.engine, name, static_cast<int>(i) + 1, slot.history.get(),
             extensions_});
    }
  }
}

}  // namespace wheelcache::internal
