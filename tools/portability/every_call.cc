// Calls each function that a user may call, for tools/compilers: templates are
// compiled where they are used. Nothing of it is run.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/hooks.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/cache/ticket.h"
#include "wheelcache/cache/view.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/lru/generational_list.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_links.h"
#include "wheelcache/wheel/timer_service.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache::portability {

struct OnlyMoves {
  explicit OnlyMoves(int n) : number(n) {}
  OnlyMoves(OnlyMoves&&) = default;
  OnlyMoves& operator=(OnlyMoves&&) = default;
  int number;
};

struct OwnHash {
  size_t operator()(int key) const { return static_cast<size_t>(key); }
};

template <typename C>
std::unique_ptr<C> Create() {
  typename C::Hooks hooks;
  hooks.weigher = [](const auto& key, const auto& value) {
    return uint64_t{MemoryOf(key) + MemoryOf(value)};
  };
  hooks.on_removal = [](const auto& key, const auto&, RemovalCause cause) {
    static_cast<void>(key);
    static_cast<void>(cause);
  };
  hooks.executor = [](const std::function<void()>& task) { task(); };
  absl::StatusOr<std::unique_ptr<C>> cache =
      C::Create(CacheOptions(), std::move(hooks));
  return cache.ok() ? *std::move(cache) : nullptr;
}

template <typename C, typename Key>
int64_t Read(C& cache, const Key& key) {
  int64_t found = cache.Contains(key) ? 1 : 0;
  if (typename C::Handle handle = cache.Find(key)) {
    found += handle.charge() + (handle.TimeToLive() < handle.Age() ? 1 : 0);
  }
  found += cache.Visit(key, [](const auto&) {}) ? 1 : 0;
  found += cache.TimeToLive(key).has_value() ? 1 : 0;
  cache.ForEach([&](const auto& handle) {
    found += handle.charge();
    return true;
  });
  return found;
}

// Returns how many calls have changed something.
template <typename C, typename Key, typename MakeValue>
int64_t Write(C& cache, const Key& key, MakeValue make) {
  using Decision = typename C::Decision;
  int64_t changes = cache.Set(key, make()) ? 1 : 0;
  changes += cache.Set(key, make(), absl::Seconds(1)) ? 1 : 0;
  changes += cache.Touch(key, absl::Seconds(2)) ? 1 : 0;
  changes += cache.SetIf(key, cache.Find(key), make()) == Put::kStored ? 1 : 0;
  changes += cache.DelIf(key, cache.Find(key)) ? 1 : 0;
  changes += cache.Update(key, [&](const typename C::Handle& old) -> Decision {
    if (old) return Decision::Delete();
    return Decision::Set(make());
  });
  changes += cache.Take(key) ? 1 : 0;
  changes += cache.Del(key) ? 1 : 0;
  return changes + cache.EraseIf([](const auto&) { return true; });
}

template <typename C, typename Key, typename MakeValue>
bool Load(C& cache, const Key& key, MakeValue make) {
  const bool found = cache.FindOrLoad(key).ok() &&
                     cache.FindOrLoad(key, LoadOptions(), make).ok();
  if (auto ticket = cache.BeginLoad(key, LoadOptions(), [](const auto&) {})) {
    ticket.Finish(make());
  }
  const std::vector<Key> keys = {key};
  const auto results = cache.FindOrLoadMany(
      keys, LoadOptions(), [&](absl::Span<const size_t> missing) {
        return std::vector<typename C::LoadResult>(missing.size());
      });
  typename C::Handle handle;
  return found && !results.empty() && cache.RefreshMany(keys) == 1 &&
         cache.FindMany(keys, absl::MakeSpan(&handle, 1)) == 1;
}

int64_t ManageAll(AnyCache& cache) {
  cache.Clear();
  cache.SetLimits(100, kUnlimited).IgnoreError();
  cache.Stop();
  return cache.RunMaintenance() + cache.size() + cache.bytes() +
         (cache.NextDeadline() > absl::Seconds(1) ? 1 : 0);
}

