#include "wheelcache/cache/internal/loads/failures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "wheelcache/cache/internal/loads/key_query.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

bool Is(const KeyQuery& key, const Load& load) {
  return load.hash() == key.hash().for_index && key.Matches(load);
}

}  // namespace

LoadPtr Failures::Find(const KeyQuery& key, int64_t now_nanos) const {
  if (remembered_ == 0) return nullptr;
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
  ++remembered_;
  if (failures_.size() < kMost) {
    failures_.push_back(std::move(added));
    return nullptr;
  }
  const auto first = std::min_element(failures_.begin(), failures_.end(),
                                      [](const Failure& a, const Failure& b) {
                                        return a.until_nanos < b.until_nanos;
                                      });
  if (first->until_nanos != kForgotten) --remembered_;
  return std::exchange(*first, std::move(added)).load;
}

void Failures::ForgetOne(const KeyQuery& key) {
  for (Failure& failure : failures_) {
    if (failure.until_nanos != kForgotten && Is(key, *failure.load)) {
      failure.until_nanos = kForgotten;
      --remembered_;
    }
  }
}

void Failures::ForgetAll() {
  for (Failure& failure : failures_) failure.until_nanos = kForgotten;
  remembered_ = 0;
}

size_t Failures::CountRemembered(int64_t now_nanos) const {
  return static_cast<size_t>(std::count_if(
      failures_.begin(), failures_.end(),
      [&](const Failure& failure) { return failure.until_nanos > now_nanos; }));
}

std::vector<LoadPtr> Failures::TakeForgotten(int64_t now_nanos) {
  std::vector<LoadPtr> forgotten;
  // May throw, so not while it holds keys: to destroy them runs user code.
  forgotten.reserve(failures_.size() - CountRemembered(now_nanos));
  for (auto failure = failures_.begin(); failure != failures_.end();) {
    if (failure->until_nanos > now_nanos) {
      ++failure;
      continue;
    }
    forgotten.push_back(std::move(failure->load));
    if (failure->until_nanos != kForgotten) --remembered_;
    failure = failures_.erase(failure);
  }
  return forgotten;
}

}  // namespace wheelcache::internal
