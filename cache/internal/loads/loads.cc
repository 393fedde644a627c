#include "wheelcache/cache/internal/loads/loads.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

bool Is(const KeyQuery& key, const Load& load) {
  return load.hash() == key.hash().for_index && key.Matches(load);
}

}  // namespace

LoadPtr Failures::Find(const KeyQuery& key, int64_t now_nanos) const {
  for (const Failure& failure : failures_) {
    if (failure.until_nanos > now_nanos && Is(key, *failure.load)) {
      return failure.load;
    }
  }
  return nullptr;
}

LoadPtr Failures::Add(LoadPtr load, int64_t until_nanos) {
  if (!Contain([this] { failures_.reserve(kMost); })) return nullptr;
  Failure added{std::move(load), until_nanos};
  if (failures_.size() < kMost) {
    failures_.push_back(std::move(added));
    return nullptr;
  }
  const auto first = std::min_element(failures_.begin(), failures_.end(),
                                      [](const Failure& a, const Failure& b) {
                                        return a.until_nanos < b.until_nanos;
                                      });
  return std::exchange(*first, std::move(added)).load;
}

void Failures::Forget(const KeyQuery& key) {
  for (Failure& failure : failures_) {
    if (Is(key, *failure.load)) failure.until_nanos = kForgotten;
  }
}

void Failures::ForgetAll() {
  for (Failure& failure : failures_) failure.until_nanos = kForgotten;
}

std::vector<LoadPtr> Failures::TakeForgotten(int64_t now_nanos) {
  const auto end = std::partition(
      failures_.begin(), failures_.end(),
      [&](const Failure& failure) { return failure.until_nanos > now_nanos; });
  std::vector<LoadPtr> forgotten;
  // May throw, so not while it holds keys: to destroy them runs user code.
  forgotten.reserve(static_cast<size_t>(failures_.end() - end));
  for (auto failure = end; failure != failures_.end(); ++failure) {
    forgotten.push_back(std::move(failure->load));
  }
  failures_.erase(end, failures_.end());
  return forgotten;
}

struct Loads::Table {
  using Map = std::unordered_multimap<Hash32, LoadPtr>;

  Map::iterator Find(const KeyQuery& key) {
    if (in_flight.empty()) return in_flight.end();
    const auto [begin, end] = in_flight.equal_range(key.hash().for_index);
    const auto it = std::find_if(begin, end, [&](const Map::value_type& load) {
      return key.Matches(*load.second);
    });
    return it == end ? in_flight.end() : it;
  }

  Map::iterator Find(const LoadPtr& load) {
    const auto [begin, end] = in_flight.equal_range(load->hash());
    const auto it = std::find_if(begin, end, [&](const Map::value_type& other) {
      return other.second == load;
    });
    return it == end ? in_flight.end() : it;
  }

  // Returns whether there was one.
  bool Erase(Map::iterator load) {
    if (load == in_flight.end()) return false;
    in_flight.erase(load);
    return true;
  }

  Map in_flight;  // By the hash of the key. Two keys may have the same.
  Failures failures;
};

Loads::Loads() = default;
Loads::~Loads() = default;

LoadPtr Loads::Find(const KeyQuery& key, int64_t now_nanos) const {
  if (table_ == nullptr) return nullptr;
  const auto it = table_->Find(key);
  if (it != table_->in_flight.end()) return it->second;
  return table_->failures.Find(key, now_nanos);
}

void Loads::Add(LoadPtr load) {
  if (table_ == nullptr) table_ = std::make_unique<Table>();
  const Hash32 hash = load->hash();
  table_->in_flight.emplace(hash, std::move(load));
}

bool Loads::IsCurrent(const LoadPtr& load) const {
  return table_ != nullptr && table_->Find(load) != table_->in_flight.end();
}

void Loads::SupersedeInTable(const KeyQuery& key) {
  table_->Erase(table_->Find(key));
  table_->failures.Forget(key);
}

void Loads::Supersede(const LoadPtr& load) {
  if (table_ != nullptr) table_->Erase(table_->Find(load));
}

void Loads::SupersedeAll() {
  if (table_ == nullptr) return;
  table_->in_flight.clear();
  table_->failures.ForgetAll();
}

LoadPtr Loads::Remember(const LoadPtr& load, int64_t until_nanos) {
  if (table_ == nullptr || !table_->Erase(table_->Find(load))) return nullptr;
  return table_->failures.Add(load, until_nanos);
}

std::vector<LoadPtr> Loads::TakeForgotten(int64_t now_nanos) {
  if (table_ == nullptr) return {};
  return table_->failures.TakeForgotten(now_nanos);
}

}  // namespace wheelcache::internal