template <typename C, typename Key, typename MakeValue>
int64_t CallAll(const Key& key, MakeValue make) {
  const std::unique_ptr<C> cache = Create<C>();
  return Read(*cache, key) + Write(*cache, key, make) +
         (Load(*cache, key, make) ? 1 : 0) + ManageAll(*cache);
}

// Not of types that can only be moved.
template <typename C, typename Key, typename Value>
bool CopyOut(C& cache, const Key& key, const Value& value) {
  return cache.Get(key) == cache.Peek(key) && cache.GetOrLoad(key).ok() &&
         cache.GetOrLoad(key, [&] { return value; }).ok() &&
         cache.GetOrLoad(key, absl::Seconds(1), [&] { return value; }).ok();
}

int64_t CallCaches() {
  auto strings = Create<Cache<std::string, std::string>>();
  const bool copied =
      CopyOut(*strings, "a literal", std::string("value")) &&
      CopyOut(*strings, absl::string_view("a view"), std::string("value")) &&
      CopyOut(*strings, std::string_view("a view"), std::string("value"));
  return (copied ? 1 : 0) +
         CallAll<Cache<std::string, std::string>>(
             std::string("key"), [] { return std::string("value"); }) +
         CallAll<Cache<uint64_t, std::vector<int>>>(
             uint64_t{1}, [] { return std::vector<int>(3); }) +
         CallAll<Cache<int, OnlyMoves, OwnHash>>(1,
                                                 [] { return OnlyMoves{1}; }) +
         CallAll<Cache<int8_t, double>>(int8_t{1}, [] { return 1.0; });
}

size_t CallTimers() {
  using Service = TimerService<std::string, std::unique_ptr<int>>;
  Service::Options options;
  options.execute = [](const std::string&, const std::unique_ptr<int>&) {};
  auto service = Service::Create(std::move(options));
  if (!service.ok()) return 0;
  (*service)->Set("key", nullptr, absl::Seconds(1)).IgnoreError();
  (*service)->Move("key", absl::Seconds(2)).IgnoreError();
  (*service)->Remove("key").IgnoreError();
  if (auto id = (*service)->After(absl::Seconds(1), [] {}); id.ok()) {
    (*service)->Cancel(*id).IgnoreError();
  }
  const auto drained = (*service)->Drain([](const auto&, const auto&) {});
  return drained.value_or(0) + (*service)->size();
}

uint64_t CallWheel() {
  TimingWheel wheel(1);
  Timer timer;
  wheel.Schedule(&timer, 100);
  const uint64_t fired = wheel.Advance(200, kNoBudget, [](Timer*) {});
  wheel.Cancel(&timer);
  wheel.TakeAll([](Timer*) {});
  return fired + wheel.NextWakeup().value_or(0) +
         (wheel.CheckInvariants().ok() ? 1 : 0);
}

struct Page {
  TimerLinks<uint32_t> timer;
  LruLinks<uint32_t> lru;
};
struct Pages {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const { return all[ref].timer; }
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref].lru; }
  static uint64_t deadline(Ref ref) { return ref; }
  static uint32_t number(Ref ref) { return ref & ~Ref{3}; }
  static void set_number(Ref, uint32_t) {}
  static void Publish(uint32_t) {}
  static uint32_t Now() { return 0; }
  Page* all;
};

}  // namespace wheelcache::portability

// Their members that nothing above calls as well.
namespace wheelcache {
template class CacheHandle<std::string, std::string>;
template class CacheHandle<uint64_t, std::vector<int>>;
template class Cache<std::string, std::vector<int>>;
template class TimerService<std::string, std::string>;
template class BasicTimingWheel<portability::Pages>;
template class LruList<portability::Pages>;
template class GenerationalList<portability::Pages>;
}  // namespace wheelcache
