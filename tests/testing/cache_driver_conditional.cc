// Conditional writes, to the cache and to its oracle.

#include <cstdint>
#include <optional>

#include "wheelcache/cache/conditional.h"
#include "wheelcache/tests/testing/cache_call.h"
#include "wheelcache/tests/testing/cache_driver.h"
#include "wheelcache/tests/testing/cache_oracle.h"

namespace wheelcache {

auto CacheDriver::Expect() -> Expected {
  const int kind = call_.weight % 4;
  if (kind == 0) return {call_.key, &none_, 0};
  PinnedValue& pinned = pinned_[call_.key % kPinned];
  if (kind == 1) PinIn(&pinned);
  const bool own = kind == 2 && pinned.handle;
  return {own ? pinned.handle.key() : call_.key, &pinned.handle, pinned.id};
}

void CacheDriver::SetIf() {
  const Expected expected = Expect();
  const bool keep = call_.kind == CacheCall::kSetIfKeep;
  const Put put =
      keep ? cache_->SetIf(expected.key, *expected.handle, NewValue())
           : cache_->SetIf(expected.key, *expected.handle, NewValue(), Ttl());
  Compare("put", static_cast<int64_t>(put),
          static_cast<int64_t>(SetIfInOracle(expected.key, expected.id, keep)));
}

Put CacheDriver::SetIfInOracle(int key, int64_t expected, bool keep) {
  const int64_t ttl = keep ? DefaultTtlNanos() : call_.nanos;
  const CacheOracle::New entry = {NewValue(), Charge(), ttl,
                                  keep && expected != 0};
  TellVictims();
  const Put put = oracle_.SetIf(key, expected, entry);
  sets_ += put == Put::kStored;
  // Where a value that is not there is refused, nothing has changed.
  if (put == Put::kStored || (put == Put::kRefused && expected != 0)) {
    loads_.Supersede(key);
  }
  return put;
}

bool CacheDriver::DelIfInOracle(int key, int64_t expected) {
  const bool deleted = oracle_.DelIf(key, expected);
  if (deleted) loads_.Supersede(key);
  return deleted;
}

void CacheDriver::Update() {
  using Decision = CacheType::Decision;
  int calls = 0;
  std::optional<Value> seen;
  const bool changed = cache_->Update(call_.key, [&](const Handle& old) {
    ++calls;
    if (old) seen = *old;
    switch (call_.kind) {
      case CacheCall::kUpdateNot:
        return Decision::Keep();
      case CacheCall::kUpdateDelete:
        return Decision::Delete();
      case CacheCall::kUpdateKeep:
        return Decision::Set(NewValue());
      default:
        return Decision::Set(NewValue(), Ttl());
    }
  });
  Compare("calls", calls, 1);
  Compare("seen", seen, ReadInOracle());
  Compare("changed", changed, UpdateInOracle());
}

bool CacheDriver::UpdateInOracle() {
  const int64_t id = oracle_.Id(call_.key);
  switch (call_.kind) {
    case CacheCall::kUpdateNot:
      return false;
    case CacheCall::kUpdateDelete:
      return DelIfInOracle(call_.key, id);
    default:
      return SetIfInOracle(call_.key, id,
                           call_.kind == CacheCall::kUpdateKeep) ==
             Put::kStored;
  }
}

}  // namespace wheelcache
