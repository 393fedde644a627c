#include "wheelcache/cache/internal/engine/loads.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "wheelcache/cache/internal/engine/key_query.h"
#include "wheelcache/cache/internal/engine/load.h"
#include "wheelcache/cache/internal/index/hash32.h"

namespace wheelcache::internal {

// By the hash of the key. Two keys may have the same.
struct Loads::Table {
  using Map = std::unordered_multimap<Hash32, LoadPtr>;

  Map::iterator Find(const KeyQuery& key) {
    const auto [begin, end] = loads.equal_range(key.hash().for_index);
    const auto it = std::find_if(begin, end, [&](const Map::value_type& load) {
      return key.Matches(*load.second);
    });
    return it == end ? loads.end() : it;
  }

  Map::iterator Find(const LoadPtr& load) {
    const auto [begin, end] = loads.equal_range(load->hash());
    const auto it = std::find_if(begin, end, [&](const Map::value_type& other) {
      return other.second == load;
    });
    return it == end ? loads.end() : it;
  }

  Map loads;
};

Loads::Loads() = default;
Loads::~Loads() = default;

LoadPtr Loads::Find(const KeyQuery& key) const {
  if (table_ == nullptr) return nullptr;
  const auto it = table_->Find(key);
  return it == table_->loads.end() ? nullptr : it->second;
}

void Loads::Add(LoadPtr load) {
  if (table_ == nullptr) table_ = std::make_unique<Table>();
  const Hash32 hash = load->hash();
  table_->loads.emplace(hash, std::move(load));
  ++count_;
}

bool Loads::IsCurrent(const LoadPtr& load) const {
  return table_ != nullptr && table_->Find(load) != table_->loads.end();
}

template <typename Iterator>
void Loads::Erase(Iterator load) {
  if (load == table_->loads.end()) return;
  table_->loads.erase(load);
  --count_;
}

void Loads::SupersedeInTable(const KeyQuery& key) { Erase(table_->Find(key)); }

void Loads::Supersede(const LoadPtr& load) {
  if (table_ == nullptr) return;
  Erase(table_->Find(load));
}

void Loads::SupersedeAll() {
  if (count_ == 0) return;
  table_->loads.clear();
  count_ = 0;
}

void Loads::ResetAfterFork() {
  if (table_ == nullptr) return;
  for (const auto& load : table_->loads) load.second->ResetAfterFork();
  SupersedeAll();
}

}  // namespace wheelcache::internal
