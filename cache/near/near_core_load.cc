// The part of NearCache::GetOrLoad that does not depend on the type of values.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/near/near_core.h"
#include "wheelcache/cache/near/near_loads.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

// Of the life of a lock: so often it is tried, should nothing tell of its end.
constexpr int kTriesInALife = 8;

// How often a key may be there for the lock and gone for the fetch.
constexpr int kMostVanished = 3;

// One that no other load has, of any process.
std::string NewToken() {
  static std::atomic<uint64_t> count{0};
  std::random_device random;
  return absl::StrCat(absl::Hex(random()), "-", absl::Hex(random()), "-",
                      absl::Hex(random()), "-", ++count);
}

}  // namespace

// Ends a lock, however the load ends that has it.
class NearCore::HeldLock final {
 public:
  HeldLock(NearCore* core, const RemoteStore::Lock& lock)
      : core_(*core), lock_(lock) {}
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  ~HeldLock() {
    if (!has_ended_) {
      core_.store_.EndLock(lock_, core_.options_.command_timeout).IgnoreError();
    }
  }
  // A write has ended it, or it was another's.
  void Release() { has_ended_ = true; }

 private:
  NearCore& core_;
  const RemoteStore::Lock lock_;
  bool has_ended_ = false;
};

absl::Status NearCore::Load(absl::string_view key,
                            const NearLoadOptions& options,
                            const LoadSteps& steps) {
  if (absl::Status status = Validate(options); !status.ok()) return status;
  if (steps.is_down) return RunLoader(steps).status();
  // Of this process, another load may have written it since the caller's look.
  const absl::StatusOr<bool> found = steps.find(/*fresh=*/false);
  if (found.ok() && *found) return absl::OkStatus();
  if (!found.ok()) return LoadIfDown(found.status(), steps);
  if (options.load_lock > absl::ZeroDuration()) {
    return LoadWithLock(key, options, steps);
  }
  NearLoads::Running running(&loads_, key);
  const absl::StatusOr<Encoded> loaded = RunLoader(steps);
  if (!loaded.ok()) return loaded.status();
  internal::Interleave("near: between a loader and its write");
  *steps.is_beaten = !running.BeginWrite();
  if (loaded->ttl > absl::ZeroDuration() && !*steps.is_beaten) {
    PutLoaded({key, loaded->bytes, loaded->ttl, /*if_absent=*/true}, steps);
  }
  return absl::OkStatus();
}

absl::Status NearCore::LoadWithLock(absl::string_view key,
                                    const NearLoadOptions& options,
                                    const LoadSteps& steps) {
  const std::string name = RemoteKey(key);
  const std::string token = NewToken();
  const RemoteStore::Lock lock = {name, token};
  const int64_t end = clock_.NanosAfter(options.wait);
  // From before the lock is asked for: it may end at once.
  NearLoads::Waiting waiting(&loads_, name, store_.LockName(name));
  int vanished = 0;
  while (true) {
    const absl::StatusOr<RemoteStore::LockResult> result =
        store_.TakeLock(lock, options.load_lock, options_.command_timeout);
    if (!result.ok()) {
      // It may have been taken, and nobody would end it.
      if (IsDown(result.status())) {
        store_.EndLock(lock, options_.command_timeout).IgnoreError();
      }
      return LoadIfDown(result.status(), steps);
    }
    if (*result == RemoteStore::LockResult::kTaken) {
      HeldLock held(this, lock);
      // A Del ends the lock, but a Set does not.
      NearLoads::Running running(&loads_, key);
      const absl::StatusOr<Encoded> loaded = RunLoader(steps);
      if (!loaded.ok()) return loaded.status();
      internal::Interleave("near: between a loader and its write");
      *steps.is_beaten = !running.BeginWrite();
      if (loaded->ttl > absl::ZeroDuration() && !*steps.is_beaten) {
        RemoteStore::Write write = {key, loaded->bytes, loaded->ttl};
        write.lock_token = token;
        if (PutLoaded(write, steps)) held.Release();
      }
      return absl::OkStatus();
    }
    if (*result == RemoteStore::LockResult::kKeyIsThere) {
      const absl::StatusOr<bool> found = steps.find(/*fresh=*/true);
      if (!found.ok()) return LoadIfDown(found.status(), steps);
      if (*found) return absl::OkStatus();
      if (++vanished < kMostVanished) continue;
    }
    const int64_t now = clock_.NowNanos();
    // Whoever has the lock writes; this call only wants the value.
    if (now >= end || vanished == kMostVanished) {
      return RunLoader(steps).status();
    }
    waiting.SleepUntil(std::min(
        end, Clock::NanosAfter(now, options.load_lock / kTriesInALife)));
  }
}

absl::StatusOr<NearCore::Encoded> NearCore::RunLoader(const LoadSteps& steps) {
  Count(NearCount::kLoads);
  absl::StatusOr<Encoded> loaded = steps.load();
  if (!loaded.ok()) Count(NearCount::kFailedLoads);
  return loaded;
}

absl::Status NearCore::LoadIfDown(const absl::Status& why,
                                  const LoadSteps& steps) {
  return IsDown(why) ? RunLoader(steps).status() : why;
}

// Returns whether the store has written it. That it has not does not concern
// the caller, who has the value.
bool NearCore::PutLoaded(const RemoteStore::Write& write,
                         const LoadSteps& steps) {
  const absl::Status status = Put(write, options_.command_timeout);
  *steps.is_beaten = IsBeaten(status);
  local_.del(write.key);
  return status.ok();
}

}  // namespace wheelcache::internal
