#include "wheelcache/cache/near/store/remote_store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace wheelcache {

void RemoteStore::BeginFetch(absl::string_view key, absl::Duration timeout,
                             FetchDone done) {
  done(std::move(Fetch({key}, timeout)[0]));
}

std::vector<absl::Status> RemoteStore::PutMany(absl::Span<const Write> writes,
                                               absl::Duration timeout) {
  const absl::Duration end = clock().Now() + timeout;
  std::vector<absl::Status> results;
  results.reserve(writes.size());
  for (const Write& write : writes) {
    results.push_back(Put(write, end - clock().Now()));
  }
  return results;
}

std::vector<absl::StatusOr<bool>> RemoteStore::RemoveMany(
    absl::Span<const absl::string_view> keys, absl::Duration timeout) {
  const absl::Duration end = clock().Now() + timeout;
  std::vector<absl::StatusOr<bool>> results;
  results.reserve(keys.size());
  for (const absl::string_view key : keys) {
    results.push_back(Remove(key, end - clock().Now()));
  }
  return results;
}

absl::StatusOr<RemoteStore::LockResult> RemoteStore::TakeLock(
    const Lock& lock, absl::Duration life, absl::Duration timeout) {
  static_cast<void>(lock);
  static_cast<void>(life);
  static_cast<void>(timeout);
  return absl::UnimplementedError("this store has no locks");
}

absl::Status RemoteStore::EndLock(const Lock& lock, absl::Duration timeout) {
  static_cast<void>(lock);
  static_cast<void>(timeout);
  return absl::UnimplementedError("this store has no locks");
}

std::string RemoteStore::LockName(absl::string_view key) const {
  return absl::StrCat(key, ":wheelcache-lock");
}

}  // namespace wheelcache
