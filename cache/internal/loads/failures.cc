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

}  // namespace wheelcache::internal
